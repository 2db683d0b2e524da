"""Have pooling read images in place, without a padded copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import inf, prod

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, linalg, linalg_structure, tensor
from iree.winograd.passes.build.conversions import converted, in_held_type
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.slices import element_of
from iree.winograd.passes.build.tensors import index_constant, size_of
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.convolutions.concatenated import is_stored
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.epilogues.finishing import match_finishing
from iree.winograd.passes.match.layouts.channel_slice import match_insert
from iree.winograd.passes.match.layouts.padding import match_pad
from iree.winograd.passes.match.navigation import defining_operation, only_user, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import scalar_constant, uniform_constant
from iree.winograd.passes.match.values.conversions import is_narrowing
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.half_image import widen_operands

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import MaxPooling, WindowSums
from ..problems.windows import MOST_WRITTEN_OUT, Windows

PASS_NAME = "winograd-pool-in-place"
_POOLING = "linalg.pooling_nhwc_max"
_SUMS = ("linalg.pooling_nwc_sum", "linalg.pooling_nhwc_sum", "linalg.pooling_ndhwc_sum")
_UNKNOWN = "its sizes are known only at run time"


@dataclass(frozen=True)
class _Pooling:
    """The maxima, or sums, of windows of `source`."""

    source: ir.Value
    windows: Windows
    is_static: bool
    """Whether rows and columns are known at compile time."""
    sums: bool
    """Whether it has their sums in place of their maxima."""


@register_pass(PASS_NAME)
class PoolInPlace:
    """Have pooling read images in place, without a padded copy.

    IREE copies an image that is padded into a larger one, and then reduces windows one element after the
    other. An element outside of the image is minus infinity, in place of which the nearest one inside can be
    read, which the window has, too. Rewritten is pooling of f32 over windows of at most 25 neighbours. On
    GPUs a thread reads all elements of its windows, of images of static size; of others a kernel does.

        %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] { yield -inf } : ... to tensor<1x114x114x64xf32>
        %r = linalg.pooling_nhwc_max {strides = 2} ins(%p, %w : ..., tensor<3x3xf32>) outs(%of_minus_infinity)
      becomes
        %r = linalg.generic outs(%empty : tensor<1x56x56x64xf32>) {
          %row = ... max(2 * (linalg.index 1) - 1, 0)
          %0 = tensor.extract %x[%n, %row, %column, %c]
          ... arith.maximumf ...

    On CPUs pooling becomes a kernel, which reads an element of a window as a vector of channels. IREE's loops
    took 1.1 to 8 times as long for what isn't padded, 1.6 times in the middle, and longer for images whose
    sizes are known only at run time.

        %r = flow.dispatch @winograd_max_pool_3x3_56x56x64(%x)

    On CUDA elements of half precision are compared as such, but where IREE computes what reads maxima with
    them. On CPUs they are read and stored so between convolutions, where vectors convert quickly.

        %r = flow.dispatch @winograd_window_max_3x3_56x56x64(%x) -> tensor<1x56x56x64xf16>
        %w = linalg.generic ins(%r) { arith.extf }

    Sums of windows, as average pooling has, become a kernel on GPUs, with what is computed of each of them
    alone, such as its quotient by the number of elements that the image has of the window. IREE's code took
    4 to 6 times as long as memory needs. On CPUs those of images whose sizes are known only at run time do,
    of at most 25 neighbours, for which IREE's loops take 4 to 6 times as long as of known ones.

        %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] { yield 0.0 } : ... to tensor<1x37x37x288xf32>
        %s = linalg.pooling_nhwc_sum ins(%p, %w : ..., tensor<3x3xf32>) outs(%of_zeros)
        %r = linalg.generic ins(%s) { arith.divf %nine }
      becomes
        %r = flow.dispatch @winograd_window_sum_3x3_35x35x288(%x)

    What is rounded to half precision then is rounded once, and stored so on CUDA.
    """

    def run(self, module: ir.Operation) -> None:
        poolings = [each for each in walk(module) if each.name in (_POOLING, *_SUMS) or _is_of_volumes(each)]
        if not poolings or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("pooling", poolings, lambda pooling: _pool(pooling, backend, lowering))


def _is_of_volumes(operation: ir.Operation) -> bool:
    """Whether it pools channels-last images of three dimensions, which has no name of its own.

    Those of known sizes are pooled as images of two.
    """
    if operation.name != "linalg.generic" or not linalg_structure.isa_convolution_op(operation):
        return False
    if ir.RankedTensorType(operation.results[0].type).has_static_shape or not _only_compares(operation):
        return False
    dimensions = linalg_structure.infer_convolution_dimensions(operation)
    spatial = [] if dimensions is None else list(dimensions.output_image)
    return spatial == [1, 2, 3] and list(dimensions.batch) == [0, 4] and not list(dimensions.depth)


def _pool(pooling: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    matched = _match(pooling)
    if isinstance(matched, NoMatch):
        remark_left(PASS_NAME, matched)
        return
    if matched.sums:
        _sum_windows(pooling, matched, backend, lowering)
        return
    half = _compared_in_half(pooling, matched, backend)
    operation = MaxPooling(matched.source, matched.windows, pooling.operands[2], half)
    by_kernel = backend.misfit(operation) is None
    if not by_kernel and not matched.is_static:
        remark_left(PASS_NAME, NoMatch(pooling, _UNKNOWN))
        return
    result = pooling.results[0]
    if by_kernel and half is not None:
        result = _narrowed(result)
    last = result.owner.operation
    with last.location, ir.InsertionPoint(last):
        if not by_kernel:
            maxima = _read_by_thread(matched)
        elif half is None:
            maxima = lowering.compute(operation)
        else:
            image = in_held_type(matched.source, half)
            stored = lowering.compute(replace(operation, image=image))
            _widen_in_epilogues(result, stored)
            maxima = _of_type(stored, result)
    result.replace_all_uses_with(maxima)
    erase_if_unused([last])


def _compared_in_half(pooling: ir.Operation, matched: _Pooling, backend: Backend) -> ir.Type | None:
    """The type of half precision that all elements have, if a kernel is to read them so.

    IREE computes maxima with operations on elements behind them, and where they are concatenated, and reads
    images that stay in f32 for others.
    """
    users = [use.owner.operation for use in pooling.results[0].uses]
    if not matched.is_static or not _stores_half(matched.source, users, backend):
        return None
    computing = [each for each in users if not is_narrowing(each)]
    if any(isinstance(match_elementwise(each), Elementwise) or match_insert(each) for each in computing):
        return None
    half = held_type(matched.source)
    return half if half is not None and is_stored(matched.source, half) else None


def _stores_half(image: ir.Value, users: Sequence[ir.Operation], backend: Backend) -> bool:
    """Whether code of IREE's, or kernels of convolutions where IREE converts slowly, take half precision."""
    if backend.iree_code.converts_half:
        return True
    names = (ops.InputTransformOp.OPERATION_NAME, ops.OutputTransformOp.OPERATION_NAME)
    definition = defining_operation(image)
    if definition is None or definition.name != ops.OutputTransformOp.OPERATION_NAME:
        return False
    is_taken = all(each.name in names or is_narrowing(each) for each in users)
    return backend.search_space().stores_half and is_taken


