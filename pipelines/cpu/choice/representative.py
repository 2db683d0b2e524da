"""What is predicted of sizes that are known only at run time: the time that some representative ones take."""

from __future__ import annotations

from iree.winograd.pipelines.problems.shape import Shape

DYNAMIC_BATCH = 1
"""The images of a batch that is known only at run time, unless the user says how many are expected."""


def representative(shape: Shape) -> Shape:
    """`shape` with representative sizes in place of those that are known only at run time."""
    return shape.with_batch(shape.expected_batch or DYNAMIC_BATCH) if shape.batch is None else shape
