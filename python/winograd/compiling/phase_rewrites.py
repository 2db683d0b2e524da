"""What this project does to a program between IREE's phases, once its convolutions have kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from iree.winograd.compiling.assembler import default_assembler, finish_kernels, is_for_cuda
from iree.winograd.compiling.kernel_bodies import KernelBodies
from iree.winograd.compiling.phases import (
    BINARIES_PHASE,
    COMMANDS_PHASE,
    CONFIGURATIONS_PHASE,
    CONSTANTS_PHASE,
    DISPATCHES_PHASE,
    REWRITE_PHASE,
    TRANSLATION_PHASE,
    Stages,
)
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.registry import Pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.pipelines.compile_pipeline import (
    binary_pipeline,
    command_pipeline,
    configuration_pipeline,
    dispatch_pipeline,
    optimized_pipeline,
    translated_pipeline,
)
from iree.winograd.pipelines.on_program.keep_commands import SIZE_OF_ARGUMENT
from iree.winograd.pipelines.problems.executable_target import CPU_BACKEND, VULKAN_FORMAT, executable_targets

Rewrite = Callable[[ir.Operation], None]


@dataclass(frozen=True)
class PhasePasses:
    """All passes on a program: those that rewrite it, and those at the ends of later phases of IREE's."""

    program: Sequence[Pass] = ()
    optimized: Sequence[Pass] = field(default_factory=optimized_pipeline)
    dispatches: Sequence[Pass] = field(default_factory=dispatch_pipeline)
    commands: Sequence[Pass] = field(default_factory=command_pipeline)
    configurations: Sequence[Pass] = field(default_factory=configuration_pipeline)
    translated: Sequence[Pass] = field(default_factory=translated_pipeline)
    binaries: Sequence[Pass] = field(default_factory=binary_pipeline)

    @property
    def in_order(self) -> Sequence[Pass]:
        return [
            *self.program,
            *self.optimized,
            *self.dispatches,
            *self.commands,
            *self.configurations,
            *self.translated,
            *self.binaries,
        ]


class PhaseRewrites:
    """The rewrites of one program at the ends of phases, of which `stages` say which there are.

    `run` runs passes on the program. The bodies of `kernels`, ours, are apart from it until IREE translates
    them, but where it `keeps_bodies`. `ptxas` is NVIDIA's assembler where the user names one; what it fails
    on `warn` is told.
    """

    def __init__(
        self,
        stages: Stages,
        passes: PhasePasses,
        run: Callable[[ir.Operation, Sequence[Pass]], None],
        *,
        kernels: Collection[str] = (),
        keeps_bodies: bool = False,
        inserts_parts: bool = False,
        rewrites_dispatches: bool = False,
        shares_workgroups: bool = False,
        notes_commands: bool = True,
        ptxas: str | None = None,
        warn: Callable[[Diagnostic], None],
    ) -> None:
        self._stages = stages
        self._passes = passes
        self._run = run
        self._kernels = kernels
        takes_bodies = kernels and stages.go_beyond(CONFIGURATIONS_PHASE) and not keeps_bodies
        self._bodies = KernelBodies(kernels) if takes_bodies else None
        self._inserts_parts = inserts_parts
        self._rewrites_dispatches = rewrites_dispatches
        self._shares_workgroups = shares_workgroups
        self._notes_commands = notes_commands
        self._ptxas = ptxas
        self._rewrites_binaries = False
        self._warn = warn

    def __iter__(self) -> Iterator[tuple[str, Rewrite]]:
        """The phases that have a rewrite at their end, in order, and what that does."""
        stages = self._stages
        if self._bodies is not None:
            yield REWRITE_PHASE, self._bodies.take_unless_constant
        if (self._bodies is not None or self._inserts_parts) and stages.go_beyond(CONSTANTS_PHASE):
            yield CONSTANTS_PHASE, self._rewrite_optimized
        if self._rewrites_dispatches and stages.go_beyond(DISPATCHES_PHASE):
            yield DISPATCHES_PHASE, self._rewrite_dispatches
        if self._notes_commands and stages.go_beyond(COMMANDS_PHASE):
            yield COMMANDS_PHASE, self._rewrite_commands
        if self._kernels and stages.reach(CONFIGURATIONS_PHASE):
            yield CONFIGURATIONS_PHASE, self._rewrite_configurations
        if self._shares_workgroups and stages.reach(TRANSLATION_PHASE):
            yield TRANSLATION_PHASE, self._rewrite_translated
        if (self._ptxas is not None or self._rewrites_binaries) and stages.go_beyond(BINARIES_PHASE):
            yield BINARIES_PHASE, self._rewrite_binaries
        if self._kernels and stages.verify:
            yield stages.compile_to, _leave_verified

    def _rewrite_optimized(self, program: ir.Operation) -> None:
        if self._bodies is not None:
            self._bodies.take_all(program)
        if self._inserts_parts:
            self._run(program, self._passes.optimized)

    def _rewrite_dispatches(self, program: ir.Operation) -> None:
        self._run(program, self._passes.dispatches)

    def _rewrite_commands(self, program: ir.Operation) -> None:
        self._rewrites_binaries = (
            is_for_cuda(program) or _is_for_vulkan(program) or _has_open_sizes_on_cpu(program)
        )
        if self._ptxas is None:
            self._ptxas = default_assembler(program)
        self._run(program, self._passes.commands)

    def _rewrite_configurations(self, program: ir.Operation) -> None:
        if self._bodies is not None:
            self._bodies.put_back(program)
        self._run(program, self._passes.configurations)

    def _rewrite_translated(self, program: ir.Operation) -> None:
        self._run(program, self._passes.translated)

    def _rewrite_binaries(self, program: ir.Operation) -> None:
        finish_kernels(program, self._ptxas, self._warn)
        if self._rewrites_binaries:
            self._run(program, self._passes.binaries)


def _is_for_vulkan(program: ir.Operation) -> bool:
    return any(target.format == VULKAN_FORMAT for target in executable_targets(program))


def _has_open_sizes_on_cpu(program: ir.Operation) -> bool:
    on_cpu = any(target.backend == CPU_BACKEND for target in executable_targets(program))
    return on_cpu and any(each.name == SIZE_OF_ARGUMENT for each in walk(program))


def _leave_verified(program: ir.Operation) -> None:
    """Nothing: IREE has verified the program when it gave it out."""
