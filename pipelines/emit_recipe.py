"""Recipes as vector code: one straight-line program per 1-D transform, nested over the dimensions of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from iree.winograd.dialect.algebra.recipe import Operation, Recipe
from iree.winograd.dialect.bindings import arith, ir

from .emit import multiply_add, splat

TilePosition = tuple[int, ...]


def emit_recipe(recipe: Recipe, inputs: list[ir.Value], fused_multiply_add: bool) -> list[ir.Value]:
    """Applies a 1-D transform to vectors; without FMA in the target a product and a sum take its place."""
    vector_type = ir.VectorType(inputs[0].type)
    width, element = vector_type.shape[0], vector_type.element_type
    values = list(inputs)

    def emit(operation: Operation) -> ir.Value:
        a = values[operation.a]
        if operation.kind == "add":
            return arith.addf(a, values[operation.b])
        if operation.kind == "subtract":
            return arith.subf(a, values[operation.b])
        if operation.kind == "negate":
            return arith.negf(a)
        factor = splat(float(operation.constant), width, element)
        if operation.kind == "multiply":
            return arith.mulf(a, factor)
        return multiply_add(a, factor, values[operation.b], fused_multiply_add)

    for operation in recipe.operations:
        values.append(emit(operation))
    return [splat(0.0, width, element) if output is None else values[output] for output in recipe.outputs]


def emit_nested(
    recipes: list[Recipe], tile: Mapping[TilePosition, ir.Value], fused_multiply_add: bool
) -> dict[TilePosition, ir.Value]:
    """Applies one recipe per dimension to a D-dimensional tile of vectors, the first dimension first."""
    current = dict(tile)
    extents = [recipe.inputs for recipe in recipes]
    for dimension, recipe in enumerate(recipes):
        others = [range(extent) for d, extent in enumerate(extents) if d != dimension]
        transformed: dict[TilePosition, ir.Value] = {}
        for rest in product(*others):
            line = [(*rest[:dimension], i, *rest[dimension:]) for i in range(recipe.inputs)]
            outputs = emit_recipe(recipe, [current[position] for position in line], fused_multiply_add)
            for i, output in enumerate(outputs):
                transformed[(*rest[:dimension], i, *rest[dimension:])] = output
        current = transformed
        extents[dimension] = len(recipe.outputs)
    return current
