"""Every package takes the time from ``streamkeeper.system.clock``, so that a simulation can run the real code."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "plugins" / "streamkeeper"
CLOCKS = {
    ("time", "time"),
    ("time", "monotonic"),
    ("time", "sleep"),
    ("time", "perf_counter"),
    ("time", "time_ns"),
    ("time", "monotonic_ns"),
    ("time", "gmtime"),
    ("time", "localtime"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("pendulum", "now"),
}


def uses_of_time(source: str) -> list[str]:
    """Return the names in a module that read a clock or sleep without going through ``streamkeeper.system.clock``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in CLOCKS:
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("datetime.datetime.now", "datetime.date.today"):
            found.append(ast.unparse(node))
        elif isinstance(node, ast.Import):
            found += [f"time as {name.asname}" for name in node.names if name.name == "time" and name.asname]
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"time.{name.name}" for name in node.names if ("time", name.name) in CLOCKS]
    return sorted(found)


def test_only_the_clock_reads_the_time() -> None:
    """No module except ``clock.py`` reads the machine's clock or sleeps."""
    past = {
        str(path.relative_to(PACKAGE)): found
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "clock.py" and (found := uses_of_time(path.read_text()))
    }
    assert not past


def test_a_use_of_the_machines_clock_is_found() -> None:
    """Negative control: reading the machine's clock is found as a call, a bare attribute, an imported name and an alias
    of the module.
    """
    assert uses_of_time("import time\ntime.sleep(1)\nx = time.monotonic") == ["time.monotonic", "time.sleep"]
    assert uses_of_time("from time import time, strftime") == ["time.time"]
    assert uses_of_time("import time as t\nat = t.time()") == ["time as t"]
    assert uses_of_time("at = datetime.datetime.now()\nthen = time.gmtime()") == [
        "datetime.datetime.now",
        "time.gmtime",
    ]
    assert uses_of_time("at = datetime.now(UTC)\nclock.now()\nentry.time.time") == ["datetime.now"]
