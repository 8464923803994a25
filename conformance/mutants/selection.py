"""Selects the fast tests that may detect a mutant: those of the folder that mirrors its module, then those that import
it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

SLOW = ("spark", "s3", "hdfs", "postgres", "kafka", "airflow", "storage", "kubernetes")
_NEAR, _FAR = 1, 2


class Selection:
    """The tests of one tree, selected by their imports.

    An import from one module of the code to another counts as a step; an import of or between helpers of the tests does
    not. Tests with a marker in ``allowed`` run although they are slow.
    """

    def __init__(
        self,
        root: Path,
        *,
        code: str = "plugins",
        tests: str = "tests",
        helpers: tuple[str, ...] = (),
        allowed: Collection[str] = (),
    ) -> None:
        self._root, self._tests = root, tests
        slow = [marker for marker in SLOW if marker not in allowed]
        self.markers = f"not ({' or '.join(slow)})"
        """For pytest's ``-m``."""
        self._slow_file = re.compile(rf"^pytestmark = .*\bmark\.({'|'.join(slow)})\b", re.MULTILINE)
        self._names: dict[str, str] = {}
        for folder in (code, tests, *helpers):
            base = root / code if folder == code else root
            for file in sorted((root / folder).rglob("*.py")):
                parts = file.relative_to(base).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self._names[name] = file.relative_to(root).as_posix()
        self._imports = {file: self._imported(root / file) for file in self._names.values()}
        self._code = code

    def stages(self, file: str, *, far: bool = False) -> list[list[str]]:
        """Return the test files to run for a module in stages, the likeliest first; a stage is run only if all earlier
        ones passed.

        ``far`` adds the tests that import a module that imports this one.
        """
        folder, stem = Path(file).relative_to(self._code).parts[1:-1], Path(file).stem
        mirror = Path(self._tests).joinpath(*folder[:1]).as_posix() + "/"
        steps = self._distances(file)
        candidates = [each for each in self._names.values() if self._is_fast_test(each)]
        mirrored = [each for each in candidates if each.startswith(mirror)]
        named = [each for each in mirrored if stem.strip("_") in Path(each).stem or steps.get(each) == _NEAR]
        named.sort(key=lambda each: (stem.strip("_") not in Path(each).stem, steps.get(each, 9)))
        rest = sorted((each for each in mirrored if each not in named), key=lambda each: steps.get(each, 9))
        near = [each for each in candidates if each not in mirrored and steps.get(each, 9) == _NEAR]
        farther = [each for each in candidates if each not in mirrored and steps.get(each, 9) == _FAR and far]
        return [stage for stage in (named, rest, near, farther) if stage]

    def _is_fast_test(self, file: str) -> bool:
        if not (file.startswith(f"{self._tests}/") and Path(file).name.startswith("test_")):
            return False
        return not self._slow_file.search((self._root / file).read_text())

    def _distances(self, file: str) -> dict[str, int]:
        """Return the distance of each test or helper that reaches the mutated module through imports: the modules of
        the code on the way, plus one.
        """
        found, edge = {file: 0}, [file]
        while edge:
            later: list[str] = []
            for importer, imported in self._imports.items():
                steps = [found[each] for each in imported if each in edge]
                if not steps or found.get(importer, 9) <= min(steps):
                    continue
                # A helper stands where the nearest module stands that it imports.
                near = min(steps) + self._is_code(importer)
                if near <= _FAR and near < found.get(importer, 9):
                    found[importer] = near
                    later.append(importer)
            edge = later
        return {each: steps + 1 for each, steps in found.items() if not self._is_code(each)}

    def _is_code(self, file: str) -> bool:
        return file.startswith(f"{self._code}/")

    def _imported(self, file: Path) -> frozenset[str]:
        names: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names.update(each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.update(f"{node.module}.{each.name}" for each in node.names)
                names.add(node.module)
        return frozenset(self._names[name] for name in names if name in self._names)
