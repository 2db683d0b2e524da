"""`iree-winograd run`, in this process."""

from __future__ import annotations

import json
import subprocess
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import iree.winograd
import numpy as np
import onnx
import pytest
import torch
from iree.winograd.cli import main
from iree.winograd.compiling import program
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.errors import CallError, CompilationError, InvalidOptionError
from iree.winograd.loading.signatures import TensorSignature
from iree.winograd.running.arguments import arguments_of
from iree.winograd.running.comparison import relative_error
from iree.winograd.running.cuda_events import cuda_events, kernels_of
from iree.winograd.running.images import Pixels
from iree.winograd.running.profile import (
    DispatchTime,
    Profile,
    dispatch_times,
    profile,
    with_layers,
    with_limits,
)
from iree.winograd.running.timing import time_calls, time_clients
from onnx_models import CHANNELS, FILTERS, convolution_model
from warm_python import iree_winograd

pytestmark = pytest.mark.xdist_group("run_command")

SHAPE = (3, CHANNELS, 12, 12)
DEVICE = ("--device", "local-sync", "--seconds", "0")
# Sums of 72 products and a bias; F(m, 3) may err some times as much as a direct convolution.
TOLERANCE = 8 * CHANNELS * 9 * UNIT_ROUNDOFF["float32"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`net.onnx`, and the program that it is compiled to in `net.vmfb`."""
    folder = tmp_path_factory.mktemp("run")
    onnx.save(convolution_model(), folder / "net.onnx")
    iree.winograd.compile(folder / "net.onnx", output=folder / "net.vmfb", threads=1)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["run", *map(str, arguments)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_results_are_those_of_onnxruntime(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image, result = folder / "image.npy", folder / "result.npy"
    np.save(image, np.random.default_rng(0).standard_normal(SHAPE, np.float32))
    arguments = (f"--input=image={image}", f"--output={result}", f"--compare={folder / 'net.onnx'}", "--json")
    record: dict[str, Any] = json.loads(run(capsys, folder / "net.vmfb", *DEVICE, *arguments))
    assert 0 < record["compare"]["largest_error"] < TOLERANCE
    (output,) = record["outputs"]
    assert output["name"] == "features:0" and output["shape"] == [3, FILTERS, 12, 12]
    assert record["first_call_seconds"] > 0 and "times" not in record
    expected = iree.winograd.load(folder / "net.vmfb", "local-sync")(np.load(image))
    np.testing.assert_array_equal(np.load(result), expected)
    assert output["max"] == expected.max()


def test_a_program_without_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """IREE keeps none of a function on torch-mlir's types."""
    program = tmp_path / "relu.vmfb"
    relu = """func.func @main(%a: !torch.vtensor<[2,3],f32>, %b: !torch.vtensor<[4],si64>)
    -> (!torch.vtensor<[2,3],f32>, !torch.vtensor<[4],si64>) {
  %0 = torch.aten.relu %a : !torch.vtensor<[2,3],f32> -> !torch.vtensor<[2,3],f32>
  return %0, %b : !torch.vtensor<[2,3],f32>, !torch.vtensor<[4],si64>
}"""
    iree.winograd.compile(relu, output=program, enable_winograd=False)
    stated = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.save(tmp_path / "a.npy", stated)
    results = [tmp_path / "relu.npy", tmp_path / "b.npy"]
    files = [f"--output={path}" for path in results]
    text = run(capsys, program, *DEVICE, f"--input={tmp_path / 'a.npy'}", "--input=4xi64", *files)
    assert text.splitlines()[0] == "0: float32[2, 3], 0 to 6"
    np.testing.assert_array_equal(np.load(results[0]), np.maximum(stated, 0))
    assert np.load(results[1]).dtype == np.int64
    for inputs, message in (
        (["2x3"], "takes 2 array(s) and doesn't tell of which types"),
        (["2x3", "4xq7"], "input 1: '4xq7' is neither"),
        (["2x4", "4xi64"], "expected shape `2x3`"),
    ):
        assert main(["run", str(program), *DEVICE, *(f"--input={each}" for each in inputs)]) == 1
        assert message in capsys.readouterr().err


def test_models_are_compiled_and_timed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, folder / "net.onnx", "--threads=1", "--seconds=0.01", "--json"))
    assert record["compile_seconds"] > 0
    times = record["times"]
    assert times["calls"] >= 10
    assert 0 < times["percentile_10"] <= times["median"] <= times["percentile_90"] <= times["percentile_99"]
    assert record["outputs"][0]["shape"] == [1, FILTERS, 12, 12]


