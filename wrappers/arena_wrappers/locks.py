"""Locks: one process at a time goes on with a run folder or a log of episodes.

The operating system ends a lock with its process, however that ends.
"""

import errno
import os
import socket
import sys
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOCK = ".lock"  # in a folder; beside a file, it is named after that file
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_FAR = 2**40  # Windows locks bytes, and others may read those before them


class InUse(ValueError):
    """Another process has the lock."""


class Lock:
    """The lock of this process on a folder or a file; it ends with this object.

    `lock_of` makes it.

    Args:
        path: the lock file.
        target: the folder or file that it is of.

    Raises:
        InUse: another process has it.
        OSError: the lock file cannot be written.
    """

    def __init__(self, path: Path, target: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _locked_file(path, target)
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        self.release = weakref.finalize(self, _release, self._file, path, os.getpid())


_locks: "weakref.WeakValueDictionary[Path, Lock]" = weakref.WeakValueDictionary()


def lock_of(target: str | Path, *, is_folder: bool = False) -> Lock:
    """The lock on a folder or file; within a process all callers share it.

    Args:
        target: the folder or file, which need not exist.
        is_folder: whether it is a folder, which is then made.

    Raises:
        InUse: another process has it.
        OSError: the lock file cannot be written.
    """
    target_path = Path(target)
    resolved = target_path.resolve()
    path = (
        resolved / LOCK if is_folder else resolved.with_name(f".{resolved.name}{LOCK}")
    )
    lock = _locks.get(path)
    if lock is None or not lock.release.alive:
        lock = _locks[path] = Lock(path, target_path)
    return lock


@contextmanager
def locked(target: str | Path, *, is_folder: bool = False) -> Iterator[Lock]:
    """Within this context the process has the lock; arguments as for `lock_of`."""
    lock = lock_of(target, is_folder=is_folder)
    yield lock


def _locked_file(path: Path, target: Path) -> IO[bytes]:
    while True:
        file = open(path, "ab+", buffering=0)  # noqa: SIM115 # it stays open
        try:
            _lock(file)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                warnings.warn(
                    f"the file system of {str(path)!r} has no locks; start no second "
                    f"command that writes into {str(target)!r}",
                    stacklevel=4,
                )
                return file
            file.seek(0)
            holder = file.read().decode(errors="replace") or "another process"
            file.close()
            raise InUse(
                f"want {str(target)!r} for one command at a time, but {ascii(holder)[1:-1]} "
                "goes on with it; wait until that ends, or stop it"
            ) from error
        if _is_at(file, path):
            return file
        file.close()  # its last holder has removed it in the meantime


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _release(file: IO[bytes], path: Path, process: int) -> None:
    if os.getpid() == process:  # not in a child, which has a copy
        try:
            if _is_at(file, path):
                path.unlink()
        except OSError:  # Windows keeps files that are open
            pass
    file.close()


def _lock(file: IO[bytes]) -> None:
    """Takes the lock, or raises OSError; neither module is in a browser."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
