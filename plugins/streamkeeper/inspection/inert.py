"""A table of what library code can reach of a job's bundle: nothing, its data files, or anything in it.

The table lists the libraries and names that are harmless. A library or name that is not listed is assumed to read files
of the bundle. Code that can import, run or inspect code by a computed name is assumed to reach the whole bundle.
"""

from __future__ import annotations

import re
from enum import IntEnum


class Reach(IntEnum):
    """How much of the bundle a piece of library code may reach, from the least to the most."""

    NOTHING = 0
    ENVIRONMENT = 1
    """Environment variables of the process, which are outside of the bundle and in no digest."""
    DATA = 2
    CODE = 3
    TEXT = 4
    """The text of the code, with comments, docstrings and line numbers."""


_INERT = frozenset(
    {
        *("__future__", "_abc", "_ast", "_bisect", "_bz2", "_codecs", "_collections", "_collections_abc"),
        *("_contextvars", "_csv", "_datetime", "_decimal", "_functools", "_hashlib", "_heapq", "_io", "_json"),
        *("_locale", "_lzma", "_md5", "_operator", "_queue", "_random", "_sha1", "_sha2", "_sha256", "_sha512"),
        *("_sre", "_statistics", "_string", "_struct", "_thread", "_typing", "_uuid", "_weakref", "_weakrefset"),
        *("_zoneinfo", "abc", "array", "ast", "attr", "attrs", "base64", "binascii", "bisect", "calendar", "cmath"),
        *("codecs", "collections", "colorsys", "concurrent", "contextlib", "contextvars", "copy", "copyreg", "csv"),
        *("dataclasses", "datetime", "dateutil", "decimal", "difflib", "email", "encodings", "enum", "errno"),
        *("fractions", "functools", "hashlib", "heapq", "hmac", "html", "io", "ipaddress", "itertools"),
        *("json", "keyword", "locale", "logging", "math", "msgspec", "numbers", "numpy", "operator", "orjson"),
        *("pandas", "pprint", "py4j", "pyarrow", "pydantic", "pydantic_core", "pyspark", "pytz", "queue", "quopri"),
        *("random", "re", "reprlib", "secrets", "signal", "stat", "statistics", "streamkeeper", "string"),
        *("stringprep", "struct", "textwrap", "threading", "time", "types", "typing", "typing_extensions"),
        *("typing_inspection", "unicodedata", "urllib", "uuid", "warnings", "weakref", "xxhash", "zlib"),
        *("zoneinfo",),
    }
)
"""Libraries that read no file of the bundle and import none of its modules, except through names that ``_READS``
matches.

The list contains the modules of Python itself that only compute, and the libraries that streaming jobs commonly use for
computing.
"""

_READS = re.compile(
    r"(^|_)(read|load|open|scan|import|run|exec|file|files|path|paths|dataset|mmap|memmap|memory_map|fs|parquet|config)"
    r"($|_)|^(fromfile|genfromtxt|loadtxt|DataSource|ExcelFile|HDFStore|FileIO|SparkFiles|urlopen|urlretrieve"
    r"|addPyFile|addFile|fileConfig|OSFile|LocalFileSystem)"
)
"""Names in an inert library that nevertheless read a file, such as ``pandas.read_csv`` and ``numpy.load``."""

_COMPUTES = frozenset(
    {
        *("abspath", "altsep", "basename", "cpu_count", "dirname", "expanduser", "curdir", "extsep", "fsdecode"),
        *("fsencode", "fspath", "getpid", "getppid", "join", "linesep", "name", "normcase", "normpath", "pardir"),
        *("pathsep", "realpath", "relpath", "sep", "split", "splitdrive", "splitext", "strerror", "urandom"),
        *("commonprefix", "commonpath", "isabs", "PathLike"),
    }
)
"""Names in ``os`` and ``os.path`` that touch no file."""

_BUILTINS = {
    **dict.fromkeys(("open", "__file__", "__cached__"), Reach.DATA),
    **dict.fromkeys(
        ("__import__", "breakpoint", "compile", "eval", "exec", "globals", "input", "locals", "vars"), Reach.CODE
    ),
    **dict.fromkeys(("__builtins__", "__loader__", "__path__", "__spec__"), Reach.CODE),
    **dict.fromkeys(("__doc__", "help"), Reach.TEXT),
}
"""Builtin name -> what code can reach through it, if that is more than nothing. Builtin names exist in every module."""

_REFLECTS = {
    **dict.fromkeys(("__file__", "__cached__"), Reach.DATA),
    **dict.fromkeys(
        ("__builtins__", "__globals__", "__import__", "__loader__", "__path__", "__spec__", "__subclasses__"),
        Reach.CODE,
    ),
    **dict.fromkeys(("cr_frame", "f_back", "f_builtins", "f_globals", "f_locals", "gi_frame", "tb_frame"), Reach.CODE),
    **dict.fromkeys(("__annotations__", "__code__", "__doc__", "__firstlineno__", "__signature__"), Reach.TEXT),
    **dict.fromkeys(
        ("co_code", "co_consts", "co_filename", "co_firstlineno", "co_lines", "f_lineno", "tb_lineno"), Reach.TEXT
    ),
}
"""Attributes that lead from an object to other code, or to the text from which the object was made."""

