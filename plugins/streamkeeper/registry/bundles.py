"""A release's code as one zip: the job's file, and every file under the jobs root that it imports. No code is executed.

The zip is deterministic (sorted, stored without compression, fixed times and permissions), so the same code always has
the same sha256.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import struct
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from streamkeeper.authoring.job_declarations import read_approvers
from streamkeeper.errors import InvalidInput, NotFound, RegistryDamaged
from streamkeeper.model.names import check_name, nearest
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.imports import find_files
from streamkeeper.registry.job_health import read_thresholds
from streamkeeper.registry.objects import read_object
from streamkeeper.stores.contract import Store
from streamkeeper.system.private_files import make_folders, write_file

MAX_BYTES = 64 * 1024 * 1024
_MOST_NAMED = 20
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_CACHE = "__pycache__"
_FOREIGN = "push the release again, and find out who wrote this bundle"
_IMPORTABLE = frozenset({".py", ".pyc", ".pyo", ".pyd", ".so"})
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A job's code as a zip, with the declarations that were read from the job's file."""

    data: bytes
    """The zip."""
    sha256: str
    """The hash of the zip."""
    entry: str
    """The job's file, relative to the bundle's root."""
    health: dict[str, float | None] = {}
    """Rule -> the job's own threshold."""
    approvers: tuple[str, ...] = ()
    """The people who may answer questions about the job, as declared in its code."""


def build_bundle(jobs_root: Path, job: str) -> Bundle:
    """Return the bundle of ``<jobs_root>/<job>.py``.

    Raises InvalidInput for a bad name, a missing root, too much code, or a file that leads out of the root. Raises
    NotFound for an unknown job. Raises JobUnusable, with file and line, for a file that is not Python or whose
    thresholds or approvers are not literals.
    """
    check_name("job", job)
    root = jobs_root.resolve()
    if not root.is_dir():
        raise InvalidInput(
            f"the jobs root {jobs_root} is not a directory", hint="set STREAMKEEPER_JOBS to the directory with the jobs"
        )
    entry = root / f"{job}.py"
    if not entry.is_file():
        raise NotFound(f"there is no job {job} under {jobs_root}", hint=_hint(root, job))
    data = _zip(read_code(root, entry.name))
    source, sha256 = entry.read_bytes(), hashlib.sha256(data).hexdigest()
    health = read_thresholds(source, job, where=entry.name)
    approvers = read_approvers(source, job, where=entry.name)
    return Bundle(data=data, sha256=sha256, entry=entry.name, health=health, approvers=approvers)


def _hint(root: Path, job: str) -> str:
    """Return a hint that names the job that was probably meant; otherwise a hint with as many existing jobs as fit on a
    line.
    """
    known = sorted(path.stem for path in root.glob("*.py") if path.is_file() and path.stem != "__init__")
    if meant := nearest(job, known):
        return f"perhaps {meant}"
    left = len(known) - _MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    return (
        f"name one of the jobs there: {', '.join(known[:_MOST_NAMED])}{more}" if known else "put the job's file there"
    )


def read_code(root: Path, entry: str) -> dict[str, bytes]:
    """Return the content of the job's own file and of all files that it imports from ``root``, by path below ``root``.

    Raises JobUnusable for a file that is not Python, InvalidInput for too much code and for a file that leads out of
    the root.
    """
    root = root.resolve()
    files = find_files(root, root / entry)
    total = sum(file.stat().st_size for file in files)
    if total > MAX_BYTES:
        largest = max(files, key=lambda file: file.stat().st_size).relative_to(root)
        raise InvalidInput(
            f"the job's code and data are {total} bytes, more than {MAX_BYTES}",
            hint=f"move data out of the jobs root; the largest file is {largest}",
        )
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def unpack_job(store: Store, job: str, bundle: str, settings: Settings) -> Path:
    """Unpack a release's code, and return its directory. Raises RegistryDamaged."""
    root = settings.bundles / bundle
    unpack_bundle(read_object(store, job, "bundles", bundle, ".zip"), root)
    return root


