"""Images of unknown sizes that are resized, against torch in float64."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate, max_pool2d
from wide import wide

UNIT_ROUNDOFF = 2.0**-24


class ResizingOfAnySize(torch.nn.Module):
    """Resizes the result of a convolution by the nearest element and linearly, to sizes that are open."""

    def __init__(self, rank: int, channels: int) -> None:
        super().__init__()
        kinds = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
        self.convolution = kinds[rank - 1](3, channels, 1)
        self.is_of_images = rank == 2
        self.linear = ("linear", "bilinear", "trilinear")[rank - 1]

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.convolution(image)
        size = [each + 3 for each in image.shape[2:]]
        ways: dict[str, dict[str, object]] = {
            "nearest, size": {"size": size, "mode": "nearest"},
            "nearest, doubled": {"scale_factor": 2.0, "mode": "nearest"},
            "nearest, scaled": {"scale_factor": 1.5, "mode": "nearest"},
            "exact": {"size": size, "mode": "nearest-exact"},
            "size": {"size": size, "mode": self.linear, "align_corners": False},
            "corners": {"size": size, "mode": self.linear, "align_corners": True},
            "doubled": {"scale_factor": 2.0, "mode": self.linear, "align_corners": False},
            "scaled": {"scale_factor": 1.5, "mode": self.linear, "align_corners": False},
        }
        # The ratios of images are as well stated for volumes.
        return {
            name: torch.relu(interpolate(x, **way))
            for name, way in ways.items()
            if self.is_of_images or "size" in way
        }


@pytest.mark.wide
@pytest.mark.parametrize(("rank", "channels"), [(2, 8), (3, 3)])
def test_resizing_to_open_sizes_agrees_with_float64(rank: int, channels: int) -> None:
    torch.manual_seed(rank)
    model = ResizingOfAnySize(rank, channels).eval()
    dimensions = {2 + d: torch.export.Dim(f"size_{d}", min=2, max=1999) for d in range(rank)}
    example = torch.zeros(1, 3, *(4 + d for d in range(rank)))
    exported = torch.export.export(model, (example,), dynamic_shapes=(dimensions,))
    compiled = winograd.compile(winograd.import_torch(exported), threads=2, strict=True)
    kernels = ("x".join([kind] * rank) for kind in ("selected", "blended"))
    assert all(f"winograd_{kernel}x{channels}".encode() in compiled for kernel in kernels)
    program, exact_model = winograd.load(compiled, threads=2), copy.deepcopy(model).double()
    # Rows of more than 1024 pixels of 8 channels aren't blended before columns are.
    for size in [(2, 2, 2), (3, 7, 2), (13, 2, 5), (2, 31, 3), (2, 1031, 2)]:
        image = torch.randn(1, 3, *size[:rank])
        with torch.no_grad():
            # A position is the result of four operations on numbers up to twice the image's size.
            magnitude = model.convolution(image).abs().max().item()
            bound = UNIT_ROUNDOFF * magnitude * rank * (4 * 4 * max(size[:rank]) + 8)
            expected, exact = model(image), exact_model(image.double())
        for (name, of_torch), result in zip(expected.items(), program(image.numpy()), strict=True):
            # Where a position is almost whole, its rounding to f32 decides which element is nearest.
            right = of_torch if name.startswith(("nearest", "exact")) else exact[name]
            np.testing.assert_allclose(
                np.asarray(result), right.numpy(), atol=bound, rtol=0, err_msg=f"{name} of {size}"
            )


class EnlargedClasses(torch.nn.Module):
    """Classes of pixels, resized to the image's size and returned."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classifier = torch.nn.Conv2d(3, classes, 3, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return interpolate(self.classifier(image), size=image.shape[2:], mode="bilinear")


