"""Writes the logins into the file that Airflow's simple auth manager reads."""

import json
import os
from pathlib import Path

path = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
path.touch(mode=0o600)
people = ("admin", "approver")
path.write_text(json.dumps({name: os.environ[f"STREAMKEEPER_{name.upper()}_PASSWORD"] for name in people}))
