"""Reports on decisions: what they say, against the IR and the schema, and how files appear."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import iree.winograd as winograd
import pytest
from iree.winograd.compiling import compilation
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure import registry
from iree.winograd.passes.infrastructure.algorithm import algorithm_of
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.prediction import TIME_TOLERANCE
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm
from iree.winograd.report import schema
from iree.winograd.report.decisions import decision_report
from iree.winograd.report.schema import DecisionReport, LayerReport
from small_programs import ADD

REPORT_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "report.md"

# A 3x3 convolution with 64 channels, one of a type without kernels, and a 1x1 convolution.
CONVOLUTIONS = """\
func.func @convolutions(
    %x: tensor<1x30x30x64xf32>, %w: tensor<3x3x64x32xf32>, %y: tensor<1x28x28x32xf32>,
    %h: tensor<1x9x9x4xi32>, %v: tensor<3x3x4x4xi32>, %g: tensor<1x7x7x4xi32>,
    %u: tensor<1x1x32x8xf32>, %z: tensor<1x28x28x8xf32>) -> (tensor<1x28x28x8xf32>, tensor<1x7x7x4xi32>) {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x30x30x64xf32>, tensor<3x3x64x32xf32>)
    outs(%y : tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32> loc("layer<1> & \\"more\\"")
  %1 = linalg.conv_2d_nhwc_hwcf ins(%h, %v : tensor<1x9x9x4xi32>, tensor<3x3x4x4xi32>)
    outs(%g : tensor<1x7x7x4xi32>) -> tensor<1x7x7x4xi32> loc("whole")
  %2 = linalg.conv_2d_nhwc_hwcf ins(%0, %u : tensor<1x28x28x32xf32>, tensor<1x1x32x8xf32>)
    outs(%z : tensor<1x28x28x8xf32>) -> tensor<1x28x28x8xf32> loc("pointwise")
  return %2, %1 : tensor<1x28x28x8xf32>, tensor<1x7x7x4xi32>
}
"""
DYNAMIC_BATCH = """\
func.func @convolution(%x: tensor<?x30x30x64xf32>, %w: tensor<3x3x64x32xf32>, %y: tensor<?x28x28x32xf32>)
    -> tensor<?x28x28x32xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<?x30x30x64xf32>, tensor<3x3x64x32xf32>)
    outs(%y : tensor<?x28x28x32xf32>) -> tensor<?x28x28x32xf32>
  return %0 : tensor<?x28x28x32xf32>
}
"""
# A fully connected layer, a product of matrices known at run time, and a convolution.
MATMULS = """\
func.func @matmuls(
    %x: tensor<3x512xf32>, %m: tensor<256x64xf32>, %i: tensor<1x10x10x4xf32>, %w: tensor<3x3x4x4xf32>)
    -> (tensor<3x64xf32>, tensor<1x8x8x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %matrix = arith.constant dense<0.5> : tensor<512x256xf32>
  %e0 = tensor.empty() : tensor<3x256xf32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<3x256xf32>) -> tensor<3x256xf32>
  %0 = linalg.matmul ins(%x, %matrix : tensor<3x512xf32>, tensor<512x256xf32>)
    outs(%z0 : tensor<3x256xf32>) -> tensor<3x256xf32> loc("classifier")
  %e1 = tensor.empty() : tensor<3x64xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3x64xf32>) -> tensor<3x64xf32>
  %1 = linalg.matmul ins(%0, %m : tensor<3x256xf32>, tensor<256x64xf32>)
    outs(%z1 : tensor<3x64xf32>) -> tensor<3x64xf32>
  %e2 = tensor.empty() : tensor<1x8x8x4xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %2 = linalg.conv_2d_nhwc_hwcf ins(%i, %w : tensor<1x10x10x4xf32>, tensor<3x3x4x4xf32>)
    outs(%z2 : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  return %1, %2 : tensor<3x64xf32>, tensor<1x8x8x4xf32>
}
"""
DIRECT_OPERATIONS = 2 * 28 * 28 * 32 * 9 * 64


def report_of(source: str, folder: Path, **options: Any) -> DecisionReport:
    path = folder / "report.json"
    assert winograd.compile(source, report=path, **options)
    report: DecisionReport = json.loads(path.read_text())
    return report


def violations(value: object, expected: Any, path: str) -> Iterator[str]:
    """Where `value` has another type than `expected`, a class or what stands for one in annotations."""
    if is_typeddict(expected):
        if not isinstance(value, dict) or set(value) != set(get_type_hints(expected)):
            yield f"{path} has other fields: {value}"
            return
        for name, hint in get_type_hints(expected).items():
            yield from violations(value[name], hint, f"{path}.{name}")
    elif get_origin(expected) in (Union, types.UnionType):
        if all(list(violations(value, member, path)) for member in get_args(expected)):
            yield f"{path} is {value!r}, not {expected}"
    elif get_origin(expected) is list and isinstance(value, list):
        for index, item in enumerate(value):
            yield from violations(item, get_args(expected)[0], f"{path}[{index}]")
    elif get_origin(expected) is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from violations(item, get_args(expected)[1], f"{path}[{key}]")
    elif expected is not Any and type(value) is not (get_origin(expected) or expected):
        yield f"{path} is {value!r}, not {expected}"


@pytest.mark.parametrize("target", ["cpu", "vulkan:rdna3"])
@pytest.mark.parametrize("source", [ADD, DYNAMIC_BATCH])
def test_schema(source: str, target: str, tmp_path: Path) -> None:
    report = report_of(source, tmp_path, target=target)
    assert list(violations(report, DecisionReport, "report")) == []
    assert report["schema_version"] == schema.SCHEMA_VERSION


def test_the_page_on_reports_has_the_schema() -> None:
    page = REPORT_PAGE.read_text()
    schemas = [value for value in vars(schema).values() if is_typeddict(value)]
    assert DecisionReport in schemas
    for each in schemas:
        for name in get_type_hints(each):
            assert f"`{name}`" in page, f"{each.__name__}.{name}"


def test_content(tmp_path: Path) -> None:
    report = report_of(CONVOLUTIONS, tmp_path, threads=1)
    assert list(violations(report, DecisionReport, "report")) == []
    assert report["failures"] == []
    assert report["totals"]["failures"] == 0
    tiled, whole, pointwise = report["layers"]
    assert [each["number"] for each in report["layers"]] == [0, 1, 2]
    assert [each["names"][0] for each in report["layers"]] == ['layer<1> & "more"', "whole", "pointwise"]

    assert tiled["problem"] is not None
    assert tiled["problem"]["text"].startswith("1x30x30x64->32 kernel 3x3")
    assert tiled["problem"]["output_size"] == [28, 28]
    assert tiled["direct_operations"] == DIRECT_OPERATIONS
    assert tiled["least_bytes"] == 4 * (30 * 30 * 64 + 3 * 3 * 64 * 32 + 28 * 28 * 32)
    assert tiled["chosen"] is not None
    for candidate in tiled["candidates"]:
        assert candidate["predicted_seconds"] == pytest.approx(sum(candidate["stage_seconds"].values()))
        m, p = candidate["output_tile"], candidate["part_size"]
        tiles = ceil_div(28, m[0]) * ceil_div(28, m[1])
        # Of the parts of three taps one of a single tap leaves out its element of the other.
        rows, columns = (ceil_div(3, p[d]) * (m[d] + p[d] - 1) - (p[d] == 2) for d in range(2))
        assert candidate["operations"] == 2 * rows * columns * tiles * 64 * 32
    (direct,) = (each for each in tiled["candidates"] if each["algorithm"] == "a direct convolution")
    assert direct["operations"] == DIRECT_OPERATIONS

    assert whole["chosen"] is None
    assert whole["reason"] == "its body is not a multiplication and an addition"
    assert whole["candidates"] == []
    assert whole["least_bytes"] is None

    assert pointwise["chosen"] == 0
    totals = report["totals"]
    chosen = [tiled["candidates"][tiled["chosen"]], pointwise["candidates"][0]]
    assert (totals["layers"], totals["rewritten"]) == (3, 2)
    assert totals["predicted_seconds"] == pytest.approx(sum(each["predicted_seconds"] for each in chosen))
    assert totals["operations"] == sum(each["operations"] for each in chosen)
    assert totals["direct_operations"] == DIRECT_OPERATIONS + 2 * 28 * 28 * 32 * 8


def test_says_what_the_ir_gets() -> None:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(CONVOLUTIONS)
        decisions: list[Decision] = []
        SelectAlgorithm(observe=decisions.append).run(module.operation)
        report = decision_report(decisions)
        algorithms = [algorithm_of(operation) for operation in convolutions(module.operation)]
    assert len(report["layers"]) == 3

    def reported(convolution: LayerReport) -> tuple[list[int], list[int]] | None:
        chosen = schema.choice(convolution)
        return None if chosen is None else (chosen["output_tile"], chosen["part_size"])

    assert [reported(each) for each in report["layers"]] == [
        None if algorithm is None else (list(algorithm.output_tile), list(algorithm.part_size))
        for algorithm in algorithms
    ]


def test_a_fully_connected_layer(tmp_path: Path) -> None:
    """Beside a product that is none: both are in the report, in program order among convolutions."""
    report = report_of(MATMULS, tmp_path, target="cpu:haswell", threads=1)
    assert list(violations(report, DecisionReport, "report")) == []
    first, computed, second = report["layers"]
    assert [(each["kind"], each["number"]) for each in report["layers"]] == [
        ("matmul", 0),
        ("matmul", 1),
        ("convolution", 0),
    ]
    assert computed["reason"] == "its matrix is known only when running it"
    assert (computed["problem"], computed["chosen"]) == (None, None)
    assert second["chosen"] is not None
    assert first["names"][0] == "classifier" and first["problem"] is not None
    assert first["problem"]["text"] == "1x3x512->256 matmul f32"
    assert first["direct_operations"] == 2 * 3 * 512 * 256
    assert first["least_bytes"] == 4 * (3 * 512 + 512 * 256 + 3 * 256)
    kinds = [candidate["schedule"]["kind"] for candidate in first["candidates"]]
    assert sorted(kinds) == ["direct", "iree"]
    assert first["chosen"] is not None and not first["tuned"]
    chosen = first["candidates"][first["chosen"]]
    for candidate in first["candidates"]:
        assert candidate["predicted_seconds"] == pytest.approx(sum(candidate["stage_seconds"].values()))
        assert chosen["predicted_seconds"] <= (1 + TIME_TOLERANCE) * candidate["predicted_seconds"]


def test_one_row_on_a_gpu_is_left_to_iree_with_its_prediction(tmp_path: Path) -> None:
    source = (
        MATMULS.replace("<3x64xf32", "<1x64xf32")
        .replace("<3x256xf32", "<1x256xf32")
        .replace("<3x512xf32", "<1x512xf32")
    )
    report = report_of(source, tmp_path, target="vulkan")
    (first, *_) = report["layers"]
    assert first["chosen"] is not None and schema.is_left_to_iree(first)
    assert first["reason"].startswith("IREE's own code is predicted to take")
    assert first["candidates"][first["chosen"]]["predicted_seconds"] is not None
    path = tmp_path / "report.html"
    winograd.compile(source, target="vulkan", report=path)
    assert 'id="matmul-0"' in path.read_text() and "<div>left to IREE</div>" in path.read_text()


def test_layers_that_are_not_allowed(tmp_path: Path) -> None:
    report = report_of(CONVOLUTIONS, tmp_path, deny=("0", "pointwise"))
    assert [each["chosen"] for each in report["layers"]] == [None, None, None]
    assert report["layers"][0]["reason"] == "the layer patterns exclude it"
    assert report["totals"]["rewritten"] == 0
    assert report["totals"]["predicted_seconds"] == 0


def test_limits_are_those_of_all_threads(tmp_path: Path) -> None:
    limits = [report_of(DYNAMIC_BATCH, tmp_path, threads=threads)["limits"] for threads in (1, 2)]
    assert limits[0] is not None and limits[1] is not None
    assert limits[1]["operations_per_second"] == 2 * limits[0]["operations_per_second"]
    for one, two in zip(limits[0]["bandwidths"], limits[1]["bandwidths"], strict=True):
        assert one["name"] == two["name"]
        assert one["bytes_per_second"] < two["bytes_per_second"] <= 2 * one["bytes_per_second"]


@pytest.mark.parametrize("target", ["cpu", "vulkan:rdna3"])
def test_a_batch_known_only_at_run_time(target: str, tmp_path: Path) -> None:
    report = report_of(DYNAMIC_BATCH, tmp_path, target=target)
    batch = report["dynamic_batch"]
    assert batch == (1 if target == "cpu" else 64)
    (convolution,) = report["layers"]
    assert convolution["problem"] is not None and convolution["problem"]["batch"] is None
    assert convolution["direct_operations"] == batch * DIRECT_OPERATIONS
    assert convolution["least_bytes"] == 4 * (batch * (30 * 30 * 64 + 28 * 28 * 32) + 9 * 64 * 32)
    # IREE's own code is one more on AMD's GPUs.
    direct = [each for each in convolution["candidates"] if set(each["output_tile"]) == {1}]
    assert len(direct) == (1 if target == "cpu" else 2)
    assert {each["operations"] for each in direct} == {batch * DIRECT_OPERATIONS}


@dataclass(frozen=True)
class Crash:
    """Fails as a pass should not."""

    def run(self, module: ir.Operation) -> None:
        raise KeyError("an oversight")


@pytest.mark.parametrize("suffix", ["json", "html"])
def test_says_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str) -> None:
    monkeypatch.setitem(registry._names, Crash, "winograd-test")
    monkeypatch.setattr(
        compilation,
        "compile_pipeline",
        lambda options, observe=None, warn=None, **others: [SelectAlgorithm(observe=observe), Crash()],
    )
    path = tmp_path / f"report.{suffix}"
    with pytest.warns(winograd.RewriteWarning):
        winograd.compile(DYNAMIC_BATCH, report=path)
    text = path.read_text()
    assert "KeyError: 'an oversight'" in text
    if suffix == "json":
        report = json.loads(text)
        (failure,) = report["failures"]
        assert failure["reason"] == "KeyError: 'an oversight'"
        assert failure["left_out"] == "winograd-test"
        assert len(report["layers"]) == 1


@pytest.mark.parametrize("suffix", ["json", "html"])
def test_a_failed_compilation_leaves_the_file_alone(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report.{suffix}"
    path.write_text("before")
    with pytest.raises(winograd.CompilationError, match="signless"):
        winograd.compile(ADD.replace("addf", "addi"), report=path)
    with pytest.raises(winograd.CompilationError, match="no kernels"):
        winograd.compile(DYNAMIC_BATCH, report=path, flags=["--iree-hal-local-target-device-backends=vmvx"])
    with pytest.raises(winograd.CompilationError, match="cannot write output file"):
        winograd.compile(ADD, report=path, output=tmp_path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["report.md", "report", "report.JSON"])
def test_a_file_of_no_known_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(winograd.InvalidOptionError, match=r"must be an \.html or \.txt or \.json file, got"):
        winograd.compile(ADD, report=tmp_path / name)


def test_a_report_on_nothing(tmp_path: Path) -> None:
    with pytest.raises(winograd.InvalidOptionError, match="needs enable_winograd=True"):
        winograd.compile(ADD, report=tmp_path / "report.json", enable_winograd=False)


def test_a_file_that_cannot_be_written_is_reported_before_compiling(tmp_path: Path) -> None:
    """The program doesn't compile either, but that takes longer to find out."""
    path = tmp_path / "missing" / "report.json"
    with pytest.raises(winograd.CompilationError, match=f"cannot open report file '{path}': No such file"):
        winograd.compile("not\nMLIR", report=path)
