"""Small programs through stock IREE, phase by phase, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime
from iree.compiler import api
from iree.runtime import _binding as binding
from iree.winograd.compiling import embedding
from iree.winograd.targets import spelled_out, target_flags

Edit = Callable[[str], str]


class StockCompilation:
    """A program in a session of IREE's compiler, without a pass of ours."""

    def __init__(self, text: str, target: str = "cpu", flags: tuple[str, ...] = ()) -> None:
        self._session = api.Session()
        self._session.set_flags(*spelled_out(target_flags(target)), *flags)
        self._parse(text)
        self._phase = "start"

    def _parse(self, text: str) -> None:
        self._invocation = api.Invocation(self._session)
        self._invocation.enable_console_diagnostics()
        assert self._invocation.parse_source(api.Source.wrap_buffer(self._session, text.encode() + b"\0")), (
            text
        )

    def run_to(self, phase: str) -> StockCompilation:
        """Go on to the end of a phase."""
        embedding.set_phases(self._invocation, self._phase, phase)
        assert self._invocation.execute()
        self._phase = phase
        return self

    def text(self, *, generic: bool = False) -> str:
        """The program as it is, or all of its operations with their attributes; it is gone from here."""
        return str(self._invocation.export_module().get_asm(print_generic_op_form=generic))

    def edit(self, edit: Edit) -> StockCompilation:
        """Go on with the text that is made of the program's."""
        self._parse(edit(self.text()))
        return self

    def binary(self) -> bytes:
        """What the runtime loads, once the program is compiled to its end."""
        output = api.Output.open_membuffer()
        self._invocation.output_vm_bytecode(output)
        return bytes(output.map_memory())


def text_after(phase: str, text: str, target: str = "cpu", flags: tuple[str, ...] = ()) -> str:
    """The program after a phase."""
    return StockCompilation(text, target, flags).run_to(phase).text()


def compiled(
    text: str,
    target: str = "cpu",
    flags: tuple[str, ...] = (),
    edits: Mapping[str, Edit] | None = None,
) -> bytes:
    """What the runtime loads; `edits` of the program's text come after the phases that they are named by."""
    compilation = StockCompilation(text, target, flags)
    for phase, edit in (edits or {}).items():
        compilation.run_to(phase).edit(edit)
    return compilation.run_to("end").binary()


@cache
def workers(count: int, local_memory: int = 1 << 20) -> Any:
    """A device with workers, each with so many bytes for a workgroup; it has to outlive its buffers."""
    runtime.flags.parse_flags(
        f"--task_topology_group_count={count}", f"--task_worker_local_memory={local_memory}"
    )
    return binding.create_hal_driver("local-task").create_default_device()


def called(vmfb: bytes, *arguments: Any, device: Any = None) -> list[npt.NDArray[Any]]:
    """The results of the program's `main` on a device of the runtime's, by default that of the caller."""
    device = runtime.get_device("local-sync") if device is None else device
    instance = runtime.VmInstance()
    module = runtime.VmModule.copy_buffer(instance, vmfb)
    context = runtime.VmContext(instance, [runtime.create_hal_module(instance, device), module])
    results = runtime.FunctionInvoker(context, device, module.lookup_function("main"))(*arguments)
    return [np.array(each.to_host()) for each in (results if isinstance(results, tuple) else (results,))]


def kernel(
    name: str,
    arguments: str,
    body: str,
    *,
    grid: int | str = 1,
    workload: str = "",
    translation: str = "",
    attributes: str = "",
) -> str:
    """An executable as ours are. `grid` is its x extent, a number or an index of `workload`."""
    extent = grid if isinstance(grid, str) else "%grid"
    return f"""
stream.executable private @{name} {{
  stream.executable.export public @{name} workgroups({workload}) -> (index, index, index) {{
    %grid = arith.constant {grid if isinstance(grid, int) else 1} : index
    %one = arith.constant 1 : index
    stream.return {extent}, %one, %one : index, index, index
  }}
  builtin.module {{
    func.func @{name}({arguments}) attributes {{{attributes}translation_info = #iree_codegen.translation_info<
        pipeline = #iree_codegen.pass_pipeline<"canonicalize,cse">{translation}>}} {{
      %c0 = arith.constant 0 : index
      {body}
      return
    }}
  }}
}}
"""
