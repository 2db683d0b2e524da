"""Parameters of tests that only `make test-all` runs, and how many random examples others draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from math import ceil
from typing import Any

import pytest
from hypothesis import settings

PARTS = 6
"""That a sweep is in, of which CI runs one for a commit."""


QUICK_PART = 4
"""Of which one is drawn of random examples where wide tests are left out."""
_quick = False


def leave_out_wide(selection: str) -> None:
    """Has tests draw fewer examples where `selection`, pytest's `-m`, leaves out wide tests.

    Before they are imported.
    """
    global _quick
    _quick = "not wide" in selection


def examples(count: int) -> settings:
    """Of a test of random examples: as many as `count`, a fourth of them where it has to be quick."""
    return settings(max_examples=ceil(count / QUICK_PART) if _quick else count)


def wide(values: Iterable[Any]) -> list[Any]:
    """`values` as parameters of a sweep over what the other parameters of a test sample already."""
    return [pytest.param(value, marks=pytest.mark.wide) for value in values]


def wide_combinations(combinations: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As `wide`, of a test with several parameters: a value of each."""
    return [pytest.param(*values, marks=pytest.mark.wide) for values in combinations]


def lesser(combinations: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As `wide_combinations`, for lesser processors than this one: emulated, they are all one."""
    marks = (pytest.mark.this_machine, pytest.mark.wide)
    return [pytest.param(*values, marks=marks) for values in combinations]


def sampled(values: Iterable[Any], sample: Collection[Any]) -> list[Any]:
    """`values` as parameters, of which those in `sample` stand for the others where it has to be quick."""
    return [value if value in sample else pytest.param(value, marks=pytest.mark.wide) for value in values]


def batches(values: Iterable[Any], sample: Sequence[Any], size: int = 8) -> list[Any]:
    """As `sampled`, but `size` values or fewer at a time, for tests that compile those together."""
    others = [value for value in values if value not in sample]
    return [*_parts(sample, size), *wide(_parts(others, size))]


def _parts(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def other_parts_of_sweeps(items: Sequence[pytest.Item], commit: str) -> set[pytest.Item]:
    """All wide parameters of each test but one in `PARTS`, rounded up.

    So, too, of all parameters together of a file's tests that have fewer than `PARTS`, those that are wide as
    they are among them: of one none is left out.
    """
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker("wide") is not None:
            tests[item.nodeid.partition("[")[0]].append(item)
    sweeps = defaultdict(list)
    for name, parameters in tests.items():
        sweeps[name if len(parameters) >= PARTS else name.partition("::")[0]] += parameters
    for sweep in sweeps.values():
        # Neighbours often share a parameter: neither every other one nor those of one end.
        sweep.sort(key=lambda item: sha256(f"{commit} {item.nodeid}".encode()).digest())
    return {item for sweep in sweeps.values() for item in sweep[ceil(len(sweep) / PARTS) :]}
