"""The phases of IREE's compilation, and a program on its way through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.compiler import api
from iree.compiler.api.ctypes_dl import PipelineType
from iree.winograd.compiling import embedding
from iree.winograd.dialect.bindings import ir

REWRITE_PHASE = "preprocessing"
"""The phase after which convolutions are rewritten."""
CONSTANTS_PHASE = "global-optimization"
"""The phase in which IREE evaluates constants, with our kernels where they compute some."""
DISPATCHES_PHASE = "flow"
"""The phase after which what a dispatch computes is settled."""
COMMANDS_PHASE = "stream"
"""The phase after which a program says what its commands read and write."""
CONFIGURATIONS_PHASE = "executable-configurations"
"""The phase after which what kernels do is translated."""
TRANSLATION_PHASE = "executable-targets"
"""The phase in which what kernels do is translated."""
BINARIES_PHASE = "hal"
"""The phase after which kernels are what is loaded."""
PHASES = (
    "start",
    "input",
    "abi",
    REWRITE_PHASE,
    CONSTANTS_PHASE,
    "dispatch-creation",
    DISPATCHES_PHASE,
    COMMANDS_PHASE,
    "executable-sources",
    CONFIGURATIONS_PHASE,
    TRANSLATION_PHASE,
    BINARIES_PHASE,
    "vm",
    "end",
)
"""The phases of IREE's compilation, in order."""
REWRITE_PART = "rewriting layers"
"""What our passes do, for who watches."""
PARTS = {
    REWRITE_PHASE: "reading the program",
    CONSTANTS_PHASE: "evaluating constants",
    DISPATCHES_PHASE: "forming dispatches",
    COMMANDS_PHASE: "ordering commands",
    CONFIGURATIONS_PHASE: "configuring kernels",
    TRANSLATION_PHASE: "translating kernels",
    BINARIES_PHASE: "linking kernels",
    PHASES[-1]: "writing the program",
}
"""What IREE does up to the end of each phase, for who watches."""


class InvalidProgramError(RuntimeError):
    """What IREE has made of a program isn't valid."""


@dataclass(frozen=True)
class Stages:
    """The part of a compilation to run: from after phase `compile_from` to the end of phase `compile_to`.

    Raises ValueError for an unknown phase.
    """

    compile_from: str = "start"
    compile_to: str = "end"
    mode: PipelineType = PipelineType.IREE_COMPILER_PIPELINE_STD
    verify: bool = True
    dump_directory: str | None = None

    def __post_init__(self) -> None:
        for phase in (self.compile_from, self.compile_to):
            if phase not in PHASES:
                raise ValueError(f"phase must be one of {', '.join(PHASES)}, got {phase!r}")

    def contain_rewrite(self) -> bool:
        """Whether the program is at some point in its state after `preprocessing`."""
        point = PHASES.index(REWRITE_PHASE)
        return PHASES.index(self.compile_from) <= point <= PHASES.index(self.compile_to)

    def go_beyond(self, phase: str) -> bool:
        """Whether the program is compiled to the end of `phase`, and then further."""
        point = PHASES.index(phase)
        is_standard = self.mode == PipelineType.IREE_COMPILER_PIPELINE_STD
        return is_standard and PHASES.index(self.compile_from) < point < PHASES.index(self.compile_to)

    def reach(self, phase: str) -> bool:
        """Whether the program is compiled to the end of `phase`, or further."""
        return self.go_beyond(phase) or (self.compile_to == phase != self.compile_from)


class StagedProgram:
    """The program of an invocation of IREE's compiler, at the end of a phase.

    `begin` is told of each part of the way before it is gone. `module` is the program where the invocation
    was given it as that.
    """

    def __init__(
        self,
        invocation: api.Invocation,
        stages: Stages,
        phase: str,
        begin: Callable[[str], None],
        module: ir.Operation | None = None,
    ) -> None:
        self.invocation = invocation
        self._stages = stages
        self._phase = phase
        self._begin = begin
        self._module = module

    def run_to(self, phase: str, *, verify: bool = True) -> bool:
        """Run IREE to the end of `phase`; False after an error diagnostic.

        Without `verify` the program isn't verified after each of IREE's passes, which are hundreds: that
        takes a tenth of a small program's time, and a third of the translation of kernels.
        """
        if phase == self._phase:
            return True
        self._begin(PARTS.get(phase, f"IREE, up to {phase}"))
        self._module = None
        embedding.set_phases(self.invocation, self._phase, phase)
        embedding.set_verify(self.invocation, verify and self._stages.verify)
        is_done: bool = self.invocation.execute(self._stages.mode)
        embedding.set_verify(self.invocation, self._stages.verify)
        self._phase = phase
        return is_done

    def module(self) -> ir.Operation:
        """The program, with which IREE goes on as what it was made to.

        IREE verifies it. Raises `InvalidProgramError` when it isn't valid, after diagnostics.
        """
        if self._module is None:
            module = self.invocation.export_module()
            try:
                self.invocation.import_module(module)
            except RuntimeError as error:
                raise InvalidProgramError(str(error)) from error
            self._module = module
        return self._module
