"""Whole networks called as on a GPU, here by the CPU, and the table of what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import nn
from wide import wide

from benchmarks import gpu_network_tools, gpu_networks, gpu_open_sizes
from benchmarks.networks import gpu
from benchmarks.networks.network import Network
from benchmarks.tables.gpu_calls import call_routes, called_networks, half_networks, open_sizes, over_tf32


def row(network: str, batch: int, **milliseconds: float | None) -> dict[str, Any]:
    tools = {
        tool.replace("_", "-"): {"failure": "ValueError: no"}
        if each is None
        else {
            "milliseconds": each,
            "chained": each / 2,
            "kernel_milliseconds": each / 4,
            "error": 1e-6,
        }
        for tool, each in milliseconds.items()
    }
    return {"network": network, "batch": batch, "eager_error": 2e-6, "left": [], "tools": tools}


def test_the_table_compares_with_the_better_mode_of_inductor() -> None:
    fast = row("fast", 1, winograd=2.0, inductor=8.0, inductor_graphs=3.0, inductor_graphs_fp16=1.0)
    lost = row("lost", 32, winograd=None, inductor=8.0)
    ended = {"network": "ended", "batch": 1, "failure": "took more than 3 s"}
    assert [over_tf32(each) for each in (fast, lost, ended)] == [1.5, None, None]
    lines = called_networks([{gpu_networks.TITLE: {"a": fast, "b": lost, "c": ended}}])
    assert lines[2] == (
        "| `fast` | 1 | 2.00 | 8.00 | 3.00 | 1.00 | 1.50 | 0.50 | 1.00 | 1.50 "
        "| 0.50 | 0.75 | 1.0e-06 | 2.0e-06 | 0 |"
    )
    assert lines[3].startswith("| `lost` | 32 | failed | 8.00 |  |  |  |  | failed |")
    assert lines[4].startswith("| `ended` | 1 | failed |")
    assert lines[-5] == "Over TF32: 1.50 in the geometric mean of 1, 1.50 at least."
    assert lines[-1] == "Errors: 0.50 of torch's in the geometric mean of 1, 0.50 at most."


def test_large_images_come_one_at_a_time() -> None:
    of_one = {name for name, network in gpu.NETWORKS.items() if gpu.batches(network) == (1,)}
    assert of_one == {
        "unet",
        "vae_decoder",
        "yolo",
        "torchvision_fcn_resnet50",
        "torchvision_deeplabv3_mobilenet_v3_large",
    }
    assert gpu.batches(gpu.NETWORKS["denoising_unet"]) == (2,)


@pytest.mark.parametrize("batch", wide([2]))
def test_what_is_told_of_a_network(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    small = Network(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), (3, 16, 16))
    monkeypatch.setattr(gpu, "NETWORKS", {"small": small})
    eager = gpu_network_tools.Tool(gpu_network_tools.by_torch(backend="eager"))
    failing = gpu_network_tools.Tool(gpu_network_tools.by_torch(backend="unknown"))
    ours = gpu_network_tools.TOOLS["winograd"]
    tools = {"winograd": ours, "inductor": eager, "inductor-graphs": failing}
    monkeypatch.setattr(gpu_network_tools, "TOOLS", MappingProxyType(tools))
    monkeypatch.setattr(gpu_networks, "questions", lambda: [{}])
    threads = torch.get_num_threads()
    # A benchmark's process sets flags that torch forbids to set where a test before this one has imported
    # `torch.testing._internal.common_utils`.
    with torch.no_grad(), torch.backends.__allow_nonbracketed_mutation():
        gpu_networks._work(
            gpu_networks.Task("small", batch, "f32", list(tools), "cpu", 1, 0.001, str(tmp_path))
        )
    torch.set_num_threads(threads)
    told = [json.loads(line[1:]) for line in capsys.readouterr().out.splitlines() if line.startswith("@")]
    compiled, timed = (each["row"] for each in told if each["is_done"])
    assert compiled["error_samples"] * batch == gpu_networks._ERROR_IMAGES
    assert timed["left"] == [] == compiled["left"]
    assert all("milliseconds" not in each for each in compiled["tools"].values())
    found = timed["tools"]
    for name in ("winograd", "inductor"):
        assert found[name]["milliseconds"] > 0 < found[name]["chained"] and found[name]["error"] < 1e-6
    assert "unknown" in found["inductor-graphs"]["failure"]


def test_tools_that_two_models_of_a_class_would_disturb_are_alone() -> None:
    tools = ["winograd", "winograd-fewer-guards", "inductor", "winograd-loaded"]
    together, *alone = gpu_network_tools.processes(tools)
    assert together == ["winograd", "inductor"]
    assert alone == [["winograd-fewer-guards"], ["winograd-loaded"]]


def test_a_row_has_the_tools_of_all_processes() -> None:
    """A process that failed costs its own tools' times."""
    merged = None
    for told, name in ((row("net", 1, winograd=2.0), "winograd"), (row("net", 1, loaded=1.0), "loaded")):
        merged = gpu_networks._merged(merged, told, [name])
    merged = gpu_networks._merged(merged, {"failure": "took more than 3 s"}, ["late"])
    assert merged["network"] == "net" and "failure" not in merged
    assert [each.get("milliseconds") for each in merged["tools"].values()] == [2.0, 1.0, None]
    assert merged["tools"]["late"] == {"failure": "took more than 3 s"}


