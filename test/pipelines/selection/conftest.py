from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from measured_times import never


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning.db"


@pytest.fixture
def database(path: Path) -> Iterator[TuningDatabase]:
    with TuningDatabase(path, report=never) as database:
        yield database
