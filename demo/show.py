"""The demo's output: one line per event, the ledger after each act, and the summary at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from demo.acts.stage import ActReport
from harness.ledger import Account

_WIDTH = 160


class Screen:
    """Prints lines with the seconds since the start."""

    def __init__(self) -> None:
        # A file has no width; give its tables a terminal's.
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
        self._began = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def tell(self, line: str) -> None:
        """Print one line, preceded by the seconds since the start."""
        self._console.print(f"[dim]{self.elapsed_s:6.1f}[/] {line}", soft_wrap=True)

    def show_act(self, act: ActReport) -> None:
        """Print the ledger after an act, in one line."""
        accounts = "; ".join(
            f"{each.name} {each.produced} produced, {each.in_flight} in flight, {each.duplicated} duplicated"
            + (f", [red]{each.lost} lost[/]" if each.lost else "")
            for each in act.ledger
        )
        self.tell(f"[bold]{act.name}[/] took {act.wall_s:.0f} s; the ledger: {accounts}")

    def show_acts(self, acts: Sequence[ActReport]) -> None:
        """Print the steps of all acts as a table."""
        table = Table(title="What was done", title_justify="left")
        for heading in ("act", "step", "verdict", "way", "outcome", "handover gap", "took"):
            table.add_column(heading)
        for act in acts:
            for number, step in enumerate(act.steps):
                gap = "" if step.handover_gap_s is None else f"{step.handover_gap_s:.2f} s"
                name = "" if number else f"{act.name} ({act.wall_s:.0f} s)"
                row = (name, step.name, step.verdict or "", step.way or "", step.outcome, gap, f"{step.wall_s:.0f} s")
                table.add_row(*row)
        self._console.print(table)

    def show_ledger(self, accounts: Sequence[Account]) -> None:
        """Print the ledger as a table, followed by examples of the differences."""
        table = Table(title="The ledger: what went in against what came out", title_justify="left")
        for heading in ("job", "produced", "lost", "duplicated"):
            table.add_column(heading, justify="left" if heading == "job" else "right")
        for account in accounts:
            style = "green" if account.clean else "red"
            table.add_row(account.name, str(account.produced), str(account.lost), str(account.duplicated), style=style)
        self._console.print(table)
        for account in accounts:
            for example in account.examples:
                self._console.print(f"  [red]{account.name}[/]: {example}")
