"""`make reference`: write the generated pages into docs, and the generated module."""

from harness.reference.pages import FOLDER, PAGES

for name, render in PAGES.items():
    (FOLDER / name).write_text(render(), encoding="utf-8")