def _widen_in_epilogues(maxima: ir.Value, stored: ir.Value) -> None:
    """Has the epilogues that read maxima in f32 read what is `stored` of them."""
    if half_type(maxima) is not None:
        return
    for user in dict.fromkeys(use.owner.operation for use in maxima.uses):
        if user.name == ops.OutputTransformOp.OPERATION_NAME:
            widen_operands(user, ops.OutputTransformOp(user).body, maxima, stored)


def _narrowed(result: ir.Value) -> ir.Value:
    """What alone reads a result, if that only rounds it to half precision; else the result."""
    user = only_user(result)
    return user.results[0] if user is not None and is_narrowing(user) else result


def _of_type(computed: ir.Value, result: ir.Value) -> ir.Value:
    """What was computed in half precision, in f32 where a result is."""
    return computed if half_type(result) is not None else converted(computed, ir.F32Type.get())


def _sum_windows(pooling: ir.Operation, matched: _Pooling, backend: Backend, lowering: Lowering) -> None:
    finishing = match_finishing(pooling.results[0])
    if not matched.is_static:
        finishing = finishing.of_elements
    half = finishing.half if backend.iree_code.converts_half else None
    if finishing.half is not None:
        finishing = finishing.rounded_once
    operation = WindowSums(matched.source, matched.windows, finishing, pooling.operands[2], half)
    reason = backend.misfit(operation)
    if reason is not None:
        remark_left(PASS_NAME, NoMatch(pooling, reason))
        return
    result = finishing.result if half is None else _narrowed(finishing.result)
    last = result.owner.operation
    with last.location, ir.InsertionPoint(last):
        if half is not None:
            operation = replace(operation, image=in_held_type(matched.source, half))
        sums = transposed(lowering.compute(operation), finishing.order)
        if half is not None:
            sums = _of_type(sums, result)
    result.replace_all_uses_with(sums)
    erase_if_unused([last])


