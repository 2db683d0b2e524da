"""Schedules of all kernels as data: their names, and their form as attributes and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.algorithm import (
    SCHEDULE_ATTRIBUTE_NAME,
    SCHEDULE_RANGES_ATTRIBUTE_NAME,
    TAKES_FILTER_ATTRIBUTE_NAME,
    algorithm_attribute,
    algorithm_from_attribute,
)
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange

from .module_backend import backends

_SCHEDULE, _TIMES, _BELOW, _ALGORITHM = "schedule", "times", "below_tiles", "algorithm"
"""The entries of a range, of which the last has no end, and few another algorithm than the convolution."""


@dataclass(frozen=True)
class IreeSchedule(Schedule):
    """That of IREE's own code: nothing to say, and no kernel here is for it."""

    kind = "iree"


def _schedules() -> Iterator[type[Schedule]]:
    """Those of all backends, which are imported one after the other."""
    yield IreeSchedule
    for backend in backends():
        yield from backend.schedules()


def schedule_record(schedule: Schedule) -> dict[str, int | str]:
    """`schedule` as a flat record: its kind, and its fields but for those that are None."""
    values = {each.name: getattr(schedule, each.name) for each in fields(schedule)}
    return {"kind": schedule.kind} | {name: value for name, value in values.items() if value is not None}


def schedule_from_record(record: Mapping[str, Any]) -> Schedule:
    """The schedule of a record. Raises ValueError for a record that is none, naming what is wrong."""
    values = dict(record)
    kind = values.pop("kind", None)
    schedule = next((each for each in _schedules() if each.kind == kind), None)
    if schedule is None:
        kinds = ", ".join(each.kind for each in _schedules())
        raise ValueError(f"the kind of a schedule must be one of {kinds}, not {kind!r}")
    known = {field.name for field in fields(schedule)}
    hints = get_type_hints(schedule)
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"a {kind} schedule has no {name!r}")
        hint = hints[name]
        wanted, article = (str, "a string") if hint in (str, str | None) else (int, "an integer")
        if type(value) is not wanted and hint is not bool:
            raise ValueError(f"{name} of a {kind} schedule must be {article}, not {value!r}")
    try:
        return schedule(**values)
    except TypeError as error:
        raise ValueError(f"an incomplete {kind} schedule: {error}") from None


def set_schedule(operation: ir.Operation, schedule: Schedule) -> None:
    """Annotate a convolution, or the product that it became."""
    operation.attributes[SCHEDULE_ATTRIBUTE_NAME] = ir.DictAttr.get(_entries(schedule))
    note_filters(operation, schedule)


def set_schedule_ranges(operation: ir.Operation, ranges: Sequence[ScheduleRange]) -> None:
    """Annotate a convolution of images of unknown sizes that has several schedules."""
    note_filters_of_ranges(operation, ranges)
    operation.attributes[SCHEDULE_RANGES_ATTRIBUTE_NAME] = ir.ArrayAttr.get(
        [
            ir.DictAttr.get(
                {
                    _SCHEDULE: ir.DictAttr.get(_entries(each.schedule)),
                    _TIMES: ir.FloatAttr.get_f64(each.times),
                    **({} if each.below is None else {_BELOW: _number(each.below)}),
                    **({} if each.algorithm is None else {_ALGORITHM: algorithm_attribute(each.algorithm)}),
                }
            )
            for each in ranges
        ]
    )


def note_filters(operation: ir.Operation, schedule: Schedule) -> None:
    """Have the filters of what has `schedule` stay as they are, if its kernel transforms them."""
    if schedule.transforms_filters:
        operation.attributes[TAKES_FILTER_ATTRIBUTE_NAME] = ir.UnitAttr.get()


def note_filters_of_ranges(operation: ir.Operation, ranges: Sequence[ScheduleRange]) -> None:
    """Have the filters of what has `ranges` stay as they are, if its kernels transform them differently."""
    if any(each.algorithm is not None for each in ranges):
        operation.attributes[TAKES_FILTER_ATTRIBUTE_NAME] = ir.UnitAttr.get()


def schedule_of(operation: ir.Operation) -> Schedule | None:
    """The annotation of a convolution or product. Raises ValueError when it is malformed."""
    if SCHEDULE_ATTRIBUTE_NAME not in operation.attributes:
        return None
    return _schedule(operation.attributes[SCHEDULE_ATTRIBUTE_NAME])


def schedule_ranges_of(operation: ir.Operation) -> tuple[ScheduleRange, ...]:
    """The schedules by ranges of a convolution or product, none where it has one for all sizes.

    Raises ValueError when the annotation is malformed.
    """
    if SCHEDULE_RANGES_ATTRIBUTE_NAME not in operation.attributes:
        return ()
    attribute = operation.attributes[SCHEDULE_RANGES_ATTRIBUTE_NAME]
    if not isinstance(attribute, ir.ArrayAttr) or len(attribute) == 0:
        raise ValueError(f"expected an array of ranges, got {attribute}")
    ranges = tuple(map(_range, attribute))
    ends = [each.below for each in ranges]
    bounds = [each for each in ends if each is not None]
    if None in ends[:-1] or ends[-1] is not None or sorted(set(bounds)) != bounds:
        raise ValueError(f"the tiles of ranges must increase, and those of the last have no end: {attribute}")
    return ranges


def _range(attribute: ir.Attribute) -> ScheduleRange:
    entries = {each.name: each.attr for each in attribute} if isinstance(attribute, ir.DictAttr) else {}
    if not {_SCHEDULE, _TIMES} <= set(entries) <= {_SCHEDULE, _TIMES, _BELOW, _ALGORITHM}:
        raise ValueError(f"expected {_SCHEDULE}, {_TIMES} and {_BELOW}, got {attribute}")
    times, below, algorithm = entries[_TIMES], entries.get(_BELOW), entries.get(_ALGORITHM)
    if not isinstance(times, ir.FloatAttr) or not isinstance(below, ir.IntegerAttr | None):
        raise ValueError(f"expected numbers, got {attribute}")
    return ScheduleRange(
        _schedule(entries[_SCHEDULE]),
        times.value,
        None if below is None else below.value,
        None if algorithm is None else algorithm_from_attribute(algorithm),
    )


def _schedule(attribute: ir.Attribute) -> Schedule:
    if not isinstance(attribute, ir.DictAttr):
        raise ValueError(f"expected a dictionary, got {attribute}")
    return schedule_from_record(
        {
            entry.name: entry.attr.value if isinstance(entry.attr, ir.StringAttr | ir.IntegerAttr) else None
            for entry in attribute
        }
    )


def _entries(schedule: Schedule) -> dict[str, ir.Attribute]:
    return {
        name: ir.StringAttr.get(value) if isinstance(value, str) else _number(value)
        for name, value in schedule_record(schedule).items()
    }


def _number(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
