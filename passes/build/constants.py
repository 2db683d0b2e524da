"""Constants of arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

import numpy as np
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.resource_data import resource_attribute
from iree.winograd.passes.match.values.constant_identity import constant_identity
from iree.winograd.passes.match.values.constants import Array

_SHORT = {np.dtype(np.float16): "f16", np.dtype(np.uint16): "i16"}
"""Elements of 16 bits, and MLIR's names of their types."""


def resource_constant(array: Array, name: str) -> ir.Value:
    """Build a `dense_resource` constant of f32 elements, rounded once; the attribute keeps the array."""
    return _constant(_resource(np.ascontiguousarray(array, np.float32), name))


class SharedConstants:
    """Constants that are computed of others: one resource for all that are alike.

    A program that applies one convolution many times has its filters once. To be used for one program.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, ir.DenseResourceElementsAttr] = {}
        self._of_source: defaultdict[Hashable, list[tuple[Array, ir.DenseResourceElementsAttr]]]
        self._of_source = defaultdict(list)

    def computed(
        self, source: ir.Value, how: Hashable, name: str, compute: Callable[[], Array | None]
    ) -> ir.Value | None:
        """As `resource_constant`, what `compute` gives of `source`, which `how` tells from all else.

        Arrays of f16 and uint16 stay what they are.

        Not computed again where both are known. What differs in `how`, for images of other sizes, may still
        come to the same elements. None where `compute` gives nothing.
        """
        identity = constant_identity(source)
        attribute = self._known.get((identity, how))
        if identity is None or attribute is None:
            array = compute()
            if array is None:
                return None
            elements = _elements(array)
            attribute = self._equal(identity, elements) or _resource(elements, name)
            if identity is not None:
                self._known[identity, how] = attribute
                self._of_source[identity].append((elements, attribute))
        return _constant(attribute)

    def _equal(self, identity: Hashable, elements: Array) -> ir.DenseResourceElementsAttr | None:
        """What has these very bits, of those that were computed of one source."""
        for known, attribute in self._of_source.get(identity, ()):
            if known.dtype == elements.dtype and np.array_equal(_bits(known), _bits(elements)):
                return attribute
        return None


def _elements(array: Array) -> Array:
    return np.ascontiguousarray(array, array.dtype if array.dtype in _SHORT else np.float32)


def _bits(elements: Array) -> Array:
    return elements.view(f"u{elements.itemsize}")


def _resource(elements: Array, name: str) -> ir.DenseResourceElementsAttr:
    element = ir.Type.parse(_SHORT.get(elements.dtype, "f32"))
    return resource_attribute(elements, name, ir.RankedTensorType.get(list(elements.shape), element))


def _constant(attribute: ir.DenseResourceElementsAttr) -> ir.Value:
    return arith.constant(attribute.type, attribute)
