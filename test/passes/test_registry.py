"""The text form of passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from iree.winograd.compiling.pass_pipeline import load_passes
from iree.winograd.passes.infrastructure import registry
from iree.winograd.passes.infrastructure.option import check_options, is_positive, option, options_of
from iree.winograd.passes.infrastructure.registry import (
    PassSyntaxError,
    format_pass,
    parse_pass,
    register_pass,
)

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Example:
    """A pass with an option of every type, and what only programs set."""

    output_tile: int | None = option(None, "a positive integer", accepts=is_positive)
    tiles: tuple[int, ...] = option((), "integers")
    pair: tuple[int, float] = option((1, 0.5), "an integer and a number")
    mode: Literal["compile", "load"] = option("compile")
    verbose: bool = option(False)
    layer: str = option("", "a pattern")
    file: str | None = option(None, "a file")
    observe: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        check_options(self)

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
        ("winograd-example{file=auto}", Example(file="auto")),
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
            "'output-tile' of 'winograd-example': must be auto or a positive integer, got 'four'",
        ),
        ("winograd-example{output-tile}", "option 'output-tile' of 'winograd-example': needs a value"),
        ("winograd-example{output-tile=0}", "must be auto or a positive integer, got '0'"),
        ("winograd-example{output-tile=1_0}", "must be auto or a positive integer, got '1_0'"),
        (
            "winograd-example{mode=never}",
            "'mode' of 'winograd-example': must be compile or load, got 'never'",
        ),
        ("winograd-example{verbose=perhaps}", "must be true or false, got 'perhaps'"),
        ("winograd-example{pair=1}", "must be an integer and a number, got '1'"),
        ("winograd-example{observe=1}", "'winograd-example' has no option 'observe'"),
        ("winograd-example{=4}", "can't read the options of 'winograd-example' from '=4' on"),
    ],
)
def test_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(PassSyntaxError, match=message):
        parse_pass(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"output_tile": 0}, "output_tile must be None or a positive integer, got 0"),
        ({"output_tile": True}, "output_tile must be None or a positive integer, got True"),
        ({"output_tile": "4"}, "output_tile must be None or a positive integer, got '4'"),
        ({"tiles": 2}, "tiles must be integers, got 2"),
        ({"pair": (1, 2, 3)}, "pair must be an integer and a number"),
        ({"mode": "never"}, "mode must be compile or load, got 'never'"),
        ({"layer": None}, "layer must be a pattern, got None"),
    ],
)
def test_values_that_programs_give_are_checked_alike(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Example(**values)


def test_names_are_unique_and_fields_are_those_of_dataclasses() -> None:
    class Plain:
        tiles: int = 2

    with pytest.raises(ValueError, match="registered twice"):
        register_pass("winograd-example")(Example)
    with pytest.raises(TypeError, match="must be a dataclass"):
        register_pass("winograd-other")(Plain)


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
    passes = {name: each for name, each in load_passes().items() if each is not Example}
    page = (ROOT / "docs" / "reference" / "passes.md").read_text()
    rows = re.findall("^[|] `(winograd-[a-z-]+)` [|].*[|](.*)[|]$", page, re.MULTILINE)
    documented = {name: set(re.findall("`([a-z-]+)`", options)) for name, options in rows}
    assert documented == {
        name: {option.text_name for option in options_of(pass_class)} for name, pass_class in passes.items()
    }
    tested = {
        name
        for path in (ROOT / "test").rglob("*.mlir")
        for run in re.findall("^// RUN: .*", path.read_text(), re.MULTILINE)
        for name in re.findall("--(winograd-[a-z-]+)", run)
    }
    assert passes.keys() <= tested
