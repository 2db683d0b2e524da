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


class InstructionSet(ABC):
    """One of LLVM's architectures. Equal ones are one object."""

    name: str
    """As it is in the keys of tuning databases."""
    triple: str
    """What target triples of it begin with."""
    pause: str
    """The instruction that a thread waits by in a loop."""
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
        """Emits the reading of the number, an i32, that the system has given to the processor."""

    @abstractmethod
    def emit_yield(self) -> None:
        """Emits the request that Linux let another thread run on the processor, if one waits for it.

        Accesses to memory keep their order across it, as across those of `emit_ordering`.
        """

    def emit_ordering(self, instruction: str = "") -> None:
        """Emits an instruction, or none, across which accesses to memory keep their order.

        The compiler moves none. An instruction set whose processors do has to have instructions against it.
        """
        self.emit(instruction, ("~{memory}",))

    def emit(
        self,
        text: str,
        constraints: Sequence[str],
        operands: Sequence[ir.Value] = (),
        result: ir.Type | None = None,
    ) -> ir.Operation:
        """Emits assembly; `constraints` are LLVM's: result, operands, what changes beside `changed`."""
        return emit_assembly(text, (*constraints, *self.changed), operands, result)
