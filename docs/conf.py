"""The documentation site: `make docs` builds it with Sphinx, MyST and Furo, as strict about links as they can be.

The pages are plain Markdown, which GitHub shows as well: no directives but its own `mermaid` blocks, which are drawn
here as SVG. The table of contents is in this file, and a page that it does not list is an error.
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import mermaidx
from docutils import nodes
from docutils.parsers.rst import Directive

HERE = Path(__file__).parent

project = "Streamkeeper"
html_title = "Streamkeeper"
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["examples", "runbook.md"]
"""Not pages of the site; docs/runbook.md is for alerts and records that link to its former place."""
myst_heading_anchors = 5
myst_fence_as_directive = ["mermaid"]
highlight_language = "text"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

CONTENTS: dict[str, list[str]] = {
    "Start": ["quickstart", "concepts", "glossary"],
    "Guides": [
        *("guides/write-a-job", "guides/secrets", "guides/deploy", "guides/change", "guides/pull-requests"),
        *("guides/roll-back", "guides/stop-and-start", "guides/monitor", "guides/page", "guides/back-up"),
        *("guides/recover", "guides/clusters", "guides/own-dags", "guides/scripts", "guides/demonstrations"),
    ],
    "Reference": [
        *("reference/cli", "reference/settings", "reference/job-api", "reference/forms", "reference/metrics"),
        *("reference/health-rules", "reference/compatibility", "reference/refusals"),
    ],
    "Operations": [
        *("operations/install", "operations/containers", "operations/machines", "operations/upgrade"),
        "operations/runbook",
    ],
    "Internals": [
        *(
            "internals/architecture",
            "internals/guarantees",
            "internals/guarantee-tests",
            "internals/simulation",
            "internals/campaigns",
        ),
        *("internals/clones", "internals/performance", "internals/extending", "internals/decisions"),
    ],
}
"""Caption -> pages, in the order of the sidebar."""
DECISIONS = sorted(f"decisions/{path.stem}" for path in HERE.glob("decisions/*.md"))


class Mermaid(Directive):
    """A diagram as an SVG image on a light ground, which is readable in the light and in the dark theme."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """An image without a file of its own; raises where the diagram cannot be drawn."""
        drawn = mermaidx.render("\n".join(self.content), theme="neutral").svg()
        data = base64.b64encode(drawn.encode()).decode()
        style = "background: #fff; border-radius: 0.5em; padding: 0.5em; max-width: 100%"
        image = f'<img alt="Diagram" style="{style}" src="data:image/svg+xml;base64,{data}">'
        return [nodes.raw("", f"<p>{image}</p>", format="html")]


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Append the hidden table of contents, which GitHub would show as code."""
    if page == root_doc:
        source[0] += "".join(_contents(pages, caption) for caption, pages in CONTENTS.items())
    elif page == "internals/decisions":
        source[0] += _contents(DECISIONS, "")


def _contents(pages: list[str], caption: str) -> str:
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n\n```{{toctree}}\n{options}\n" + "\n".join(f"/{each}" for each in pages) + "\n```\n"


def name_front_page(app: Any, error: Exception | None) -> None:
    """README.html is what links lead to; index.html is what browsers and servers open."""
    if error is None:
        shutil.copyfile(Path(app.outdir, "README.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls it once."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", add_contents)
    app.connect("build-finished", name_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
