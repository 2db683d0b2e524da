"""The machine that was calibrated for the target of a program, unless the options name one."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.remarks import remark_missed
from iree.winograd.pipelines.backends.module_backend import supported_backend
from iree.winograd.pipelines.machines.store import stored_machine
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.select_algorithm import PASS_NAME


def with_stored_machine(options: WinogradOptions, module: ir.Operation) -> WinogradOptions:
    """`options` with the file of the machine that was measured for the module's target, if there is one.

    One that the options name is kept. A remark says of a damaged file that it is ignored.
    """
    if options.machine is not None or (backend := supported_backend(module)) is None:
        return options
    path = stored_machine(
        backend.name, backend.default_machine.kind, lambda message: remark_missed(module, PASS_NAME, message)
    )
    return options if path is None else replace(options, machine=str(path))