@pytest.mark.parametrize("classes", [4, *wide([3, 21])])
def test_what_is_resized_is_returned_channels_first(classes: int) -> None:
    model = EnlargedClasses(classes).eval()
    dimensions = {2: torch.export.Dim("height", min=7), 3: torch.export.Dim("width", min=7)}
    exported = torch.export.export(model, (torch.zeros(1, 3, 9, 12),), dynamic_shapes=(dimensions,))
    compiled = winograd.compile(winograd.import_torch(exported), threads=1, strict=True)
    assert f"winograd_blendedxblendedx{classes}_channels_first".encode() in compiled
    program, exact = winograd.load(compiled, "local-sync"), copy.deepcopy(model).double()
    for size in [(7, 7), (8, 15), (9, 16), (7, 17), (31, 45), (7, 4129)]:
        image = torch.randn(1, 3, *size)
        with torch.no_grad():
            expected = exact(image.double()).numpy()
            # A sum of 27 products, and positions as above, of half as many pixels.
            magnitude = model.classifier(image).abs().max().item()
            sums = (
                torch.nn.functional.conv2d(image.abs(), model.classifier.weight.abs(), stride=2).max().item()
            )
        bound = UNIT_ROUNDOFF * (28 * sums + 2 * magnitude * (4 * 4 * max(size) + 8))
        np.testing.assert_allclose(program(image.numpy()), expected, atol=bound, rtol=0, err_msg=str(size))


