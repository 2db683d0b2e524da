"""The compilation of one candidate, to be run in a process that may crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from iree.compiler import api
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import Stages
from iree.winograd.compiling.program import compilation_error, open_session
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.options import WinogradOptions

from .program_of_problem import layer_program


@dataclass(frozen=True)
class CompileJob:
    """`problem` computed by `implementation`, compiled with flags of `iree-compile`."""

    problem: ConvolutionProblem
    implementation: Implementation
    flags: tuple[str, ...]

    def run(self) -> bytes:
        """The compiled program. Raises `CompilationError`, also where our passes fail on the candidate."""
        diagnostics: list[Diagnostic] = []
        # Without options IREE compiles by itself.
        options = None if self.implementation.is_left_to_iree else WinogradOptions(strict=True)
        session = open_session(self.flags, options)
        with Compilation(session, options, Stages(), report=diagnostics.append) as compilation:
            program = layer_program(self.problem).build(compilation.context, self.implementation)
            invocation = compilation.compile(program.operation)
            if invocation is None:
                raise compilation_error(diagnostics)
            with api.Output.open_membuffer() as output:
                invocation.output_vm_bytecode(output)
                return bytes(output.map_memory())

    def write(self, path: Path) -> None:
        """Write the compiled program to `path`. Raises as `run` does."""
        path.write_bytes(self.run())
