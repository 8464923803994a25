"""`make reference`: write the generated pages into docs."""

from harness.reference.pages import FOLDER, PAGES

for name, render in PAGES.items():
    (FOLDER / name).write_text(render(), encoding="utf-8")