def test_programs_of_torch_are_compared_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    exported = torch.export.export(model.eval(), (torch.zeros(2, 8),))
    torch.export.save(exported, tmp_path / "linear.pt2")
    iree.winograd.compile(iree.winograd.import_torch(exported), output=tmp_path / "linear.vmfb")
    said = run(capsys, tmp_path / "linear.vmfb", *DEVICE, "--compare", tmp_path / "linear.pt2", "--json")
    compared = json.loads(said)["compare"]
    assert compared["peer"] == f"torch {torch.__version__}"
    # Sums of eight products and a bias on both sides.
    assert compared["largest_error"] < 2 * 9 * 8 * UNIT_ROUNDOFF["float32"]


def test_a_file_that_torch_cannot_read_is_named_without_a_trace(folder: Path) -> None:
    (folder / "text.pt2").write_text("text")
    command = iree_winograd("run", "net.vmfb", *DEVICE, "--compare=text.pt2")
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("iree-winograd: error: cannot compare with 'text.pt2': ")


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, np.inf, 1.0], [np.nan, np.inf, 2.0], 0.5),
        ([np.nan, 1.0], [1.0, 1.0], np.inf),
        ([1.0, np.inf], [1.0, -np.inf], np.inf),
        ([0.5, 0.0], [0.0, 0.0], 0.5),
        ([], [], 0.0),
    ],
)
def test_differences_from_a_peer(actual: list[float], expected: list[float], error: float) -> None:
    assert relative_error(np.float32(actual), np.float32(expected)) == error


