"""Tests bundles: what they contain, that equal code has one hash, and that no file can leave its folder."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import py_compile
import stat
import struct
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkeeper.errors import InvalidInput, JobUnusable, NotFound, RegistryDamaged
from streamkeeper.registry.bundles import MAX_BYTES, _zip, build_bundle, read_bundle, unpack_bundle
from tests.little_memory import little


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(data: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


HOUSE = {
    "sales.py": "import json\nimport shapes\nfrom rules.tax import rate\n\ndef later():\n    import rules.late.deep\n",
    "shapes.py": "from rules import *\n",
    "rules/__init__.py": "",
    "rules/tax.py": "from . import tables\nfrom .late import hour\n",
    "rules/tables.py": "",
    "rules/alone.py": "",
    "rules/late/__init__.py": "",
    "rules/late/hour.py": "",
    "rules/late/deep.py": "from ..tax import rate\nfrom importlib import import_module\nimport_module('plugin_a')\n",
    "rules/rates.csv": "a,1\n",
    "rules/static/page.html": "x",
    "rules/other/__init__.py": "",
    "rules/other/data.bin": "",
    "rules/__pycache__/tax.cpython-311.pyc": "",
    "plugin_a.py": "",
    "unrelated.py": "",
    "data.csv": "1\n",
}


def test_a_bundle_holds_what_the_job_imports_and_nothing_else(tmp_path: Path) -> None:
    """A bundle contains the job's transitive, relative, star and late imports with the data files of their packages,
    and no other file.
    """
    bundle = build_bundle(write(tmp_path, HOUSE), "sales")
    assert bundle.entry == "sales.py"
    assert names(bundle.data) == sorted(
        [
            "plugin_a.py",
            "rules/__init__.py",
            "rules/alone.py",
            "rules/late/__init__.py",
            "rules/late/deep.py",
            "rules/late/hour.py",
            "rules/rates.csv",
            "rules/static/page.html",
            "rules/tables.py",
            "rules/tax.py",
            "sales.py",
            "shapes.py",
        ]
    )


def test_same_code_is_the_same_hash(tmp_path: Path) -> None:
    """File times, permissions, location and neighbouring files do not change a bundle's hash, while a change of code
    does.
    """
    one = build_bundle(write(tmp_path / "one", HOUSE), "sales")
    other = write(tmp_path / "other", {**HOUSE, "neighbour.py": "boom("})
    os.utime(other / "sales.py", (1, 1))
    (other / "shapes.py").chmod(0o700)
    assert build_bundle(other, "sales") == one
    (other / "rules/late/hour.py").write_text("x = 1\n")
    assert build_bundle(other, "sales").sha256 != one.sha256


def test_building_runs_no_code(tmp_path: Path) -> None:
    """Building a bundle does not execute the files, even one that would terminate the process on import."""
    write(tmp_path, {"sales.py": "import os, bomb\nos._exit(9)\n", "bomb.py": "import os\nos._exit(9)\n"})
    assert names(build_bundle(tmp_path, "sales").data) == ["bomb.py", "sales.py"]


@pytest.mark.parametrize("name", ["../sales", "a/b", "/etc/passwd", "sales.py", "Sales", ""])
def test_a_name_that_is_no_job_name_is_refused(tmp_path: Path, name: str) -> None:
    """An invalid job name is refused before it reaches the file system."""
    with pytest.raises(InvalidInput, match="job name"):
        build_bundle(tmp_path, name)


def test_the_error_for_an_unknown_job_lists_or_suggests_names(tmp_path: Path) -> None:
    """The error for an unknown job suggests a similar name, or lists the known jobs up to a limit."""
    write(tmp_path, {"sales.py": "", **{f"events_{number:03}.py": "" for number in range(30)}})
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(NotFound, match=r"no job sails .*\(perhaps sales\)"):
        build_bundle(tmp_path, "sails")
    with pytest.raises(NotFound, match=r"no job folder .*jobs there: events_000, .*events_019 and 11 more\)"):
        build_bundle(tmp_path, "folder")


def test_a_missing_jobs_root_is_named(tmp_path: Path) -> None:
    """A jobs root that does not exist is reported with ``STREAMKEEPER_JOBS``, and not as an unknown job."""
    with pytest.raises(InvalidInput, match=r"gone is not a directory .*STREAMKEEPER_JOBS"):
        build_bundle(tmp_path / "gone", "sales")


@pytest.mark.parametrize("broken", ["def f(:\n", "x = 1\n\0"])
def test_a_syntax_error_is_reported_with_file_and_line(tmp_path: Path, broken: str) -> None:
    """A syntax error is reported with the file and line, even in an imported file."""
    write(tmp_path, {"sales.py": "import shapes\n", "shapes.py": broken})
    with pytest.raises(JobUnusable, match=r"^shapes\.py:\d: "):
        build_bundle(tmp_path, "sales")


@pytest.mark.parametrize("where", ["sales.py", "shapes.py", "rules/data.csv"])
def test_a_link_that_leads_out_of_the_root_is_refused(tmp_path: Path, where: str) -> None:
    """A symbolic link that leads out of the jobs root is refused, so that a bundle cannot include foreign files such as
    keys.
    """
    secret = tmp_path / "secret"
    secret.write_text("key = 1\n")
    root = write(tmp_path / "jobs", {"sales.py": "import shapes, rules\n", "shapes.py": "", "rules/__init__.py": ""})
    (root / where).unlink(missing_ok=True)
    (root / where).symlink_to(secret)
    with pytest.raises(InvalidInput, match="leads out of the jobs root"):
        build_bundle(root, "sales")


def test_a_relative_import_out_of_its_package_is_refused(tmp_path: Path) -> None:
    """A relative import that leaves its package is refused when the bundle is built."""
    write(tmp_path, {"sales.py": "from . import shapes\n"})
    with pytest.raises(JobUnusable, match="relative import"):
        build_bundle(tmp_path, "sales")


def test_a_bundle_unpacks_to_the_same_files(tmp_path: Path) -> None:
    """Unpacking a bundle restores identical files in a private folder, and unpacking it a second time leaves the folder
    in place.
    """
    root = write(tmp_path / "jobs", HOUSE)
    bundle = build_bundle(root, "sales")
    target = tmp_path / "bundles" / bundle.sha256
    unpack_bundle(bundle.data, target)
    inode = target.stat().st_ino
    unpack_bundle(bundle.data, target)
    assert target.stat().st_ino == inode
    for name in names(bundle.data):
        assert (target / name).read_bytes() == (root / name).read_bytes()
    assert [each.name for each in target.parent.iterdir()] == [bundle.sha256]
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


@pytest.mark.parametrize("change", ["edit", "remove", "add"])
def test_an_unpacked_bundle_that_was_changed_is_replaced(tmp_path: Path, change: str) -> None:
    """An unpacked bundle with an edited, missing or added module is replaced before a driver uses it."""
    bundle = build_bundle(write(tmp_path / "jobs", HOUSE), "sales")
    target = tmp_path / "bundles" / bundle.sha256
    unpack_bundle(bundle.data, target)
    match change:
        case "edit":
            (target / "sales.py").write_text("import evil\n")
        case "remove":
            (target / "shapes.py").unlink()
        case _:
            (target / "json.py").write_text("import evil\n")
    unpack_bundle(bundle.data, target)
    assert (target / "sales.py").read_text() == HOUSE["sales.py"]
    assert (target / "shapes.py").is_file()
    assert not (target / "json.py").exists()
    assert [each.name for each in target.parent.iterdir()] == [bundle.sha256]


PLANTED = ["cache", "sourceless", "package", "extension", "link"]


def plant(target: Path, how: str) -> None:
    """Add code to an unpacked bundle that Python would import as ``shapes`` or ``json``."""
    evil = target.parent / "evil.py"
    evil.write_text("STOLEN = True\n")
    source = target / "shapes.py"
    match how:
        case "cache":
            # As Python writes it: it takes this for the compiled form of shapes.py, by time and size.
            code = marshal.dumps(compile("STOLEN = True\n", str(source), "exec"))
            at = source.stat()
            head = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(at.st_mtime), at.st_size)
            cache = Path(importlib.util.cache_from_source(str(source)))
            cache.parent.mkdir()
            cache.write_bytes(head + code)
        case "sourceless":
            py_compile.compile(str(evil), cfile=str(target / "json.pyc"))
        case "package":
            (target / "json").mkdir()
            py_compile.compile(str(evil), cfile=str(target / "json" / "__init__.pyc"))
        case "extension":
            (target / "json.so").write_bytes(b"no library, and looked for first")
        case _:
            (target.parent / "elsewhere").mkdir()
            evil.rename(target.parent / "elsewhere" / "__init__.py")
            (target / "json").symlink_to(target.parent / "elsewhere")
    evil.unlink(missing_ok=True)


def is_stolen(target: Path) -> bool:
    code = "import json, shapes; print(hasattr(json, 'STOLEN') or hasattr(shapes, 'STOLEN'))"
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(target)}, capture_output=True, text=True, check=False
    )
    return run.stdout != "False\n"


@pytest.mark.parametrize("how", PLANTED)
def test_planted_code_in_an_unpacked_bundle_is_not_run(tmp_path: Path, how: str) -> None:
    """Code added to an unpacked bundle, compiled or not, is removed before it can run. Negative control: before the
    check, Python imports it.
    """
    files = {"sales.py": "import shapes\n", "shapes.py": "SIDES = 4\n"}
    bundle = build_bundle(write(tmp_path / "jobs", files), "sales")
    target = tmp_path / "bundles" / bundle.sha256
    unpack_bundle(bundle.data, target)
    plant(target, how)
    assert is_stolen(target)
    unpack_bundle(bundle.data, target)
    assert not is_stolen(target)
    assert {path.name for path in target.iterdir()} <= {*files, "__pycache__"}


def test_a_running_drivers_cache_is_removed_and_its_files_stay(tmp_path: Path) -> None:
    """When a second driver of the release starts, the first one's bytecode cache is removed, but the folder and the
    files that the job wrote stay.
    """
    bundle = build_bundle(write(tmp_path / "jobs", {"sales.py": ""}), "sales")
    target = tmp_path / "bundles" / bundle.sha256
    unpack_bundle(bundle.data, target)
    inode = target.stat().st_ino
    (target / "__pycache__").mkdir()
    (target / "written-by-the-job.csv").touch()
    unpack_bundle(bundle.data, target)
    assert target.stat().st_ino == inode
    assert {path.name for path in target.iterdir()} == {"sales.py", "written-by-the-job.csv"}
    assert [each.name for each in target.parent.iterdir()] == [bundle.sha256]


def test_a_bundle_that_does_not_match_the_hash_in_its_name_is_refused(tmp_path: Path) -> None:
    """A bundle whose bytes do not match the hash in its name is refused before anything is written."""
    bundle = build_bundle(write(tmp_path / "jobs", HOUSE), "sales")
    with pytest.raises(RegistryDamaged, match="has sha256"):
        unpack_bundle(bundle.data + b" ", tmp_path / "bundles" / bundle.sha256)
    assert not (tmp_path / "bundles").exists()


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/streamkeeper-evil.py", "a/../../evil.py", "a\\..\\evil.py"])
def test_a_bundle_cannot_write_outside_its_target(tmp_path: Path, name: str) -> None:
    """A zip with a member path outside the target folder is refused as a whole."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("fine.py", "")
        archive.writestr(name, "boom")
    with pytest.raises(RegistryDamaged, match="not allowed"):
        unpack_bundle(buffer.getvalue(), tmp_path / "deep" / "target")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["n" * 300 + ".py", "fine.py/below.py", "fine.py/deep/below.py", "folder"])
