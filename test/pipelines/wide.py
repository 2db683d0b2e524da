"""Parameters of tests that only `make test-all` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def wide(values: Iterable[Any]) -> list[Any]:
    """`values` as parameters of a sweep over what the other parameters of a test sample already."""
    return [pytest.param(value, marks=pytest.mark.wide) for value in values]
