"""What kernels for CUDA read before they wait for those ahead: nothing that these may write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.cuda.early_launch import with_waits
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.gpu.schedules.toeplitz import DepthwiseToeplitzSchedule
from iree.winograd.pipelines.problems.wait_place import WAIT_PLACE
from scheduled_program import ScheduledProgram

POINTWISE = ScheduledProgram(
    (5, 5),
    16,
    24,
    (1, 1),
    (1, 1),
    (1, 1),
    batch=3,
    schedule=StreamedSchedule(16, 32, warps=2, walking_workgroups=2),
)
GROUPS = ScheduledProgram(
    (9, 10),
    16,
    16,
    (3, 3),
    (1, 1),
    (1, 1),
    low=(1, 1),
    high=(1, 1),
    groups=2,
    batch=2,
    schedule=GroupedRingSchedule(64, units=2, images=2, rows=8),
)
DEPTHWISE = replace(GROUPS, groups=16, schedule=DepthwiseToeplitzSchedule(128, units=4, images=2, rows=8))
PROGRAMS = pytest.mark.parametrize(
    "program", [POINTWISE, GROUPS, DEPTHWISE], ids=["pixels", "groups", "taps"]
)
WAIT = "griddepcontrol.wait;"
FILTERS = 1
"""Which argument they are."""
ACCESS = re.compile(r"\b(?:ld|st|red|atom)\.global|\.shared\.global")


def read_before_waiting(text: str) -> Iterator[set[int]]:
    """Of each access to the device's memory, of which arguments its address is computed."""
    body = text[text.index(".entry") :]
    arguments: dict[str, set[int]] = {}
    for line in body[: body.index(WAIT)].splitlines():
        if ACCESS.search(line):
            yield arguments[re.findall(r"\[(%\w+)", line)[-1]]
            continue
        result, *operands = re.findall(r"%\w+", line) or [""]
        found = {int(number) for number in re.findall(r"\[\w+_param_(\d+)", line)}
        arguments[result] = found.union(*(arguments.get(each, set()) for each in operands))


@PROGRAMS
def test_constant_filters_are_asked_for_before(program: ScheduledProgram, tmp_path: Path) -> None:
    (text,) = (each for each in program.ptx("sm_90a", tmp_path) if WAIT_PLACE in each)
    waiting = with_waits(text.encode()).decode()
    assert waiting.count(WAIT) == waiting.count(".entry")
    accesses = list(read_before_waiting(waiting))
    assert accesses
    assert all(each == {FILTERS} for each in accesses)


@PROGRAMS
def test_filters_of_others_are_waited_for(program: ScheduledProgram, tmp_path: Path) -> None:
    for text in replace(program, constant_filter=False).ptx("sm_90a", tmp_path):
        assert WAIT_PLACE not in text
        assert not list(read_before_waiting(with_waits(text.encode()).decode()))