def _read_by_thread(pooling: _Pooling) -> ir.Value:
    windows, type_ = pooling.windows, ir.RankedTensorType(pooling.source.type)
    outputs = [outputs for outputs in windows.outputs if outputs is not None]
    sizes = [size_of(pooling.source, 0), *outputs, windows.channels]
    return build_elementwise([], tensor.empty(sizes, type_.element_type), _maximum_of(pooling))


def _maximum_of(pooling: _Pooling) -> Callable[[list[ir.Value]], ir.Value]:
    windows = pooling.windows

    def body(_: list[ir.Value]) -> ir.Value:
        image, row, column, channel = (linalg.IndexOp(dimension).result for dimension in range(4))
        rows, columns = (
            [_position(windows, window, dimension, element) for element in range(windows.size[dimension])]
            for dimension, window in enumerate((row, column))
        )
        places = product(rows, columns)
        return reduce(arith.maximumf, [element_of(pooling.source, [image, h, w, channel]) for h, w in places])

    return body


def _position(windows: Windows, window: ir.Value, dimension: int, element: int) -> ir.Value:
    """Where the image has an element of a window; the nearest one in place of one outside."""
    stride, offset = windows.strides[dimension], element - windows.low[dimension]
    position = window if stride == 1 else arith.muli(window, index_constant(stride))
    if offset:
        position = arith.addi(position, index_constant(offset))
    if offset < 0:
        position = arith.maxsi(position, index_constant(0))
    extent = windows.extents[dimension]
    if extent is not None and windows.ends_behind(dimension, element):
        position = arith.minsi(position, index_constant(extent - 1))
    return position


def _match(pooling: ir.Operation) -> _Pooling | NoMatch:
    image, window, init = pooling.operands
    of_f32 = ir.RankedTensorType(image.type).element_type == ir.F32Type.get(context=pooling.context)
    sums = pooling.name in _SUMS
    if not of_f32 or not (sums or _only_compares(pooling)):
        return NoMatch(pooling, "it does more than to compare f32")
    size = tuple(ir.RankedTensorType(window.type).shape)
    outputs = _known(ir.RankedTensorType(init.type).shape[1:-1])
    if any(map(is_dynamic, (ir.RankedTensorType(image.type).shape[-1], *size))):
        return NoMatch(pooling, _UNKNOWN)
    if prod(size) > MOST_WRITTEN_OUT and not sums:
        return NoMatch(pooling, f"its window holds more than {MOST_WRITTEN_OUT} elements")
    strides, dilations = _steps(pooling)
    if any(each != 1 for each in dilations):
        return NoMatch(pooling, "its windows have gaps")
    first = 0.0 if sums else -inf
    if not _is_filled(init, first):
        return NoMatch(pooling, f"it begins with something else than {first}")
    source, low, high = image, (0,) * len(size), (0,) * len(size)
    pad = defining_operation(image)
    if pad is not None and pad.name == "tensor.pad":
        padding = match_pad(pad, first)
        if isinstance(padding, NoMatch):
            return padding
        source, low, high = padding.source, padding.low, padding.high
    _, *extents, channels = ir.RankedTensorType(source.type).shape
    windows = Windows(_known(extents), channels, size, strides, low, high, outputs)
    if not sums and not all(map(windows.has_element, range(len(size)))):
        return NoMatch(pooling, "a window lies outside of the image")
    return _Pooling(source, windows, None not in (*windows.extents, *outputs), sums)


def _only_compares(pooling: ir.Operation) -> bool:
    body = [view.operation.name for view in pooling.regions[0].blocks[0].operations]
    return body == ["arith.maximumf", "linalg.yield"]


def _known(sizes: Sequence[int]) -> tuple[int | None, ...]:
    """Sizes of a tensor's type, None for those known only at run time."""
    return tuple(None if is_dynamic(size) else size for size in sizes)


def _steps(pooling: ir.Operation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Strides and dilations, which a named operation needn't state where they are 1."""
    if pooling.name == "linalg.generic":
        dimensions = linalg_structure.infer_convolution_dimensions(pooling)
        return tuple(dimensions.strides), tuple(dimensions.dilations)
    strides, dilations = (_stated(pooling, name) for name in ("strides", "dilations"))
    return strides, dilations


def _stated(pooling: ir.Operation, name: str) -> tuple[int, ...]:
    rank = ir.RankedTensorType(pooling.operands[1].type).rank
    return tuple(map(int, pooling.attributes[name])) if name in pooling.attributes else (1,) * rank


def _is_filled(init: ir.Value, number: float) -> bool:
    fill = defining_operation(init)
    if fill is not None and fill.name == "linalg.fill":
        return scalar_constant(fill.operands[0]) == number
    return uniform_constant(init) == number
