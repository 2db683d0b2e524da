"""`Resize` and `Upsample` as weighted sums of elements at known positions: torch-mlir has many forms wrong.

Our passes make one operation with tables of these sums (`winograd-fold-resampling`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.resize_any_size import ResizedAnySize, resized_any_size
from iree.winograd.importers.onnx_nodes.resize_tables import COORDINATES, MODES, Resized, Table, table
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from onnx import TensorProto

_CHANGES = ("antialias", "exclude_outside")
"""Attributes that have other elements read."""
_MAX_TAPS = 16
"""Sums of more elements per dimension are products with a matrix."""
_ONLY_COORDINATES = "asymmetric"
"""Those of the operator sets before 11, in which no attribute names any."""


@rewrites("Resize", "Upsample")
def resize(rewriting: Rewriting) -> None:
    """Resizes one dimension after the other."""
    dimensions = _dimensions(rewriting)
    (image, result), mode = (rewriting.node.input[0], rewriting.node.output[0]), _mode(rewriting)
    element_type = rewriting.values.element_type(image)
    if mode != "nearest" and element_type != TensorProto.FLOAT:
        image = rewriting.add("Cast", image, to=TensorProto.FLOAT)
    outside_value = float(rewriting.attributes.get("extrapolation_value", 0.0))
    for axis, resized in dimensions.items():
        if isinstance(resized, Resized):
            image = _resampled(rewriting, image, axis, table(resized), outside_value)
        else:
            image = resized_any_size(rewriting, image, axis, resized, _new_size(rewriting, axis))
    if mode != "nearest" and element_type != TensorProto.FLOAT:
        image = rewriting.add("Cast", image, to=element_type)
    rewriting.add("Identity", image, into=result)


def _mode(rewriting: Rewriting) -> str:
    """Before operator set 9 linear interpolation was called bilinear."""
    mode = rewriting.text("mode", "nearest")
    mode = {"bilinear": "linear"}.get(mode, mode)
    if mode not in MODES:
        rewriting.refuse(f"the mode {mode!r}")
    if mode != "nearest" and rewriting.values.element_type(rewriting.node.input[0]) not in (
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
    ):
        rewriting.refuse(f"the mode {mode!r} on integers")
    return mode


def _coordinates(rewriting: Rewriting) -> tuple[str, str]:
    """How coordinates are transformed, and how they are rounded to the nearest element."""
    is_old = rewriting.node.op_type == "Upsample" or rewriting.operator_set < 11
    coordinates = rewriting.text(
        "coordinate_transformation_mode", _ONLY_COORDINATES if is_old else "half_pixel"
    )
    if coordinates not in COORDINATES:
        rewriting.refuse(f"{coordinates!r} coordinates")
    return coordinates, rewriting.text("nearest_mode", "floor" if is_old else "round_prefer_floor")


def _dimensions(rewriting: Rewriting) -> dict[int, Resized | ResizedAnySize]:
    """The dimensions that are resized, and how."""
    image, result = rewriting.node.input[0], rewriting.node.output[0]
    rank, mode = rewriting.rank(0), _mode(rewriting)
    coordinates, rounding = _coordinates(rewriting)
    sizes = rewriting.shape(image) or ()
    new_sizes = rewriting.shape(result) or (None,) * rank
    kept = [
        a is not None and a == b
        for a, b in zip(rewriting.symbols(image), rewriting.symbols(result), strict=False)
    ]
    axes = _axes(rewriting)
    scales = _scales(rewriting, axes)
    regions = _regions(rewriting, axes)
    found: dict[int, Resized | ResizedAnySize] = {}
    for axis in axes:
        scale, region = scales.get(axis), regions.get(axis, (0.0, 1.0))
        size, new_size = sizes[axis], new_sizes[axis]
        if region == (0.0, 1.0) and (scale == 1 or (scale is None and (kept[axis:] or [False])[0])):
            continue
        if size is None or new_size is None:
            any_size = ResizedAnySize.match(mode, coordinates, rounding, scale)
            if any_size is None or any(rewriting.attributes.get(name, 0) for name in _CHANGES):
                form = f"{mode} {coordinates} {rounding if mode == 'nearest' else ''}".strip()
                rewriting.refuse(f"sizes that are known only at run time in the mode {form!r}")
            found[axis] = any_size
            continue
        scale = new_size / size if scale is None else scale
        if size == new_size and scale == 1 and region == (0.0, 1.0):
            continue
        found[axis] = Resized(
            size,
            new_size,
            scale,
            mode,
            coordinates,
            rounding,
            float(rewriting.attributes.get("cubic_coeff_a", -0.75)),
            bool(rewriting.attributes.get("antialias", 0)),
            bool(rewriting.attributes.get("exclude_outside", 0)),
            region,
        )
    return found


def _axes(rewriting: Rewriting) -> list[int]:
    """The dimensions that scales and sizes are of, in order."""
    rank = rewriting.rank(0)
    return [axis % rank for axis in rewriting.attributes.get("axes", range(rank))]


def _new_size(rewriting: Rewriting, axis: int) -> str | None:
    """The size that an operand says; None where there are scales."""
    sizes = rewriting.operand(3)
    if sizes is None:
        return None
    return rewriting.add("Gather", sizes, rewriting.constant_of(_axes(rewriting).index(axis), np.int64))


def _scales(rewriting: Rewriting, axes: Sequence[int]) -> dict[int, float]:
    """The factors by which dimensions grow, as far as the model has these."""
    given = rewriting.attributes.get("scales")
    index = 1 if rewriting.node.op_type == "Upsample" or rewriting.operator_set < 11 else 2
    if given is None and rewriting.operand(index) is not None:
        given = rewriting.constant(index)
        if given is None:
            rewriting.refuse("scales that are known only at run time")
    if given is None or not len(given):
        return _common_scale(rewriting, axes)
    return dict(zip(axes, map(float, given), strict=True))


def _common_scale(rewriting: Rewriting, axes: Sequence[int]) -> dict[int, float]:
    """That of all dimensions where sizes are only bounds, so that an image keeps its proportions."""
    policy = rewriting.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return {}
    bounds, sizes = rewriting.constant(3), rewriting.known_shape(0)
    if bounds is None:
        rewriting.refuse(f"sizes that are known only at run time and the policy {policy!r}")
    scales = [float(bound) / sizes[axis] for axis, bound in zip(axes, bounds, strict=True)]
    return dict.fromkeys(axes, min(scales) if policy == "not_larger" else max(scales))


def _regions(rewriting: Rewriting, axes: Sequence[int]) -> dict[int, tuple[float, float]]:
    """The parts of the image that are read, where these can be less than the whole."""
    if rewriting.attributes.get("coordinate_transformation_mode") != b"tf_crop_and_resize":
        return {}
    bounds = rewriting.constant(1)
    if bounds is None:
        rewriting.refuse("a region that is known only at run time")
    starts, ends = np.split(bounds.astype(np.float64), 2)
    return {axis: (float(a), float(b)) for axis, a, b in zip(axes, starts, ends, strict=True)}


def _resampled(rewriting: Rewriting, image: str, axis: int, read: Table, outside_value: float) -> str:
    """`image` with one dimension resampled as `read` says."""
    rank = rewriting.rank(0)
    # Elements along the dimension, the same for all others.
    along = [-1 if axis == d else 1 for d in range(rank)]
    if read.taps > _MAX_TAPS:
        total = _product(rewriting, image, axis, read)
    else:
        terms = []
        for indices, weights in zip(read.indices, read.weights, strict=True):
            term = rewriting.add("Gather", image, rewriting.constant_of(indices), axis=axis)
            if not (weights == 1).all():
                factors = rewriting.constant_of(weights.reshape(along), np.float32)
                term = rewriting.add("Mul", term, factors)
            terms.append(term)
        total = terms[0]
        for term in terms[1:]:
            total = rewriting.add("Add", total, term)
    if read.outside.any():
        mask = rewriting.constant_of(read.outside.reshape(along))
        value = rewriting.scalar_like(outside_value, rewriting.node.input[0])
        total = rewriting.add("Where", mask, value, total)
    return total


def _product(rewriting: Rewriting, image: str, axis: int, read: Table) -> str:
    """The product with the matrix of all weights, in which most elements are zeros."""
    shape = rewriting.shape(rewriting.node.input[0]) or ()
    matrix = np.zeros((shape[axis] or 0, read.weights.shape[1]), np.float32)
    for indices, weights in zip(read.indices, read.weights, strict=True):
        np.add.at(matrix, (indices, np.arange(len(indices))), weights)
    order = [d for d in range(len(shape)) if d != axis] + [axis]
    rows = rewriting.add("Transpose", image, perm=order)
    product = rewriting.add("MatMul", rows, rewriting.constant_of(matrix))
    return rewriting.add("Transpose", product, perm=np.argsort(order).tolist())
