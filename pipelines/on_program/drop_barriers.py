"""Take the barriers between kernels that wait for each other out of a program's commands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import KERNEL, called_kernels, symbol_name, walk

from ..problems.chain import CHAINED_ATTRIBUTE_NAME


@register_pass("winograd-drop-barriers")
class DropBarriers:
    """Take the barriers between kernels that wait for each other out of a program's commands.

    Commands are done one after the other, with a barrier after each, or several at a time. Kernels that
    `winograd-chain-kernels` made wait for those before them need none: they are given to workers together,
    who take the workgroups of one kernel after the other.

        stream.cmd.execute with(%x as %a) {
          stream.cmd.dispatch @first { rw %a }
          stream.cmd.dispatch @second { rw %a }
        }
      becomes
        stream.cmd.execute with(%x as %a) {
          stream.cmd.concurrent {
            stream.cmd.dispatch @first { rw %a }
            stream.cmd.dispatch @second { rw %a }
          }
        }
    """

    def run(self, module: ir.Operation) -> None:
        chained = {
            symbol_name(each)
            for each in walk(module)
            if each.name == KERNEL and CHAINED_ATTRIBUTE_NAME in each.attributes
        }
        runs = [
            run for each in walk(module) if each.name == "stream.cmd.execute" for run in _runs(each, chained)
        ]
        rewrite_each("chain", runs, _join, operation_of=lambda run: run[0])


def _runs(execute: ir.Operation, chained: set[str]) -> Iterator[list[ir.Operation]]:
    """Neighbouring dispatches of `chained` kernels."""
    commands = [view.operation for view in execute.regions[0].blocks[0].operations]
    for waits, group in groupby(commands, lambda each: _is_chained(each, chained)):
        run = list(group)
        if waits and len(run) > 1:
            yield run


def _is_chained(command: ir.Operation, chained: set[str]) -> bool:
    return command.name == "stream.cmd.dispatch" and chained.issuperset(called_kernels(command))


def _join(run: list[ir.Operation]) -> None:
    with run[0].location, ir.InsertionPoint(run[0]):
        joined = ir.Operation.create("stream.cmd.concurrent", regions=1)
        block = joined.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            end = ir.Operation.create("stream.yield")
    for command in run:
        command.move_before(end)
