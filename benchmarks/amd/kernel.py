"""What a compiler tells of a kernel, with what its machine code does, as a row of a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.amd.bounds import Bound
from benchmarks.amd.machine_code import Instructions, main_loop
from benchmarks.tables.markdown import table

COLUMNS = (
    "target",
    "kernel",
    "threads",
    "wave",
    "registers",
    "spilled",
    "shared",
    "waves",
    "loop",
    "products",
    "of all",
    "of vector",
    "saved",
    "bound",
    "by",
)


_CONVOLUTION_OF_IREE = "_conv_"
"""In the names of kernels, whose loops may multiply and add by instructions of their own."""


def loop_of(name: str, code: str) -> Instructions | None:
    """The main loop of a kernel, by its name and its code."""
    return main_loop(code, separate=_CONVOLUTION_OF_IREE in name)


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as a compiler left it for a target."""

    target: str
    name: str
    threads: int
    """Of a workgroup."""
    wave: int
    """Threads of a wave."""
    registers: int
    """Of 32 bits, of a thread; on CDNA those for sums of matrices too."""
    spilled: int
    """Registers that are saved in memory."""
    shared: int
    """Bytes of a workgroup's shared memory."""
    waves: int
    """That a SIMD has room for at once."""
    loop: Instructions | None
    bound: Bound | None
    """Both of the main loop; None where it is unrolled, and for kernels that don't multiply."""

    @property
    def as_json(self) -> dict[str, Any]:
        record = {name: value for name, value in vars(self).items() if name not in ("loop", "bound")}
        if self.loop is not None and self.bound is not None:
            record["loop"] = {
                "instructions": self.loop.total,
                "vector": self.loop.vector,
                "multiplying": self.loop.multiplying,
                "multiply_adds": self.loop.multiply_adds,
                "matrix_products": sum(number for _, number in self.loop.matrix_products),
                "shared_bytes": self.loop.shared_bytes,
                "cached_bytes": self.loop.cached_bytes,
                "saved": self.loop.saved,
                "bound": round(self.bound.of_peak, 3),
                "bound_by": self.bound.by,
            }
        return record

    @property
    def row(self) -> list[str]:
        cells: list[object] = [
            self.target,
            self.name,
            self.threads,
            self.wave,
            self.registers,
            self.spilled,
            self.shared,
            self.waves,
        ]
        loop, bound = self.loop, self.bound
        if loop is not None and bound is not None:
            matrices = sum(number for _, number in loop.matrix_products)
            cells += [
                loop.total,
                f"{matrices} of matrices" if matrices else loop.multiply_adds,
                f"{loop.multiplying / loop.total:.2f}",
                f"{loop.multiplying / loop.vector:.2f}",
                loop.saved,
                f"{bound.of_peak:.2f}",
                bound.by,
            ]
        return [*map(str, cells), *[""] * (len(COLUMNS) - len(cells))]


def kernel_table(kernels: Iterable[CompiledKernel]) -> list[str]:
    """The lines of a table."""
    return table(list(COLUMNS), [kernel.row for kernel in kernels])
