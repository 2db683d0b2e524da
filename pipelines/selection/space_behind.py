"""Of which layer another one alone reads the result: kernels may leave it as the next ones multiply it."""

from __future__ import annotations

from contextlib import suppress

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.algorithm import algorithm_of
from iree.winograd.passes.match.elementwise import match_elementwise
from iree.winograd.passes.match.navigation import RESHAPES, defining_operation, readers
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import is_constant
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace

from .candidates import convolution_shape
from .layer import Layer, layer_of, match_problem


def space_behind(layer: Layer, space: SearchSpace) -> SearchSpace:
    """The implementations of a layer, behind the one that is chosen for the layer before."""
    before = _layer_before(layer.operation.operands[0])
    if before is None or not is_constant(before.operation.operands[1]):
        return space
    problem = match_problem(before, space)
    # What is wrong with annotations of the program's, their own layers say.
    with suppress(ValueError):
        algorithm, schedule = algorithm_of(before.operation), schedule_of(before.operation)
        if not isinstance(problem, NoMatch) and algorithm is not None and schedule is not None:
            return space.behind(convolution_shape(problem, algorithm), schedule)
    return space


def _layer_before(image: ir.Value) -> Layer | None:
    """The layer whose result an image is, or what is computed of each of its elements and of constants."""
    while len(readers(image)) == 1 and (definition := defining_operation(image)) is not None:
        if (layer := layer_of(definition)) is not None:
            return layer
        if definition.name in RESHAPES:
            image = definition.operands[0]
            continue
        elementwise = match_elementwise(definition)
        if isinstance(elementwise, NoMatch) or not elementwise.is_pure:
            return None
        read = {each for each, _ in elementwise.reads if not is_constant(each)}
        if len(read) != 1:
            return None
        (image,) = read
    return None