def test_routes_of_a_call_are_beside_what_it_may_take() -> None:
    """A call of a millisecond, kernels of 0.9 of it at most."""
    tools = {
        tool: {
            "milliseconds": call,
            "host_milliseconds": call / 2,
            "chained": 0.9,
            "kernel_milliseconds": 0.9,
        }
        for tool, call in (("winograd", 1.2), ("winograd-loaded", 1.0))
    }
    lines = call_routes([{gpu_networks.TITLE: {"net x1": {"network": "net", "batch": 1, "tools": tools}}}])
    assert lines[2] == "| `net` | 1 | `torch.compile` | 1.200 | 0.600 | 0.900 | 0.900 | 1.010 |"
    assert lines[3].startswith("| `net` | 1 | `load` | 1.000 |")
    assert lines[-1].endswith(": `torch.compile` 0 of 1, `load` 1 of 1.")


def test_an_error_is_the_mean_of_several_images() -> None:
    """The result of a call may be gone with the next one."""
    samples = [
        gpu_networks._Sample([torch.full((2,), each)], torch.ones(2).double()) for each in (1.01, 1.0001)
    ]
    memory = torch.empty(2)
    assert gpu_networks._error(memory.copy_, samples) == pytest.approx(1e-3, rel=1e-3)


def test_half_precision_is_beside_the_same_type() -> None:
    fast = {**row("fast", 1, winograd=2.0, inductor=8.0, inductor_graphs=3.0), "type": "bf16"}
    lost = {**row("lost", 32, winograd=None, inductor=8.0), "type": "f16"}
    lines = half_networks([{gpu_networks.TITLE: {"a": fast, "b": lost}}])
    assert lines[2] == "| `fast` | bf16 | 1 | 2.00 | 8.00 | 3.00 | 1.50 | 1.0e-06 | 2.0e-06 |"
    assert lines[3] == "| `lost` | f16 | 32 |  | 8.00 |  |  |  | 2.0e-06 |"
    assert lines[-3] == "The geometric mean of 1 ratios is 1.50."
    assert lines[-1] == "Errors: 0.50 of torch's in the geometric mean of 1, 0.50 at most."


def test_a_program_for_all_sizes_is_beside_those_of_one() -> None:
    times = {"open": 2.0, "static": 1.0, "inductor": 3.0, "torch": 8.0}
    sizes = {"8x9": {tool: {"milliseconds": each, "error": 1e-6} for tool, each in times.items()}}
    lines = open_sizes([{gpu_open_sizes.TITLE: {"net": {"sizes": sizes}}}])
    assert lines[2] == "| net | 8x9 | 2.00 | 1.00 | 3.00 | 8.00 | 0.50 | 1.50 | 1.0e-06 | 1.0e-06 |"
    assert "0.50 times as fast as a program of that size, 1.50 times" in lines[-1]
    sizes["8x9"]["open"]["kernel_milliseconds"], sizes["8x9"]["static"]["kernel_milliseconds"] = 0.3, 0.2
    lines = open_sizes([{gpu_open_sizes.TITLE: {"net": {"sizes": sizes}}}])
    assert "1.50 times as long in the geometric mean of 1, 1.50 at most" in lines[-3]
    assert lines[-4] == "", "it would be a row of the table"


def test_a_program_for_all_sizes_may_be_beside_those_of_one_alone() -> None:
    sizes = {"8x9": {"open": {"milliseconds": 2.0, "error": 1e-6}, "static": {"milliseconds": 1.0}}}
    untimed = {"sizes": {"8x9": {"open": {"error": 1e-6}, "static": {"error": 1e-6}}}}
    slow = {"failure": "took more than 80 s to compile"}
    records = {"net": {"sizes": sizes}, "untimed": untimed, "slow": slow}
    lines = open_sizes([{gpu_open_sizes.TITLE: records}])
    assert lines[0] == "| network | size | any size, ms | that size | over that size | our error |"
    assert lines[2] == "| net | 8x9 | 2.00 | 1.00 | 0.50 | 1.0e-06 |"
    assert len([line for line in lines if line.startswith("|")]) == 3
    assert lines[-1].endswith("slow: took more than 80 s to compile.") and "Inductor" not in lines[-1]
