"""Images that are resized, or have channels selected, against torch in float64."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.dialect.bindings import ir
from iree.winograd.importers.torch_operators import resizing
from iree.winograd.passes.fold_resampling import FoldResampling
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.pixels.resampling import Resampling, match_resampling
from torch.nn.functional import interpolate
from wide import wide

# Sizes that grow and shrink, by integers and not.
SOURCE = (9, 12)
UNIT_ROUNDOFF = 2.0**-24
INDICES = torch.tensor([3, 0, 0, 4, 1, 7])


class Resizing(torch.nn.Module):
    """Resizes the result of a convolution, which has channels last, in every way."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, channels, 1)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.convolution(image)
        return {
            # What another operation follows is resized with channels last.
            "corners": interpolate(x, size=(32, 21), mode="bilinear", align_corners=True),
            "corners, channels last": relu_of(x, size=(32, 21), mode="bilinear", align_corners=True),
            "centers": interpolate(x, size=(7, 30), mode="bilinear", align_corners=False),
            "centers, channels last": relu_of(x, size=(7, 30), mode="bilinear", align_corners=False),
            "doubled": relu_of(x, scale_factor=2, mode="bilinear", align_corners=False),
            "one row": relu_of(x, size=(1, 12), mode="bilinear", align_corners=True),
            "nearest": interpolate(x, scale_factor=2, mode="nearest"),
            "nearest, channels last": relu_of(x, scale_factor=3, mode="nearest"),
            "nearest, rows": relu_of(x, size=(18, 12), mode="nearest"),
            "nearest, other sizes": relu_of(x, size=(18, 30), mode="nearest"),
            "cubic": interpolate(x, size=(18, 24), mode="bicubic", align_corners=False),
            "cubic, channels last": relu_of(x, scale_factor=3, mode="bicubic", align_corners=False),
            "selected": x.index_select(1, INDICES),
            "selected, channels last": torch.relu(x.index_select(1, INDICES)),
            "reversed": torch.relu(x.flip(3)),
            "twice": relu_of(interpolate(x, scale_factor=2, mode="nearest"), size=(7, 30), mode="bilinear"),
            "negated": -x[0].index_select(0, INDICES),
            "scaled": 2 * x.flatten().index_select(0, INDICES),
        }


def relu_of(x: torch.Tensor, **options: object) -> torch.Tensor:
    return torch.relu(interpolate(x, **options))  # type: ignore[arg-type]


def error_bound(model: Resizing, image: torch.Tensor) -> float:
    """The largest error that rounding may cause: of the convolution, of positions, of weights and their sums.

    A position is the result of four operations on numbers up to the size of the image that is read, and the
    weights of an element change by at most 4 per pixel and dimension: those of bicubic interpolation by
    |w'(0..1)| + |w'(1..2)| on either side, where |w'| is below 1.2. Sums have at most 16 terms in 2 stages,
    with weights whose magnitudes add up to at most 1.5 per dimension; factors are at most 2.
    """
    weights, bias = model.convolution.weight, model.convolution.bias
    assert bias is not None
    magnitude = torch.nn.functional.conv2d(image.abs(), weights.abs(), bias.abs()).max().item()
    positions = 2 * 4 * (4 * max(SOURCE))
    sums = 1.5**2 * (2 * 4 + 4)
    return UNIT_ROUNDOFF * magnitude * (1.5**2 * 5 + positions + sums)


def test_resizing_agrees_with_float64() -> None:
    torch.manual_seed(0)
    model, image = Resizing(8).eval(), torch.randn(1, 3, *SOURCE)
    program = winograd.compile(winograd.import_torch(model, image), target="cpu:haswell", strict=True)
    with torch.no_grad():
        bound = error_bound(model, image)
        expected = model.double()(image.double())
    results = winograd.load(program)(image.numpy())
    assert len(results) == len(expected)
    for (name, exact), result in zip(expected.items(), results, strict=True):
        np.testing.assert_allclose(np.asarray(result), exact.numpy(), atol=bound, rtol=0, err_msg=name)


