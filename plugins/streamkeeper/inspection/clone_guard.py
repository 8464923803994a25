"""Stops the effects of a clone's functions that Python's audit hooks report, in the Python worker.

The module is sent as text and executed in the worker before the function is loaded, so it imports nothing of this
package. A worker runs other tasks later, and an audit hook is permanent: the guard is therefore active only for the
task that has armed it. A function's temporary files, and files that Spark itself and Python's import system write, do
not count as effects. Python does not report the effects of native libraries, such as a database client that connects
in C.
"""

import os
import sys
import tempfile
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {
    **dict.fromkeys(("os.remove", "os.rmdir"), ((0, 1),)),
    **dict.fromkeys(("os.mkdir", "os.chmod"), ((0, 2),)),
    **dict.fromkeys(("os.chown", "os.utime"), ((0, 3),)),
    **dict.fromkeys(("os.truncate", "os.setxattr", "os.removexattr", "sqlite3.connect"), ((0, None),)),
    **dict.fromkeys(("os.rename", "os.link"), ((0, 2), (1, 3))),
    "os.symlink": ((1, 2),),
}
"""Event about files -> the positions of its changed paths, each with the position of the directory's descriptor."""
_OTHERS = frozenset(
    {
        *("os.exec", "os.kill", "os.killpg", "os.posix_spawn", "os.spawn", "os.startfile", "os.system"),
        *("socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto", "subprocess.Popen", "pty.spawn"),
    }
)


_WITHOUT_EVENTS = (
    ("_posixsubprocess", "fork_exec"),
    ("_posixshmem", "shm_open"),
    ("os", "mkfifo"),
    ("os", "mknod"),
)
"""Module and name of the functions that change something without raising an audit event, and that are therefore
wrapped.
"""
_NAME = "_streamkeeper_clone_guard"
"""The attribute of ``sys`` that holds the worker's single guard."""


class EffectInClone(BaseException):
    """Raised when a function tries to change something outside of the clone in which the function runs.

    This is not an ``Exception``, so that a function that catches its errors does not continue with other results.
    """


class _Guard:
    def __init__(self) -> None:
        import pyspark

        self.task: object = None
        self.armed = False
        self.made: set[str] = set()
        # Called now, because the first call creates a file and holds a lock.
        self.temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
        self.spark = os.path.dirname(pyspark.__file__) + os.sep
        self.local = [
            os.path.realpath(each) + os.sep for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each
        ]

    def arm(self) -> None:
        self.task, self.armed = _task(), True

    def wrap(self, module: str, name: str) -> None:
        """Wrap a function for which Python reports no event, so that its calls are checked too."""
        try:
            home = __import__(module)
            wrapped = getattr(home, name)
        except (ImportError, AttributeError):
            return

        def guarded(*arguments: Any, **named: Any) -> Any:
            if self.watches(sys._getframe(1)):
                raise EffectInClone(f"{module}.{name} {arguments[0] if arguments else ''}")
            return wrapped(*arguments, **named)

        setattr(home, name, guarded)

    def hook(self, event: str, arguments: Any) -> None:
        if not self.armed or (event != "open" and event not in _PATHS and event not in _OTHERS):
            return
        if not self.watches(sys._getframe(1)):
            return
        if event == "open":
            target = self.opened(*arguments)
        elif event in _PATHS:
            paths = [_whole(arguments, *each) for each in _PATHS[event]]
            target = ", ".join(str(path) for path in paths if not self.is_own(path, new=event == "os.mkdir"))
        else:
            target = (
                " ".join(str(each) for each in arguments[-1:]) if event.startswith("socket.") else str(arguments[0])
            )
        if target:
            raise EffectInClone(f"{event} {target}")

    def watches(self, frame: Any) -> bool:
        """Whether the current action of a frame belongs to the clone's task, and not to Spark's own code."""
        return self.armed and self.task == _task() and not self.is_of_spark(frame)

    def is_of_spark(self, frame: Any) -> bool:
        name = frame.f_code.co_filename if frame is not None else ""
        return name.startswith((self.spark, "<frozen importlib"))

    def opened(self, path: Any, mode: Any, flags: Any) -> str:
        if not isinstance(path, (str, bytes, os.PathLike)) or not (flags & _WRITES if flags else _changes(mode)):
            return ""
        return "" if self.is_own(path, new=bool(flags and flags & os.O_EXCL)) else f"{os.fsdecode(path)} for writing"

    def is_own(self, path: Any, *, new: bool) -> bool:
        """Whether a path belongs to this clone: it is below Spark's scratch, or a temporary file of this worker.

        ``new``: whether the file is being created, in a way that fails if the path exists.
        """
        if isinstance(path, int) or path in ("", os.devnull):
            return True
        real = os.path.realpath(os.fsdecode(path))
        if new and (real + os.sep).startswith(self.temporary):
            if os.path.lexists(real):
                return True
            self.made.add(real)
        parents = [real, *(real[:index] for index, letter in enumerate(real) if letter == os.sep)]
        return any(each in self.made for each in parents) or real.startswith(tuple(self.local))


def _whole(arguments: Any, path: int, folder: Any) -> Any:
    """Return a complete path. If the path is only a name in an open directory, as in ``shutil.rmtree``, the directory
    is put in front of it.
    """
    opened = arguments[folder] if folder is not None and folder < len(arguments) else -1
    if not isinstance(opened, int) or opened < 0 or isinstance(arguments[path], int):
        return arguments[path]
    return os.path.join(os.readlink(f"/proc/self/fd/{opened}"), os.fsdecode(arguments[path]))


def _changes(mode: Any) -> bool:
    return bool(mode) and any(letter in mode for letter in "wax+")


def _task() -> object:
    module = sys.modules.get("pyspark.taskcontext")
    context = module.TaskContext.get() if module is not None else None
    return None if context is None else context.taskAttemptId()


def arm() -> None:
    """Make this worker process stop effects outside of the clone until the worker's current task ends."""
    guard = getattr(sys, _NAME, None)
    if guard is None:
        guard = _Guard()
        setattr(sys, _NAME, guard)
        sys.addaudithook(guard.hook)
        for each in _WITHOUT_EVENTS:
            guard.wrap(*each)
    guard.arm()
