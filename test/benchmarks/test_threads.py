import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.limits import LayerWork, ThreadLimits, ThreadProbes, layers_of
from benchmarks.one_processor import on_one_processor
from benchmarks.stock_runner import DispatchTime, parse_statistics, runner_flags
from benchmarks.thread_tools import TOOLS
from benchmarks.threads import OURS, Results, Rows, Tools, measure_row
from benchmarks.threads_figure import CURVES, curve, scaling_figure
from benchmarks.threads_report import kernel_table, limit_table, threads_table

STATISTICS = """
  host_queue p=0 q=0 execute  count=430 total=129.167 us avg=300 ns operations=1720
  host_execute_queue p=0 q=0 dispatch  count=860 total=594.438 ms ops=860 tiles=3440 tile_sum=670.614 ms
  host_execute transform  count=430 total=28.993 ms avg=67.427 us tiles=1720 tile_sum=30.870 ms
  host_execute products  count=860 total=565.444 ms avg=1.314 ms tiles=1720 tile_sum=1.075 s
  host_execute_queue p=0 q=0 execute  count=430 total=600.364 ms avg=1.396 ms operations=1720
"""


def row(threads: int, **milliseconds: float) -> dict[str, Any]:
    contenders = {name.replace("_", "-"): {"milliseconds": time} for name, time in milliseconds.items()}
    return {
        "name": "14x14x256",
        "batch": 1,
        "threads": threads,
        "contenders": contenders,
        "best": "openvino-nhwc",
        "ratios": dict.fromkeys(OURS, milliseconds["openvino_nhwc"] / milliseconds["ours"]),
        "program_bytes": 2_500_000,
        "empty_dispatch_seconds": 3e-5,
        "kernels": [
            {"dispatches": 1.0, "workgroups": 8.0, "seconds": 3e-4, "busy_seconds": 6e-4, "kernel": "k"}
        ],
    }


ROWS = [
    row(1, ours=2.0, ours_runner=2.5, ours_aligned=1.9, openvino_nhwc=4.0, openvino_nchw=3.0, iree_tiled=9.0),
    row(2, ours=1.0, ours_runner=0.5, ours_aligned=0.9, openvino_nhwc=3.0, openvino_nchw=3.5, iree=8.0),
]


def test_statistics_are_those_of_one_call() -> None:
    transform, products = parse_statistics(STATISTICS)
    assert transform == DispatchTime(
        "transform", 1.0, 4.0, pytest.approx(28.993e-3 / 430), pytest.approx(30.870e-3 / 430)
    )
    assert products.dispatches == 2
    assert products.workgroups == 2
    assert products.busy_seconds == pytest.approx(1.075 / 430)


def test_one_processor_is_for_all_threads_until_the_end() -> None:
    before = os.sched_getaffinity(0)
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    assert thread.native_id is not None
    with on_one_processor():
        assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id) == {min(before)}
    assert os.sched_getaffinity(0) == os.sched_getaffinity(thread.native_id) == before
    release.set()
    thread.join()


def test_one_thread_has_no_workers() -> None:
    assert "--device=local-sync" in runner_flags(1)
    assert "--device=local-task" in runner_flags(2)


def test_a_curve_is_of_the_fastest_contender_of_a_tool() -> None:
    assert curve(ROWS[0], "openvino") == 3
    assert curve(ROWS[0], "ours") == 2
    assert curve(ROWS[0], "iree") is None
    assert curve(ROWS[0], "iree-tiled") == 9


