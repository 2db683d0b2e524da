"""A convolution of images whose sizes are known only at run time, by a given schedule, for one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import BATCH, Size, Sizes
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from scheduled_program import ScheduledProgram


@dataclass(frozen=True)
class OpenProgram(ScheduledProgram):
    """One of images of any size, of f32 or f16."""

    dynamic_size: bool = True
    element: str = "f32"

    @property
    def number(self) -> type[np.floating[Any]]:
        return np.float16 if self.element == "f16" else np.float32

    def text(self, filters: npt.NDArray[Any] | None, name: str = "main") -> str:
        assert filters is not None
        of_f32, stored = (filters.astype(each).tobytes().hex().upper() for each in (np.float32, self.number))
        return super().text(filters, name).replace(of_f32, stored).replace("f32", self.element)

    def sizes(self) -> Sizes:
        """What its kernels are told."""
        of_images = {"input": self.size, "output": self.output_size}
        told = {Size(of, d): Index(size) for of, sizes in of_images.items() for d, size in enumerate(sizes)}
        return Sizes({BATCH: Index(self.batch), **told})

    def words(self) -> list[npt.NDArray[Any]]:
        """The same as arguments: two words of each size, those of outputs only where they are others."""
        told = [self.size, *([self.output_size] if self.output_size != self.size else [])]
        return [np.array(word) for sizes in told for size in sizes for word in (size, 0)]

    def shape(self) -> ConvolutionShape:
        """As kernels are told it."""
        strides, dilations, low, high = (
            self.per_dimension(*each) for each in (("strides", 1), ("dilations", 1), ("low", 0), ("high", 0))
        )
        decomposition = decompose(self.kernel, self.m, strides=strides, dilations=dilations, part_size=self.p)
        problem = ConvolutionProblem(
            self.batch,
            self.size,
            low,
            high,
            self.kernel,
            strides,
            dilations,
            1,
            self.channels,
            self.outputs,
            unknown_sizes=tuple(range(self.rank)),
        )
        return ConvolutionShape.decomposed(problem, decomposition)
