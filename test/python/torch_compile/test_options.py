"""Options and modes of `torch.compile` for the backend `winograd`."""

from pathlib import Path
from typing import Any

import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.errors import InvalidOptionError
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from iree.winograd.torch_compile.fallback_warning import FallbackWarning, warn_once
from iree.winograd.torch_compile.settings import read_settings
from iree.winograd.tuning import tuner
from small_networks import Network, check, compiled
from torch._dynamo.exc import BackendCompilerFailed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thread": 1}, "option 'thread' is not known"),
        ({"threads": 0}, "threads must be None or a positive integer"),
        ({"target": "vulkan"}, "target must be cpu or cuda"),
        ({"fallback": "onnx"}, "fallback must be inductor or eager"),
        ({"tuning_database": "missing.db"}, "missing.db"),
    ],
)
def test_options_are_checked(images: torch.Tensor, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=message) as failure:
        compiled(Network(), **options)(images)
    assert isinstance(failure.value.inner_exception, InvalidOptionError)


def test_modes_of_torch_stand_for_options() -> None:
    assert read_settings("default", None).tuning_budget is None
    assert read_settings("max-autotune", None).tuning_budget == 60
    with pytest.raises(InvalidOptionError, match=r"mode must be one of 'default', 'reduce-overhead'"):
        read_settings("reduce", None)


def test_a_mode_for_cuda_graphs_is_ignored_with_a_word() -> None:
    warn_once.cache_clear()
    with pytest.warns(FallbackWarning, match="mode='reduce-overhead' makes no difference"):
        assert read_settings("reduce-overhead", None) == read_settings(None, None)


@pytest.mark.wide
@pytest.mark.usefixtures("brief_searches")
def test_tuned_parts_are_measured_once(
    images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, options = Network(), {"tuning_budget": 3600.0, "cache_folder": tmp_path}
    check(model, compiled(model, **options), images)
    with TuningDatabase(tmp_path / "tuning.db", report=print, read_only=True) as database:
        layers = {entry.problem for entry in database.entries()}
    assert any("3->8 kernel 3x3" in layer for layer in layers)
    monkeypatch.setattr(tuner, "tune", None)
    monkeypatch.setattr(program, "compile", None)
    torch._dynamo.reset()
    check(model, compiled(model, **options), images)
