"""Have the kernel of a product multiply the halves of its results."""

from __future__ import annotations

from functools import partial

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.unit import origin_of, set_origin
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.channel_slice import match_extract
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..backends.schedules import schedule_of
from ..problems.group import match_group
from ..problems.tensor_operations import GatedProduct
from .elementwise_runs import ElementwiseRun, ends_of_runs, match_run


@register_pass("winograd-lower-gated")
class LowerGated:
    """Have the kernel of a product compute what becomes of the halves of its results, on GPUs.

    A gated layer, as GEGLU and SwiGLU of transformers, has twice as many columns as results: half of them,
    behind an activation, multiply the other half. By itself that is a kernel that reads all that the product
    wrote. Where constant filters, and a bias, are all that the results are of, columns of both halves
    alternate in the product, so that a thread has sums of both, and stores half as many results. It is for
    kernels that finish their sums themselves.

        %p = "winograd.output_transform"(%m, %bias) ({...}) : (...) -> tensor<2x4096x2560xf32>
        %y = tensor.extract_slice %p[0, 0, 0] [2, 4096, 1280] [1, 1, 1]
        %g = tensor.extract_slice %p[0, 0, 1280] [2, 4096, 1280] [1, 1, 1]
        %a = linalg.generic ins(%g) { math.erf, arith.addf, arith.mulf }
        %z = linalg.generic ins(%y, %a) { arith.mulf }
      becomes
        %z = flow.dispatch @winograd_gated_f1_1_4096x2560_from_320(%x, %filters, %bias)
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        if backend.iree_code.vectorizes_loops:
            return
        lowering = backend.lowering(module)
        ends = ends_of_runs(module, takes_half=backend.iree_code.converts_half)
        rewrite_each("gated product", ends, partial(_lower, backend, lowering))


def _lower(backend: Backend, lowering: Lowering, last: ir.Operation) -> None:
    run = match_run(last)
    transform = None if run is None else _gated(run)
    if run is None or transform is None:
        return
    group = match_group(transform)
    schedule = None if isinstance(group, NoMatch) else schedule_of(group.product)
    if isinstance(group, NoMatch) or schedule is None:
        return
    with last.location, ir.InsertionPoint(last):
        merged = run.merged()
        elementwise = match_elementwise(merged)
        operation = None
        if isinstance(elementwise, Elementwise) and _reads_in_place(elementwise):
            halves = tuple(int(match_extract(value).first > 0) for value, _ in elementwise.reads)
            operation = GatedProduct(group, schedule, elementwise, halves)
        if operation is None or backend.misfit(operation) is not None:
            merged.erase()
            return
        computed = lowering.compute(operation)
    dispatch, origin = defining_operation(computed), origin_of(group.product)
    if dispatch is not None and origin is not None:
        set_origin(dispatch, origin)
    last.results[0].replace_all_uses_with(computed)
    erase_if_unused([merged, last])


def _gated(run: ElementwiseRun) -> ops.OutputTransformOp | None:
    """The transform whose results are two halves that the run reads, and nothing else does."""
    sources = {
        source
        for each in (run.last, *run.before.values())
        for source, _ in each.reads
        if defining_operation(source) not in run.operations
    }
    parts = [(source, match_extract(source)) for source in sources]
    wholes = {part.whole for source, part in parts if part.whole != source}
    if len(parts) != 2 or len(wholes) != 1:
        return None
    (whole,) = wholes
    definition, channels = defining_operation(whole), ir.RankedTensorType(whole.type).shape[-1]
    if definition is None or definition.name != ops.OutputTransformOp.OPERATION_NAME:
        return None
    if sorted(part.first for _, part in parts) != [0, channels // 2] or channels % 2:
        return None
    shapes = [list(ir.RankedTensorType(source.type).shape) for source in sources]
    if any(shape != list(run.last.result.type.shape) for shape in shapes):
        return None
    readers = {use.owner.operation for use in whole.uses}
    if readers != {defining_operation(source) for source in sources}:
        return None
    users = {use.owner.operation for source in sources for use in source.uses}
    return ops.OutputTransformOp(definition) if users <= run.operations else None


def _reads_in_place(elementwise: Elementwise) -> bool:
    return all(indexing_map == elementwise.indexing_maps[-1] for _, indexing_map in elementwise.reads)
