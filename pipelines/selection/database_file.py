"""A database in one file that many processes read and write, any of which may be killed at any time.

SQLite with a rollback journal: write-ahead logging would leave more files beside it, and doesn't work on
network file systems, which several machines may share. A process that is killed while it writes leaves its
journal, which whoever opens the file next rolls back.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

LOCK_SECONDS = 60.0
"""How long an access waits for those of other processes."""
_DAMAGE = ("unsupported file format", "Could not decode to UTF-8", "no such table", "no such column")
"""How SQLite's operational errors begin that only a damaged file gives. All others, of locks, memory and
disks, say nothing about the file; Python tells them apart by numbers from 3.11 on only."""

_APPLICATION_POSITION = 68
"""Where the header of SQLite's files holds the number of the application, in 4 bytes, big-endian."""

_MIN_PAGE = 512
"""Bytes."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Format:
    """What tells a database from those of other programs and versions, and the statement for its table."""

    name: str
    """What a message calls such a database."""
    application: int
    version: int
    table: str


class DatabaseFile:
    """The database in the file `path`, which is created when there is none.

    A damaged file is renamed to `FILE.damaged-1`, or the next number that is free, and a new one begun. With
    `read_only` it stays and counts as empty. Either is told to `report`, never raised.

    Raises FileNotFoundError for a missing file with `read_only`, other OSErrors when the file can't be read
    or written, and ValueError when it is no such database, belongs to another program or has another format.
    """

    def __init__(
        self, path: Path, format: Format, report: Callable[[str], None], *, read_only: bool = False
    ) -> None:
        self.path = path
        self._format = format
        self._report = report
        self._read_only = read_only
        self._was_in_order = False
        self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()

    def select(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows that `statement` gives."""
        return self._access(lambda: self._connection.execute(statement, values).fetchall())

    def insert(self, statement: str, rows: Iterable[Sequence[object]]) -> int:
        """Run `statement` for all of `rows`, or for none when it fails; returns how many rows it changed."""
        kept = list(rows)
        if self._identity != _identity(self.path):
            # Another process set it aside, or somebody removed it: what is written there would be lost.
            self._connection.close()
            self._connection = self._connect()

        def run() -> int:
            before = self._connection.total_changes
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(statement, kept)
            return self._connection.total_changes - before

        return self._access(run)

    def _access(self, access: Callable[[], Result]) -> Result:
        """What `access` gives, of a new database when it finds this one damaged."""
        try:
            return access()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if not self._is_damage(error):
                raise self._os_error(error) from None
            self._connection.close()
            self._connection = self._replace(str(error))
            return access()

    def _connect(self) -> sqlite3.Connection:
        if self._read_only and not self.path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        self._identity = _identity(self.path)
        connection = None
        try:
            # Reading, too, rolls back what a killed process left, and needs a connection that may write.
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={'rw' if self._read_only else 'rwc'}",
                timeout=LOCK_SECONDS,
                isolation_level=None,
                uri=True,
            )
            if not _objects(connection):
                if 0 < self.path.stat().st_size < _MIN_PAGE:
                    # SQLite would take it for an empty file, and write over it.
                    raise sqlite3.DatabaseError("file is not a database")
                if self._read_only:
                    connection.close()
                    return self._empty()
                self._create_table(connection)
            self._check(connection)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if connection is not None:
                connection.close()
            if not self._is_damage(error):
                raise self._os_error(error) from None
            return self._replace(str(error))
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._identity = _identity(self.path)
        self._was_in_order = True
        return connection

    def _create_table(self, connection: sqlite3.Connection) -> None:
        """Creates the table in an empty file."""
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have been first.
            if not _objects(connection):
                connection.execute(self._format.table)
                connection.execute(f"PRAGMA application_id = {self._format.application}")
                connection.execute(f"PRAGMA user_version = {self._format.version}")

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raises DatabaseError for a damaged file."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        # The whole check compares every index with its table: a changed byte of a text shows only there.
        (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if result != "ok":
            raise sqlite3.DatabaseError(result)
        if application != self._format.application:
            raise ValueError(f"{self.path} is a database of another program")
        if version != self._format.version:
            raise ValueError(
                f"{self.path} has format {version}, but this version reads and writes {self._format.version}"
            )
        if _objects(connection) != [self._format.table]:
            raise sqlite3.DatabaseError("its table isn't there")

    def _replace(self, damage: str) -> sqlite3.Connection:
        """What to go on with instead of a damaged file. Raises ValueError for one that never was ours."""
        if not self._was_in_order and _application(self.path) != self._format.application:
            raise ValueError(f"{self.path} is no {self._format.name}: {damage}")
        if not self._read_only:
            self._set_aside(damage)
            return self._connect()
        self._report(f"ignored {self.path}, which is damaged: {damage}")
        return self._empty()

    def _empty(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.execute(self._format.table)
        return connection

    def _set_aside(self, damage: str) -> None:
        """Rename the damaged file, unless another process just did so."""
        with suppress(FileNotFoundError):
            with _locked(self.path) as locked:
                if not self._identity == _identity(self.path) == locked:
                    return
                names = (Path(f"{self.path}.damaged-{number}") for number in count(1))
                aside = next(name for name in names if not name.exists())
                # A journal that stayed would be taken for the new file's.
                with suppress(FileNotFoundError):
                    os.rename(f"{self.path}-journal", f"{aside}-journal")
                os.rename(self.path, aside)
            self._report(f"{self.path} is damaged ({damage}): renamed to {aside}, and a new one begun")

    def _is_damage(self, error: Exception) -> bool:
        if str(error) == "attempt to write a readonly database":
            # SQLite says so, too, when the first bytes name a format that it can only read.
            return os.access(self.path, os.W_OK)
        if isinstance(error, sqlite3.OperationalError):
            return str(error).startswith(_DAMAGE)
        return type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)

    def _os_error(self, error: Exception) -> Exception:
        """`error` as what Python raises for files; errors that no file causes as they are."""
        if not isinstance(error, sqlite3.OperationalError):
            return error
        number = errno.EIO
        if self.path.is_dir():
            number = errno.EISDIR
        elif not self.path.parent.is_dir():
            number = errno.ENOENT
        elif str(error) == "unable to open database file":
            number = errno.EACCES
        return OSError(number, str(error) if number == errno.EIO else os.strerror(number), str(self.path))


def _objects(connection: sqlite3.Connection) -> list[str]:
    """The statements that made what is in the database."""
    return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]


def _application(path: Path) -> int:
    """The number of the application in a file's header, whatever else is in the file."""
    with path.open("rb") as file:
        file.seek(_APPLICATION_POSITION)
        return int.from_bytes(file.read(4), "big")


@contextmanager
def _locked(path: Path) -> Iterator[tuple[int, int] | None]:
    """Keeps other processes from renaming a file; yields what it is.

    On Windows nothing has to: a file that another process has open can't be renamed, and the new one is open.
    """
    if sys.platform == "win32":
        yield _identity(path)
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield _identity(descriptor)
    finally:
        os.close(descriptor)


def _identity(file: Path | int) -> tuple[int, int] | None:
    """What a file is, whatever its name; None for none."""
    with suppress(FileNotFoundError):
        status = os.stat(file)
        return status.st_dev, status.st_ino
    return None
