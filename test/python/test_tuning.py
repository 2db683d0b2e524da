"""Tuning from end to end: programs in, a database out, on this machine and on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import distributed
import iree.winograd
import numpy as np
import pytest
from iree.winograd import InvalidOptionError, TuningError, cli, tune
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_record
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.tuning_database import Entry, TuningDatabase
from iree.winograd.targets import target_flags
from iree.winograd.tuning import tuner
from iree.winograd.tuning.measuring.outcome import Failure, Outcome, Timing
from iree.winograd.tuning.progress import brief
from iree.winograd.tuning.schedulers.batch import Batch, MeasuringDevice
from iree.winograd.tuning.schedulers.dask import DaskScheduler
from iree.winograd.tuning.schedulers.local import LocalScheduler
from wide import wide

CONVOLUTION = """
  %init_{n} = linalg.fill ins(%zero : f32) outs(%empty_{size} : tensor<1x{size}x{size}x8xf32>)
    -> tensor<1x{size}x{size}x8xf32>
  %{n} = linalg.conv_2d_nhwc_hwcf
    ins(%{source}, %filter : tensor<1x{input}x{input}x8xf32>, tensor<3x3x8x8xf32>)
    outs(%init_{n} : tensor<1x{size}x{size}x8xf32>) -> tensor<1x{size}x{size}x8xf32>
"""
NETWORK = (
    """
func.func @main(%image: tensor<1x12x12x8xf32>) -> (tensor<1x10x10x8xf32>, tensor<1x8x8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %filter = arith.constant dense<0.1> : tensor<3x3x8x8xf32>
  %empty_10 = tensor.empty() : tensor<1x10x10x8xf32>
  %empty_8 = tensor.empty() : tensor<1x8x8x8xf32>
"""
    + CONVOLUTION.format(n="first", source="image", size=10, input=12)
    + CONVOLUTION.format(n="second", source="first", size=8, input=10)
    + """
  return %first, %second : tensor<1x10x10x8xf32>, tensor<1x8x8x8xf32>
}
"""
)
MATRIX = np.random.default_rng(0).uniform(-1, 1, (40, 24)).astype(np.float32)
FULLY_CONNECTED = """
func.func @main(%rows: tensor<3x40xf32>) -> tensor<3x24xf32> {
  %zero = arith.constant 0.0 : f32
  %matrix = arith.constant MATRIX : tensor<40x24xf32>
  %empty = tensor.empty() : tensor<3x24xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x24xf32>) -> tensor<3x24xf32>
  %result = linalg.matmul ins(%rows, %matrix : tensor<3x40xf32>, tensor<40x24xf32>)
    outs(%zeros : tensor<3x24xf32>) -> tensor<3x24xf32>
  return %result : tensor<3x24xf32>
}
"""
PROBLEMS = tuple(
    ConvolutionProblem.parse(
        f"1x{size}x{size}x8->8 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    )
    for size in (12, 10)
)


def implementation(output_tile: int = 2, register_tiles: int = 4) -> Implementation:
    schedule = WinogradSchedule(
        vector_width=4,
        tile_block=register_tiles,
        register_tiles=register_tiles,
        register_vectors=1,
        reduction_block=8,
    )
    return Implementation(Algorithm((output_tile,) * 2, (3, 3)), schedule)


TUNING = """
import sys
from iree.winograd import cli
from iree.winograd.tuning import tuner
tuner.BATCH_SIZE = 2
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command, which has measured something soon."""

# Its registers are another kernel's.
REFUSED = Implementation(Algorithm((1, 1), (1, 1)), implementation().schedule)


def batch(*implementations: Implementation) -> Batch:
    return Batch(PROBLEMS[0], implementations, target_flags("cpu"), MeasuringDevice("local-sync", 1), 1.0)


def test_candidates_may_have_the_errors_of_their_schedules() -> None:
    """Products of rounded numbers aren't taken for wrong ones."""
    rounded = SplitSchedule(64, 64, 32, 32, stages=2, products=1)
    implementations = [
        Implementation(Algorithm((2, 2), (3, 3)), each) for each in (implementation().schedule, rounded)
    ]
    job = batch(*implementations).measurement_job([(each, b"") for each in implementations])
    exact, half = (program.predicted_error for program in job.programs)
    assert exact < 1e-6 and 1e-4 < half < 1e-2


def entries(database: Path) -> list[Entry]:
    def damaged(message: str) -> None:
        raise AssertionError(message)

    with TuningDatabase(database, report=damaged, read_only=True) as opened:
        return list(opened.entries())


