"""What is predicted of sizes that are known only at run time: the time that some representative ones take."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.pipelines.problems.shape import Shape

DYNAMIC_BATCH = 64
"""The images of a batch that is known only at run time, unless the user says how many are expected."""


def representative(shape: Shape) -> Shape:
    """`shape` with representative sizes in place of those that are known only at run time.

    Images whose numbers are all of half precision are taken to be stored so.
    """
    types = shape.element_types
    stored = replace(types, input=shape.exact_type or types.input, result=shape.rounded_type or types.result)
    shape = shape.with_element_types(stored)
    return shape.with_batch(shape.expected_batch or DYNAMIC_BATCH) if shape.batch is None else shape
