"""Output files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STANDARD_STREAM = "-"

_DESCRIPTOR = re.compile(r"/dev/std(out|err)|/(dev|proc/(self|\d+))/fd/\d+")
_unfinished: set[str] = set()
"""The paths of files that have a name before they are complete."""
_NO_UNNAMED_FILES = (errno.EINVAL, errno.EISDIR, errno.ENOENT, errno.EOPNOTSUPP)


@contextmanager
def atomic_file(path: str) -> Iterator[str]:
    """Yield a path to write to; what is there becomes `path` when the block ends without an exception.

    Where Linux can, the file has no name until then, and a process that is killed leaves nothing. A device, a
    pipe, an open file (`/dev/fd/3`) or `-` is written to directly. A file that is replaced keeps its
    permissions, a symbolic link to it stays one, and one that is mounted is written over.

    Raises OSError, with `path` as its filename, when `path` can't be written.
    """
    target = os.path.realpath(path)
    if path == STANDARD_STREAM or _DESCRIPTOR.fullmatch(path) or _is_special(target):
        yield path
        return
    try:
        mode = _required_mode(target)
        temporary = _make_temporary(os.path.dirname(target))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    with temporary:
        yield temporary.path
        if mode is not None:
            os.chmod(temporary.path, mode)
        try:
            _replace(temporary.give_name(), target)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None


def remove_unfinished() -> None:
    """Remove what blocks of `atomic_file` have written so far, for a process that ends within one."""
    for name in list(_unfinished):
        with suppress(OSError):
            os.unlink(name)


@contextmanager
def unnamed_file() -> Iterator[str]:
    """Yield the path of a new file that is gone after the block.

    On Linux it is in memory, and gone with the process, however that ends.
    """
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("winograd")
        try:
            yield _path_of(descriptor)
        finally:
            os.close(descriptor)
        return
    import tempfile

    # What is opened by the path of a descriptor elsewhere goes on where the descriptor is in the file.
    with tempfile.TemporaryDirectory(prefix="winograd-") as folder:
        yield os.path.join(folder, "file")


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _required_mode(target: str) -> int | None:
    """The permissions that `target` has; None where it will be created. Raises OSError."""
    if os.path.isdir(target):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.path.exists(target):
        return None
    if not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(os.stat(target).st_mode)


class _Temporary(ABC):
    """A new file in a folder, with the permissions of any new file; the block removes it if it has a name."""

    def __init__(self, folder: str, name: str | None) -> None:
        self._folder, self._name = folder, name

    @property
    @abstractmethod
    def path(self) -> str:
        """By which it can be opened."""

    @abstractmethod
    def give_name(self) -> str:
        """Its name in the folder, which it has from then on."""

    def __enter__(self) -> _Temporary:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._name)
            _unfinished.discard(self._name)


class _NamedFile(_Temporary):
    """One that has a name from the start. It isn't open: Windows renames no file that is."""

    def __init__(self, folder: str) -> None:
        name = _new_name(folder)
        super().__init__(folder, name)
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        _unfinished.add(name)

    @property
    def path(self) -> str:
        return self.give_name()

    def give_name(self) -> str:
        assert self._name is not None
        return self._name


class _UnnamedFile(_Temporary):
    """An open one without a name."""

    def __init__(self, folder: str, descriptor: int) -> None:
        super().__init__(folder, None)
        self._descriptor = descriptor

    @property
    def path(self) -> str:
        return _path_of(self._descriptor)

    def give_name(self) -> str:
        self._name = _link(self._descriptor, self._folder)
        return self._name

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)
        super().__exit__(*exception)


def _make_temporary(folder: str) -> _Temporary:
    unnamed = _open_unnamed(folder)
    return _NamedFile(folder) if unnamed is None else _UnnamedFile(folder, unnamed)


def _open_unnamed(folder: str) -> int | None:
    """The descriptor of a new file without a name; None where there are none."""
    # Only Linux has them, and not on every file system.
    if sys.platform != "linux" or not hasattr(os, "O_TMPFILE"):
        return None
    try:
        unnamed = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError as error:
        if error.errno not in _NO_UNNAMED_FILES:
            raise
        return None
    if os.path.exists(_path_of(unnamed)):
        return unnamed
    os.close(unnamed)
    return None


def _link(descriptor: int, folder: str) -> str:
    """Give an open file a name in `folder`."""
    name = _new_name(folder)
    # With a folder's descriptor, which an absolute path leaves unused, Python has the link followed.
    parent = os.open(folder, os.O_RDONLY)
    try:
        os.link(_path_of(descriptor), name, src_dir_fd=parent)
    finally:
        os.close(parent)
    return name


def _replace(name: str, target: str) -> None:
    try:
        os.replace(name, target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # Something is mounted there.
        shutil.copyfile(name, target)


def _new_name(folder: str) -> str:
    return os.path.join(folder, f".winograd-{os.urandom(8).hex()}")


def _path_of(descriptor: int) -> str:
    return f"/dev/fd/{descriptor}"
