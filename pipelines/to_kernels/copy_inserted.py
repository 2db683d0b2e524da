"""Have kernels of this project copy what is inserted into larger tensors."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.slices import inserted
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, viewed, walk
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import InsertedPart

_CONCATENATION, _INSERTION = "tensor.concat", "tensor.insert_slice"
_KERNEL = "flow.dispatch"


@register_pass("winograd-copy-inserted")
class CopyInserted:
    """Have kernels of this project copy what is inserted into larger tensors, on GPUs.

    What convolutions compute they write in its place, and IREE does with what it computes. Copied are the
    skip connections that something else reads, too, and what is concatenated along other dimensions than
    channels, as a detector's boxes of all scales are: where kernels of this project have computed it, or the
    caller. IREE's code copies such a part at a sixth of the speed of an H200's memory. Of 2^17 elements or
    more that don't lie in one piece of the larger tensor, and there are quads, a kernel copies them, and of
    images of sizes known in a call, of f32 or through CUDA of half precision, all channels that are inserted.
    Concatenations of known sizes with such a part become insertions.

        %x = flow.dispatch @kernel::@kernel(%image, %filters) : ... -> tensor<2x6400x144xf32>
        %c = tensor.concat dim(1) %x, %y : ... -> tensor<2x8000x144xf32>
      becomes
        %e = tensor.empty() : tensor<2x8000x144xf32>
        %0 = flow.dispatch @winograd_inserted_2x6400x144(%x) : ... -> tensor<2x8000x144xf32>
        %c = tensor.insert_slice %y into %0[0, 6400, 0] [2, 1600, 144] [1, 1, 1]
    """

    def run(self, module: ir.Operation) -> None:
        operations = list(walk(module))
        if not any(each.name == _KERNEL for each in operations):
            return
        subjects = [each for each in operations if each.name in (_CONCATENATION, _INSERTION)]
        if not subjects or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("insertion", subjects, lambda each: _copy(each, backend, lowering))


def _copy(operation: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    """Have a kernel copy what an operation inserts, or what it concatenates and a kernel may copy."""
    if operation.name == _INSERTION:
        _copy_inserted(operation, backend, lowering)
        return
    tensors = [*operation.operands, *operation.results]
    are_static = all(ir.RankedTensorType(each.type).has_static_shape for each in tensors)
    if not are_static or not any(map(_is_computed, operation.operands)):
        return
    insertions = _insertions(operation)
    if not any(_is_copied(each, backend) for each in insertions):
        erase_if_unused([insertions[-1]])
        return
    operation.results[0].replace_all_uses_with(insertions[-1].results[0])
    erase_if_unused([operation])
    for insertion in insertions:
        _copy_inserted(insertion, backend, lowering)


def _insertions(concatenation: ir.Operation) -> list[ir.Operation]:
    """Build a concatenation, of static sizes, as insertions of its parts into one tensor."""
    dimension = int(ir.IntegerAttr(concatenation.attributes["dim"]).value)
    type_ = ir.RankedTensorType(concatenation.results[0].type)
    built, offset = [], 0
    with concatenation.location, ir.InsertionPoint(concatenation):
        whole = tensor.empty(list(type_.shape), type_.element_type)
        for part in concatenation.operands:
            sizes = list(ir.RankedTensorType(part.type).shape)
            offsets = [offset if d == dimension else 0 for d in range(len(sizes))]
            whole = inserted(part, whole, offsets, sizes)
            built.append(defining_operation(whole))
            offset += sizes[dimension]
    return built


def _is_copied(insertion: ir.Operation, backend: Backend) -> bool:
    return _is_computed(insertion.operands[0]) and backend.misfit(InsertedPart(insertion)) is None


def _copy_inserted(insertion: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    if not _is_copied(insertion, backend):
        return
    with insertion.location, ir.InsertionPoint(insertion):
        copied = lowering.compute(InsertedPart(insertion))
    insertion.results[0].replace_all_uses_with(copied)
    erase_if_unused([insertion])


def _is_computed(part: ir.Value) -> bool:
    """Whether it is in memory: a kernel computed it, the caller gives it, or IREE transposes to it."""
    operation = defining_operation(viewed(part))
    return operation is None or operation.name in (_KERNEL, "linalg.transpose")
