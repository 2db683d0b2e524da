"""Imports run in one direction, between source roots and the folders in them, and in no circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from iree.winograd.pipelines.selection.imported_names import imported_names

# One worker parses all modules.
pytestmark = pytest.mark.xdist_group("imports")

ROOT = Path(__file__).parents[1]
PACKAGE = "iree.winograd"
SOURCE_ROOTS = ("dialect", "passes", "pipelines", "python/winograd")
LAYERS = ("dialect.algebra", "dialect", "passes", "pipelines", "")
"""From the innermost on; the last is `python/winograd`."""
FOLDERS = {
    "passes": (("match",), ("infrastructure", "build"), ("rewrite",), ("",)),
    "passes.match": (
        ("",),
        ("unknown_sizes", "values"),
        ("epilogues", "layouts"),
        ("normalizations", "pixels"),
        ("convolutions",),
        ("products",),
    ),
    "pipelines": (
        ("machines", "problems"),
        ("emission",),
        ("cpu", "gpu"),
        ("backends",),
        ("selection",),
        ("for_target", "iree_workarounds", "on_program", "to_kernels"),
        ("",),
    ),
    "pipelines.cpu": (
        ("processor",),
        ("helpers", "schedules", "tiles"),
        ("kernels",),
        ("choice", "tensor_dispatches"),
        ("",),
    ),
    "pipelines.gpu": (
        ("device",),
        ("schedules",),
        ("packing",),
        ("kernels", "choice"),
        ("lowerings",),
        ("",),
    ),
    "": (
        ("atomic_file", "compiler_threads", "diagnostic"),
        ("errors",),
        ("targets", "cuda"),
        ("loading", "report"),
        ("importers", "keeping", "running"),
        ("compiling",),
        ("calibration", "command_line", "specializing", "tuning"),
        ("torch_compile",),
        ("health", "nn"),
        ("commands",),
        ("cli",),
    ),
}
"""What is in a folder, from the innermost on; what stands side by side knows nothing of each other.

A folder's own modules are "". Those of `python/winograd` are named."""


@cache
def modules() -> dict[str, Path]:
    """The modules of the project by their names after `iree.winograd`."""
    found = {}
    for root in SOURCE_ROOTS:
        prefix = () if root == "python/winograd" else (root,)
        for path in (ROOT / root).rglob("*.py"):
            *folders, name = path.relative_to(ROOT / root).with_suffix("").parts
            parts = (*prefix, *folders, *([] if name == "__init__" else [name]))
            found[".".join(parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """What a module imports, inside its functions too, by full names, those of its parts among them."""
    path = modules()[module]
    full_name = ".".join(filter(None, (PACKAGE, module)))
    return frozenset(imported_names(full_name, path, ast.walk(ast.parse(path.read_text()))))


def own_imports(module: str) -> set[str]:
    """The modules of the project that a module imports."""
    names = {name.removeprefix(f"{PACKAGE}.") for name in imports(module) if name.startswith(f"{PACKAGE}.")}
    return {name for name in names if name in modules() and name != module}


def is_within(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.") or not folder


def is_in(module: str, root: str) -> bool:
    """Whether a module lies in the folder `root`; "" is `python/winograd` without the other source roots."""
    return is_within(module, root) if root else layer(module) == len(LAYERS) - 1


def layer(module: str) -> int:
    return next(number for number, folder in enumerate(LAYERS) if is_within(module, folder))


def test_there_are_modules_in_every_layer() -> None:
    assert {layer(module) for module in modules()} == set(range(len(LAYERS)))


def test_imports_run_from_outer_layers_to_inner_ones() -> None:
    upward = {
        f"{module} imports {name}"
        for module in modules()
        for name in own_imports(module)
        if layer(name) > layer(module)
    }
    assert not upward


def folder_imports(root: str) -> Iterator[tuple[str, str]]:
    """The modules within `root` that import one of another folder there, each with what it imports."""
    within = {
        module for module, path in modules().items() if is_in(module, root) and path.name != "__init__.py"
    }
    for module in within:
        for name in own_imports(module) & within:
            if folder_of(name, root) != folder_of(module, root):
                yield module, name


def folder_of(module: str, root: str) -> str:
    """The folder of a module within `root`. One that lies in it has "", in `python/winograd` its own name."""
    *folders, name = module.removeprefix(f"{root}.").split(".")
    return folders[0] if folders else "" if root else name


@pytest.mark.parametrize("root", FOLDERS)
def test_folders_import_inner_ones_only(root: str) -> None:
    layers = {folder: number for number, folders in enumerate(FOLDERS[root]) for folder in folders}
    found = {folder_of(name, root) for names in folder_imports(root) for name in names}
    assert layers.keys() == found, "a folder is missing above, or imports nothing and isn't imported"
    outward = {
        f"{module} imports {name}"
        for module, name in folder_imports(root)
        if layers[folder_of(name, root)] >= layers[folder_of(module, root)]
    }
    assert not outward


def test_machines_know_nothing_of_convolutions() -> None:
    folder = "pipelines.machines"
    found = {
        f"{module} imports {name}"
        for module in modules()
        if is_within(module, folder)
        for name in own_imports(module)
        if not is_within(name, folder)
    }
    assert not found


def test_passes_are_imported_by_nothing_else_in_their_folder() -> None:
    passes = {module for module in modules() if re.fullmatch("passes[.][a-z_]+", module)}
    passes -= {"passes.match", "passes.infrastructure", "passes.build", "passes.rewrite"}
    assert passes
    found = {
        f"{module} imports {name}"
        for module in modules()
        if is_within(module, "passes")
        for name in own_imports(module) & passes
    }
    assert not found


def test_no_module_imports_itself_over_others() -> None:
    graph = {module: own_imports(module) for module in modules() if module}
    assert sum(map(len, graph.values())) > len(graph), "hardly any imports were found"
    TopologicalSorter(graph).prepare()


def test_the_algebra_knows_no_mlir() -> None:
    for module in modules():
        if layer(module) == 0:
            foreign = {name for name in imports(module) if name.startswith("iree.compiler")}
            assert not foreign, module
            assert not any(is_within(name, "dialect.bindings") for name in own_imports(module)), module


def test_only_the_bindings_import_mlir() -> None:
    importing = {
        module
        for module in modules()
        for name in imports(module)
        if is_within(name, "iree.compiler.ir") or is_within(name, "iree.compiler.dialects")
    }
    assert importing == {"dialect.bindings"}
