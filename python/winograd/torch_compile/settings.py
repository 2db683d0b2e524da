"""The options of `torch.compile(model, backend="winograd", options={...})`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import torch
from iree.winograd.compiling.keyword_options import make_options
from iree.winograd.compiling.option_files import check_option_files
from iree.winograd.errors import InvalidOptionError
from iree.winograd.passes.infrastructure.option import (
    check_options,
    is_positive,
    option,
    options_of,
    same_option,
    shared_values,
)
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from iree.winograd.torch_compile.fallback import Fallback
from iree.winograd.torch_compile.fallback_warning import warn_once

_TARGETS = ("cpu", "cuda")

_MODES: Mapping[str | None, Mapping[str, object]] = MappingProxyType(
    {
        None: {},
        "default": {},
        "reduce-overhead": {},
        "max-autotune": {"tuning_budget": 60.0},
        "max-autotune-no-cudagraphs": {"tuning_budget": 60.0},
    }
)
"""The options that torch's modes stand for."""

_INFERENCE_ERRORS = MappingProxyType({"cpu": 4e-7})
"""By the kind of device, predicted errors of layers that keep networks within twice eager's error."""


@dataclass(frozen=True)
class TorchCompileOptions:
    """What a user may say of how a model is compiled. Raises ValueError when a field is out of range."""

    target: str | None = option(
        None,
        "cpu or cuda, or one of them, a colon and a chip",
        "what to compile for",
        auto="the device of the model's tensors",
        accepts=lambda target: target.partition(":")[0] in _TARGETS,
    )
    threads: int | None = same_option(WinogradOptions, "threads")
    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")
    deny: tuple[str, ...] = same_option(WinogradOptions, "deny")
    machine: str | None = same_option(WinogradOptions, "machine")
    tuning_database: str | None = same_option(WinogradOptions, "tuning_database")
    tuning_budget: float | None = option(
        None,
        "a positive number",
        "seconds of measuring the layers of each part before it is compiled, for the tuning database",
        auto="none",
        accepts=is_positive,
    )
    freezing: bool = option(
        True, purpose="compile weights into the program, until they change, instead of passing them to it"
    )
    fixed_inference_weights: bool = option(
        False,
        purpose="compile weights that were made in torch.inference_mode() into the program as well: nobody "
        "writes to them",
    )
    fallback: Literal["inductor", "eager"] | None = option(
        None,
        purpose="what runs the operators around the parts that are compiled here",
        auto="inductor for inference, eager for training",
    )
    minimum_convolutions: int = option(
        1,
        "a positive integer",
        "leave parts of the model with fewer convolutions to the fallback",
        accepts=is_positive,
    )
    sizes: int = option(
        4,
        "a positive integer",
        "sizes of images that a graph has a program for, each of its own, where torch traces it for any",
        accepts=is_positive,
    )
    specialize: int | None = option(
        None,
        "a positive integer",
        "sizes that come often, of those that a part has a program for any of, which get one of their own in "
        "the background",
        auto="none",
        accepts=is_positive,
    )
    measured: bool = option(
        True,
        purpose="run a graph eagerly if that takes less time in the first calls than its programs do, and a "
        "convolution of training on a GPU if it does there",
    )

    cache: bool = option(True, purpose="keep compiled parts on disk, for other processes")
    cache_folder: str | None = option(
        None, "a folder", "where they are kept", auto="the user's folder for caches", accepts=bool
    )
    cache_size: int = option(
        4096, "a positive integer", "MiB that they may take, those used last", accepts=is_positive
    )

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def worker_threads(self) -> int:
        """Threads that programs run on: as many as torch's operators unless the user says otherwise."""
        return self.threads or torch.get_num_threads()

    def fallback_for(self, *, training: bool) -> Fallback:
        """What runs the other operators.

        Of a step of training these are statistics of batches, pooling and sums between single convolutions:
        what Inductor gains by fusing them is less than it loses because none of them may write in place.
        """
        return self.fallback or ("eager" if training else "inductor")

    def for_inference(self, kind: str) -> TorchCompileOptions:
        """These, with the limit on errors that holds on devices of a `kind` unless the user gave one."""
        if self.max_relative_error is not None:
            return self
        return replace(self, max_relative_error=_INFERENCE_ERRORS.get(kind))

    def compile_options(self) -> dict[str, Any]:
        """The keywords of `iree.winograd.compile` for parts of the model, apart from what tuning finds."""
        shared = {each.name for each in options_of(type(self))} & {
            each.name for each in options_of(WinogradOptions)
        }
        values = shared_values(self, type(self))
        return {**{name: values[name] for name in sorted(shared)}, "threads": self.worker_threads}


def read_settings(mode: str | None, options: Mapping[str, Any] | None) -> TorchCompileOptions:
    """What `torch.compile` was given. Raises `InvalidOptionError` for what isn't known or has a bad value."""
    if mode not in _MODES:
        known = ", ".join(repr(each) for each in _MODES if each)
        raise InvalidOptionError(f"mode must be one of {known} for backend 'winograd', got {mode!r}")
    if mode == "reduce-overhead":
        warn_once(
            "mode='reduce-overhead' makes no difference to backend 'winograd': it records no CUDA graphs"
        )
    settings = make_options(TorchCompileOptions, {**_MODES[mode], **(options or {})})
    if settings.target is not None:
        target_flags(settings.target)
    checked = WinogradOptions(**settings.compile_options())
    if settings.tuning_budget is not None:
        # Processes that don't tune need nothing of the tuner.
        from iree.winograd.tuning.schedule_sampler import require_optuna

        require_optuna()
        # Tuning makes the database.
        checked = replace(checked, tuning_database=None)
    # Of a damaged database the compilation of each part warns.
    check_option_files(checked, lambda message: None)
    return settings