def unpack_bundle(data: bytes, target: Path) -> None:
    """Unpack the bundle into the folder ``target``, whose name is the bundle's sha256. Idempotent.

    The folder appears with all its code at once. A target with other code is replaced. Compiled code that is cached in
    the target is removed, because Python would run it instead of the checked files. Raises RegistryDamaged for a bundle
    whose hash differs from the target's name, for a file name that leads out of the target, and for data that is not a
    zip.
    """
    found = hashlib.sha256(data).hexdigest()
    if _SHA256.fullmatch(target.name) and found != target.name:
        raise RegistryDamaged(f"bundle {target.name} has sha256 {found}", hint="push the release again")
    files = read_bundle(data, target.name)
    if _holds(target, files):
        _remove_caches(target)
        # A prune reads this time, which shows that the bundle is in use.
        os.utime(target)
        return
    make_folders(target.parent)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        _write(fresh, files, target.name)
        _put_in_place(fresh, target, files)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_bundle(data: bytes, name: str) -> dict[str, bytes]:
    """Return the files of a bundle, as file name -> content; raises RegistryDamaged for data that is not a bundle."""
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_sizes(archive.infolist(), name)
            for info in archive.infolist():
                member, path = info.filename, PurePosixPath(info.filename)
                outside = not member or path.is_absolute() or ".." in path.parts or "\\" in member
                if outside or member in files:
                    raise RegistryDamaged(
                        f"bundle {name} contains the file name {member!r}, which is not allowed", hint=_FOREIGN
                    )
                if not info.is_dir():
                    files[info.filename] = archive.read(info)
    # The other errors stand for encrypted members, unknown compression, undecodable names and torn structures.
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, struct.error) as error:
        raise RegistryDamaged(f"bundle {name} is not a zip: {error}") from error
    return files


def _check_sizes(members: list[zipfile.ZipInfo], name: str) -> None:
    """Raise RegistryDamaged if a member is compressed, or if the members together are too large. Their declared sizes
    are added up, because several members may refer to the same bytes.
    """
    compressed = [member.filename for member in members if member.compress_type != zipfile.ZIP_STORED]
    total = sum(member.file_size for member in members)
    if compressed or total > MAX_BYTES:
        reason = f"{compressed[0]!r} is compressed" if compressed else f"its files are {total:,} bytes"
        raise RegistryDamaged(
            f"Streamkeeper did not write bundle {name}: {reason}. Streamkeeper's bundles are uncompressed and"
            f" have at most {MAX_BYTES:,} bytes of files",
            hint=_FOREIGN,
        )


def _holds(target: Path, files: dict[str, bytes]) -> bool:
    """Whether ``target`` contains every file of the bundle, and no other importable file.

    A link counts as another file: its target may change after this check. Caches of compiled code are ignored.
    """
    if not files or target.is_symlink():
        return False
    for folder, folders, names in os.walk(target):
        if any(Path(folder, name).is_symlink() for name in (*folders, *names)):
            return False
        folders[:] = [name for name in folders if name != _CACHE]
        for path in (Path(folder, name) for name in names):
            if path.suffix.lower() in _IMPORTABLE and path.relative_to(target).as_posix() not in files:
                return False
    return all((target / name).is_file() and (target / name).read_bytes() == data for name, data in files.items())


def _remove_caches(target: Path) -> None:
    """Remove cached compiled code. A driver that runs from the folder has already loaded its modules, and recreates the
    cache.
    """
    caches = [Path(folder, _CACHE) for folder, folders, _ in os.walk(target) if _CACHE in folders]
    if not caches:
        return
    aside = Path(tempfile.mkdtemp(prefix=".changed-", dir=target.parent))
    try:
        for number, cache in enumerate(caches):
            # Another driver that is starting may have removed this cache already.
            with suppress(FileNotFoundError):
                os.rename(cache, aside / str(number))
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(folder: Path, files: dict[str, bytes], bundle: str) -> None:
    """Write the files; raises RegistryDamaged for file names that cannot exist together in a folder."""
    for name, data in files.items():
        path = folder / name
        try:
            make_folders(path.parent)
            write_file(path, data)
        except OSError as error:
            impossible = isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError)
            if not impossible and error.errno != errno.ENAMETOOLONG:
                raise
            raise RegistryDamaged(
                f"bundle {bundle} contains the file name {name[:80]!r}, which cannot be written:"
                " the name is too long, or conflicts with another file",
                hint="push the release again",
            ) from error


def _put_in_place(fresh: Path, target: Path, files: dict[str, bytes]) -> None:
    try:
        os.rename(fresh, target)
        return
    except OSError:
        if not target.is_dir():
            raise
    if _holds(target, files):
        return
    aside = Path(tempfile.mkdtemp(prefix=".changed-", dir=target.parent))
    os.rename(target, aside / target.name)
    os.rename(fresh, target)
    shutil.rmtree(aside, ignore_errors=True)