def test_the_figure_has_a_curve_for_each_tool() -> None:
    svg = ElementTree.fromstring(scaling_figure(ROWS))
    labels = {title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")}
    tools = ("ours", "ours-runner", "openvino", "iree", "iree-tiled")
    assert labels == {f"{CURVES[name][0]}, 14x14x256, batch 1" for name in tools}


def test_tables_have_a_row_for_each_number_of_threads() -> None:
    *_, one, two = threads_table(ROWS)
    assert "2.00 (least 2.00)" in one
    assert "3.00 (least 3.00)" in two
    _, _, first, _ = kernel_table(ROWS)
    # A call of 2.5 ms, 0.3 ms of which are the kernel's, on two cores at a time.
    assert first.split(" | ")[3:6] == ["2500", "300", "2200"]
    assert first.split(" | ")[9] == "2.0"


def test_a_limit_is_what_each_layer_takes_longest_for() -> None:
    limits = ThreadLimits(operations_per_second=100.0, bytes_per_second=10.0)
    assert limits.seconds([LayerWork(200, 5), LayerWork(100, 30)]) == 2 + 3
    # Of two threads: 2 ms to multiply what takes one 1 ms.
    probes = ThreadProbes(threads=2, size=0)
    one, two = (
        probes.limits(dict.fromkeys(ThreadProbes.names, seconds)).operations_per_second
        for seconds in (1e-3, 2e-3)
    )
    assert one == pytest.approx(2 * two)


def test_layers_in_a_loop_over_images_count_for_each(tmp_path: Path) -> None:
    """Their filters once: 9 of a pair of channels, for 16 outputs of an image."""
    report = tmp_path / "program.json"
    problem = {
        "batch": 1,
        "kernel_size": [3, 3],
        "strides": [1, 1],
        "dilations": [1, 1],
        "output_size": [4, 4],
    }
    candidate = {"output_tile": [1, 1], "part_size": [1, 1], "operations": 2 * 9 * 16}
    report.write_text(json.dumps({"layers": [{"problem": problem, "candidates": [candidate], "chosen": 0}]}))
    assert layers_of(report, batch=8) == [LayerWork(8 * 2 * 9 * 16, 4 * 9)]


def test_the_table_of_limits_says_how_near_ours_is() -> None:
    limit = {
        "operations_per_second": 1e11,
        "bytes_per_second": 2e10,
        "milliseconds": 1.5,
        "operations": 1.5e8,
        "filter_bytes": 2e7,
    }
    _, _, line = limit_table([ROWS[0] | {"limit": limit}, ROWS[1]])
    # 2 ms of ours and 4 of the best other tool.
    assert line.split(" | ")[3:] == ["100", "20", "0.15", "20.0", "1.500", "2.000", "0.75", "2.00", "2.67 |"]
    assert limit_table(ROWS) == []


def test_results_are_there_for_the_next_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "folder" / "threads.json"
    for each in ROWS:
        Results(path).add(each)
    assert list(Results(path).rows) == ["14x14x256 batch 1 threads 1", "14x14x256 batch 1 threads 2"]
    assert "2 thread(s): openvino-nhwc 3.000 ms" in capsys.readouterr().out


@pytest.mark.wide
def test_a_row_has_every_contender(tmp_path: Path) -> None:
    rows = Rows("14x14x256", 1, (2,))
    with ExitStack() as stack:
        tools = Tools(rows, tmp_path, TOOLS, stack)
        tools.wait()
        assert not tools.failures
        measured = measure_row(rows, tools, 2, 1, 0.001)
    assert {"ours", "ours-aligned", "ours-runner", "iree", "iree-tiled", "torch-nhwc", "onnxruntime"} <= set(
        measured["contenders"]
    )
    assert all(values["milliseconds"] > 0 for values in measured["contenders"].values())
    assert sum(kernel["dispatches"] for kernel in measured["kernels"]) >= 1
    assert tools.shape == [1, 14, 14, 256]
    (layer,) = layers_of(tools.program(2).with_suffix(".json"), batch=1)
    limit = measured["limit"]
    assert (limit["operations"], limit["filter_bytes"]) == (layer.operations, layer.filter_bytes)
    # Of filters with more elements than 3x3 taps, but with fewer products than those.
    assert layer.filter_bytes >= 4 * 9 * 256 * 256
    assert layer.operations <= 2 * 9 * 14 * 14 * 256 * 256
    assert limit["operations_per_second"] > 0
    assert limit["bytes_per_second"] > 0


@pytest.mark.wide
def test_a_tool_that_ends_is_left_out(tmp_path: Path) -> None:
    with ExitStack() as stack:
        tools = Tools(Rows("none", 1, (2,)), tmp_path, ["ours"], stack)
        tools.wait()
        assert tools.failures == {"ours": {"failure": "ended with exit code 1"}}
        with pytest.raises(EOFError, match="ended with exit code 1"):
            tools.program(2)
