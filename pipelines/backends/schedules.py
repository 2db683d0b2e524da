"""Schedules of all kernels as data: their names, and their form as attributes and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.frame.algorithm import SCHEDULE_ATTRIBUTE_NAME
from iree.winograd.pipelines.specification.schedule import Schedule

from .module_backend import BACKENDS


@dataclass(frozen=True)
class IreeSchedule(Schedule):
    """That of IREE's own code: nothing to say, and no kernel here is for it."""

    kind = "iree"


_SCHEDULES: tuple[type[Schedule], ...] = (
    *(schedule for backend in BACKENDS for schedule in backend.schedules()),
    IreeSchedule,
)
_BY_KIND = {schedule.kind: schedule for schedule in _SCHEDULES}


def schedule_record(schedule: Schedule) -> dict[str, int | str]:
    """`schedule` as a flat record: its kind, and its fields but for those that are None."""
    return {"kind": schedule.kind} | {
        name: value for name, value in vars(schedule).items() if value is not None
    }


def schedule_from_record(record: Mapping[str, Any]) -> Schedule:
    """The schedule of a record. Raises ValueError for a record that is none, naming what is wrong."""
    values = dict(record)
    kind = values.pop("kind", None)
    if kind not in _BY_KIND:
        raise ValueError(f"the kind of a schedule must be one of {', '.join(_BY_KIND)}, not {kind!r}")
    known = {field.name for field in fields(_BY_KIND[kind])}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"a {kind} schedule has no {name!r}")
        if type(value) is not int and get_type_hints(_BY_KIND[kind])[name] is not bool:
            raise ValueError(f"{name} of a {kind} schedule must be an integer, not {value!r}")
    try:
        return _BY_KIND[kind](**values)
    except TypeError as error:
        raise ValueError(f"an incomplete {kind} schedule: {error}") from None


def set_schedule(operation: ir.Operation, schedule: Schedule) -> None:
    """Annotate a convolution, or the product that it became."""
    integer = ir.IntegerType.get_signless(64)
    operation.attributes[SCHEDULE_ATTRIBUTE_NAME] = ir.DictAttr.get(
        {
            name: ir.StringAttr.get(value) if isinstance(value, str) else ir.IntegerAttr.get(integer, value)
            for name, value in schedule_record(schedule).items()
        }
    )


def schedule_of(operation: ir.Operation) -> Schedule | None:
    """The annotation of a convolution or product. Raises ValueError when it is malformed."""
    if SCHEDULE_ATTRIBUTE_NAME not in operation.attributes:
        return None
    attribute = operation.attributes[SCHEDULE_ATTRIBUTE_NAME]
    if not isinstance(attribute, ir.DictAttr):
        raise ValueError(f"expected a dictionary, got {attribute}")
    return schedule_from_record(
        {
            entry.name: entry.attr.value if isinstance(entry.attr, ir.StringAttr | ir.IntegerAttr) else None
            for entry in attribute
        }
    )