@pytest.mark.wide
@pytest.mark.usefixtures("brief_searches")
def test_a_tuned_program_takes_what_was_measured_to_be_fastest(tmp_path: Path) -> None:
    database, lines = tmp_path / "tuning.db", list[str]()
    tuned = tune(NETWORK, device="local-sync", database=database, budget=3600, report=lines.append)
    assert [each.problem for each in tuned] == list(PROBLEMS)
    for each in tuned:
        assert each.count == 1 and each.measured >= 2
        assert each.default is not None and each.best is not None
        assert each.speedup is not None and each.speedup >= 1
    kinds = [(entry.problem, entry.implementation["schedule"]["kind"]) for entry in entries(database)]
    assert {problem for problem, _ in kinds} == set(map(str, PROBLEMS))
    assert all(kinds.count((str(problem), "iree")) == 1 for problem in PROBLEMS)
    assert not any("WRONG" in line for line in lines)
    assert sum("measured (" in line for line in lines) >= 2

    report = tmp_path / "report.json"
    iree.winograd.compile(NETWORK, threads=1, tuning_database=str(database), report=report)
    best = tuned[0].best
    assert best is not None and str(best.seconds) in report.read_text()

    # Without time to measure, all is as it was.
    resumed = tune(NETWORK, device="local-sync", database=database, budget=1e-3, report=lines.append)
    assert resumed == tuned


@pytest.mark.wide
@pytest.mark.usefixtures("brief_searches")
def test_a_fully_connected_layer_is_tuned(tmp_path: Path) -> None:
    database = tmp_path / "tuning.db"
    source = FULLY_CONNECTED.replace("MATRIX", f'dense<"0x{MATRIX.tobytes().hex()}">')
    (tuned,) = tune(source, device="local-sync", database=database, budget=3600)
    assert str(tuned.problem) == "1x3x40->24 matmul f32"
    assert tuned.best is not None
    measured = entries(database)
    assert {entry.problem for entry in measured} == {str(tuned.problem)}
    kinds = [entry.implementation["schedule"]["kind"] for entry in measured]
    assert kinds.count("iree") == 1 and kinds.count("direct") >= 2

    path = tmp_path / "report.json"
    program = iree.winograd.compile(source, threads=1, tuning_database=str(database), report=path)
    (layer,) = json.loads(path.read_text())["layers"]
    chosen = layer["candidates"][layer["chosen"]]
    assert layer["kind"] == "matmul" and layer["tuned"]
    assert chosen["schedule"] == dict(schedule_record(tuned.best.implementation.schedule))
    assert chosen["measured_seconds"] == tuned.best.seconds
    rows = np.random.default_rng(1).uniform(-1, 1, (3, 40)).astype(np.float32)
    result = np.asarray(iree.winograd.load(program, device="local-sync")(rows))
    exact = rows.astype(np.float64) @ MATRIX.astype(np.float64)
    assert (np.abs(result - exact) <= 40 * np.finfo(np.float32).eps * (np.abs(rows) @ np.abs(MATRIX))).all()


