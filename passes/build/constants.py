"""Constants of arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

import numpy as np
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.resource_data import resource_attribute
from iree.winograd.passes.match.constant_identity import constant_identity
from iree.winograd.passes.match.constants import Array


def resource_constant(array: Array, name: str) -> ir.Value:
    """Build a `dense_resource` constant of f32 elements, rounded once; the attribute keeps the array."""
    return _constant(_resource(_single(array), name))


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

        Not computed again where both are known. What differs in `how`, for images of other sizes, may still
        come to the same elements. None where `compute` gives nothing.
        """
        identity = constant_identity(source)
        attribute = self._known.get((identity, how))
        if identity is None or attribute is None:
            array = compute()
            if array is None:
                return None
            elements = _single(array)
            attribute = self._equal(identity, elements) or _resource(elements, name)
            if identity is not None:
                self._known[identity, how] = attribute
                self._of_source[identity].append((elements, attribute))
        return _constant(attribute)

    def _equal(self, identity: Hashable, elements: Array) -> ir.DenseResourceElementsAttr | None:
        """What has these very bits, of those that were computed of one source."""
        for known, attribute in self._of_source.get(identity, ()):
            if np.array_equal(known.view(np.uint32), elements.view(np.uint32)):
                return attribute
        return None


def _single(array: Array) -> Array:
    return np.ascontiguousarray(array, np.float32)


def _resource(elements: Array, name: str) -> ir.DenseResourceElementsAttr:
    type_ = ir.RankedTensorType.get(list(elements.shape), ir.F32Type.get())
    return resource_attribute(elements, name, type_)


def _constant(attribute: ir.DenseResourceElementsAttr) -> ir.Value:
    return arith.constant(attribute.type, attribute)
