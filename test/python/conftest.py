"""What tests of the package share."""

import pytest
from iree.winograd.tuning import search, tuner


@pytest.fixture
def brief_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning ends when each layer was measured in one small batch, and its best once more, whatever time that
    takes: of a budget of seconds, a busy machine may spend all before anything is measured."""
    monkeypatch.setattr(tuner, "BATCH_SIZE", 4)
    monkeypatch.setattr(search, "MIN_GAIN", 1.0)
    monkeypatch.setattr(search, "FRUITLESS_BATCHES", 1)
    monkeypatch.setattr(search, "CONFIRMED_BATCHES", 2)
