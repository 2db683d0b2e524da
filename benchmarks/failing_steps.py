"""The steps of `torch.compile(backend="winograd")`, each of which may fail.

A step is a function with the module or class that holds it. A failure costs a model speed and gives a
warning, where the step isn't one that only saves time. It is no exception, and no result is off.
"""

from __future__ import annotations

from typing import Any

from iree.winograd.compiling import program
from iree.winograd.importers import torch_lowering
from iree.winograd.keeping.program_cache import Entry, ProgramCache
from iree.winograd.torch_compile import (
    compiled_division,
    compiled_part,
    division,
    graph_compiler,
    loaded_part,
)
from iree.winograd.torch_compile.compiled_part import CompiledPart, PartCompiler
from iree.winograd.torch_compile.graph_compiler import GraphCompiler
from iree.winograd.torch_compile.loaded_part import LoadedPart, WeightState

Step = tuple[Any, str]

COMPILING = (
    (graph_compiler, "has_convolutions"),
    (graph_compiler, "has_only_empty_convolutions"),
    (graph_compiler, "aot_autograd"),
    (graph_compiler, "decompositions"),
    (graph_compiler, "device_of_convolutions"),
    (graph_compiler, "divide"),
    (compiled_division, "operator_names"),
    (compiled_division, "explain_part"),
    (compiled_division, "boxed"),
    (division, "part_program"),
    (division, "lower_program"),
    (division, "take_views_outside"),
    (division, "fuse_rest"),
    (compiled_part, "program_key"),
    (compiled_part, "structure_key"),
    (compiled_part, "load_on"),
    (torch_lowering, "lower_graph"),
    (program, "compile"),
    (PartCompiler, "is_kept"),
    (PartCompiler, "load"),
    (ProgramCache, "entry"),
    (Entry, "decisions"),
    (WeightState, "__init__"),
    (LoadedPart, "__init__"),
)
"""Steps from a graph that torch traced to a function, which are missed where they fail."""

SAVING_TIME = (
    (graph_compiler, "describe"),
    (graph_compiler, "kept_graph"),
    (GraphCompiler, "_load_kept"),
    (PartCompiler, "read_graph"),
    (PartCompiler, "write_graph"),
    (ProgramCache, "shrink"),
)
"""Steps whose results are had otherwise, or which a later process misses."""

CALLING = (
    (LoadedPart, "_run"),
    (LoadedPart, "_lend"),
    (CompiledPart, "__call__"),
    (WeightState, "is_in"),
    (loaded_part, "release_processors"),
    (loaded_part, "from_dlpack"),
)
"""Steps of a call."""


def step_name(step: Step) -> str:
    """For example "division.lower_program"."""
    owner, function = step
    return f"{owner.__name__.rpartition('.')[-1]}.{function}"


def fail(*arguments: Any, **options: Any) -> Any:
    """In place of a step."""
    raise RuntimeError("out of luck")
