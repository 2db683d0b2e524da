"""Containment: what a rewrite fails on is left as it is, and nothing else.

A rewrite that failed half-way can't be undone: what it built, replaced or erased is in the program. So it is
avoided. A run of the passes records what it failed on, and the next one, on a fresh copy of the program,
leaves that out. Passes are deterministic, so that a `Unit` is known from run to run by its number.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import TypeVar

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.registry import PassError
from iree.winograd.passes.infrastructure.remarks import remark_missed
from iree.winograd.passes.infrastructure.unit import Unit, origin_of, product_of

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class RewriteFailure:
    """An oversight of this project's: a rewrite raised `error`."""

    rewrite: str
    """The name of the pass, or who else failed."""
    subject: str
    """For readers, e.g. "output transform 3 of convolution 4"."""
    location: ir.Location
    error: Exception
    left_out: Unit | None
    """What avoids the failure when it is left out; None when nothing less than all that we do does."""

    @property
    def reason(self) -> str:
        """The error in one line."""
        text = " ".join(str(self.error).split())
        return f"{type(self.error).__name__}: {text}" if text else type(self.error).__name__

    @property
    def trace(self) -> str:
        """The error as Python prints it."""
        return "".join(traceback.format_exception(self.error)).rstrip()

    @property
    def cause(self) -> tuple[object, ...]:
        """The same for failures of one oversight: the kind of error, and the line that raised it."""
        frames = traceback.extract_tb(self.error.__traceback__)
        return (type(self.error), *((frames[-1].filename, frames[-1].lineno) if frames else ()))

    @property
    def consequence(self) -> str:
        """A clause on what the program goes without."""
        if self.left_out is None:
            return "the program was compiled without iree-winograd"
        if self.left_out.is_whole_pass:
            return f"{self.left_out} was left out"
        return f"{self.left_out} was left as it is"

    def __str__(self) -> str:
        return f"{self.rewrite} failed on {self.subject}: {self.reason}"


class RewriteFailuresError(Exception):
    """A pass failed on parts of the program, which is not to be used; there is at least one failure."""

    def __init__(self, failures: Iterable[RewriteFailure]) -> None:
        self.failures = tuple(failures)
        super().__init__("; ".join(map(str, self.failures)))


class InvalidRewriteError(Exception):
    """A rewrite left a program that doesn't verify."""


class UnknownBreakError(InvalidRewriteError):
    """One of several passes did."""


@dataclass
class Containment:
    """One run of passes: what it leaves out, and what it fails on."""

    left_out: Mapping[Unit, RewriteFailure] = field(default_factory=dict)
    verifies_each: bool = False
    """Whether the program is verified after each pass, to find the one that breaks it; else once."""
    verified_pass: str | None = None
    """The pass after whose every rewrite the program is verified, to find the one that breaks it."""
    _failures: list[RewriteFailure] = field(default_factory=list)
    _pass_name: str = ""
    _module: ir.Operation | None = None
    _counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def running(self, pass_name: str, module: ir.Operation) -> Iterator[None]:
        """Contain what the pass `pass_name` does in the block.

        Raises `RewriteFailuresError` at the end of the block when something failed. A `PassError`, which is
        an error of the program's, goes through.
        """
        self._pass_name, self._module, self._counts = pass_name, module, Counter()
        token = _current.set(self)
        try:
            yield
        except PassError:
            raise
        except Exception as error:
            self._failures.append(failure_of_pass(pass_name, module, error))
        finally:
            _current.reset(token)
        if self._failures:
            raise RewriteFailuresError(self._failures)

    def next_unit(self, kind: str) -> Unit:
        """The unit that `rewrite_each` comes to next."""
        unit = Unit(self._pass_name, kind, self._counts[kind])
        self._counts[kind] += 1
        return unit

    def contain(
        self, unit: Unit, operation: ir.Operation, culprit: Unit, rewrite: Callable[[], None]
    ) -> None:
        """Call `rewrite`, which may erase `operation`, and record its failure, which leaves out `culprit`."""
        # Fusing moves a transform to where its last consumer was; the product stays the convolution's.
        location, origin = (product_of(operation) or operation).location, origin_of(operation)
        subject = str(unit) if origin is None or str(origin) == str(unit) else f"{unit} of {origin}"
        try:
            rewrite()
            self._verify()
        except PassError:
            raise
        except Exception as error:
            self._failures.append(RewriteFailure(self._pass_name, subject, location, error, culprit))

    def _verify(self) -> None:
        if self._module is None or self._pass_name != self.verified_pass:
            return
        try:
            self._module.verify()
        except ir.MLIRError as error:
            raise InvalidRewriteError(str(error)) from None


_current: ContextVar[Containment | None] = ContextVar("containment", default=None)


def failure_of_pass(pass_name: str, module: ir.Operation, error: Exception) -> RewriteFailure:
    """The failure of a pass that can't be laid to any one unit."""
    return RewriteFailure(pass_name, "the program", module.location, error, Unit(pass_name))


def failure_of_passes(module: ir.Operation, error: UnknownBreakError) -> RewriteFailure:
    """The failure of passes of which one, not known yet, broke the program."""
    return RewriteFailure("verifier", "the program", module.location, error, None)


def rewrite_each(
    kind: str | Callable[[Subject], str],
    subjects: Iterable[Subject],
    rewrite: Callable[[Subject], None],
    *,
    operation_of: Callable[[Subject], ir.Operation] = attrgetter("operation"),
    leave: Callable[[Subject, RewriteFailure], None] | None = None,
    leaves_out_origin: bool = False,
) -> None:
    """Apply `rewrite` to each of `subjects`: every pass walks the units of its work with this function.

    `kind` is what they are, or says it of each, for readers, and tells units of one pass apart. Those that an
    earlier run failed on are given to `leave`, or get a remark. With `leaves_out_origin` it is the origin of
    the operation that a failure leaves out, where it has one: a rewrite that has to be done can't be left out
    itself.

    After a failure the program is in an unknown state, but not used. The rest is tried, as one oversight
    often fails on many units. A pass that is run by itself, as tests do, fails as any function does.
    """
    containment = _current.get()
    for subject in subjects:
        if containment is None:
            rewrite(subject)
            continue
        unit = containment.next_unit(kind if isinstance(kind, str) else kind(subject))
        operation = operation_of(subject)
        failure = containment.left_out.get(unit)
        if failure is None:
            culprit = origin_of(operation) if leaves_out_origin else None
            containment.contain(unit, operation, culprit or unit, partial(rewrite, subject))
        elif leave is not None:
            leave(subject, failure)
        else:
            remark_missed(operation, unit.pass_name, f"left as it was: {failure}")
