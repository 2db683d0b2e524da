"""Have kernels wait for each other by a count in memory, rather than be waited for one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.option import same_option
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.match.constants import is_known_at_load
from iree.winograd.passes.match.navigation import (
    KERNEL,
    called_kernels,
    defining_operation,
    symbol_name,
    walk,
)

from .backends.backend import Lowering
from .backends.module_backend import module_backend, unsupported_target
from .emission.dispatch_operations import dispatch_kernel
from .selection.options import WinogradOptions
from .specification.chain import (
    COUNT_ELEMENTS,
    PRODUCTS_ATTRIBUTE_NAME,
    claim_elements,
    share_elements,
)

MOST_PRODUCTS = 64_000_000
"""Multiply-adds of a thread, some 1 ms: who waits for more had better leave the core to others."""

_UNTIED = -1
"""IREE's operand of a result that is memory of its own."""


@register_pass("winograd-chain-kernels")
@dataclass(frozen=True)
class ChainKernels:
    """Have kernels wait for each other by a count in memory, on CPUs, in programs for several threads.

    After each dispatch IREE's runtime has all workers wait for the last one, and those that wait for more
    than some microseconds sleep, so that each dispatch begins with waking them up. Kernels of ours count the
    workgroups that are done instead, and begin when those of all kernels before are: a worker without work
    goes on to the next kernel, and is there when that may begin. `winograd-drop-barriers` then takes the
    barriers between them out of the commands. Workers take workgroups in order, so that whoever is waited for
    is at work, however many workers there are. Which workgroup one does depends on its processor: each claims
    a share in the first kernel, neighbours in the order of workgroups, begins with it in all kernels, and
    helps with the next ones. What a kernel reads of an image is in
    the caches of those that have written it, most often its own then.

        %y = flow.dispatch @a::@a(%x) : (tensor<64xf32>) -> tensor<64xf32>
        %z = flow.dispatch @b::@b(%y) : (tensor<64xf32>) -> tensor<64xf32>
      becomes, where @a has 8 workgroups,
        %n = flow.tensor.splat %zero : tensor<432xi32>
        %y:2 = flow.dispatch @a::@a(%x, %n, %c0, %c304)
                 : (tensor<64xf32>, tensor<432xi32>, index, index) -> (tensor<64xf32>, %n)
        %z:2 = flow.dispatch @b::@b(%y#0, %y#1, %c8, %c368)
                 : (tensor<64xf32>, tensor<432xi32>, index, index) -> (tensor<64xf32>, %y#1)

    for 4 threads, whose shares of @a are counted from element 304 on, those of @b from 368. Each block of a
    program has a count of its own. Kernels stay as they are whose number of workgroups depends on the batch
    of a call, that IREE evaluates once, since they read constants only, that begin a block, as those before
    the count is zero, or of many products for each thread. So does a program without two kernels in a block.
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        if self.threads == 1 or unsupported_target(module) is not None:
            return
        backend = module_backend(module)
        if not backend.counts_workgroups:
            return
        chains = _chains(module, self.threads)
        if chains:
            lowering = backend.lowering(module)
            rewrite_each(
                "program",
                [module],
                lambda _: _chain(chains, lowering, self.threads),
                operation_of=lambda each: each,
            )


@dataclass(frozen=True)
class _Kernel:
    executable: ir.Operation
    grid: tuple[int, ...]

    @property
    def workgroups(self) -> int:
        return prod(self.grid)


_Chain = Sequence[tuple[ir.Operation, _Kernel]]
"""Dispatches in order, with their kernels."""


def _chains(module: ir.Operation, threads: int) -> list[_Chain]:
    """The dispatches of each block that are to wait for each other."""
    kernels = {
        symbol_name(each): _Kernel(each, grid)
        for each in walk(module)
        if each.name == KERNEL and (grid := _grid(each)) is not None and _is_short(each, threads)
    }
    dispatches = [each for each in walk(module) if each.name == "flow.dispatch" and _callee(each) in kernels]
    kept = {_callee(each) for each in dispatches if all(map(_is_constant, each.operands))}
    blocks: dict[ir.Block, list[ir.Operation]] = {}
    for each in dispatches:
        blocks.setdefault(each.block, []).append(each)
    for block in blocks.values():
        if sum(_callee(each) == _callee(block[0]) for each in dispatches) == 1:
            kept.add(_callee(block[0]))
    chains = [[each for each in block if _callee(each) not in kept] for block in blocks.values()]
    if all(len(chain) < 2 for chain in chains):
        return []
    return [[(each, kernels[_callee(each)]) for each in chain] for chain in chains if chain]


def _is_short(executable: ir.Operation, threads: int) -> bool:
    if PRODUCTS_ATTRIBUTE_NAME not in executable.attributes:
        return True
    products = ir.IntegerAttr(executable.attributes[PRODUCTS_ATTRIBUTE_NAME]).value
    return bool(products <= MOST_PRODUCTS * threads)


def _grid(executable: ir.Operation) -> tuple[int, ...] | None:
    """The workgroups that a kernel has, per dimension; None where that depends on the call."""
    (export,) = (
        view.operation
        for view in executable.regions[0].blocks[0].operations
        if view.operation.name == "stream.executable.export"
    )
    operations = [view.operation for view in export.regions[0].blocks[0].operations]
    extents = [defining_operation(each) for each in operations[-1].operands]
    if any(each is None or each.name != "arith.constant" for each in extents):
        return None
    return tuple(ir.IntegerAttr(each.attributes["value"]).value for each in extents if each is not None)


def _callee(dispatch: ir.Operation) -> str:
    (kernel,) = called_kernels(dispatch)
    return kernel


def _is_constant(operand: ir.Value) -> bool:
    definition = defining_operation(operand)
    is_number = definition is not None and definition.name == "arith.constant"
    return is_number or is_known_at_load(operand)


def _chain(chains: Iterable[_Chain], lowering: Lowering, threads: int) -> None:
    counting: set[str] = set()
    for chain in chains:
        first, shares = COUNT_ELEMENTS + claim_elements(threads), share_elements(threads)
        count, done = _zero_before(chain[0][0], first + len(chain) * shares), 0
        for number, (dispatch, kernel) in enumerate(chain):
            if _callee(dispatch) not in counting:
                counting.add(_callee(dispatch))
                is_operand = _tied(dispatch) != _UNTIED
                lowering.count_workgroups(
                    kernel.executable, kernel.grid, threads, result_is_operand=is_operand
                )
            count = _wait(dispatch, count, done, first + number * shares)
            done += kernel.workgroups


def _zero_before(dispatch: ir.Operation, elements: int) -> ir.Value:
    """Build memory of counts that are zero."""
    integer = ir.IntegerType.get_signless(32)
    with dispatch.location, ir.InsertionPoint(dispatch):
        type_ = ir.RankedTensorType.get([elements], integer)
        return ir.Operation.create("flow.tensor.splat", [type_], [arith.constant(integer, 0)]).result


def _wait(dispatch: ir.Operation, count: ir.Value, done: int, shares: int) -> ir.Value:
    """Replace a dispatch by one that begins when `count` is `done`; gives what the count is after it.

    What is taken of its shares is counted from element `shares` on.
    """
    operands, index = list(dispatch.operands), ir.IndexType.get()
    tied = (_tied(dispatch), len(operands))
    with dispatch.location, ir.InsertionPoint(dispatch):
        waiting = dispatch_kernel(
            [dispatch.results[0].type, count.type],
            [],
            dispatch.attributes["entry_points"],
            [*operands, count, *(arith.constant(index, number) for number in (done, shares))],
            tied_operands=ir.ArrayAttr.get([ir.IntegerAttr.get(index, operand) for operand in tied]),
        )
    for name in dispatch.attributes:
        if name not in waiting.attributes:
            waiting.attributes[name] = dispatch.attributes[name]
    dispatch.results[0].replace_all_uses_with(waiting.results[0])
    dispatch.erase()
    return waiting.results[1]


def _tied(dispatch: ir.Operation) -> int:
    """The operand that its result is."""
    if "tied_operands" not in dispatch.attributes:
        return _UNTIED
    (operand,) = ir.ArrayAttr(dispatch.attributes["tied_operands"])
    return int(ir.IntegerAttr(operand).value)
