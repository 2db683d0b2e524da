"""Convolutions, and what is between them, that write channels of a larger tensor, on Vulkan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import pytest
import torch
from group_norm_program import UNIT_ROUNDOFF, activated, normalized
from iree.winograd.compiling.compilation import Compilation, Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.pipelines.gpu import tensor_kernels
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from positive_weights import with_positive_weights
from torch import nn
from wide import wide, wide_combinations

COPIED = 3
"""Parts of `Branches`: one that is concatenated twice, and one that is read when others have been written."""
HALF_ROUNDOFF = 2.0**-11
ROUNDINGS = 2.0**11
"""More than an element goes through in four layers of less than 300 terms each."""


class Dense(nn.Module):
    """An image, and behind it the channels that layers make of all before."""

    def __init__(self, growths: tuple[int, ...]) -> None:
        super().__init__()
        channels, layers = 16, []
        for growth in growths:
            kernel = 3 if growth != 8 else 1
            layers.append(nn.Conv2d(channels, growth, kernel, padding=kernel // 2))
            channels += growth
        self.first, self.last = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(channels, 8, 1)
        self.layers = nn.ModuleList(layers)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = self.first(image)
        for layer in self.layers:
            image = torch.cat([image, layer(torch.relu(image))], 1)
        return self.last(image)


class Decoder(nn.Module):
    """A level of a U-Net: what the skip connection takes is pooled as well, and the rest is upsampled."""

    def __init__(self) -> None:
        super().__init__()
        self.skip, self.deep = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 16, 1)
        self.up, self.merge = nn.ConvTranspose2d(16, 12, 2, stride=2), nn.Conv2d(8 + 12, 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        skip = torch.relu(self.skip(image))
        deep = torch.relu(self.deep(torch.max_pool2d(skip, 2)))
        return self.merge(torch.cat([skip, self.up(deep)], 1))


class Uneven(nn.Module):
    """A part of whole quads of a tensor whose pixels aren't, so that it is copied there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, 2, padding=1), nn.Conv2d(4, 6, 3, 2, padding=1)
        self.last = nn.Conv2d(14, 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        parts = [torch.relu(each(image)) for each in (self.first, self.second)]
        return self.last(torch.cat(parts, 1))


class Enlarged(nn.Module):
    """A level of a neck: an image is enlarged by its nearest pixels, and concatenated with a larger one.

    Of the larger one it is made by a layer, or its maxima are read before.
    """

    def __init__(self, pools: bool) -> None:
        super().__init__()
        self.large = nn.Conv2d(4, 8, 3, padding=1)
        layers = (nn.MaxPool2d(2), nn.Conv2d(8, 12, 1)) if pools else (nn.Conv2d(8, 12, 3, 2, 1),)
        self.small = nn.Sequential(*layers)
        self.last = nn.Conv2d(8 + 12, 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        large = torch.relu(self.large(image))
        small = torch.relu(self.small(large))
        return self.last(torch.cat([nn.functional.interpolate(small, scale_factor=2.0), large], 1))


class Branches(nn.Module):
    """Parts of convolutions, in quads of channels or not, and of what is pooled, resized and computed.

    Others read one of them, which is concatenated twice.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.odd, self.odder = nn.Conv2d(4, 16, 1), nn.Conv2d(16, 10, 1), nn.Conv2d(16, 6, 1)
        self.again, self.last = nn.Conv2d(48, 8, 1), nn.Conv2d(96, 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.first(image)
        pooled = torch.max_pool2d(first, 3, 1, 1)
        small = torch.nn.functional.avg_pool2d(first, 2)
        large = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear")
        parts = [first, pooled, self.odd(first), self.odder(first), torch.relu(pooled + first) * 0.5]
        joined = torch.cat([*parts, first, large - 1], 1)
        return self.last(joined) + self.again(joined[:, :48])


class Given(nn.Module):
    """Parts of an argument, of a constant, and of what is returned as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = (
            nn.Conv2d(4, 16, 3, padding=1),
            nn.Conv2d(16, 8, 1),
            nn.Conv2d(48, 8, 1),
        )
        self.register_buffer("constant", torch.randn(1, 4, 10, 12))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.relu(self.first(image))
        parts = [image, first, self.second(first), torch.sigmoid(first), self.constant.expand(image.shape)]
        return self.last(torch.cat(parts, 1)), first


class Conditioned(nn.Module):
    """Residual blocks of a diffusion model, without what normalizes: a vector of each is added to its image.

    All are layers of the same embedding. The image of one block has no whole quads.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 10, 24, 16)
        layers = pairwise((4, *widths))
        self.layers = nn.ModuleList(nn.Conv2d(*each, 1) for each in layers)
        self.vectors = nn.ModuleList(nn.Linear(20, each) for each in widths)
        self.embedding = nn.Linear(12, 20)

    def forward(self, image: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        embedding = torch.relu(self.embedding(step))
        for layer, vector in zip(self.layers, self.vectors, strict=True):
            image = torch.relu(layer(image) + vector(embedding)[:, :, None, None])
        return image


class Skipped(nn.Module):
    """A residual block on an image that is concatenated later: it is normalized, added to, and read again.

    Filters read no channel but one.
    """

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        for each in self.norm.parameters():
            nn.init.normal_(each)
        widths = (channels, channels, 2 * channels)
        self.layers = nn.ModuleList(nn.Conv2d(each, each, 1, bias=False) for each in widths)
        for layer in self.layers:
            nn.init.dirac_(layer.weight)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first, between, last = self.layers
        skip = first(image)
        block = between(nn.functional.silu(self.norm(skip))) + skip
        result: torch.Tensor = last(torch.cat([block, skip], 1))
        return result


class SplitBottlenecks(nn.Module):
    """Channels are divided, some go through layers and are added to what these make, and all are joined."""

    def __init__(self, half: int) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(4, 2 * half, 1), nn.Conv2d(4 * half, 8, 1)
        self.layers = nn.ModuleList(nn.Conv2d(half, half, 3, padding=1) for _ in range(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        parts = list(torch.relu(self.enter(image)).chunk(2, 1))
        for layer in self.layers:
            parts.append(parts[-1] + torch.relu(layer(parts[-1])))
        return self.leave(torch.cat(parts, 1))


class Scales(nn.Module):
    """The pixels of two scales in a row, of which some channels are computed further."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = nn.Conv2d(4, 12, 1), nn.Conv2d(4, 12, 3, 2, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.cat([each(image).flatten(2) for each in (self.large, self.small)], 2)
        first, last = found.split([8, 4], 1)
        return first.unflatten(1, (2, 4)).softmax(2).sum(1), last


class Kept(nn.Module):
    """A part of a concatenation that is read by something else as well, as a residual: it is copied there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 10, 3, padding=1)
        self.last = nn.Conv2d(18, 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.first(image))
        joined = torch.cat([first, torch.relu(self.second(first))], 1)
        return first + 0.2 * self.last(joined)


def any_size(model: nn.Module, multiple: int) -> iree.winograd.ImportedModel:
    """The model for images of any height and width that are such multiples."""
    size = {2 + d: multiple * torch.export.Dim(f"size_{d}") for d in range(2)}
    image = torch.zeros(1, 4, 5 * multiple, 6 * multiple, dtype=next(model.parameters()).dtype)
    return iree.winograd.import_torch(torch.export.export(model, (image,), dynamic_shapes=(size,)))


def copies(model: nn.Module, *inputs: torch.Tensor) -> int:
    """How many of IREE's dispatches copy parts of larger tensors, or into these."""
    return copies_of(iree.winograd.import_torch(model, *inputs))


def copies_of(imported: iree.winograd.ImportedModel, copying: str = "slow_memcpy workgroups") -> int:
    """The same of what was imported, or how many dispatches are named so."""
    errors: list[object] = []
    session = open_session(target_flags("vulkan"), WinogradOptions(strict=True))
    with Compilation(
        session, WinogradOptions(strict=True), Stages(compile_to="flow"), report=errors.append
    ) as c:
        invocation = c.compile(open_source(c, imported))
        assert invocation is not None, errors
        return str(invocation.export_module()).count(copying)


@pytest.mark.parametrize("growths", wide([(12, 10, 8)]))
def test_layers_write_the_channels_that_are_theirs(
    growths: tuple[int, ...], gpu_target: str, gpu_device: str
) -> None:
    torch.manual_seed(0)
    expect_right(Dense(growths).eval(), [torch.randn(2, 4, 13, 14)], gpu_target, gpu_device)


@pytest.mark.parametrize("model", wide([Branches, Decoder, Given]))
def test_parts_of_all_kinds_are_where_they_belong(
    model: type[nn.Module], gpu_target: str, gpu_device: str
) -> None:
    torch.manual_seed(0)
    expect_right(model().eval(), [torch.randn(1, 4, 10, 12)], gpu_target, gpu_device)


@pytest.mark.parametrize(
    ("model", "multiple"),
    [
        (Decoder(), 2),
        *wide_combinations(
            [
                (Kept(), 1),
                (Enlarged(False), 2),
                (Dense((12, 10, 8)), 1),
                (SplitBottlenecks(6), 1),
                (Enlarged(True), 2),
                (Uneven(), 2),
            ]
        ),
    ],
)
def test_parts_of_any_size_are_where_they_belong(
    model: nn.Module, multiple: int, gpu_target: str, gpu_device: str
) -> None:
    """A row, a column, primes, and what is larger than the example."""
    torch.manual_seed(0)
    model.eval()
    sizes = [(5, 6), (1, 9), (11, 1), (7, 5), (17, 23)]
    calls = [[torch.randn(1, 4, *(multiple * each for each in size))] for size in sizes]
    expect_right_of(any_size(model, multiple), model, calls, gpu_target, gpu_device)


@pytest.mark.matrix_units
@pytest.mark.parametrize(("model", "multiple"), [(Dense((12, 8, 8)), 1), (Decoder(), 2), (Enlarged(True), 2)])
def test_parts_of_half_precision_of_any_size_are_where_they_belong(
    model: nn.Module, multiple: int, gpu_target: str, gpu_device: str
) -> None:
    """On CUDA, in tensors of half precision where all parts are layers'."""
    torch.manual_seed(0)
    model.eval().half()
    sizes = [(5, 6), (1, 9), (11, 1), (17, 23)]
    calls = [[torch.randn(1, 4, *(multiple * each for each in size)).half()] for size in sizes]
    expect_right_of(any_size(model, multiple), model, calls, gpu_target, gpu_device, HALF_ROUNDOFF)


def test_what_is_enlarged_is_written_beside_what_a_layer_read_before() -> None:
    """Of any size, too, that is computed where it is concatenated: no kernel copies it there."""
    imported = any_size(Enlarged(False).eval(), 2)
    assert copies_of(imported, "flow.dispatch @winograd_all") == copies_of(imported) == 0


@pytest.mark.wide
def test_vectors_of_one_product_are_added_where_they_are(
    gpu_target: str, gpu_device: str, tmp_path: Path
) -> None:
    """Those whose parts of it are aligned."""
    torch.manual_seed(0)
    model, inputs = Conditioned().eval(), (torch.randn(2, 4, 9, 10), torch.randn(2, 12))
    report = tmp_path / "report.json"
    expect_right(model, inputs, gpu_target, gpu_device, report=report)
    names = [each["names"] for each in json.loads(report.read_text())["layers"]]
    assert [f"vectors.{number}" for number in (0, 2, 3)] in names
    assert copies(model.float(), *inputs) == 0


@pytest.mark.parametrize(
    ("channels", "groups", "size"),
    [
        (24, 3, (19, 20)),
        *wide_combinations(
            [
                # Of these no workgroup holds a group: sums are kernels of their own.
                (32, 2, (64, 64)),
                (40, 4, (19, 20)),
            ]
        ),
    ],
)
def test_skips_are_normalized_and_added_where_they_are_concatenated(
    channels: int, groups: int, size: tuple[int, int], gpu_target: str, gpu_device: str
) -> None:
    torch.manual_seed(0)
    model, x = Skipped(channels, groups).eval(), torch.randn(2, channels, *size) + 3
    compiled = bytes(
        iree.winograd.compile(iree.winograd.import_torch(model, x), target=gpu_target, strict=True)
    )
    assert (b"winograd_group_norm" in compiled) != (b"winograd_moments" in compiled)
    assert b"slow_memcpy" not in compiled
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(x.numpy()))
    weight, bias = (each.detach().double().numpy() for each in model.norm.parameters())
    image = x.double().numpy()
    expected, bound = activated(*normalized(image, groups, weight, bias))
    expected, bound = (
        np.concatenate(each, 1) for each in ((expected + image, image), (bound, np.zeros_like(bound)))
    )
    products = np.abs(expected).max() * UNIT_ROUNDOFF * 8
    assert (np.abs(result - expected) <= bound + products).all()


@pytest.mark.parametrize("half", wide([8, 6]))
def test_divided_channels_are_read_and_added_where_they_are(
    half: int, gpu_target: str, gpu_device: str
) -> None:
    torch.manual_seed(0)
    expect_right(SplitBottlenecks(half).eval(), [torch.randn(2, 4, 9, 11)], gpu_target, gpu_device)


@pytest.mark.wide
def test_pixels_in_a_row_are_copied_by_kernels(
    gpu_target: str, gpu_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_kernels, "_LEAST_SLOW", 1)
    torch.manual_seed(0)
    model, image = Scales().eval(), torch.randn(3, 4, 8, 10)
    expect_right(model, [image], gpu_target, gpu_device)
    assert copies(model.float(), image) == 0


def expect_right(
    model: nn.Module, inputs: Sequence[torch.Tensor], target: str, device: str, **options: Any
) -> None:
    """Compiles the model, whose result, or each of several, may be off by rounding."""
    imported = iree.winograd.import_torch(model, *inputs)
    expect_right_of(imported, model, [inputs], target, device, **options)


def expect_right_of(
    imported: iree.winograd.ImportedModel,
    model: nn.Module,
    calls: Sequence[Sequence[torch.Tensor]],
    target: str,
    device: str,
    roundoff: float = UNIT_ROUNDOFF,
    **options: Any,
) -> None:
    """The same of what was imported of the model, for the inputs of each of these calls."""
    program = iree.winograd.load(
        iree.winograd.compile(imported, target=target, strict=True, **options), device
    )
    results = [as_tuple(program(*(each.numpy() for each in inputs))) for inputs in calls]
    model.double()
    positive = with_positive_weights(model)
    for inputs, found in zip(calls, results, strict=True):
        with torch.no_grad():
            exact = as_tuple(model(*(each.double() for each in inputs)))
            largest = as_tuple(positive(*(each.abs().double() for each in inputs)))
        for result, expected, bound in zip(found, exact, largest, strict=True):
            error = np.abs(np.asarray(result) - expected.numpy())
            assert (error <= ROUNDINGS * roundoff * bound.numpy()).all(), inputs[0].shape


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize(
    "case",
    wide(
        [
            (Dense((12, 8)), 0),
            (Dense((10, 6)), 0),
            (Decoder(), 0),
            (SplitBottlenecks(8), 0),
            (Branches(), COPIED),
        ]
    ),
)
def test_only_what_cannot_be_computed_in_its_place_is_copied(case: tuple[nn.Module, int]) -> None:
    model, expected = case
    assert copies(model.eval(), torch.randn(1, 4, 10, 12)) == expected


@pytest.mark.parametrize(("model", "multiple"), [(Decoder(), 2), *wide_combinations([(Dense((12, 8)), 1)])])
def test_nothing_of_any_size_is_copied(model: nn.Module, multiple: int) -> None:
    assert copies_of(any_size(model.eval(), multiple)) == 0
