"""The builder of named operations of linalg's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from iree.winograd.dialect.bindings import ir, linalg_structure


def build_named(
    operation: type[ir.OpView], inputs: ir.Value | Sequence[ir.Value], init: ir.Value, **attributes: Any
) -> ir.Value:
    """Build what `operation`, a class of `bindings.linalg`, computes of `inputs`: a tensor like `init`.

    Operations that have but one input take it as such: transpositions and broadcasts.
    """
    is_variadic = not isinstance(inputs, ir.Value)
    built = operation([init.type], inputs, [init] if is_variadic else init, **attributes)
    linalg_structure.fill_builtin_region(built.operation)
    return built.operation.results[0]


def build_windowed(
    operation: type[ir.OpView],
    inputs: Sequence[ir.Value],
    init: ir.Value,
    strides: Sequence[int],
    dilations: Sequence[int],
) -> ir.Value:
    """As `build_named`, a convolution or pooling of an image, its filter or window, and any zero points."""
    return build_named(operation, inputs, init, strides=_integers(strides), dilations=_integers(dilations))


def _integers(numbers: Sequence[int]) -> ir.DenseIntElementsAttr:
    return ir.DenseIntElementsAttr(ir.DenseElementsAttr.get(np.array(numbers, np.int64)))
