"""Parameters of tests that only `make test-all` runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def wide(values: Iterable[Any]) -> list[Any]:
    """`values` as parameters of a sweep over what the other parameters of a test sample already."""
    return [pytest.param(value, marks=pytest.mark.wide) for value in values]


def sampled(values: Iterable[Any], sample: Collection[Any]) -> list[Any]:
    """`values` as parameters, of which those in `sample` stand for the others where it has to be quick."""
    return [value if value in sample else pytest.param(value, marks=pytest.mark.wide) for value in values]
