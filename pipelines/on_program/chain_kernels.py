"""Have kernels wait for each other in memory, rather than be waited for one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iree.compiler import version
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.reflection import note_words
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import (
    KERNEL,
    called_kernels,
    defining_operation,
    is_public,
    operand_groups,
    operations_of,
    symbol_name,
    walk,
)
from iree.winograd.passes.match.values.constants import is_constant_operand
from iree.winograd.passes.match.values.kernels_of_constants import kernels_of_constants

from ..backends.backend import Lowering
from ..backends.module_backend import supported_backend
from ..emission.dispatch_operations import UNTIED, dispatch_kernel, operands_of_results, replace_dispatch
from ..emission.grid import export_of, extent_of
from ..emission.sized_shape import product
from ..problems.chain import (
    PRODUCTS_ATTRIBUTE_NAME,
    WHOLE,
    Spans,
    first_kernel_element,
    kernel_elements,
    spans_of,
)
from ..problems.reflection import ORDER_KEY, ORDERED_VERSIONS
from ..selection.options import WinogradOptions

MOST_PRODUCTS = 64_000_000
"""Multiply-adds of a thread, some 1 ms: who waits for more had better leave the core to others."""

_VIEWS = ("flow.tensor.reshape", "tensor.collapse_shape", "tensor.expand_shape")
"""Operations whose result has the elements of their operand in order."""

_UPDATES = ("flow.tensor.update", "tensor.insert_slice")
"""Operations that write to one of their operands where nothing else needs it."""


@register_pass("winograd-chain-kernels")
@dataclass(frozen=True)
class ChainKernels:
    """Have kernels wait for each other in memory, on CPUs, in programs for several threads.

    After each dispatch IREE's runtime has all workers wait for the last one, and those that wait for more
    than some microseconds sleep, so that each dispatch begins with waking them up. Kernels of ours say in
    memory what they have done instead: a worker without work goes on to the next kernel, and is there when
    that may begin. `winograd-drop-barriers` then takes the barriers between them out of the commands. Workers
    take workgroups in order, so that whoever is waited for is at work, however many workers there are. Which
    workgroup one does depends on its processor: each claims a share in the first kernel, neighbours in the
    order of workgroups, begins with it in all kernels, and helps with the next ones. What a kernel reads of
    an image is in the caches of those that have written it, most often its own then. Where it is known which
    pixels workgroups read and write, a share of a kernel begins when those of the kernel before that it reads
    are done, of which others may still be at work, and all kernels before that one. The tensors that the
    kernel before reads are operands then: what a kernel writes isn't put in their place.

        %y = flow.dispatch @a::@a(%x) : (tensor<64xf32>) -> tensor<64xf32>
        %z = flow.dispatch @b::@b(%y) : (tensor<64xf32>) -> tensor<64xf32>
      becomes
        %n = flow.tensor.splat %zero : tensor<480xi32>
        %y:2 = flow.dispatch @a::@a(%x, %n, %c0, %c-1, %x)
                 : (tensor<64xf32>, tensor<480xi32>, index, index, tensor<64xf32>) -> (tensor<64xf32>, %n)
        %z:2 = flow.dispatch @b::@b(%y#0, %y#1, %c1, %c0, %x)
                 : (tensor<64xf32>, tensor<480xi32>, index, index, tensor<64xf32>) -> (tensor<64xf32>, %y#1)

    for 4 threads, where @a is kernel 0 and waits for all before, and each share of @b for the same share of
    @a alone. Each block of a program has memory of its own. Kernels that are told sizes in each call wait for
    all of the kernel before, and have a workgroup even if there is nothing to do. Kernels stay as they are
    that IREE evaluates once, since they read constants only, that begin a block, as those before that memory
    is zero, or of many products for each thread. So does a program without two kernels in a block, and one
    that another version of IREE compiles than those whose order of workgroups is tested.
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        keeps_order = version.VERSION.startswith(ORDERED_VERSIONS)
        if self.threads == 1 or not keeps_order:
            return
        backend = supported_backend(module)
        if backend is None or not backend.counts_workgroups:
            return
        chains = _chains(module, self.threads)
        if chains:
            lowering = backend.lowering(module)
            rewrite_each(
                "program",
                [module],
                lambda program: _chain(program, chains, lowering, self.threads),
                operation_of=lambda each: each,
            )


@dataclass(frozen=True)
class _Kernel:
    executable: ir.Operation
    workgroups: int | None
    """None where it is told sizes in each call, which its tensors have, if not its workgroups."""


_Chain = Sequence[tuple[ir.Operation, _Kernel]]
"""Dispatches in order, with their kernels."""


def _chains(module: ir.Operation, threads: int) -> list[_Chain]:
    """The dispatches of each block that are to wait for each other."""
    kernels = {
        symbol_name(each): _Kernel(each, _workgroups(each))
        for each in walk(module)
        if each.name == KERNEL and _is_short(each, threads)
    }
    dispatches = [each for each in walk(module) if each.name == "flow.dispatch" and _callee(each) in kernels]
    kept = kernels_of_constants(module)
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


def _workgroups(executable: ir.Operation) -> int | None:
    """Those that a kernel has; None for one that is told sizes in each call."""
    export = export_of(executable)
    if len(export.regions[0].blocks[0].arguments) > 0:
        return None
    return product(tuple(map(extent_of, operations_of(export)[-1].operands))).known


def _callee(dispatch: ir.Operation) -> str:
    (kernel,) = called_kernels(dispatch)
    return kernel


def _chain(program: ir.Operation, chains: Iterable[_Chain], lowering: Lowering, threads: int) -> None:
    waits = [list(_waits(chain, threads)) for chain in chains]
    held: dict[str, int] = {}
    for wait in (wait for chain in waits for wait in chain):
        held[wait.callee] = max(held.get(wait.callee, 0), wait.held)
    counting: set[str] = set()
    for chain in waits:
        elements = first_kernel_element(threads) + len(chain) * kernel_elements(threads)
        counts, read = _zero_before(chain[0].dispatch, elements), list[ir.Value]()
        for number, wait in enumerate(chain):
            if wait.callee not in counting:
                counting.add(wait.callee)
                lowering.count_workgroups(
                    wait.kernel.executable,
                    threads,
                    held=held[wait.callee],
                    result_is_operand=operands_of_results(wait.dispatch) != (UNTIED,),
                )
            untouched = (read if wait.held else []) + operand_groups(wait.dispatch)[1][:1] * held[wait.callee]
            read = _read(wait.dispatch)
            counts = _wait(wait, counts, number, untouched[: held[wait.callee]])
    for function in walk(program):
        if function.name == "util.func" and is_public(function):
            note_words(function, ORDER_KEY, [ORDERED_VERSIONS])


@dataclass(frozen=True)
class _Wait:
    """What a dispatch waits for: how many shares beside its own of the kernel before, or `WHOLE`.

    `held` is how many tensors that kernel reads: in use until this one is done, their memory isn't that of
    the result.
    """

    dispatch: ir.Operation
    kernel: _Kernel
    reach: int
    held: int = 0

    @property
    def callee(self) -> str:
        return _callee(self.dispatch)


def _waits(chain: _Chain, threads: int) -> Iterator[_Wait]:
    yield _Wait(*chain[0], reach=WHOLE)
    for (before, first), (dispatch, kernel) in pairwise(chain):
        reach = _reach(before, first, dispatch, kernel, threads)
        yield _Wait(dispatch, kernel, reach, 0 if reach == WHOLE else len(_read(before)))


def _reach(
    before: ir.Operation, first: _Kernel, dispatch: ir.Operation, kernel: _Kernel, threads: int
) -> int:
    """How many shares from its own one those of the kernel before lie that a share of a kernel reads.

    All of it where a tensor is updated in place, or read in another way than as it was written, where some
    shares have no workgroups, which would say when these are done, and where it would be more than half of
    the shares, each of which is looked at by itself.
    """
    tied = {*operands_of_results(before), *operands_of_results(dispatch)}
    if tied != {UNTIED} or any(map(_is_updated, _read(before))):
        return WHOLE
    if first.workgroups is None or kernel.workgroups is None or kernel.workgroups < threads:
        return WHOLE
    result, *_ = [*spans_of(first.executable), None]
    arguments = operand_groups(dispatch)[1]
    operands = [*spans_of(kernel.executable)[1:], *[None] * len(arguments)]
    written, reach = _by_share(result, first, threads), 0
    for operand, spans in zip(arguments, operands, strict=False):
        source = _viewed(operand)
        if source is None:
            return WHOLE
        if source == before.results[0]:
            reads = _by_share(spans, kernel, threads)
            if written is None or reads is None:
                return WHOLE
            reach = max(reach, *(abs(share - other) for share, other in _meeting(reads, written)))
    return WHOLE if 2 * (2 * reach + 1) > threads else reach


def _by_share(spans: Spans, kernel: _Kernel, threads: int) -> list[range | None] | None:
    """What each share of a kernel's workgroups touches, None for one without workgroups; None if unknown."""
    if spans is None or kernel.workgroups is None:
        return None
    parts = kernel.workgroups // len(spans)
    bounds = [share * kernel.workgroups // threads for share in range(threads + 1)]
    return [
        None
        if begin == end
        else range(
            min(span.start for span in spans[begin // parts : (end - 1) // parts + 1]),
            max(span.stop for span in spans[begin // parts : (end - 1) // parts + 1]),
        )
        for begin, end in pairwise(bounds)
    ]


def _meeting(reads: Sequence[range | None], written: Sequence[range | None]) -> Iterator[tuple[int, int]]:
    """The numbers of shares of which one reads what the other has written."""
    for number, read in enumerate(reads):
        for other, each in enumerate(written):
            if read and each and max(read.start, each.start) < min(read.stop, each.stop):
                yield number, other


def _viewed(operand: ir.Value) -> ir.Value | None:
    """What an operand is: the result of a dispatch, an argument or a constant; None if it may be another."""
    definition = defining_operation(operand)
    while definition is not None and definition.name in _VIEWS:
        operand = definition.operands[0]
        definition = defining_operation(operand)
    if definition is None or definition.name == "flow.dispatch" or is_constant_operand(operand):
        return operand
    return None


def _read(dispatch: ir.Operation) -> list[ir.Value]:
    """The tensors that a dispatch reads, but constants, which no kernel writes to."""
    tensors = (each for each in dispatch.operands if isinstance(each.type, ir.RankedTensorType))
    return [each for each in dict.fromkeys(tensors) if not is_constant_operand(each)]


def _is_updated(tensor: ir.Value) -> bool:
    """Whether something may overwrite a part of it, which would be of a copy while others need it."""
    users = [use.owner.operation for use in tensor.uses]
    return any(user.name in _UPDATES or {*operands_of_results(user)} - {UNTIED} for user in users)


def _zero_before(dispatch: ir.Operation, elements: int) -> ir.Value:
    """Build memory of counts that are zero."""
    integer = ir.IntegerType.get_signless(32)
    with dispatch.location, ir.InsertionPoint(dispatch):
        type_ = ir.RankedTensorType.get([elements], integer)
        return ir.Operation.create("flow.tensor.splat", [type_], [arith.constant(integer, 0)]).result


def _wait(wait: _Wait, counts: ir.Value, number: int, untouched: Sequence[ir.Value]) -> ir.Value:
    """Replace a dispatch by kernel `number` of a chain, which waits; gives what the counts are after it.

    `untouched` are operands that it only keeps.
    """
    dispatch, index = wait.dispatch, ir.IndexType.get()
    workload, arguments, argument_sizes, result_sizes = operand_groups(dispatch)
    tied = (*operands_of_results(dispatch), len(arguments))
    with dispatch.location, ir.InsertionPoint(dispatch):
        numbers = [arith.constant(index, each) for each in (number, wait.reach)]
        waiting = dispatch_kernel(
            [dispatch.results[0].type, counts.type],
            workload,
            dispatch.attributes["entry_points"],
            [*arguments, counts, *numbers, *untouched],
            argument_sizes,
            result_sizes,
            tied_operands=tied,
        )
    replace_dispatch(dispatch, waiting)
    return waiting.results[1]
