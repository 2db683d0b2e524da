"""Operators of torch that are decomposed before torch-mlir sees them, against torch in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.torch_operators.table import decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from wide import wide

F = torch.nn.functional
Function = Callable[..., Sequence[torch.Tensor]]


class Model(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> Sequence[torch.Tensor]:
        return self.function(*arguments)


def expect(function: Function, *arguments: torch.Tensor, terms: int = 0) -> None:
    """A program of `function` computes the same from `arguments`, exactly or in sums of so many `terms`."""
    model = Model(function)
    program = winograd.load(winograd.compile(winograd.import_torch(model, *arguments)))
    results = program(*(each.clone() for each in arguments))
    if not isinstance(results, list | tuple):
        results = (results,)
    exact = model(*(each.double() for each in arguments))
    for index, (result, expected) in enumerate(zip(results, exact, strict=True)):
        assert result.shape == expected.shape, index
        largest = max((each.abs().max().item() for each in arguments if each.numel()), default=1.0)
        bound = terms**2 * UNIT_ROUNDOFF["float32"] * largest
        np.testing.assert_allclose(
            np.asarray(result), expected.numpy(), atol=bound, rtol=0, err_msg=str(index)
        )


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_padding_that_takes_elements_away() -> None:
    def padded(signal: torch.Tensor, image: torch.Tensor, volume: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.pad(signal, (1, -1)),
            F.pad(signal, (-1, -2)),
            F.pad(image, (1, -1, -1, 1)),
            F.pad(image, (3, -3)),
            F.pad(image, (-1, -2, -3, -1)),
            F.pad(image, (1, -1, -1, 1), value=2.0),
            F.pad(image, (0, 1, -1, 0, 1, -1)),
            F.pad(volume, (1, -1, -1, 2, 0, -1)),
            *(F.pad(image, (1, -1, -1, 1), mode=mode) for mode in ("reflect", "replicate", "circular")),
        ]

    expect(padded, random(2, 3, 5), random(2, 3, 8, 10), random(1, 2, 4, 5, 6))


def test_images_of_any_size_are_reflected() -> None:
    """Torch computes the rows to read: a size less a tensor of numbers."""
    any_size = torch.export.Dim.AUTO
    exported = torch.export.export(
        torch.nn.ReflectionPad2d((2, 1, 1, 3)),
        (random(1, 3, 8, 10),),
        dynamic_shapes=({2: any_size, 3: any_size},),
    )
    program = winograd.load(winograd.compile(winograd.import_torch(exported)))
    for size in ((8, 10), (5, 4)):
        image = random(1, 3, *size)
        np.testing.assert_array_equal(program(image), F.pad(image, (2, 1, 1, 3), mode="reflect"))


@pytest.mark.wide
def test_padding_in_front_of_a_convolution() -> None:
    def convolved(image: torch.Tensor) -> list[torch.Tensor]:
        ones = torch.ones(3, 3, 3, 3, dtype=image.dtype)
        return [F.conv2d(F.pad(image, pad), ones) for pad in ((1, -1, -1, 1), (3, -3), (-1, -1, -1, -1))]

    expect(convolved, random(1, 3, 9, 10), terms=27)


# Kernel, dilation, padding and stride.
PATCHES = (
    (3, 1, 1, 1),
    ((1, 4), 1, (0, 1), (1, 2)),
    (3, 1, 2, 3),
    (2, 2, 0, 3),
)


@pytest.mark.wide
def test_patches_of_images() -> None:
    def unfolded(image: torch.Tensor) -> list[torch.Tensor]:
        return [*(F.unfold(image, *each) for each in PATCHES), F.unfold(image[0], *PATCHES[0])]  # type: ignore[arg-type]

    expect(unfolded, random(2, 3, 8, 10))


@pytest.mark.wide
def test_sums_of_patches() -> None:
    def folded(image: torch.Tensor) -> list[torch.Tensor]:
        return [F.fold(F.unfold(image, *each), (8, 10), *each) for each in PATCHES]  # type: ignore[arg-type]

    expect(folded, random(2, 3, 8, 10), terms=16)


@pytest.mark.wide
def test_maxima_of_windows() -> None:
    """Of a window that is all but a row or a column, of images without a batch, and where they were."""

    def pooled(signal: torch.Tensor, image: torch.Tensor, volume: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.max_pool1d(signal, 4),
            F.max_pool2d(image, 5, 5, 2),
            F.max_pool2d(image[0], 2),
            F.max_pool2d(image, (8, 11), (8, 10), (1, 2), ceil_mode=True),
            *F.max_pool2d(image, (7, 9), return_indices=True),
            *F.max_pool2d(image[0], 2, return_indices=True),
            *F.max_pool2d(image, (8, 10), (8, 10), (1, 2), return_indices=True),
            *F.max_pool1d(signal[0], 2, return_indices=True),
            *F.max_pool2d(image[:, :, :3, :6], 3, 2, ceil_mode=True, return_indices=True),
            F.max_pool3d(volume, (3, 2, 2)),
            F.max_pool3d(volume[0], 2),
            F.max_pool3d(volume, 3, 2, ceil_mode=True),
        ]

    expect(pooled, random(2, 3, 7), random(2, 3, 8, 10), random(1, 2, 4, 3, 5))


@pytest.mark.wide
def test_elements_that_are_written_more_than_once() -> None:
    """The last one is kept where an image is unpooled. `scatter` counts dimensions from the last."""

    def unpooled(image: torch.Tensor, volume: torch.Tensor) -> list[torch.Tensor]:
        _, of_image = F.max_pool2d(image, 3, 2, 1, return_indices=True)
        _, of_volume = F.max_pool3d(volume, 3, 2, 1, return_indices=True)
        row, column = image[0, 0, 0], torch.arange(10, device=image.device) % 4
        return [
            F.max_unpool2d(image[:, :, ::2, ::2], of_image, 2, output_size=image.shape[2:]),
            F.max_unpool3d(volume[:, :, ::2, ::2, ::2], of_volume, 2, output_size=volume.shape[2:]),
            row.scatter_reduce(-1, column, row, "amax"),
            row.scatter_add(-1, column[:4], row),
            row.scatter(-1, column[:4], row),
            row.scatter(-1, column[:4], 2.0),
        ]

    expect(unpooled, random(2, 3, 8, 10), random(1, 2, 4, 3, 5))


@pytest.mark.wide
def test_two_scatters_of_a_dynamic_batch_into_as_many_elements() -> None:
    """IREE has both write in one memory where it computes the number that is there first."""

    def scattered(image: torch.Tensor) -> list[torch.Tensor]:
        columns = torch.arange(4, device=image.device).expand(image.shape[0], 4)
        return [
            image.new_full((image.shape[0], 4), -1.0).scatter(1, columns[:, :2], image + n) for n in (0, 8)
        ]

    model, image = Model(scattered), random(3, 2)
    program = winograd.load(winograd.compile(winograd.import_torch(model, image, dynamic_batch=True)))
    for result, expected in zip(program(image), scattered(image), strict=True):
        np.testing.assert_array_equal(np.asarray(result), expected.numpy())


@pytest.mark.wide
def test_means_of_windows() -> None:
    def pooled(signal: torch.Tensor, image: torch.Tensor, volume: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.avg_pool1d(signal, 4),
            F.avg_pool1d(signal, 3, 2, 1, True),
            F.avg_pool1d(signal, 3, 2, 1, True, False),
            F.avg_pool2d(image, 5, 5, 2, count_include_pad=False),
            F.avg_pool2d(image, 3, 2, ceil_mode=True),
            F.avg_pool2d(image, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(image, 3, 2, 1, True, True, 5),
            F.avg_pool3d(volume, (3, 2, 2)),
            F.avg_pool3d(volume, 2, 2, 1, ceil_mode=True),
        ]

    expect(pooled, random(2, 3, 7), random(2, 3, 8, 10), random(1, 2, 4, 3, 5), terms=64)


@pytest.mark.wide
def test_masks_and_diagonals_that_are_written() -> None:
    def written(image: torch.Tensor) -> list[torch.Tensor]:
        clipped, marked, lined = image.clone(), image.clone(), image.clone()
        clipped[clipped < 0] = 0
        marked[marked[:, :, 0, 0] > 0] = 1.0
        marked[:, marked[0, :, 0, 0] > 0] = 2.0
        lined.diagonal(0, 2, 3).fill_(1.0)
        lined.diagonal(-3, 3, 2).zero_()
        return [clipped, marked, lined]

    expect(written, random(2, 3, 8, 10))


def test_sizes_that_depend_on_values_are_refused() -> None:
    """torch-mlir may not end with them."""
    expected = r"test_torch_operators\.py:\d+: the size of what aten\.\S+ returns depends on values"
    with pytest.raises(ModelImportError, match=expected):
        winograd.import_torch(Model(lambda image: [image[image > 0]]), random(3, 4))


@pytest.mark.wide
def test_numbers_are_normalized() -> None:
    expect(lambda number: [number.softmax(0), number.log_softmax(0)], torch.tensor(2.0))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_tensors_without_elements() -> None:
    def computed(rows: torch.Tensor, columns: torch.Tensor, none: torch.Tensor) -> list[torch.Tensor]:
        return [
            rows @ columns,
            torch.addmm(torch.ones(5, 10, dtype=rows.dtype), rows, columns),
            F.linear(columns.t(), rows.new_zeros(3, 0), rows.new_ones(3)),
            none.softmax(0),
            none.sum(),
            none.prod(),
            none.mean(),
            none.var(),
            none.std(),
            *torch.var_mean(none),
            *torch.var_mean(rows, 1, keepdim=True),
            *torch.var_mean(columns.sum(), 0, correction=0),
            2 * none,
            torch.cat([none, columns.sum(0)]),
            torch.stack([none, none]),
            F.pad(none, (1, 2), value=1.0),
            columns.amax(1),
        ]

    expect(computed, random(5, 0), random(0, 10), random(0))


@pytest.mark.parametrize("batch", [0, *wide([2])])
def test_images_without_elements(batch: int) -> None:
    """A batch of none, no channels, and layers that aborted the process."""

    def computed(image: torch.Tensor, nothing: torch.Tensor) -> list[torch.Tensor]:
        rows = image.flatten(1)
        return [
            F.unfold(image, 2),
            F.interpolate(image, scale_factor=1.5, mode="bilinear"),
            F.max_pool2d(image, 2),
            F.group_norm(image, 1),
            F.pixel_shuffle(nothing, 1),
            F.conv2d(image, torch.ones(2, 3, 3, 3, dtype=image.dtype)),
            F.conv2d(nothing, nothing.new_zeros(8, 0, 3, 3), nothing.new_ones(8), stride=(2, 1)),
            F.group_norm(rows[:, :2], 1),
            image.mean((2, 3)),
        ]

    expect(computed, random(batch, 3, 4, 5), random(2, 0, 5, 5), terms=64)


def test_group_normalization_with_and_without_vectors() -> None:
    def normalized(image: torch.Tensor, rows: torch.Tensor, vector: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.group_norm(image, 3, vector, vector, eps=0.5),
            F.group_norm(image, 2, vector, eps=0.5),
            F.group_norm(image, 2, bias=vector, eps=0.5),
            F.group_norm(image, 6, eps=0.5),
            F.group_norm(rows, 1, vector, vector, eps=0.5),
        ]

    expect(normalized, random(2, 6, 4, 5), random(3, 6), random(6), terms=2 * 6 * 20)


def test_group_normalization_is_in_the_images_shape_on_all_devices() -> None:
    """Torch has another form for each: one that no channels-last image has a view for would be transposed."""

    def operators(device: str) -> list[str]:
        image, vector = torch.zeros(2, 8, 5, 6, device=device), torch.ones(8, device=device)
        traced = make_fx(lambda x, y: F.group_norm(x, 4, y, y), decomposition_table=decompositions())
        return [(node.target, node.args[1:]) for node in traced(image, vector).graph.nodes if node.args]

    targets = operators("meta")
    assert str(targets) == str(operators("cpu"))
    assert sum(target is torch.ops.aten.add.Tensor for target, _ in targets) == len(
        ("epsilon", "bias", "shift")
    )


def depthwise(rank: int, *, transposed: bool) -> Function:
    """A filter for each of 4 channels, of several strides, padding and dilations."""

    def computed(image: torch.Tensor) -> list[torch.Tensor]:
        kernel = (2, 3, 2)[:rank]
        weight = torch.arange(4.0 * int(np.prod(kernel)), dtype=image.dtype).reshape(4, 1, *kernel) / 16 - 1
        kind = "conv_transpose" if transposed else "conv"
        convolve = getattr(F, f"{kind}{rank}d")
        bias = torch.arange(4.0, dtype=image.dtype)
        return [
            convolve(image, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=4)
            for stride, padding, dilation in (
                (1, 0, 2),
                ([2], 1, 1),
                ((3, 1, 2)[:rank], 1, 1),
            )
        ]

    return computed


@pytest.mark.parametrize("rank", [1, *wide([3])])
def test_transposed_convolutions_with_a_filter_for_each_channel(rank: int) -> None:
    expect(depthwise(rank, transposed=True), random(2, 4, *(5, 6, 5)[:rank]), terms=16)


@pytest.mark.wide
def test_convolutions_of_volumes_with_a_filter_for_each_channel() -> None:
    expect(depthwise(3, transposed=False), random(2, 4, 5, 6, 5), terms=16)


@pytest.mark.wide
def test_transposed_convolution_with_a_stride_of_one_number() -> None:
    weight = random(2, 3, 3, 3)

    def computed(image: torch.Tensor) -> list[torch.Tensor]:
        return [F.conv_transpose2d(image, weight.to(image.dtype), None, [2], [1], [1])]

    expect(computed, random(1, 2, 9, 9), terms=18)


@pytest.mark.parametrize("type_", [torch.bfloat16, *wide([torch.float16])], ids=str)
def test_cumulative_sums_of_half_precision_are_rounded_once(type_: torch.dtype) -> None:
    """On the way a sum of ones would stay at 256 in bf16, at 2048 in f16."""
    ones = torch.ones(2, 2500, dtype=type_)
    model = Model(lambda ones: [ones.cumsum(1), ones.float().cumsum(1, dtype=type_)])
    program = winograd.load(winograd.compile(winograd.import_torch(model, ones)))
    expected = torch.arange(1.0, 2501).to(type_).expand(2, -1)
    for sums in program(ones):
        assert torch.equal(sums, expected)


def test_numbers_are_rounded_to_the_nearest() -> None:
    """IREE rounds those of f64 towards zero: 3 * (2 / 3) was below 2, and so were positions in images."""

    def multiplied(numbers: torch.Tensor) -> list[torch.Tensor]:
        return [(numbers * (7 / (7 * 1.5))).floor()]

    expect(multiplied, torch.arange(10.0))


@pytest.mark.wide
def test_maxima_of_windows_that_part_an_image_unevenly() -> None:
    def pooled(signal: torch.Tensor, volume: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.adaptive_max_pool1d(signal, 3),
            *F.adaptive_max_pool3d(volume, (3, 1, 2), return_indices=True),
        ]

    expect(pooled, random(2, 3, 7), random(1, 2, 4, 3, 5))


@pytest.mark.wide
def test_bags_of_rows() -> None:
    """An empty one, one of rows that don't count alone, and the weights of a sum."""
    indices = torch.tensor([1, 2, 4, 5, 4, 3])
    ways: tuple[tuple[str, list[int], dict[str, Any]], ...] = (
        ("sum", [0, 3, 3, 5], {"per_sample_weights": random(6)}),
        ("sum", [0, 3, 3, 6], {"include_last_offset": True}),
        ("mean", [0, 3, 3, 5], {"padding_idx": 3}),
        ("mean", [0, 3, 3, 6], {"include_last_offset": True}),
        ("max", [0, 3, 3, 5], {}),
        ("max", [0, 3, 3, 5], {"padding_idx": 3}),
    )

    def looked_up(table: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for mode, offsets, options in ways:
            given = {
                key: each.to(table.dtype) if key.startswith("per") else each for key, each in options.items()
            }
            results.append(F.embedding_bag(indices, table, torch.tensor(offsets), mode=mode, **given))
        return results

    expect(looked_up, random(10, 5), terms=8)


@pytest.mark.wide
def test_losses_with_weights() -> None:
    def losses(scores: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> list[torch.Tensor]:
        shares = targets.softmax(1)
        return [
            F.cross_entropy(scores, shares, weight=weights.abs()),
            F.cross_entropy(scores, shares, weight=weights.abs(), reduction="sum", label_smoothing=0.1),
            F.binary_cross_entropy_with_logits(scores, shares, weight=weights),
            F.binary_cross_entropy_with_logits(scores, shares, weight=weights, pos_weight=weights.abs()),
        ]

    expect(losses, random(5, 3), random(5, 3), random(3), terms=16)


def test_functions_of_elements() -> None:
    def computed(numbers: torch.Tensor, others: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.fmod(numbers, 0.75),
            torch.copysign(others, numbers),
            torch.copysign(others, torch.tensor([0.0, -0.0, 1.0, -1.0])),
            torch.fmax(numbers[0, 0], others),
            torch.fmin(numbers, others[:, :1, :]),
            torch.fmax(numbers, torch.where(others > 0, math.nan, others)),
            torch.kthvalue(numbers, 2).values,
            torch.kthvalue(others, 1, 0, keepdim=True).indices,
        ]

    expect(computed, random(2, 3, 4), random(2, 3, 4))


@pytest.mark.wide
def test_logarithms() -> None:
    def computed(numbers: torch.Tensor) -> list[torch.Tensor]:
        return [numbers.abs().log10(), torch.logcumsumexp(100 * numbers, 1), (0 * numbers).logcumsumexp(0)]

    expect(computed, random(3, 7), terms=16)


def test_functions_of_elements_are_off_by_roundings() -> None:
    """As IREE computes them the sine of 1000 is off by 2e-5, and the inverse of sinh infinite at -3000."""

    def computed(
        angles: torch.Tensor, numbers: torch.Tensor, above: torch.Tensor, parts: torch.Tensor
    ) -> list[torch.Tensor]:
        return [
            *(function(angles) for function in (torch.sin, torch.cos, torch.tan)),
            *(function(numbers) for function in (torch.asinh, torch.atan, torch.sinh)),
            *(
                torch.acosh(above),
                torch.atanh(parts),
                torch.atan2(numbers, parts),
                torch.atan2(parts, angles),
            ),
        ]

    scales = 10.0 ** torch.arange(-6, 4)[:, None]
    numbers = torch.cat([random(10, 400) * scales, torch.tensor([[88.5, -89.2, 3e19, -1e-30] * 100])])
    parts = torch.tanh(numbers)
    parts = torch.where(parts.abs() < 1, parts, 0.25)
    arguments = [numbers.clamp(-1e4, 1e4), numbers, numbers.abs() + 1, parts]
    program = winograd.load(winograd.compile(winograd.import_torch(Model(computed), *arguments)))
    results = program(*arguments)
    for index, (result, exact) in enumerate(
        zip(results, computed(*(each.double() for each in arguments)), strict=True)
    ):
        of_angles = index < 2
        bound = UNIT_ROUNDOFF["float32"] * (4 if of_angles else 8 * exact.abs())
        within = (result.double() - exact).abs() <= bound
        # Beyond the numbers of f32 there is infinity.
        within |= torch.isinf(result) & (exact.abs() > torch.finfo(torch.float32).max)
        assert within.all(), index


def test_functions_of_infinities_and_zeros() -> None:
    def computed(numbers: torch.Tensor, others: torch.Tensor) -> list[torch.Tensor]:
        functions = (torch.asinh, torch.acosh, torch.atanh, torch.atan, torch.sinh)
        return [torch.atan2(numbers[:, None], others), *(function(numbers) for function in functions)]

    numbers = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e30, -1e-30])
    program = winograd.load(winograd.compile(winograd.import_torch(Model(computed), numbers, numbers)))
    for result, expected in zip(program(numbers, numbers), computed(numbers, numbers), strict=True):
        np.testing.assert_allclose(result, expected, rtol=8 * UNIT_ROUNDOFF["float32"])
        has_sign = ~torch.isnan(expected)
        np.testing.assert_array_equal(torch.signbit(result)[has_sign], torch.signbit(expected)[has_sign])


def test_operators_without_a_lowering_are_named() -> None:
    """torch-mlir's own message may name a constant only."""
    expected = r"test_torch_operators\.py:\d+: the operator aten\.fft_ifft\.default has no lowering"
    with pytest.raises(ModelImportError, match=expected):
        winograd.import_torch(Model(lambda image: [torch.fft.ifft(image)]), random(3, 4))


@pytest.mark.wide
def test_memory_is_read_in_the_order_that_elements_have_there() -> None:
    def read(image: torch.Tensor) -> list[torch.Tensor]:
        rolled = torch.roll(image, -1, 0)
        views = (
            (rolled.contiguous(), (5, 10), (4, 1), 0),
            (rolled, (5, 10), (4, 1), 2),
            (image, (3, 2, 4), (1, 7, 2), None),
        )
        return [torch.as_strided(*each).clone() for each in views]

    expect(read, random(2, 5, 2, 5).to(memory_format=torch.channels_last))


def test_memory_of_other_tensors_is_not_read() -> None:
    model = Model(lambda image: [image.expand(4, 3).as_strided((2, 2), (1, 1))])
    with pytest.raises(ModelImportError, match=r"aten\.as_strided reads"):
        winograd.import_torch(model, random(4, 1))