@pytest.mark.parametrize("number", wide([signal.SIGINT, signal.SIGKILL]))
def test_an_interrupt_keeps_what_was_measured_and_nothing_else(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    program, database = tmp_path / "network.mlir", tmp_path / "tuning.db"
    program.write_text(NETWORK)
    command = [sys.executable, "-c", TUNING, "tune", str(program), "--device=local-sync"]
    with subprocess.Popen(
        [*command, "--budget=1h", f"--database={database}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            if "measured (" in line:
                break
        time.sleep(0.5)
        process.send_signal(number)
        errors = process.stderr.read()
        assert process.wait(120) == (-number if number == signal.SIGKILL else 128 + number), errors
    said = [f"interrupted; what was measured is in {database}"] if number == signal.SIGINT else []
    assert errors.splitlines() == said
    assert entries(database)
    # What compiles notices by itself that the tuner was killed, when it is done.
    deadline = time.monotonic() + (120 if number == signal.SIGKILL else 0)
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(folder.iterdir()) == []


def test_a_candidate_that_does_not_compile_is_dropped_with_the_reason() -> None:
    good = implementation()
    outcomes = evaluate_locally(batch(good, REFUSED))
    assert isinstance(outcomes[good], Timing)
    refused = outcomes[REFUSED]
    assert isinstance(refused, Failure) and "no schedule for this convolution" in refused.reason


def test_what_cannot_begin_in_time_is_left_out() -> None:
    assert evaluate_locally(batch(implementation()), seconds=0) == {}


def evaluate_locally(work: Batch, seconds: float = 300) -> dict[Implementation, Outcome]:
    scheduler = LocalScheduler(1)
    try:
        ((_, outcomes),) = scheduler.evaluate([work], time.monotonic() + seconds)
    finally:
        scheduler.close()
    return outcomes


@pytest.fixture
def cluster() -> Iterator[str]:
    """The address of a scheduler that has no workers yet."""
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address=None, protocol="tcp", silence_logs=50
    ) as local:
        yield local.scheduler_address


def start_workers(address: str, *options: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
    workers = [
        subprocess.Popen([*command, "--nthreads=1", *each], stderr=subprocess.DEVNULL) for each in options
    ]
    with distributed.Client(address) as client:
        client.wait_for_workers(len(workers), timeout=60)
    return workers


@pytest.mark.wide
def test_a_cluster_completes_a_batch_although_a_worker_is_killed(cluster: str) -> None:
    measurer, survivor, lost = start_workers(cluster, ["--resources", "device=1"], [], [])
    scheduler = DaskScheduler(cluster)
    try:
        flags = scheduler.resolve_flags(target_flags("cpu"))
        assert not flags[-1].endswith("=host")
        candidates = [implementation(m, tiles) for m in (2, 3, 4) for tiles in (2, 4)]
        work = batch(*candidates, REFUSED)
        killer = threading.Timer(1.0, lost.kill)
        killer.start()
        ((_, outcomes),) = scheduler.evaluate([work], time.monotonic() + 300)
        killer.join()
        assert lost.wait(30) == -signal.SIGKILL
        assert set(outcomes) == {*candidates, REFUSED}
        assert all(isinstance(outcomes[each], Timing) for each in candidates)
        assert isinstance(outcomes[REFUSED], Failure)
        ((_, late),) = scheduler.evaluate([batch(*candidates)], time.monotonic())
        assert not any(isinstance(outcome, Timing) for outcome in late.values())
    finally:
        scheduler.close()
        for worker in (measurer, survivor, lost):
            worker.kill()
            worker.wait()


def test_a_cluster_needs_a_worker_with_the_device(cluster: str) -> None:
    workers = start_workers(cluster, [])
    try:
        with pytest.raises(TuningError, match='--resources "device=1"'):
            DaskScheduler(cluster)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device=abacus"], "--device must be one of"),
        (["--device=local-task", "--budget=ten"], "'ten' is no time like 90s, 10min or 1h"),
        (["--device=local-task", "--budget=0s"], "'0s' is no time"),
        (["--device=local-sync", "--threads=2"], "--threads is for local-task"),
        (["--device=local-task", "another.mlir"], "'another.mlir' is one argument too many"),
        (["--device=local-task", "--max-relative-error=small"], "invalid float value: 'small'"),
    ],
)
def test_impossible_options_end_the_command(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["tune", "network.mlir", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device=local-task", "--threads=0"], "threads must be"),
        (["--device=local-task", "--workers=0"], "workers must be positive"),
        (["--device=local-task", "--target=abacus"], "target 'abacus' is not known"),
        (["--device=local-task", "--", "--iree-no-such-flag"], "iree-no-such-flag"),
        (["--device=local-task", "--machine=machine.json"], "machine.json"),
        (["--device=local-task"], "network.mlir"),
        (["--device=local-task", "--scheduler=nonsense"], "nonsense"),
        (
            ["--device=local-task", "--size=h=12"],
            "--size, --size-hint and --dynamic-batch are for ONNX models",
        ),
    ],
)
def test_what_the_tuner_refuses_is_an_error_of_the_command(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["tune", "network.mlir", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("iree-winograd: error: ") and message in error
    assert not list(tmp_path.iterdir())


def test_options_of_the_function_are_checked() -> None:
    for options in ({"budget": 0}, {"no_such_option": 1}, {"device": "local-sync", "threads": 2}):
        with pytest.raises(InvalidOptionError):
            tune(NETWORK, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ("1x12x12x8->8 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32", "1x12x12x8->8 3x3"),
        (
            "?x12x12x8->8 kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 8 f32",
            "?x12x12x8->8 3x3 stride 2x2 padding 1x1 groups 8",
        ),
        (
            "1x32x12x8->8 kernel 11x2 stride 1x1 dilation 1x3 padding 0x0 1x1 groups 1 f16",
            "1x32x12x8->8 11x2 dilation 1x3 padding 0x0 1x1 f16",
        ),
    ],
)
def test_problems_are_said_in_short(problem: str, text: str) -> None:
    assert brief(ConvolutionProblem.parse(problem)) == text


def test_the_command_compiles_what_it_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On this machine's CPU, unless it is told otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("network.mlir").write_text(NETWORK)
    given = []
    monkeypatch.setattr(tuner, "tune", lambda *arguments, **options: given.append(options))
    TuningDatabase("tuning.db", report=print).close()
    arguments = ["network.mlir", "--database=tuning.db", "--threads=1", "-o", "network.vmfb"]
    assert cli.main(["tune", *arguments]) == 0
    assert (given[0]["device"], given[0]["target"]) == ("local-task", "cpu")
    assert capsys.readouterr().out.endswith("compiled to network.vmfb\n")
    assert iree.winograd.load("network.vmfb", "local-sync").functions == ("main",)
