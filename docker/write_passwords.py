"""Writes the one login of the first-version setup into the file that Airflow's simple auth manager reads."""

import json
import os
from pathlib import Path

path = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
path.touch(mode=0o600)
path.write_text(json.dumps({"admin": os.environ["STREAMKEEPER_ADMIN_PASSWORD"]}))
