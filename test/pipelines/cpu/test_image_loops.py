"""Batches whose images go through a part of a network one after the other: `winograd-loop-over-images`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from host import HOST
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.for_target import loop_over_images
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.report.schema import types_text
from wide import wide_combinations

# Three layers of sums of up to 32 products, and means of 4096: none is far larger than what it is added to.
TOLERANCE = 3 * 72 * 2.0**-24
LOOP = "one after the other"


class Mobile(torch.nn.Module):
    """The beginning of a network for phones."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 32, 3, padding=1)
        self.depthwise = torch.nn.Conv2d(32, 32, 3, padding=1, stride=2, groups=32)
        self.gate = torch.nn.Conv2d(32, 32, 1)
        self.project = torch.nn.Conv2d(32, 16, 1)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.depthwise(torch.relu(self.stem(images))))
        x = x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        x = self.project(x) + x[:, :16]
        # Batches as a whole: each image less the mean of all.
        return self.head((x - x.mean(0, keepdim=True)).mean((2, 3)))


def network(batch: int, size: int) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Mobile().eval(), torch.randn(batch, 3, size, size)


def expect_exact(model: torch.nn.Module, images: torch.Tensor, result: object) -> None:
    with torch.no_grad():
        expected = model.double()(images.double()).numpy()
    expect_within(np.asarray(result), expected, TOLERANCE * max(1.0, float(np.abs(expected).max())))


@pytest.mark.wide
def test_images_that_exceed_the_caches_go_through_a_loop(capfd: pytest.CaptureFixture[str]) -> None:
    model, images = network(8, 128)
    imported = iree.winograd.import_torch(model, images)
    compiled = iree.winograd.compile(imported, target="cpu:haswell", threads=1, strict=True, remarks=True)
    assert LOOP in capfd.readouterr().err
    expect_exact(model, images, iree.winograd.load(compiled, threads=1)(images.numpy()))


@pytest.mark.parametrize(
    ("target", "threads"), [("cpu", 2), *wide_combinations([("cpu:haswell", 1), ("cpu:x86-64", 2)])]
)
def test_loops_on_every_target(
    target: str, threads: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of small images, which are taken to come from far away."""

    def far_image_seconds(_: CpuSearchSpace, shape: ConvolutionShape) -> float:
        return 0.0 if shape.batch == 1 else 1.0

    monkeypatch.setattr(CpuSearchSpace, "far_image_seconds", far_image_seconds)
    model, images = network(3, 21)
    imported = iree.winograd.import_torch(model, images)
    compiled = iree.winograd.compile(imported, target=target, threads=threads, strict=True, remarks=True)
    assert LOOP in capfd.readouterr().err
    program = iree.winograd.load(compiled, threads=threads)
    first, second = (np.asarray(program(images.numpy())) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    expect_exact(model, images, first)


def test_layers_behind_a_loop_know_that_images_are_of_half_precision(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They multiply numbers of that type, and nothing converts all images in memory."""

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = torch.nn.Conv2d(3, 32, 3, padding=1)
            self.tail = torch.nn.ModuleList(torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            x = torch.nn.functional.max_pool2d(torch.relu(self.stem(images)), 3, 2, 1)
            # Another image for each place: what mixes images ends the loop.
            y = x.flip(0)
            for layer in self.tail:
                y = layer(y)
            return torch.relu(y + x)

    monkeypatch.setattr(
        CpuSearchSpace,
        "far_image_seconds",
        lambda _, shape: 1.0 if shape.batch > 1 and shape.input_channels == 3 else 0.0,
    )
    torch.manual_seed(0)
    model, images = Half().eval().bfloat16(), torch.randn(3, 3, 20, 20).bfloat16()
    report = tmp_path / "report.json"
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, images),
        target="cpu:sapphirerapids",
        threads=1,
        strict=True,
        remarks=True,
        report=report,
    )
    assert LOOP in capfd.readouterr().err
    _, *layers = json.loads(report.read_text())["layers"]
    assert {types_text(each["types"]) for each in layers} == {"bf16 as bf16, sums f32, result bf16"}
    # Processors without its instructions refuse to load it.
    if not HOST.has_matrix_unit:
        return
    result = torch.as_tensor(iree.winograd.load(compiled, threads=1)(images))
    with torch.no_grad():
        exact = model.double()(images.double())
    # Results of four operations, each rounded; two layers later sums of up to 288 products have those errors.
    assert float((result.double() - exact).abs().max()) <= 4 * 2.0**-8 * float(exact.abs().max())


@pytest.mark.wide
def test_threads_take_as_many_images_at_a_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where each waits for the other less."""
    monkeypatch.setattr(
        CpuSearchSpace, "far_image_seconds", lambda _, shape: 0.0 if shape.batch in (1, 2) else 1.0
    )
    model, images = network(4, 21)
    imported = iree.winograd.import_torch(model, images)
    compiled = iree.winograd.compile(imported, target="cpu:haswell", threads=2, strict=True, remarks=True)
    assert "4 images of a batch 2 at a time" in capfd.readouterr().err
    expect_exact(model, images, iree.winograd.load(compiled, threads=2)(images.numpy()))


@pytest.mark.wide
def test_each_iteration_writes_to_the_tensor_of_all_images(tmp_path: Path) -> None:
    """Rather than to a copy of it: what is copied is an image that the program is given."""
    model, images = network(8, 128)
    source = tmp_path / "mobile.mlirbc"
    iree.winograd.import_torch(model, images).save(source)
    target = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    ours = ["--iree-enable-winograd", "--iree-winograd-threads=1", "--iree-llvmcpu-target-cpu=haswell"]
    command = [TOOL_DIRECTORY / "iree-compile", source, *target, *ours, "--compile-to=stream"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    copies = re.findall(r"stream\.cmd\.copy .* : !stream\.resource<(\w+)>", compiled)
    assert "cf.cond_br" in compiled
    assert set(copies) <= {"external"}


@pytest.mark.wide
def test_one_image_has_no_loop(capfd: pytest.CaptureFixture[str]) -> None:
    model, image = network(1, 128)
    iree.winograd.compile(
        iree.winograd.import_torch(model, image), target="cpu:haswell", threads=1, strict=True, remarks=True
    )
    assert LOOP not in capfd.readouterr().err


def test_a_failure_leaves_the_batch_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model, images = network(8, 128)

    def fail(*_: object) -> None:
        raise ValueError("injected")

    monkeypatch.setattr(loop_over_images, "loop_over_images", fail)
    with pytest.warns(iree.winograd.RewriteWarning, match=f"{loop_over_images.PASS_NAME} failed on block 0"):
        compiled = iree.winograd.compile(
            iree.winograd.import_torch(model, images), target="cpu:haswell", threads=1
        )
    expect_exact(model, images, iree.winograd.load(compiled, threads=1)(images.numpy()))
