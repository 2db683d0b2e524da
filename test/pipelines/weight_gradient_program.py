"""The gradient of a filter as a program, computed by F(m, p), against float64 within its a-priori bound."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import iree.winograd
import numpy as np
from agreement import expect_within
from guarded import Edge, GuardedArray
from iree.winograd.dialect.algebra.numerics import gradient_error_bound
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.pipelines.problems.schedule import Schedule
from schedule_text import schedule_text
from weight_gradient_source import WeightGradientSource


@dataclass(frozen=True)
class WeightGradientProgram:
    """A gradient of N x C x size... or N x size... x C images, computed by F(m, p)."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    m: tuple[int, ...]
    p: tuple[int, ...]
    channels: int = 16
    outputs: int = 16
    batch: int = 2
    strides: tuple[int, ...] = field(default=(), kw_only=True)
    dilations: tuple[int, ...] = field(default=(), kw_only=True)
    padding: tuple[int, ...] = field(default=(), kw_only=True)
    groups: int = field(default=1, kw_only=True)
    channels_last: bool = field(default=True, kw_only=True)
    dynamic_batch: bool = field(default=False, kw_only=True)
    """Whether the program is for any batch; it runs with this one."""
    dynamic_size: bool = field(default=False, kw_only=True)
    """Whether it is for images of any size; it expects outputs of this one."""
    static_width: bool = field(default=False, kw_only=True)
    """Whether the last of these is known all the same."""
    element_type: str = field(default="f32", kw_only=True)
    """Of arguments and result."""
    schedule: Schedule | None = field(default=None, kw_only=True)
    """That which is predicted to be the fastest, unless stated."""

    def __str__(self) -> str:
        parts = [
            f"F({_text(self.m)},{_text(self.p)})",
            _text((self.batch, *self.size, self.channels)),
            _text(self.kernel),
        ]
        parts += [
            f"{name}={_text(getattr(self, name))}"
            for name in ("strides", "dilations", "padding")
            if getattr(self, name)
        ]
        layout = "" if self.channels_last else "-channels-first"
        layout += "-dynamic" if self.dynamic_batch else ""
        layout += "-any-size" if self.dynamic_size else ""
        layout += "-of-a-width" if self.static_width else ""
        schedule = "" if self.schedule is None else f"-{_text(vars(self.schedule).values())}"
        return f"{'-'.join(parts)}-{self.outputs}-groups={self.groups}{layout}{schedule}"

    @property
    def source(self) -> WeightGradientSource:
        ones = (1,) * len(self.size)
        return WeightGradientSource(
            self.size,
            self.kernel,
            self.strides or ones,
            self.dilations or ones,
            self.padding or (0,) * len(self.size),
            self.groups,
            self.channels,
            self.outputs,
            self.batch,
            self.channels_last,
            dynamic_batch=self.dynamic_batch,
            dynamic_size=self.dynamic_size,
            static_width=self.static_width,
            element_type=self.element_type,
        )

    def function(self, name: str) -> str:
        """The program as MLIR."""
        tile = ", ".join(map(str, self.m))
        part = ", ".join(map(str, self.p))
        annotations = (
            f"winograd.algorithm = {{output_tile = array<i64: {tile}>, part_size = array<i64: {part}>}}"
        )
        if self.schedule is not None:
            annotations += f", {schedule_text(self.schedule)}"
        return self.source.text(f"attrs = {{{annotations}}}", name)

    def check_sizes(
        self,
        sizes: Sequence[tuple[int, ...]],
        batches: Sequence[int],
        *,
        device: str = "local-task",
        **options: Any,
    ) -> None:
        """As `expect_right`, at several sizes of one program; `options` are `compile`'s.

        Images and gradients lie beside pages that may not be touched: reading outside ends the process.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hint = self.source.output_size[: -1 if self.static_width else None] if self.dynamic_size else ()
            compiled = iree.winograd.compile(self.function("main"), size_hint=hint, **options)
        program = iree.winograd.load(compiled, device=device, threads=options.get("threads"))
        # A GPU's kernels read copies.
        calls = [program]
        if device.startswith("local"):
            calls = [_guarded(program, edge) for edge in ("start", "end")]
        for batch in batches:
            for size in sizes:
                for call in calls:
                    replace(self, size=size, batch=batch).expect_right(call)

    def random_sizes(self, count: int) -> list[tuple[int, ...]]:
        """At most so many, of which there are outputs: some below a tile, some larger than is expected."""
        generator = np.random.default_rng(44)
        most = 60 if len(self.size) < 3 else 12
        drawn = [tuple(map(int, generator.integers(1, most, len(self.size)))) for _ in range(count)]
        if self.static_width:
            drawn = [(*size[:-1], self.size[-1]) for size in drawn]
        return [each for each in drawn if min(replace(self, size=each).source.output_size) > 0]

    def expect_right(self, function: Callable[..., Any]) -> None:
        """The error of what the compiled program is called by has to be within the a-priori bound."""
        source = self.source
        image, gradient = (np.clip(each / 4, -1, 1) for each in source.operands())
        if self.dynamic_size:
            # Sums that grow with an image as their bound does.
            image, gradient = np.abs(image), np.abs(gradient)
        exact = source.exact(image, gradient)
        decomposition = decompose(
            self.kernel, self.m, strides=source.strides, dilations=source.dilations, part_size=self.p
        )
        tiles = self.batch * np.prod(decomposition.tiles(source.output_size))
        bound = gradient_error_bound(self.m, self.p, int(tiles))
        expect_within(function(image, gradient), exact, bound)
        assert np.abs(exact).max() > 2 * bound, "the bound is too large to tell anything"


def _guarded(program: Callable[..., Any], edge: Edge) -> Callable[..., np.ndarray]:
    """`program` of arguments that lie beside a page that may not be touched."""

    def call(*arguments: np.ndarray) -> np.ndarray:
        guarded = [GuardedArray(each, edge) for each in arguments]
        return np.array(program(*(each.array for each in guarded)))

    return call


def _text(sizes: Iterable[int | None]) -> str:
    return "x".join(map(str, sizes))
