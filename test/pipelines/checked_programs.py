"""Programs that know what is right of them, compiled and checked together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import iree.winograd


class Checked(Protocol):
    """A program of one function that knows what is right."""

    def function(self, name: str) -> str:
        """It as MLIR, by this name."""

    def expect_right(self, function: Callable[..., Any]) -> None:
        """Raises AssertionError unless it computes what it has to."""


def check_together(
    programs: Sequence[Checked],
    flags: Sequence[str] = (),
    devices: Sequence[str] = ("local-sync",),
    target: str = "cpu",
    threads: int | None = None,
) -> None:
    """Compile programs as functions of one, and check each: half of what compiling one takes, all share.

    Raises AssertionError with all that are wrong.
    """
    names = {f"of_{number}": program for number, program in enumerate(programs)}
    texts = [program.function(name) for name, program in names.items()]
    compiled = compile_rewritten("\n".join(texts), target, flags, threads)
    wrong = []
    for device in devices:
        loaded = iree.winograd.load(compiled, device=device)
        for name, program in names.items():
            try:
                program.expect_right(getattr(loaded, name))
            except AssertionError as error:
                wrong.append(f"{program} on {device}: {error}")
    assert not wrong, "\n".join(wrong)


def compile_rewritten(text: str, target: str, flags: Sequence[str] = (), threads: int | None = None) -> Any:
    """The compiled program; raises RewriteWarning when it would run without our kernels and test nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return iree.winograd.compile(text, target=target, flags=flags, threads=threads)
