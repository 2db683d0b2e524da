"""What the conformance tests share: compiling without a rewrite that failed, and error bounds."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF, error_bound
from iree.winograd.errors import WinogradError

Array = npt.NDArray[Any]
Case = TypeVar("Case")
Result = TypeVar("Result")

_REWRITTEN = re.compile(
    r"\((?P<kernel>[0-9x]+), (?P<inputs>\d+) to (?P<outputs>\d+) channels[^)]*\) became "
    r"(?:F\((?P<m>[0-9x]+), (?P<p>[0-9x]+)\))?"
)


@dataclass(frozen=True)
class Rewritten:
    """A convolution that became F(m, p)."""

    kernel: tuple[int, ...]
    inputs: int
    outputs: int
    m: tuple[int, ...]
    p: tuple[int, ...]

    @classmethod
    def of(cls, remark: re.Match[str]) -> Rewritten:
        kernel = _sizes(remark["kernel"])
        single = (1,) * len(kernel)
        m, p = (_sizes(remark["m"]), _sizes(remark["p"])) if remark["m"] else (single, single)
        return cls(kernel, int(remark["inputs"]), int(remark["outputs"]), m, p)


@dataclass(frozen=True)
class Compiled:
    """A program, with what its convolutions became."""

    program: bytes
    rewritten: tuple[Rewritten, ...]

    def error_bound(self, kernel: tuple[int, ...], inputs: int, outputs: int, group_inputs: int) -> float:
        """The largest one of convolutions with these channels, of all taps of `kernel` or of some.

        Those that stay convolutions are direct ones.
        """
        bounds = [error_bound((1,), (1,), group_inputs, views=prod(kernel))]
        for rewritten in self.rewritten:
            # Convolutions in one dimension may be written in two.
            taps = (*kernel, *(1 for _ in rewritten.kernel))[: len(rewritten.kernel)]
            if (rewritten.inputs, rewritten.outputs) != (inputs, outputs):
                continue
            if all(few <= many for few, many in zip(rewritten.kernel, taps, strict=True)):
                views = prod(ceil_div(size, part) for size, part in zip(taps, rewritten.p, strict=True))
                bounds.append(error_bound(rewritten.m, rewritten.p, group_inputs, views=views))
        return max(bounds)


def compile_rewritten(source: Any, **options: Any) -> Compiled:
    """Compiles `source`; a rewrite that fails is an error, though IREE compiles the program without it."""
    remarks = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stderr(remarks):
        warnings.simplefilter("error", iree.winograd.RewriteWarning)
        program = iree.winograd.compile(source, target="cpu", remarks=True, **options)
    return Compiled(program, tuple(map(Rewritten.of, _REWRITTEN.finditer(remarks.getvalue()))))


def split_failures(
    cases: Sequence[Case], attempt: Callable[[Sequence[Case]], Result]
) -> tuple[list[tuple[Sequence[Case], Result]], list[Case]]:
    """Runs `attempt` on as many cases at once as it takes.

    Returns those that pass together with their result, and those that fail alone. Only failures that are a
    `WinogradError` count; others propagate.
    """
    try:
        return [(cases, attempt(cases))], []
    except WinogradError:
        if len(cases) == 1:
            return [], list(cases)
    middle = len(cases) // 2
    passed, failed = split_failures(cases[:middle], attempt)
    more_passed, more_failed = split_failures(cases[middle:], attempt)
    return passed + more_passed, failed + more_failed


def expect_agreement(actual: Array, expected: Array, sum_bound: float, largest_sum: float) -> None:
    """The error has to be within `sum_bound`, and two more roundings of sums up to `largest_sum`."""
    bound = sum_bound + 2 * UNIT_ROUNDOFF["float32"] * largest_sum
    expect_within(actual, expected, bound)
    assert np.abs(expected).max(initial=0) > 2 * bound, "the bound is too large to tell anything"


def expect_stock_failure(compile_stock: Callable[[], object]) -> None:
    """What doesn't compile with the rewrite has to fail without it."""
    with pytest.raises(WinogradError):
        compile_stock()


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))