_READERS_WITHIN = (
    *("logging.config", "numpy.ctypeslib", "pandas.io", "pyspark.core.files", "urllib.request"),
    *(f"pyarrow.{module}" for module in ("csv", "dataset", "feather", "fs", "hdfs", "ipc", "json", "orc", "parquet")),
)
"""Parts of inert libraries that exist to read files."""

NAMES = frozenset({"__name__", "__qualname__", "__module__", "__dict__", "__slots__", "__members__", "dir"})
"""Attributes through which code can read names of objects and the order of their definitions."""

TYPES = frozenset({"__dataclass_fields__", "fields", "type"})
"""Attributes through which code can read the annotations of a class."""

SEES_LOCALS = frozenset({"dir", "eval", "query"})
"""Names through which code can read its local variables; ``query`` and ``eval`` of pandas read variables marked with
``@``.
"""

AT_IMPORT = frozenset({"compile", "eval", "exec"})
"""Names that matter even if they were used only while a module was imported, because their result may be stored
anywhere.
"""

_RUNS_CODE = frozenset(
    {
        *("_ctypes", "_imp", "_pickle", "_posixsubprocess", "cffi", "cloudpickle", "code", "codeop", "ctypes"),
        *("dill", "gc", "imp", "importlib", "importlib_resources", "joblib", "marshal", "multiprocessing"),
        *("pickle", "pkg_resources", "pkgutil", "pty", "pydoc", "runpy", "shelve", "site", "subprocess"),
        *("zipimport",),
    }
)
_READS_CODE = frozenset({"_tokenize", "dis", "inspect", "linecache", "symtable", "tokenize", "trace", "traceback"})
_INSPECTS = frozenset(
    {
        *("BoundArguments", "Parameter", "Signature", "getattr_static", "getclosurevars", "getfullargspec"),
        *("getmembers", "getmembers_static", "getmodule", "getmro", "signature", "unwrap"),
    }
)
"""Names in ``inspect`` that read objects and their names, but never the text from which the objects were made."""
_ASKS = re.compile(r"is[a-z]+")
"""Names in ``inspect`` that only return the kind of an object."""
_SYSTEM = frozenset(
    {
        *("argv", "executable", "flags", "orig_argv", "platform", "prefix", "base_prefix"),
    }
)
_SYSTEM_FRAMES = re.compile(
    r"modules|path|meta_path|path_.*|_.*frame.*|settrace|setprofile|gettrace|getprofile|exc_info"
)


def reach_of_global(name: str) -> Reach:
    """Return how much of the bundle code can reach through a name that exists in every module."""
    return _BUILTINS.get(name, Reach.NOTHING)


def reach_of_attribute(name: str) -> Reach:
    """Return how much of the bundle code can reach by reading an attribute of this name from any object.

    The name may occur in the code as an attribute or as a string.
    """
    return _REFLECTS.get(name, Reach.NOTHING)


def reach_of(module: str, name: str) -> Reach:
    """Return how much of the bundle ``name`` of a library's module may reach; an empty name stands for the module as a
    whole.
    """
    top = module.partition(".")[0]
    if top in _RUNS_CODE or module.startswith("pyspark.cloudpickle") or name == "read_pickle":
        return Reach.CODE
    if module.startswith(_READERS_WITHIN):
        return Reach.DATA
    if top == "inspect" and name:
        return Reach.NOTHING if _ASKS.fullmatch(name) else Reach.CODE if name in _INSPECTS else Reach.TEXT
    if top in _READS_CODE:
        return Reach.TEXT
    if top == "builtins":
        return Reach.NOTHING if name else Reach.CODE
    if top == "sys":
        return Reach.CODE if not name or _SYSTEM_FRAMES.fullmatch(name) else _of_system(name)
    if top in ("os", "posix", "posixpath", "genericpath", "nt", "ntpath"):
        return _of_os(name)
    if top not in _INERT:
        return Reach.DATA
    if name in ("get_type_hints", "get_annotations"):
        return Reach.TEXT
    return Reach.DATA if _READS.search(name) or _READS.search(module.rpartition(".")[2]) else Reach.NOTHING


def _of_system(name: str) -> Reach:
    return Reach.ENVIRONMENT if name in _SYSTEM else Reach.NOTHING


def _of_os(name: str) -> Reach:
    if name in ("environ", "environb", "getenv", "getenvb", "_Environ"):
        return Reach.ENVIRONMENT
    if name in ("system", "popen", "startfile", "fork", "forkpty") or name.startswith(("exec", "spawn", "posix_spawn")):
        return Reach.CODE
    return Reach.NOTHING if name in _COMPUTES else Reach.DATA


_SETS = re.compile(
    r"set|seed|register|unregister|add|patch|install|enable|disable|configure|option|basicConfig|simplefilter"
    r"|filterwarnings|update|append|insert|remove|push|start|activate|use|tz|signal|alarm|pickle|constructor"
    r"|exec|eval|compile|__import__"
)


def is_quiet(module: str, name: str) -> bool:
    """Whether a call of this library function, made while a module is imported, changes nothing in the library."""
    return module.partition(".")[0] in {*_INERT, "os", "posixpath", "builtins", "pathlib"} and not _SETS.match(name)