@pytest.mark.parametrize(("device", "threads"), [("local-sync", 1), ("local-task", None)])
def test_programs_are_compiled_for_the_threads_that_they_run_on(
    folder: Path, device: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def record(source: object, **options: object) -> None:
        given.append(options["threads"])
        raise CompilationError("not now")

    monkeypatch.setattr(program, "compile", record)
    assert main(["run", str(folder / "net.onnx"), "--device", device]) == 1
    assert given == [threads]


def test_sizes_that_a_model_leaves_open(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(run(capsys, folder / "net.onnx", *DEVICE, "--size", "N=2", "--json"))
    assert record["outputs"][0]["shape"] == [2, FILTERS, 12, 12]


def test_dispatches_are_measured(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    said = run(
        capsys, folder / "net.vmfb", *DEVICE, f"--input={'x'.join(map(str, SHAPE))}", f"--trace={trace}"
    )
    assert "dispatches" not in said
    events = json.loads(trace.read_text())["traceEvents"]
    # IREE's tools cut the names of files at an @.
    program = tmp_path / "net@1.vmfb"
    program.write_bytes((folder / "net.vmfb").read_bytes())
    measured = profile(program, "main", [np.zeros(SHAPE, np.float32)], "local-sync", 1)
    assert any("winograd" in each.kernel for each in measured.dispatches)
    # All calls have the same dispatches, also where the batch is known only at run time.
    assert len(events) == len(measured.events) == 20 * len(measured.dispatches)
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)


def test_kernels_of_cuda_are_those_that_cupti_tells() -> None:
    def activity(name: str, begin: float, end: float) -> SimpleNamespace:
        return SimpleNamespace(
            name=name, time_range=SimpleNamespace(start=begin, end=end), device_index=0, device_type=None
        )

    # Of twenty calls, of which torch needn't tell in order.
    calls = [10.0 * number for number in range(20)]
    activities = [activity("second", begin + 4, begin + 9) for begin in calls]
    activities += [activity("first", begin, begin + 3) for begin in calls]
    activities += [activity("Memcpy HtoD (Pinned -> Device)", begin - 1, begin) for begin in calls]
    events = tuple(kernels_of(activities))
    times = [(each.kernel, each.seconds) for each in dispatch_times(events)]
    assert times == [("first", pytest.approx(3e-6)), ("second", pytest.approx(5e-6))]
    trace = Profile((), events).trace()["traceEvents"]
    assert [event["ts"] for event in trace[:3]] == pytest.approx([0, 4, 10])


def test_profiles_on_cuda_need_torch_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CallError, match="a torch that is built for it"):
        cuda_events(lambda: None, 20)


@pytest.mark.wide
def test_dispatches_of_a_gpu_are_measured(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program, trace = folder / "net.onnx", tmp_path / "trace.json"
    options = ("--device=vulkan", "--seconds=0", f"--input={'x'.join(map(str, SHAPE))}", f"--trace={trace}")
    record = json.loads(run(capsys, program, *options, "--profile", "--json"))
    dispatches = record["dispatches"]
    limited = [each for each in dispatches if each["limit"] is not None]
    assert {each["layer"] for each in limited} == {"/stem/Conv"}
    assert all(each["limit"] > 0 for each in limited)
    assert any("winograd" in each["kernel"] for each in dispatches)
    assert all(each["seconds"] > 0 for each in dispatches)
    events = json.loads(trace.read_text())["traceEvents"]
    assert len(events) == 20 * len(dispatches)
    assert min(event["ts"] for event in events) == 0
    # One begins after the other has ended.
    ordered = sorted(events, key=lambda event: event["ts"])
    assert all(one["ts"] < other["ts"] for one, other in pairwise(ordered))


def test_the_table_of_dispatches() -> None:
    events = [
        {"event_id": number, "key": key, "duration_ns": 1000 * (number % 2 + 1)}
        for number, key in enumerate(["first", "second"] * 20)
    ]
    table = Profile(dispatch_times(events), tuple(events)).table().splitlines()
    assert [line.split()[-1] for line in table] == ["dispatches", "second", "first"]
    assert "66.7%" in table[1]


def test_limits_are_beside_the_dispatches_of_their_layers() -> None:
    times = [
        DispatchTime(0, "input", 2.0, "a"),
        DispatchTime(1, "output", 4.0, "a"),
        DispatchTime(2, "sum", 3.0),
        DispatchTime(3, "product", 1.0, "b"),
    ]
    limited = with_limits(times, {"a": 0.003, "b": 0.5, "other": 7.0})
    assert [each.limit for each in limited] == [0.003, 0.003, None, 0.5]
    total, *rows = Profile(limited, ()).table().splitlines()
    assert total.endswith("all dispatches") and "limit    503.000 ms" in total
    assert ["limit" in row for row in rows] == [True, False, True, True]
    assert (
        len({row.index(name) for row, name in zip(rows, ("output", "sum", "input", "product"), strict=True)})
        == 1
    )
    assert "limit" not in Profile(tuple(times), ()).table()


def test_percentiles() -> None:
    ticks = iter(np.cumsum([0.0, *(float(number) for number in range(1, 12))]).tolist())
    times = time_calls(lambda: None, 60.0, lambda: next(ticks))
    assert times.calls == 11
    assert times.calls_per_second == 11 / 66
    assert (times.median, times.percentile_10, times.percentile_90) == (6.0, 2.0, 10.0)
    assert str(times).startswith("median 6 s, 10 % 2 s, 90 % 10 s, 99 % 10.9 s of 11 calls, 0.1667 calls/s")


def test_clients_call_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On one thread each, which is that of the client, so that there may be two calls at a time."""
    options = ("--threads=1", "--clients=2", "--seconds=0.01", "--json")
    record = json.loads(run(capsys, folder / "net.vmfb", *options))
    times = record["times"]
    assert times["clients"] == 2 and times["calls"] >= 20
    assert times["calls_per_second"] > 0
    assert record["load_seconds"] > 0 and record["peak_memory_bytes"] > 2**20


def test_all_clients_wait_for_each_other() -> None:
    together = threading.Barrier(3)
    times = time_clients([lambda: together.wait(10)] * 3, 0.0)
    assert times.calls == 30 and times.clients == 3

    def fail() -> None:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        time_clients([lambda: None, fail], 0.0)


CHANNELS_FIRST = TensorSignature((2, 3, 4, 6), "f32", "image")


def test_images_are_arguments(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    array = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    path = str(tmp_path / "a.PNG")
    image.fromarray(array).save(path)
    mean, deviation = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    (first,) = arguments_of([CHANNELS_FIRST], [path], Pixels(mean, deviation))
    expected = (array / 255 - mean) / deviation
    assert first.shape == CHANNELS_FIRST.shape and first.dtype == np.float32
    # The value is rounded once, after sums and quotients in float64.
    np.testing.assert_allclose(first[1], expected.transpose(2, 0, 1), rtol=2 * UNIT_ROUNDOFF["float32"])
    (last,) = arguments_of([TensorSignature((None, None, None, 3), "ui8")], [f"0={path}"])
    np.testing.assert_array_equal(last, array[None])
    (gray,) = arguments_of([TensorSignature((1, 4, 6), "i32", "image")], [f"image={path}"])
    assert gray.shape == (1, 4, 6) and gray.dtype == np.int32
    with pytest.raises(InvalidOptionError, match=r"takes images of any x 224 pixels .* has 6 x 4"):
        arguments_of([TensorSignature((1, 3, 224, None), "f32", "image")], [path])
    with pytest.raises(InvalidOptionError, match="input image has 1 channel"):
        arguments_of([TensorSignature((1, 4, 6), "f32", "image")], [path], Pixels(mean))
    Path(path).write_text("no image")
    with pytest.raises(InvalidOptionError, match="is no image that Pillow reads"):
        arguments_of([CHANNELS_FIRST], [path])


def test_arrays_of_other_files_are_arguments(tmp_path: Path) -> None:
    inputs = [TensorSignature((None, 2), "f32", "x"), TensorSignature((2,), "i64", "y")]
    x, y = np.float32([[1, 2], [3, 4], [5, 6]]), np.int64([7, 8])
    np.savez(tmp_path / "both.npz", x=x, y=y, z=y)
    np.savez(tmp_path / "one.npz", y)
    x.tofile(tmp_path / "x.raw")
    for descriptions in (["both.npz"], ["x=x.raw", "y=one.npz"], ["x.raw", "y=both.npz"]):
        paths = [
            f"{name}{equals}{tmp_path / file}"
            for name, equals, file in (each.rpartition("=") for each in descriptions)
        ]
        arguments = arguments_of(inputs, paths)
        np.testing.assert_array_equal(arguments[0], x)
        np.testing.assert_array_equal(arguments[1], y)


def test_models_are_compiled_with_flags(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The profile names the layer that IREE's own code computes then, and so does the report."""
    sizes = f"--input={'x'.join(map(str, SHAPE))}"
    flags = ("--", "--iree-winograd-deny-layers=0", "--iree-llvmcpu-debug-symbols=false")
    record = json.loads(run(capsys, folder / "net.onnx", *DEVICE, sizes, "--profile", "--json", *flags))
    dispatches = record["dispatches"]
    assert not any("winograd" in each["kernel"] for each in dispatches)
    assert "/stem/Conv" in {each["layer"] for each in dispatches}


def test_the_report_has_measured_dispatches(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "net.json"
    sizes = f"--input={'x'.join(map(str, SHAPE))}"
    said = run(capsys, folder / "net.onnx", *DEVICE, sizes, "--profile", "--json", "--report", path)
    report, dispatches = json.loads(path.read_text()), json.loads(said)["dispatches"]
    assert report["model"] == str(folder / "net.onnx")
    assert [each["seconds"] for each in report["dispatches"]] == [each["seconds"] for each in dispatches]
    assert {each["name"] for each in report["dispatches"] if each["is_layer"]} == {"/stem/Conv"}


def test_kernels_are_named_by_their_layers() -> None:
    times = [DispatchTime(place, kernel, 1.0) for place, kernel in enumerate("abcab")]
    named = with_layers(times, {"a": ["one", "two"], "b": ["loop"]})
    assert [each.layer for each in named] == ["one", "loop", "", "two", "loop"]
    assert Profile(named, ()).table().splitlines()[1].endswith("a  one")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.vmfb"], "can't read 'missing.vmfb': No such file or directory"),
        (["missing.onnx"], "cannot open 'missing.onnx': No such file or directory"),
        (["net.vmfb", "--device", "abacus"], "--device must be one of local-task, local-sync, cuda"),
        (["net.vmfb", "--function", "other"], "the program has no function 'other', only main"),
        (
            ["net.vmfb", "--input", "photo"],
            "input image: 'photo' is neither sizes like 1x3x224x224 nor one of .npy",
        ),
        (["net.vmfb", "--input", "photo=1"], "the program has no input 'photo', only image"),
        (["net.vmfb", "--input", "1", "--input", "1"], "the program has 1 input(s), none for '1'"),
        (["net.vmfb", "--input", "missing.npy"], "cannot read 'missing.npy': No such file or directory"),
        (["net.vmfb", "--input", "text.npy"], "'text.npy' is no array that numpy saved"),
        (["net.vmfb", "--input", "2x2"], "input image must be tensor<?x8x12x12xf32>, not of sizes 2x2"),
        (
            ["net.vmfb", "--input", f"{10**30}x8x12x12"],
            f"input image: {10**30}x8x12x12 are more elements than memory holds",
        ),
        (["net.vmfb", "--input", "one.npy"], "argument 0 of main must be tensor<?x8x12x12xf32>, got float64"),
        (["net.vmfb", "--input", "zip.npy"], "'zip.npy' is no array that numpy saved"),
        (
            ["net.vmfb", "--output", "no/folder.npy"],
            "cannot write 'no/folder.npy': No such file or directory",
        ),
        (["net.vmfb", "--output", "/dev/full"], "cannot write '/dev/full': "),
        (["net.vmfb", "--output", "a.npy", "--output", "b.npy"], "the function has 1 result(s), not 2"),
        (["net.vmfb", "--compare"], "--compare needs the model to compare with, unless PROGRAM is an .onnx"),
        (["net.vmfb", "--compare", "net.vmfb"], "'net.vmfb' to compare with is neither an .onnx nor a .pt2"),
        (["net.vmfb", "--compare", "text.onnx"], "cannot compare with 'text.onnx': "),
        (["net.vmfb", "--compare", "small.onnx"], "cannot compare with 'small.onnx': [ONNXRuntimeError]"),
        (
            ["net.vmfb", "--compare", "two.onnx"],
            "cannot compare with 'two.onnx': it has 2 input(s), the program 1",
        ),
        (["net.vmfb", "--tuning-database", "a.db"], "net.vmfb is compiled already: flags, databases and"),
        (["net.vmfb", "--input", "text.npz"], "'text.npz' holds no arrays that numpy saved"),
        (["net.vmfb", "--input", "b=two.npz"], "'two.npz' has no array b, only x, y"),
        (["net.vmfb", "--input", "two.npz"], "'two.npz' has no array image, only x, y"),
        (
            ["net.vmfb", "--input", "text.raw"],
            "input image must be tensor<?x8x12x12xf32>, 'text.raw' has 4 byte",
        ),
        (["net.vmfb", "--input", "a.png"], "input image is tensor<?x8x12x12xf32>, no image of one or three"),
        (["net.onnx", "--", "-o", "net.vmfb"], "'o' after -- is no flag that says how to compile"),
        (["net.onnx", "--", "--no-such-flag"], "Error parsing flags: option not found: no-such-flag"),
        (["net.vmfb", "--size", "N=2"], "--size, --size-hint and --dynamic-batch are for ONNX models"),
        (["net.onnx", "--size", "M=2"], "no input has a dimension 'M'; there is N"),
    ],
)
def test_what_is_wrong_is_named(
    folder: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    for name in ("text.npy", "text.npz", "text.raw"):
        Path(name).write_text("text")
    np.savez("two.npz", x=np.ones(1), y=np.ones(1))
    Path("text.onnx").write_text("text")
    Path("zip.npy").write_bytes(b"PK\x03\x04")
    np.save("one.npy", np.ones(1))
    onnx.save(convolution_model((1, CHANNELS, 9, 9)), "small.onnx")
    two = convolution_model()
    two.graph.input.append(onnx.helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, (1,)))
    onnx.save(two, "two.onnx")
    program, *rest = arguments
    device = DEVICE[2:] if "--device" in rest else DEVICE
    assert main(["run", program, *device, *rest]) == 1
    assert capsys.readouterr().err.startswith(f"iree-winograd: error: {message}")
