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
from host import HAS_AVX512
from iree.winograd.dialect.bindings import ir
from iree.winograd.importers.torch_operators import resizing
from iree.winograd.passes.fold_resampling import FoldResampling
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.resampling import Resampling, match_resampling
from torch.nn.functional import interpolate, max_pool2d
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
        return {name: relu_of(x, **way) for name, way in ways.items() if self.is_of_images or "size" in way}


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


@pytest.mark.skipif(not HAS_AVX512, reason="others don't look columns up")
@pytest.mark.parametrize("type_", [torch.float32, *wide([torch.bfloat16])])
def test_columns_that_are_looked_up_are_those_that_are_loaded(type_: torch.dtype) -> None:
    """Programs for AVX-512 look them up in lines, unless images are made smaller, others load them.

    Sums of products are exact before they are resized.
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