def test_member_names_that_cannot_be_stored_are_reported_as_damage(tmp_path: Path, name: str) -> None:
    """A member name that is too long, or that uses a file as a folder, is reported as damage and leaves no files."""
    data = _zip({"fine.py": b"", "folder/module.py": b"", name: b"boom"})
    with pytest.raises(RegistryDamaged, match="cannot be written"):
        unpack_bundle(data, tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_name_is_refused(tmp_path: Path) -> None:
    """A zip member whose name is empty, because it begins with a null character, is refused."""
    buffer, nameless = io.BytesIO(), zipfile.ZipInfo("x")
    nameless.filename = "\0x"
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(nameless, "boom")
    with pytest.raises(RegistryDamaged, match="'', which is not allowed"):
        unpack_bundle(buffer.getvalue(), tmp_path / "target")


def test_data_that_is_not_a_zip_is_reported_as_damage(tmp_path: Path) -> None:
    """Data that is not a zip is reported as damage."""
    data = b"not a zip"
    with pytest.raises(RegistryDamaged, match="is not a zip"):
        unpack_bundle(data, tmp_path / hashlib.sha256(data).hexdigest())


def bomb(method: int, *, size: int = 200 << 20) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive, archive.open("job.py", "w") as member:
        for _ in range(size >> 20):
            member.write(b"\0" * (1 << 20))
    return buffer.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_bundle_is_refused_before_unpacking(tmp_path: Path, method: int) -> None:
    """A small compressed zip that would expand to 200 MB is refused before anything is unpacked."""
    data = bomb(method)
    assert len(data) < 1 << 20
    with little(5), pytest.raises(RegistryDamaged, match=r"did not write bundle sales: 'job\.py' is compressed.*push"):
        unpack_bundle(data, tmp_path / "sales")
    assert not (tmp_path / "sales").exists()


def test_zip_members_that_share_bytes_each_count_towards_the_size_limit(tmp_path: Path) -> None:
    """Members of a zip that share the same bytes are each counted towards the size limit, so that 1000 entries for one
    megabyte are refused.
    """
    data = bomb(zipfile.ZIP_STORED, size=1 << 20)
    start = data.index(b"PK\1\2")
    entry = data[start : data.index(b"PK\5\6")]
    entries = b"".join(entry.replace(b"job.py", b"%06d" % number) for number in range(1000))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1000, 1000, len(entries), start, 0)
    with (
        little(5),
        pytest.raises(RegistryDamaged, match=r"did not write bundle sales: its files are 1,048,576,000 bytes"),
    ):
        unpack_bundle(data[:start] + entries + end, tmp_path / "sales")


def test_the_largest_bundle_is_unpacked(tmp_path: Path) -> None:
    """A bundle of exactly the largest permitted size can be built and unpacked."""
    root = write(tmp_path / "jobs", {"sales.py": ""})
    (root / "data").mkdir()
    (root / "sales.py").write_bytes(b"#" * MAX_BYTES)
    bundle = build_bundle(root, "sales")
    unpack_bundle(bundle.data, tmp_path / bundle.sha256)
    assert (tmp_path / bundle.sha256 / "sales.py").stat().st_size == MAX_BYTES


@given(data=st.data())
def test_a_bundle_with_changed_bytes_is_read_or_reported_as_damaged(data: st.DataObject) -> None:
    """A bundle with arbitrary bytes changed is either read or raises ``RegistryDamaged``, and never a different
    error.
    """
    files = {"a.py": b"a = 1\n", "b/c.txt": bytes(50)}
    zipped = bytearray(_zip(files))
    for place in data.draw(st.lists(st.integers(0, len(zipped) - 1), min_size=1, max_size=4)):
        zipped[place] = data.draw(st.integers(0, 255))
    with suppress(RegistryDamaged):
        assert sum(map(len, read_bundle(bytes(zipped), "x").values())) <= len(zipped) * 2
