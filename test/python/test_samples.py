import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import onnx
import pytest
from onnx_models import convolution_model

from samples import demo

SAMPLES = Path(__file__).parents[2] / "samples"


def run_sample(name: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SAMPLES / name, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.wide
def test_torch_network_is_right_for_every_batch(tmp_path: Path) -> None:
    result = run_sample("torch_network.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    errors = [float(error) for error in re.findall(r"batch \d: largest error (\S+)", result.stdout)]
    # Sums of 288 products in three layers.
    assert len(errors) == 3
    assert max(errors) < 288 * 2.0**-24
    assert "of a numpy array: ndarray of shape (2, 10)" in result.stdout
    assert "remark: " in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_demo_finds_the_kernels_of_convolutions() -> None:
    program = iree.winograd.compile(SAMPLES / "convolution.mlir", output_tile=4)
    names = {name.decode(): 1.0 for name in re.findall(rb"winograd_f[a-z0-9_]+", program)}
    convolution = demo.Convolution("", (28, 28), (3, 3), 1, 32, 32)
    assert demo.find_dispatch(convolution, names) == ("F(4x4, 3x3)", float(len(names)))
    # Sizes that one is a part of.
    for other in (replace(convolution, channels=3), replace(convolution, output=(8, 28))):
        assert demo.find_dispatch(other, names) == ("", 0.0)


def test_convolution_is_compiled_and_run(tmp_path: Path) -> None:
    program = tmp_path / "convolution.vmfb"
    iree.winograd.compile(SAMPLES / "convolution.mlir", output=program)
    result = run_sample("run_program.py", program, "--device", "local-sync", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("float32[1, 28, 28, 32]: ")
    # In the middle all sums are of 288 equal products.
    output = iree.winograd.load(program)(np.ones((1, 28, 28, 32), np.float32))
    first = 0.01 * 288 + 0.5
    np.testing.assert_allclose(output[0, 10, 10], 0.01 * 288 * first + 0.5, rtol=1e-5)


def test_run_program_names_what_is_wrong(tmp_path: Path) -> None:
    result = run_sample("run_program.py", "missing.vmfb", folder=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "error: can't read 'missing.vmfb': No such file or directory\n"


@pytest.mark.wide
def test_torch_compile_is_right_and_explained(tmp_path: Path) -> None:
    result = run_sample("torch_compile.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    errors = [float(error) for error in re.findall(r"(?:error|weights) (\S+)", result.stdout)[:2]]
    # Sums of 288 products in two layers.
    assert len(errors) == 2 and max(errors) < 288 * 2.0**-24
    assert re.search(r"block .*: F\(\dx\d, 3x3\), error", result.stdout), result.stdout
    assert "left to eager: aten.special_bessel_j0.default" in result.stdout
    assert "FallbackWarning" in result.stderr


@pytest.mark.wide
def test_diffusion_is_as_accurate_as_torch(tmp_path: Path) -> None:
    result = run_sample("diffusion.py", "--small", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    errors = re.findall(r"(\w+) by (\w+): error (\S+),", result.stdout)
    assert [pair for *pair, _ in errors] == [
        [network, tool] for network in ("denoiser", "decoder") for tool in ("winograd", "torch")
    ]
    for (*_, ours), (*_, theirs) in zip(errors[::2], errors[1::2], strict=True):
        assert float(ours) < 2 * float(theirs)
    assert "FallbackWarning" not in result.stderr


@pytest.mark.wide
def test_training_is_that_of_torch(tmp_path: Path) -> None:
    result = run_sample("train.py", "--steps", 2, "--batch", 4, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    losses = re.findall(r"^ *\d+ +(\d\.\d+) +(\d\.\d+)$", result.stdout, re.MULTILINE)
    assert len(losses) == 2
    # Sums of up to 1568 products; in a step gradients enlarge what losses differ by.
    assert all(float(ours) == pytest.approx(float(theirs), rel=1568 * 2.0**-24) for theirs, ours in losses)
    assert result.stdout.count("of other images are classified rightly") == 2


@pytest.mark.wide
def test_jax_function_is_right(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    result = run_sample("jax_function.py", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    (error,) = re.findall(r"largest difference from JAX (\S+)", result.stdout)
    # Sums of 144 products, then of 512, twice: those of JAX are rounded as well.
    assert float(error) < 2 * (144 + 512) * 2.0**-24
    assert "a transposed convolution became one per phase: 4" in result.stderr


def run_script(name: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["sh", SAMPLES / name, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.wide
def test_onnx_model_agrees_with_onnxruntime(tmp_path: Path) -> None:
    onnx.save(convolution_model(), tmp_path / "net.onnx")
    result = run_script("onnx_model.sh", "net.onnx", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    (error,) = re.findall(r"largest difference (\S+) of", result.stdout)
    # Sums of 72 products; F(m, 3) may err some times as much as a direct convolution.
    assert float(error) < 8 * 72 * 2.0**-24
    assert "/stem/Conv: convolution 0 (3x3, 8 to 16 channels) became" in result.stderr
    assert re.search(r"%  winograd_", result.stdout)


@pytest.mark.wide
def test_tuning_is_used(tmp_path: Path) -> None:
    report: dict[str, Any] = {"layers": []}
    # A busy machine may spend the first budgets before anything is measured.
    for budget in ("6s", "30s", "150s"):
        result = run_script("tuning.sh", SAMPLES / "convolution.mlir", budget, folder=tmp_path)
        assert result.returncode == 0, result.stderr
        assert "median" in result.stdout
        report = json.loads((tmp_path / "tuned.json").read_text())
        if any(layer["tuned"] for layer in report["layers"]):
            return
    pytest.fail(f"no layer was tuned: {report['layers']}")


@pytest.mark.wide
def test_gpu_agrees_with_the_cpu(tmp_path: Path) -> None:
    result = run_sample("gpu.py", "vulkan", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    (error,) = re.findall(r"vulkan: largest difference from the CPU (\S+)", result.stdout)
    # Sums of 288 products in two layers, with tiles on both sides.
    assert float(error) < 8 * 2 * 288 * 2.0**-24


def test_gpu_says_what_is_missing(tmp_path: Path) -> None:
    result = run_sample("gpu.py", "no-such-gpu", folder=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("error: target 'no-such-gpu' is not known")
