"""Output files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
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
    name = temporary if isinstance(temporary, str) else None
    try:
        _unfinished.update(filter(None, [name]))
        yield temporary if isinstance(temporary, str) else _path_of(temporary)
        if mode is not None:
            os.chmod(temporary, mode)
        try:
            name = temporary if isinstance(temporary, str) else _link(temporary, os.path.dirname(target))
            _replace(name, target)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
    finally:
        if isinstance(temporary, int):
            os.close(temporary)
        if name is not None:
            with suppress(FileNotFoundError):
                os.unlink(name)
            _unfinished.discard(name)


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


def _make_temporary(folder: str) -> int | str:
    """A new file in `folder`, with the permissions of any new file: its descriptor, or a path if it has one.

    One with a path isn't open: Windows renames no file that is.
    """
    unnamed = _open_unnamed(folder)
    if unnamed is not None:
        return unnamed
    name = _new_name(folder)
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    return name


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