class ClassesAsLarge(torch.nn.Module):
    """Classes of pixels, resized to the size of another image."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = torch.nn.Conv2d(2, 5, 1, bias=False)
        with torch.no_grad():
            self.classifier.weight.copy_(torch.arange(-5, 5).reshape(5, 2, 1, 1))

    def forward(self, image: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return interpolate(self.classifier(image), size=other.shape[2:], mode="bilinear")


@pytest.mark.parametrize("type_", [torch.float32, *wide([torch.bfloat16])])
def test_columns_that_are_looked_up_are_those_that_are_loaded(type_: torch.dtype) -> None:
    """Programs for AVX-512 look them up in lines, unless images are made smaller, others load them.

    Without AVX-512 both programs load them, and have to agree all the more. Sums of products
    are exact before they are resized.
    """
    model = ClassesAsLarge().eval().to(type_)
    examples = (torch.zeros(1, 2, 9, 12, dtype=type_), torch.zeros(1, 2, 5, 7, dtype=type_))
    names = ("height", "width", "other_height", "other_width")
    dimensions = [torch.export.Dim(name, min=3) for name in names]
    shapes = ({2: dimensions[0], 3: dimensions[1]}, {2: dimensions[2], 3: dimensions[3]})
    exported = torch.export.export(model, examples, dynamic_shapes=shapes)
    imported = winograd.import_torch(exported)
    compiled = [winograd.compile(imported, target=target, threads=1) for target in ("cpu", "cpu:haswell")]
    assert all(b"winograd_blendedxblendedx5" in each for each in compiled)
    programs = [winograd.load(each, "local-sync") for each in compiled]
    generator = torch.Generator().manual_seed(1)
    for size, target in [
        ((7, 9), (14, 18)),
        ((7, 40), (9, 41)),
        ((4, 200), (8, 201)),
        ((8, 100), (4, 51)),
        ((3, 300), (5, 20)),
        ((3, 5), (3, 15)),
    ]:
        image = torch.randint(-8, 9, (1, 2, *size), generator=generator).to(type_)
        results = [program(image, torch.zeros(1, 2, *target, dtype=type_)) for program in programs]
        assert results[0].shape == (1, 5, *target)
        torch.testing.assert_close(*results, atol=0, rtol=0)


class LongerSignal(torch.nn.Module):
    """Resizes signals before a convolution, and returns them resized, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv1d(2, 8, 3), torch.nn.Conv1d(8, 8, 3)

    def forward(self, sound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        longer = interpolate(torch.relu(self.first(sound)), scale_factor=2.0, mode="linear")
        return torch.relu(self.last(longer)), interpolate(
            self.first(sound), size=sound.shape[2], mode="linear"
        )


def test_signals_are_resized_in_parts() -> None:
    model = LongerSignal().eval()
    dimensions = ({2: torch.export.Dim("length", min=5)},)
    exported = torch.export.export(model, (torch.zeros(1, 2, 700),), dynamic_shapes=dimensions)
    compiled = winograd.compile(winograd.import_torch(exported), threads=2, strict=True)
    assert b"winograd_blendedx8" in compiled
    program, exact = winograd.load(compiled, threads=2), copy.deepcopy(model).double()
    for length in (5, 17, 258, 259, 512, 513, 527, 1537):
        sound = torch.randn(1, 2, length)
        with torch.no_grad():
            expected = exact(sound.double())
            # Positions are of four operations, on numbers up to twice the length; a sum of 7, another of 25.
            magnitude = (
                max(each.abs().max().item() for each in expected) + model.first(sound).abs().max().item()
            )
        bound = UNIT_ROUNDOFF * magnitude * (25 * (4 * 4 * length + 8) + 32)
        for result, right in zip(program(sound.numpy()), expected, strict=True):
            np.testing.assert_allclose(np.asarray(result), right.numpy(), atol=bound, rtol=0)


class MixingOfAnySize(torch.nn.Module):
    """Mixes channels of images of open sizes that are doubled: by themselves, beside others, of windows."""

    def __init__(self, channels: int, others: int) -> None:
        super().__init__()
        self.first = torch.nn.ModuleList(torch.nn.Conv2d(3, each, 1) for each in (channels, others))
        self.alone = torch.nn.Conv2d(channels, 24, 1)
        self.between = torch.nn.Conv2d(2 * channels + others, 24, 1)
        self.windows = torch.nn.Conv2d(channels + others, 8, 3, padding=1)

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        pooled, large = (first(image) for first in self.first)
        # Images of their own: what two layers read isn't resized after either.
        one, two, three, four, five = (number * max_pool2d(pooled, 2) for number in range(1, 6))
        smooth = interpolate(one, size=large.shape[2:], mode="bilinear", align_corners=False)
        repeated = interpolate(two, size=large.shape[2:])
        doubled = interpolate(three, scale_factor=2.0, mode="bilinear", align_corners=False)
        return [
            torch.relu(self.alone(interpolate(four, scale_factor=2.0))),
            torch.relu(self.alone(interpolate(five, scale_factor=2.0, mode="bilinear"))),
            torch.relu(self.between(torch.cat([smooth, large, repeated], 1))),
            self.windows(torch.cat([large, doubled], 1)),
        ]


@pytest.mark.wide
def test_convolutions_of_resized_images_of_open_sizes_come_first(tmp_path: Path) -> None:
    torch.manual_seed(0)
    channels, others, size, report = 64, 16, (10, 12), tmp_path / "report.json"
    model = MixingOfAnySize(channels, others).eval()
    dimensions = {2 + d: 2 * torch.export.Dim(f"half_{d}", min=1) for d in range(2)}
    example = torch.zeros(1, 3, *size)
    exported = torch.export.export(model, (example,), dynamic_shapes=(dimensions,))
    compiled = winograd.compile(winograd.import_torch(exported), threads=1, strict=True, report=report)
    layers = [each["problem"] for each in json.loads(report.read_text())["layers"]]
    pointwise = [each for each in layers if each["kernel_size"] == [1, 1] and each["input_channels"] > 3]
    computed = [(*each["output_size"], each["input_channels"]) for each in pointwise]
    assert sorted(computed) == [*[(5, 6, channels)] * 4, (10, 12, others)]
    program, exact_model = winograd.load(compiled, device="local-sync"), copy.deepcopy(model).double()
    of_magnitudes = copy.deepcopy(model)
    for parameter in of_magnitudes.parameters():
        parameter.detach().abs_()
    # Positions and weights of factors of two are exact. A convolution has a term for each product and its
    # bias, resizing four products and sums, then three images are added.
    terms = 4 + 9 * (channels + others) + 2 * channels + others + 1 + 8 + 3
    for half in [(1, 1), (1, 17), (13, 1), (5, 6), (11, 19)]:
        image = torch.randn(1, 3, *(2 * each for each in half))
        with torch.no_grad():
            expected = exact_model(image.double())
            magnitude = max(each.max().item() for each in of_magnitudes(image.abs()))
        for result, exact in zip(program(image.numpy()), expected, strict=True):
            bound = UNIT_ROUNDOFF * magnitude * terms
            np.testing.assert_allclose(
                np.asarray(result), exact.numpy(), atol=bound, rtol=0, err_msg=str(half)
            )


class Enlarging(torch.nn.Module):
    """Enlarges the result of a convolution by whole factors, and gives it to another one."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = torch.nn.Conv2d(3, 8, 1), torch.nn.Conv2d(8, 8, 1)

    def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
        x = self.before(image)
        enlarged = (
            interpolate(x, scale_factor=(3.0, 2.0), mode="nearest"),
            interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
        )
        return [self.after(each) for each in enlarged]


@pytest.mark.wide
def test_enlarging_onnx_images_of_open_sizes_agrees_with_float64(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, path = Enlarging().eval(), tmp_path / "enlarging.onnx"
    axes = {"image": {2: "height", 3: "width"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(1, 3, 5, 6),),
            str(path),
            dynamo=False,
            input_names=["image"],
            dynamic_axes=axes,
        )
    compiled = winograd.compile(winograd.import_onnx(path), threads=1, strict=True)
    kernels = ("winograd_selectedxselectedx8", "winograd_blendedxblendedx8")
    assert all(kernel.encode() in compiled for kernel in kernels)
    program, exact_model = winograd.load(compiled, device="local-sync"), copy.deepcopy(model).double()
    for size in [(1, 1), (1, 17), (9, 1), (13, 22)]:
        image = torch.randn(1, 3, *size)
        with torch.no_grad():
            exact, magnitude = exact_model(image.double()), image.abs()
            for layer in (model.before, model.after):
                assert layer.bias is not None
                magnitude = torch.nn.functional.conv2d(magnitude, layer.weight.abs(), layer.bias.abs())
        # A position is the result of four operations on numbers up to twice the image's size.
        bound = UNIT_ROUNDOFF * magnitude.max().item() * (2 * (4 * 2 * 22 + 8) + 4 + 9)
        for result, values in zip(program(image.numpy()), exact, strict=True):
            np.testing.assert_allclose(np.asarray(result), values.numpy(), atol=bound, rtol=0)


class MixedWhereEnlarged(torch.nn.Module):
    """A pointwise convolution with a bias of an image that is enlarged linearly."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.mixed = torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.Conv2d(32, 16, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.mixed(interpolate(self.features(image), scale_factor=2.0, mode="bilinear"))


def test_a_bias_is_added_before_an_image_is_enlarged(tmp_path: Path) -> None:
    """The weights of each pixel add up to 1: torch has one that is 1 and the other one's negative."""
    model = MixedWhereEnlarged().eval()
    dimensions = {2: torch.export.Dim("height", min=4), 3: torch.export.Dim("width", min=4)}
    exported = torch.export.export(model, (torch.zeros(1, 3, 9, 12),), dynamic_shapes=(dimensions,))
    report = tmp_path / "report.json"
    compiled = winograd.compile(winograd.import_torch(exported), threads=1, strict=True, report=report)
    names = [each["kernel"] for each in json.loads(report.read_text())["dispatches"]]
    assert names[-1] == "winograd_blendedxblendedx16_channels_first"
    program, exact = winograd.load(compiled, "local-sync"), copy.deepcopy(model).double()
    image = torch.randn(1, 3, 7, 10)
    with torch.no_grad():
        expected = exact(image.double()).numpy()
    np.testing.assert_allclose(program(image.numpy()), expected, atol=1e-4 * np.abs(expected).max(), rtol=0)
