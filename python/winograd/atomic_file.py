"""Output files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STANDARD_STREAM = "-"


@contextmanager
def atomic_file(path: str) -> Iterator[str]:
    """Yield a path to write to; what is there becomes `path` when the block ends without an exception.

    A device, a pipe or `-` is written to directly. A file that is replaced keeps its permissions, and a
    symbolic link to it stays one.

    Raises OSError, with `path` as its filename, when `path` can't be written.
    """
    target = os.path.realpath(path)
    if path == STANDARD_STREAM or _is_special(target):
        yield path
        return
    try:
        mode = _writable_mode(target)
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".winograd-")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    os.close(descriptor)
    try:
        yield temporary
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target)


def _writable_mode(target: str) -> int:
    """The permissions that `target` has, or would get when created."""
    if os.path.isdir(target):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(target):
        if not os.access(target, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
