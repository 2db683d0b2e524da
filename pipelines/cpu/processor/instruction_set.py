"""What kernels have to know of an instruction set: a file each, of which `CpuTarget` holds one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import NamedTuple

from iree.winograd.dialect.bindings import ir

from .assembly import emit_assembly


class ProcessorFacts(NamedTuple):
    """What LLVM's names of a processor and of its features say; `CpuTarget` has what each is."""

    vector_width: int
    vector_registers: int
    fused_multiply_add: bool
    l2_bytes: int
    cpu: str
    has_matrix_unit: bool = False
    converts_half: bool = False
    rounds_bf16: bool = False
    multiplies_bf16: bool = False
    stores_half: bool = True


class InstructionSet(ABC):
    """One of LLVM's architectures. Equal ones are one object."""

    name: str
    """As it is in the keys of tuning databases."""
    architectures: Sequence[str]
    """Its names in target triples."""
    pause: str
    """The instruction that a thread waits by in a loop."""
    element_registers: int
    """Vector registers for what sums are multiplied by next, an element of a row each."""
    element_lanes: int
    """Elements of a row that one register has, where instructions multiply by any lane of it; else 1."""
    changed: Sequence[str]
    """What any instruction may change, as LLVM's constraints."""

    def __repr__(self) -> str:
        return self.name

    @abstractmethod
    def facts(self, cpu: str, features: Set[str]) -> ProcessorFacts:
        """Those of a processor, empty for none in particular, that has these features."""

    @abstractmethod
    def vectors(self, count: int) -> Sequence[str]:
        """The first vector registers, as LLVM's constraints of what is overwritten."""

    @abstractmethod
    def emit_processor_number(self) -> ir.Value:
        """Emits the reading of the number, an i32, that the system has given to the processor.

        Where only the system could tell it, one that tells threads apart, most often.
        """

    @abstractmethod
    def emit_yield(self) -> None:
        """Emits the request that Linux let another thread run on the processor, if one waits for it.

        The compiler moves no accesses to memory across it.
        """

    @abstractmethod
    def emit_ordering(self) -> None:
        """Emits what accesses to memory keep their order across, as all threads see them.

        The compiler moves none. Where the processor may, it takes an instruction against that.
        """

    def emit_pause(self) -> None:
        """Emits the instruction that a thread waits by, across which the compiler moves no accesses."""
        self.emit(self.pause, ("~{memory}",))

    def emit(
        self,
        text: str,
        constraints: Sequence[str],
        operands: Sequence[ir.Value] = (),
        result: ir.Type | None = None,
    ) -> ir.Operation:
        """Emits assembly; `constraints` are LLVM's: result, operands, what changes beside `changed`."""
        return emit_assembly(text, (*constraints, *self.changed), operands, result)
