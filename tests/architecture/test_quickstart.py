"""Runs the commands and edits of ``docs/quickstart.md`` literally, with stand-ins for programs that take minutes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = ("make", "pkill", "python3", "sleep", "streamkeeper")


def test_the_edits_of_the_quickstart_make_the_changes_it_describes(tmp_path: Path) -> None:
    """The page's edits change the job's file as it describes, the result compiles, and the page calls every command
    that it presents.
    """
    page = (ROOT / "docs" / "quickstart.md").read_text()
    home, bin = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    bin.mkdir()
    for name in STAND_INS:
        (bin / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"$HOME/called"\n')
        (bin / name).chmod(0o755)
    blocks = re.findall(r"^```\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = "set -eu\n" + "\n".join(blocks)
    subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"HOME": str(home), "PATH": f"{bin}:/usr/bin:/bin"},
        check=True,
        timeout=60,
    )
    job = (home / "visits" / "jobs" / "page_visits.py").read_text()
    compile(job, "page_visits.py", "exec")
    assert 'visits.filter("seconds > 0").groupBy("page")' in job
    assert 'F.sum("seconds").alias("seconds"), F.max("seconds").alias("longest")' in job
    called = (home / "called").read_text()
    wanted = ("deploy", "check", "jobs", "rollback", "recover", "watch", "snapshot take", "snapshot drill", "stop")
    assert [each for each in wanted if f"streamkeeper {each}" not in called] == []