class Cubic(torch.nn.Module):
    """An image resized by cubic polynomials, whose weights aren't exact for this factor."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return interpolate(image, scale_factor=3.0, mode="bicubic")


def test_cubic_interpolation_is_one_operation(tmp_path: Path) -> None:
    image, path = torch.zeros(1, 8, *SOURCE), tmp_path / "cubic.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(Cubic(), (image,), str(path), dynamo=False)
    # ONNX's resizes rows, and then columns.
    for model in (winograd.import_torch(Cubic(), image), winograd.import_onnx(path)):
        with ir.Context() as context, ir.Location.unknown():
            module = model.build(context).operation
            FoldResampling().run(module)
            (resized,) = (each for each in walk(module) if each.name == "linalg.generic")
            match = match_resampling(resized)
            assert isinstance(match, Resampling)
            assert {dimension: axis.taps for dimension, axis in match.axes.items()} == {2: 4, 3: 4}


class Mixing(torch.nn.Module):
    """Mixes the channels of images that are resized, by factors of two, or to the size that they have.

    The last one has its rows resized, and then its columns.
    """

    def __init__(self, channels: int, others: int) -> None:
        super().__init__()
        read = channels, 2 * channels + others, channels + 2 * others, channels
        self.first = torch.nn.ModuleList(torch.nn.Conv2d(3, each, 1) for each in (channels, others))
        self.convolutions = torch.nn.ModuleList(torch.nn.Conv2d(each, 24, 1) for each in read)

    def forward(self, *images: torch.Tensor) -> list[torch.Tensor]:
        small, large = (first(image) for first, image in zip(self.first, images, strict=True))
        alone, between, around, last = self.convolutions
        rows = interpolate(small, scale_factor=(2, 1), mode="bilinear")
        smooth = interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        repeated = interpolate(small, scale_factor=2)
        same = interpolate(large, size=large.shape[2:], mode="bilinear", align_corners=False)
        mean = self.first[0](images[0].mean((2, 3), keepdim=True))
        pooled = interpolate(mean, size=large.shape[2:], mode="bilinear")
        return [
            torch.relu(alone(interpolate(small, scale_factor=4, mode="bilinear"))),
            torch.relu(between(torch.cat([smooth, large, repeated], 1))),
            around(torch.cat([same, pooled, large], 1)),
            last(interpolate(rows, scale_factor=(1, 2), mode="bilinear")),
        ]


def test_convolutions_of_resized_images_come_first(tmp_path: Path) -> None:
    torch.manual_seed(0)
    channels, others, size, report = 64, 16, (5, 6), tmp_path / "report.json"
    model = Mixing(channels, others).eval()
    images = torch.randn(1, 3, *size), torch.randn(1, 3, *(2 * each for each in size))
    imported = winograd.import_torch(model, *images)
    program = winograd.load(winograd.compile(imported, target="cpu:haswell", strict=True, report=report))
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(*(image.double() for image in images))
        for parameter in model.parameters():
            parameter.abs_()
        magnitude = max(each.max().item() for each in model(*(image.abs() for image in images)))
    # Positions and weights of factors of two are exact. A mean has a term for each pixel, a convolution one
    # for each channel and its bias, resizing four products and sums, then three images are added.
    bound = UNIT_ROUNDOFF * magnitude * (4 + np.prod(size) + 2 * channels + others + 1 + 8 + 3)
    for result, exact in zip(program(*(image.numpy() for image in images)), expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), exact.numpy(), atol=bound, rtol=0)
    layers = [each["problem"] for each in json.loads(report.read_text())["layers"]]
    computed = {
        (*each["output_size"], each["input_channels"]) for each in layers if each["input_channels"] > 3
    }
    assert computed == {(*size, channels), (1, 1, channels), (10, 12, others)}


SHAPES = ((2, 3, 7), (1, 2, 7, 5), (1, 2, 4, 5, 3))
FACTORS = (0.6, 1.7)


class Nearest(torch.nn.Module):
    """Signals, images and volumes resized without computing anything, by ratios stated in all ways."""

    def forward(self, *images: torch.Tensor) -> list[torch.Tensor]:
        return [
            interpolate(image, mode=mode, **options)  # type: ignore[arg-type]
            for image in images
            for mode in ("nearest", "nearest-exact")
            for options in (
                {"size": [size + 3 for size in image.shape[2:]]},
                {"scale_factor": FACTORS[0]},
                {"scale_factor": FACTORS[1], "recompute_scale_factor": True},
            )
        ]


@pytest.mark.wide
def test_nearest_elements_are_those_of_torch() -> None:
    torch.manual_seed(0)
    model, images = Nearest(), [torch.randn(shape) for shape in SHAPES]
    program = winograd.load(winograd.compile(winograd.import_torch(model, *images)))
    for expected, result in zip(model(*images), program(*images), strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected.numpy())


def resized_of_any_height(factor: float) -> torch.export.ExportedProgram:
    class Resizing(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return interpolate(image, scale_factor=factor)

    height = {2: torch.export.Dim("height", min=4)}
    return torch.export.export(Resizing(), (torch.zeros(1, 3, 8, 6),), dynamic_shapes=(height,))


@pytest.mark.parametrize("factor", [2.0, *wide([1.5])])
def test_heights_that_are_open_stay_so(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = winograd.import_torch(resized_of_any_height(factor)).outputs
    assert result.shape == (1, 3, None, int(6 * factor))
    monkeypatch.setattr(resizing, "_scaled", lambda size, factor: int(size * factor))
    with pytest.raises(winograd.ModelImportError, match="size 2 of result 0 is open, but"):
        winograd.import_torch(resized_of_any_height(factor))


WAYS: tuple[tuple[bool, dict[str, float]], ...] = (
    (False, {"scale_factor": FACTORS[1]}),
    (True, {"scale_factor": FACTORS[0]}),
)
"""Whether corners are aligned, and the ratio."""


class Interpolating(torch.nn.Module):
    """Signals, images and volumes resized in all other ways."""

    def __init__(self, antialias: bool) -> None:
        super().__init__()
        self.modes = (("bilinear", "bicubic"),) if antialias else (("linear",), ("bilinear", "bicubic"))
        self.modes += () if antialias else (("trilinear",),)  # type: ignore[assignment]
        # Windows that shrink an image have more elements then.
        self.ways = WAYS[1:] if antialias else WAYS
        self.antialias = antialias

    def forward(self, *images: torch.Tensor) -> list[torch.Tensor]:
        return [
            interpolate(image, mode=mode, align_corners=corners, antialias=self.antialias, **options)  # type: ignore[arg-type]
            for image, modes in zip(images, self.modes, strict=True)
            for mode in modes
            for corners, options in self.ways
        ]


@pytest.mark.wide
@pytest.mark.parametrize("antialias", [True, False])
def test_interpolation_agrees_with_float64(antialias: bool) -> None:
    torch.manual_seed(0)
    model = Interpolating(antialias)
    images = [torch.randn(shape) for shape in (SHAPES[1:2] if antialias else SHAPES)]
    results = winograd.load(winograd.compile(winograd.import_torch(model, *images)))(*images)
    # As in `error_bound`; sums of windows that shrink images have weights that add up to no more.
    largest = max(image.abs().max().item() for image in images)
    bound = UNIT_ROUNDOFF * largest * 1.5**3 * (2 * 4 * (4 * 7) + 3 * (2 * 4 + 4))
    for exact, result in zip(model(*(image.double() for image in images)), results, strict=True):
        np.testing.assert_allclose(np.asarray(result), exact.numpy(), atol=bound, rtol=0)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_corners_are_left_to_torch_where_it_refuses_them(mode: str) -> None:
    image = torch.zeros(1, 2, 3, 4)
    for align_corners in (False, True):
        with pytest.raises(ValueError, match="align_corners"):
            interpolate(image, size=(5, 6), mode=mode, align_corners=align_corners)
        resized = resizing.interpolate(image, size=(5, 6), mode=mode, align_corners=align_corners)
        assert resized is NotImplemented
    assert resizing.interpolate(image, size=(5, 6), mode=mode) is not NotImplemented
