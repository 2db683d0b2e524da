"""Which parameters of sweeps are left out where a part of them is enough."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import pytest
from wide import PARTS, other_parts_of_sweeps


@dataclass(frozen=True)
class Item:
    """What is asked of a test."""

    nodeid: str
    is_wide: bool

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return pytest.mark.wide.mark if name == "wide" and self.is_wide else None


SWEEP = [Item(f"test_a.py::test_sizes[{size}]", True) for size in range(7)]
OTHERS = [
    Item("test_a.py::test_sizes[quick]", False),
    Item("test_b.py::test_that_takes_long", True),
    *(Item(f"test_a.py::test_quick[{number}]", False) for number in range(4)),
]
SMALL = [
    Item("test_a.py::test_that_takes_long", True),
    Item("test_a.py::test_types[f16]", True),
    Item("test_a.py::test_types[bf16]", True),
    Item("test_a.py::test_that_takes_longer", True),
    Item("test_a.py::test_layouts[last]", True),
    *(Item(f"test_a.py::test_tiles[{tile}]", True) for tile in range(PARTS - 1)),
]


def test_a_part_of_a_sweep_runs() -> None:
    """Always what is the only one of its file, and what `make test` runs; the same in all workers."""
    left_out = other_parts_of_sweeps([*OTHERS, *SWEEP], "0a1b")
    assert len(left_out) == len(SWEEP) - ceil(len(SWEEP) / PARTS) and left_out < set(SWEEP)
    assert other_parts_of_sweeps([*reversed(SWEEP), *OTHERS], "0a1b") == left_out


def test_tests_of_a_file_with_few_parameters_are_a_sweep() -> None:
    left_out = other_parts_of_sweeps([*OTHERS, *SMALL, *SWEEP], "0a1b")
    assert len(left_out & set(SMALL)) == len(SMALL) - ceil(len(SMALL) / PARTS)
    assert other_parts_of_sweeps(SWEEP, "0a1b") <= left_out


@pytest.mark.parametrize("sweep", [SWEEP, SMALL])
def test_all_parameters_get_their_turn(sweep: list[Item]) -> None:
    left_out = [other_parts_of_sweeps(sweep, f"{commit:x}") for commit in range(20)]
    assert set().union(*left_out) == set(sweep) and not set.intersection(*left_out)
