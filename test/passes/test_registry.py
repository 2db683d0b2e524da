"""The text form of passes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from iree.winograd.pass_pipeline import load_passes
from iree.winograd.passes.frame import registry
from iree.winograd.passes.frame.registry import PassSyntaxError, format_pass, parse_pass, register_pass

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Example:
    """A pass with an option of every type."""

    output_tile: int | None = None
    tiles: tuple[int, ...] = ()
    pair: tuple[int, float] = (1, 0.5)
    mode: Literal["compile", "load"] = "compile"
    verbose: bool = False
    layer: str = ""

    def __post_init__(self) -> None:
        if self.output_tile is not None and self.output_tile < 1:
            raise ValueError(f"output_tile must be positive, got {self.output_tile}")

    def run(self, module: object) -> None:
        raise AssertionError("only parsed")


@pytest.fixture(autouse=True)
def example_is_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What is imported for the first time registers itself; it has to stay registered.
    load_passes()
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))
    monkeypatch.setattr(registry, "_names", dict(registry._names))
    register_pass("winograd-example")(Example)
    yield


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("winograd-example", Example()),
        ("winograd-example{}", Example()),
        ("winograd-example{output-tile=4}", Example(output_tile=4)),
        ("winograd-example{output-tile=auto verbose}", Example(verbose=True)),
        ("winograd-example{verbose=false tiles=2,4,6}", Example(tiles=(2, 4, 6))),
        ("winograd-example{pair=3,0.25 mode=load}", Example(pair=(3, 0.25), mode="load")),
        ("winograd-example{layer='a b{c}' verbose=true}", Example(layer="a b{c}", verbose=True)),
        ("winograd-example{layer=layer1.*/conv1}", Example(layer="layer1.*/conv1")),
    ],
)
def test_parses_and_prints(text: str, expected: Example) -> None:
    assert parse_pass(text) == expected
    assert parse_pass(format_pass(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("winograd-missing", "'winograd-missing' does not refer to a registered pass"),
        ("winograd-example{output-tile=4", "missing '}' after the options of 'winograd-example'"),
        (
            "winograd-example{tile=4}",
            "'winograd-example' has no option 'tile' .its options: output-tile, tiles",
        ),
        (
            "winograd-example{output-tile=four}",
            "option 'output-tile' of 'winograd-example': 'four' is not an int",
        ),
        ("winograd-example{output-tile}", "option 'output-tile' of 'winograd-example': needs a value"),
        ("winograd-example{output-tile=0}", "'winograd-example': output_tile must be positive, got 0"),
        ("winograd-example{mode=never}", "'never' is not one of compile, load"),
        ("winograd-example{verbose=perhaps}", "'perhaps' is not 'true' or 'false'"),
        ("winograd-example{pair=1}", "expected 2 values, got 1"),
        ("winograd-example{=4}", "can't read the options of 'winograd-example' from '=4' on"),
    ],
)
def test_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(PassSyntaxError, match=message):
        parse_pass(text)


def test_names_are_unique_and_passes_are_dataclasses() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        register_pass("winograd-example")(Example)
    with pytest.raises(TypeError, match="must be a dataclass"):
        register_pass("winograd-other")(int)


def test_every_pass_of_the_project_parses_by_name_and_says_what_it_does() -> None:
    for name, pass_class in load_passes().items():
        assert name.startswith("winograd-")
        assert format_pass(parse_pass(name)) == name
        # A dataclass without a docstring gets its signature as one.
        assert not str(pass_class.__doc__).startswith(f"{pass_class.__name__}(")


def test_every_file_of_passes_is_a_pass_with_a_lit_test_of_its_name() -> None:
    files = {path.stem for path in (ROOT / "passes").glob("*.py")} - {"__init__"}
    passes = {
        name
        for name, pass_class in load_passes().items()
        if pass_class.__module__.rpartition(".")[0] == "iree.winograd.passes"
    }
    assert {f"winograd-{file.replace('_', '-')}" for file in files} == passes
    for file in files:
        test = (ROOT / "test" / "passes" / f"{file.replace('_', '-')}.mlir").read_text()
        assert f"--winograd-{file.replace('_', '-')}" in test


def test_every_pass_of_the_project_has_a_row_in_its_page_and_a_lit_test() -> None:
    passes = load_passes().keys() - {"winograd-example"}
    page = (ROOT / "docs" / "passes.md").read_text()
    assert set(re.findall("^[|] `(winograd-[a-z-]+)` [|]", page, re.MULTILINE)) == passes
    tested = {
        name
        for path in (ROOT / "test").rglob("*.mlir")
        for run in re.findall("^// RUN: .*", path.read_text(), re.MULTILINE)
        for name in re.findall("--(winograd-[a-z-]+)", run)
    }
    assert passes <= tested
