"""Register blocks of sums become outputs: the epilogue, and where its results go."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.vocabulary import Buffer, Index, loop, named, scratch


@dataclass(frozen=True)
class RegisterBlockStore:
    """Finishes sums of `pixels` neighbours by `vectors` vectors of `width` channels, and writes them.

    An epilogue of arithmetic is written out for each vector. One with functions, such as the exponential of
    a sigmoid, would ask for more registers than there are when all vectors of a block go through it side by
    side: the sums wait in memory of the workgroup, and a loop takes those of one pixel after the other.
    """

    output: Buffer
    epilogue: VectorEpilogue
    waiting: Buffer | None
    """pixels x vectors x width sums; None for epilogues of arithmetic only."""

    @staticmethod
    def of(
        output: Buffer, epilogue: VectorEpilogue, sums: tuple[int, int, int], element: ir.Type
    ) -> RegisterBlockStore:
        """For blocks of `sums`, pixels x vectors x width of a type; emits the memory that they wait in."""
        waiting = scratch(sums, element, "sums") if epilogue.calls_functions else None
        return RegisterBlockStore(output, epilogue, waiting)

    def emit(
        self, sums: list[ir.Value], vectors: int, number: Index, position: tuple[Index, ...], channel: Index
    ) -> None:
        """Emits it for `sums`, `vectors` per pixel, of image `number` from `position` and `channel` on."""
        origin = self.output.offset([number, *position, channel])
        width = ir.VectorType(sums[0].type).shape[0]

        def store(value: ir.Value, pixel: Index, vector: int) -> None:
            finished_position = (*position[:-1], position[-1] + pixel)
            with named("output"):
                finished = self.epilogue.emit(value, number, finished_position, channel + vector * width)
            self.output.store(finished, origin + (pixel * self.output.stride(-2) + vector * width))

        if self.waiting is None:
            for i, value in enumerate(sums):
                store(value, Index(i // vectors), i % vectors)
            return
        for i, value in enumerate(sums):
            self.waiting.store(value, i * width)
        with loop(len(sums) // vectors, name="finished_pixel") as pixel:
            for v in range(vectors):
                store(self.waiting.load((pixel * vectors + v) * width, width), pixel, v)

    def prefetch(self, number: Index, position: tuple[Index, ...], channel: Index) -> None:
        """Fetches what is overwritten there with one vector, and what the epilogue reads for it."""
        self.output.prefetch(self.output.offset([number, *position, channel]), to_write=True)
        self.epilogue.prefetch(number, position, channel)
