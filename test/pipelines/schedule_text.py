"""Attributes by which programs state how a layer is computed."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.pipelines.backends.schedules import schedule_record
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange


def schedule_text(schedule: Schedule) -> str:
    """The attribute that states it."""
    return f"winograd.schedule = {_dictionary(schedule)}"


def ranges_text(ranges: Sequence[ScheduleRange]) -> str:
    """The attribute that states them."""
    texts = []
    for each in ranges:
        below = "" if each.below is None else f", below_tiles = {each.below} : i64"
        other = "" if each.algorithm is None else f", algorithm = {_algorithm(each.algorithm)}"
        texts.append(f"{{schedule = {_dictionary(each.schedule)}, times = {each.times} : f64{below}{other}}}")
    return f"winograd.schedule_ranges = [{', '.join(texts)}]"


def _algorithm(algorithm: Algorithm) -> str:
    sizes = {"output_tile": algorithm.output_tile, "part_size": algorithm.part_size}
    fields = (f"{name} = array<i64: {', '.join(map(str, values))}>" for name, values in sizes.items())
    return f"{{{', '.join(fields)}}}"


def _dictionary(schedule: Schedule) -> str:
    fields = (f"{name} = {_attribute(value)}" for name, value in schedule_record(schedule).items())
    return f"{{{', '.join(fields)}}}"


def _attribute(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value} : i64"
