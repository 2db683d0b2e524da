"""`iree-winograd transform` prints what the algebra derives, and names impossible input."""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest
from iree.winograd.commands.transform import add_parser
from iree.winograd.commands.transform_report import recipe_lines
from iree.winograd.commands.transform_tables import all_tables
from iree.winograd.dialect.algebra.transforms import from_data, transforms
from wide import wide

DOCUMENT = Path(__file__).parents[2] / "docs" / "measurements" / "transforms.md"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="iree-winograd")
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["transform", *arguments])
    return options.run(options)


def test_text_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-m", "4", "-r", "3") == 0
    text = capsys.readouterr().out
    assert text.startswith("F(4, 3): 4 outputs of a 3-tap filter from tiles of 6")
    for part in ("points: 0 5/8 -5/8 3/2 -3/2 inf", "A^T", "G, filter", "B^T", "depth", "live values", "2-D"):
        assert part in text
    assert "expected relative error" in text


def test_printed_recipes_compute_the_transform() -> None:
    found = transforms(4, 3)
    for recipe in (found.output, found.filter, found.input):
        inputs = {f"x{index}": Fraction(index * index + 1, 7) for index in range(recipe.inputs)}
        values: dict[str, Fraction] = dict(inputs)
        for line in recipe_lines(recipe):
            name, expression = line.split(" = ")
            values[name] = evaluate(expression, values)
        expected = recipe.apply(list(inputs.values()))
        assert [values[f"y{index}"] for index in range(len(expected))] == expected


def evaluate(expression: str, values: dict[str, Fraction]) -> Fraction:
    match expression.split():
        case [constant, "*", a, "+", b]:
            return Fraction(constant) * values[a] + values[b]
        case [constant, "*", a]:
            return Fraction(constant) * values[a]
        case [a, "+", b]:
            return values[a] + values[b]
        case [a, "-", b]:
            return values[a] - values[b]
        case [a] if a.startswith("-"):
            return -values[a[1:]]
        case [a]:
            return values.get(a, Fraction(0))
    raise AssertionError(expression)


def test_json_round_trip(capsys: pytest.CaptureFixture[str]) -> None:
    run("-m", "4", "-r", "3", "--json")
    data = json.loads(capsys.readouterr().out)
    assert from_data(data) == transforms(4, 3)
    assert data["counts"]["2-D"]["recipe"]["input"]["instructions"] == 144
    assert data["counts"]["1-D"]["dense"]["output"]["multiplications"] == 24
    assert 0 < data["predicted_errors"][0]["relative"] < 1e-5


def test_points_of_the_users_choice(capsys: pytest.CaptureFixture[str]) -> None:
    run("-m", "2", "-r", "3", "--points", "0,1,-1", "--json")
    with_infinity_added = json.loads(capsys.readouterr().out)
    run("-m", "2", "-r", "3", "--points=0,1,-1,inf", "--json")
    assert json.loads(capsys.readouterr().out) == with_infinity_added
    assert with_infinity_added["points"] == ["0", "1", "-1", "inf"]
    run("-m", "2", "-r", "2", "--points=-1/2,3,7", "--json")
    assert json.loads(capsys.readouterr().out)["points"] == ["-1/2", "3", "7"]


@pytest.mark.parametrize("size", [("1", "1"), ("3", "1"), ("1", "5"), *wide([("11", "4")])])
def test_sizes_without_interpolation_and_unshipped_ones(
    size: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("-m", size[0], "-r", size[1]) == 0
    assert f"F({size[0]}, {size[1]})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("-m and -r are needed", []),
        ("-m and -r go together", ["-m", "4"]),
        ("at least one output, but m = 0", ["-m", "0", "-r", "3"]),
        ("at least one tap, but r = -2", ["-m", "2", "-r", "-2"]),
        ("F(4, 3) needs 6 points (with infinity, where used), but 2", ["-m", "4", "-r", "3", "--points=0,1"]),
        ("F(30, 3) has tiles of 32 inputs", ["-m", "30", "-r", "3"]),
        ("distinct, but 1 is repeated", ["-m", "2", "-r", "3", "--points=0,1,1"]),
        ("'a' is not an interpolation point", ["-m", "2", "-r", "3", "--points=0,1,a"]),
        ("--points needs -m and -r", ["--table", "--points=0"]),
        ("must end in .svg, but it is plot.png", ["--plot", "plot.png"]),
        ("the plot can't be written: ", ["--plot", "no/such/folder/plot.svg"]),
    ],
)
def test_impossible_input_is_named(
    message: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        run(*arguments)
    assert exit.value.code == 2
    assert message in capsys.readouterr().err


def test_a_plot_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plot.svg"
    path.write_text("before")

    def fill(path: Path, text: str, **options: object) -> int:
        path.open("w").close()
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(SystemExit):
        run("--plot", str(path))
    assert path.read_text() == "before"


def test_plot_is_an_svg_with_a_panel_per_transform_and_filter(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    assert run("--plot", str(path)) == 0
    root = ElementTree.parse(path).getroot()
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum("transform, r = " in title for title in titles if title) == 9


def test_the_document_holds_the_current_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--table") == 0
    assert capsys.readouterr().out == all_tables()
    assert all_tables() in DOCUMENT.read_text()
