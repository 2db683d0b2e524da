"""Images of half precision that kernels read and write: the numbers are those that f32 in between gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.passes.rewrite import half_image
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.for_target import half_readers, store_half
from iree.winograd.pipelines.for_target.store_half import StoreHalf
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.to_kernels import lower_layer_norm, pool_in_place
from numpy.typing import NDArray
from wide import wide_combinations

DIRECT = {"output_tile": 1}


def _chain(*layers: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(*(layer for each in layers for layer in (each, torch.nn.ReLU())))


def _convolution(*sizes: int, **options: int) -> torch.nn.Module:
    return torch.nn.Conv2d(*sizes, **options)


class _Residual(torch.nn.Module):
    """What a block adds to is read by its first convolution, and by the epilogue of the last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.inner, self.last = (torch.nn.Conv2d(channels, channels, 1) for _ in range(3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.before(image))
        return torch.relu(image + self.last(torch.relu(self.inner(image))))


class _Transformer(torch.nn.Module):
    """What lies between the layers of a transformer: a normalization, a gate, a sum that three read."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.behind = (torch.nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.norm = torch.nn.LayerNorm(channels)
        self.gated = torch.nn.Linear(channels, 4 * channels)
        self.last = torch.nn.Linear(2 * channels, channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pixels = self.before(image).permute(0, 2, 3, 1).flatten(1, 2)
        values, gates = self.gated(self.norm(pixels)).chunk(2, dim=-1)
        pixels = pixels + self.last(values * torch.nn.functional.gelu(gates))
        return self.behind(pixels.unflatten(1, image.shape[2:]).permute(0, 3, 1, 2))


class _Normalized(torch.nn.Module):
    """Group normalization of what is added to the result behind it, which is then enlarged."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.inner, self.last = (torch.nn.Conv2d(channels, channels, 1) for _ in range(3))
        self.norm = torch.nn.GroupNorm(4, channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = self.before(image)
        image = image + self.inner(torch.nn.functional.silu(self.norm(image)))
        return self.last(torch.nn.functional.interpolate(image, scale_factor=2))


class _Concatenated(torch.nn.Module):
    """A block of a U-Net: an image and another, read before, are normalized, and read by a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.inner = (torch.nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.last, self.shortcut = (torch.nn.Conv2d(2 * channels, channels, 1) for _ in range(2))
        self.norm = torch.nn.GroupNorm(4, 2 * channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        skipped = self.before(image)
        image = torch.cat([self.inner(skipped), skipped], dim=1)
        return self.last(torch.nn.functional.silu(self.norm(image))) + self.shortcut(image)


class _Merged(torch.nn.Module):
    """A level of a U-Net: a transposed convolution's phases beside an image that was read before."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.merge = (torch.nn.Conv2d(channels, channels // 2, 1) for _ in range(2))
        self.up = torch.nn.ConvTranspose2d(channels // 2, channels // 2, 2, stride=2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        skipped = torch.relu(self.before(image))
        smaller = torch.nn.functional.max_pool2d(skipped, 2)
        return self.merge(torch.cat([skipped, self.up(smaller)], dim=1))


QUICK_LAYERS = ("Winograd", "direct")
LAYERS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...], dict[str, int], tuple[int, int]]] = {
    "Winograd": (lambda: _chain(*[_convolution(16, 16, 3, padding=1)] * 2), (2, 16, 14, 15), {}, (2, 2)),
    "direct": (lambda: _chain(*[_convolution(24, 24, 3, padding=1)] * 2), (1, 24, 13, 14), DIRECT, (2, 2)),
    "pointwise": (lambda: _chain(*[_convolution(48, 48, 1)] * 3), (1, 48, 9, 9), {}, (3, 3)),
    "residual": (lambda: _Residual(24), (1, 24, 9, 9), {}, (3, 3)),
    "depthwise": (
        lambda: _chain(
            _convolution(16, 32, 1), _convolution(32, 32, 3, padding=1, groups=32), _convolution(32, 16, 1)
        ),
        (1, 16, 12, 12),
        {},
        (2, 2),
    ),
    "strided": (
        lambda: _chain(_convolution(16, 20, 3), _convolution(20, 19, 3, stride=2)),
        (1, 16, 21, 21),
        {},
        (2, 2),
    ),
}
"""A network, the sizes of its image, options, and how many images are read and written in half precision."""


def result_of(
    model: torch.nn.Module, image: torch.Tensor, target: str, **options: int
) -> NDArray[np.float64]:
    imported = iree.winograd.import_torch(model, image)
    program = iree.winograd.compile(imported, target=target, threads=1, strict=True, **options)
    device, _, _ = target.partition(":")
    loaded = (
        iree.winograd.load(program, threads=1)
        if device == "cpu"
        else iree.winograd.load(program, device=device)
    )
    return torch.as_tensor(loaded(image)).double().numpy()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what is read and written in half precision."""
    count: Counter[str] = Counter()

    def count_calls(of: str, build: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            count[of] += 1
            return build(*arguments)

        return counted

    reading = count_calls("input", half_image.read_by_transform)
    for module in (store_half, half_readers):
        monkeypatch.setattr(module, "read_by_transform", reading)
    monkeypatch.setattr(store_half, "_rebuild_output", count_calls("output", store_half._rebuild_output))
    return count


@pytest.mark.this_machine
@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("Winograd", torch.bfloat16),
        ("direct", torch.float16),
        *wide_combinations((name, torch.float16) for name in LAYERS if name not in QUICK_LAYERS),
    ],
)
def test_results_are_those_of_f32_between(name, type_, stored, monkeypatch):
    """Bit by bit: loads widen exactly, and stores round what was rounded before.

    Not where AMX may multiply what is stored in bf16, which sums in another order than f32 in between.
    """
    monkeypatch.setattr(CpuSearchSpace, "stores_half", True)
    torch.manual_seed(0)
    build, shape, options, expected = LAYERS[name]
    model, image = build().to(type_), torch.randn(shape).to(type_)
    result = result_of(model, image, "cpu:haswell", **options)
    assert (stored["input"], stored["output"]) == expected
    monkeypatch.setattr(StoreHalf, "run", lambda *_: None)
    np.testing.assert_array_equal(result, result_of(model, image, "cpu:haswell", **options))


@pytest.mark.this_machine
@pytest.mark.avx512
@pytest.mark.parametrize(("size", "expected"), [(66, (3, 3)), *wide_combinations([(64, (2, 2))])])
def test_depthwise_convolutions_read_large_images_of_half_precision(size, expected, stored, monkeypatch):
    """In f32 the image between would take half of an L2 cache of 1 MiB, or more."""
    torch.manual_seed(0)
    build, (_, channels, *_), options, _ = LAYERS["depthwise"]
    model, image = build().half(), torch.randn(1, channels, size, size).half()
    result = result_of(model, image, "cpu:skylake-avx512", **options)
    assert (stored["input"], stored["output"]) == expected
    monkeypatch.setattr(StoreHalf, "run", lambda *_: None)
    np.testing.assert_array_equal(result, result_of(model, image, "cpu:skylake-avx512", **options))


def expect_one_more(stored: Counter[str], model: torch.nn.Module, leave_out: Callable[[], None]) -> None:
    """One image read and one written are of bf16 that aren't after `leave_out`; results are the same bits."""
    image = torch.randn(1, 16, 23, 21).bfloat16()
    result = result_of(model.bfloat16(), image, "cpu:skylake-avx512")
    in_half = stored.copy()
    stored.clear()
    leave_out()
    np.testing.assert_array_equal(result, result_of(model, image, "cpu:skylake-avx512"))
    assert (in_half - stored)["input"] == (in_half - stored)["output"] == 1


class _Pooled(torch.nn.Module):
    """Maxima that a convolution and the sum behind it read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _convolution(16, 32, 3), _convolution(32, 32, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = torch.nn.functional.max_pool2d(torch.relu(self.first(image)), 3, 2, 1)
        return torch.relu(self.second(pooled) + pooled)


@pytest.mark.this_machine
@pytest.mark.avx512
@pytest.mark.wide
def test_what_is_pooled_between_convolutions_is_in_half_precision(stored, monkeypatch):
    torch.manual_seed(0)
    expect_one_more(
        stored,
        _Pooled(),
        lambda: monkeypatch.setattr(pool_in_place, "_compared_in_half", lambda *_: None),
    )


class _Enlarged(torch.nn.Module):
    """Nearest pixels at twice the size, between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _convolution(16, 32, 3), _convolution(32, 32, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.first(image))
        return self.second(torch.nn.functional.interpolate(image, scale_factor=2.0, mode="nearest"))


@pytest.mark.this_machine
@pytest.mark.avx512
@pytest.mark.wide
def test_repeated_pixels_between_convolutions_are_in_half_precision(stored, monkeypatch):
    torch.manual_seed(0)
    expect_one_more(
        stored, _Enlarged(), lambda: monkeypatch.setattr(half_readers, "is_repetition", lambda *_: False)
    )


class _Excited(torch.nn.Module):
    """Channels that are scaled by what is made of their means, between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _convolution(16, 32, 3), _convolution(32, 32, 1)
        self.squeeze, self.excite = torch.nn.Conv2d(32, 8, 1), torch.nn.Conv2d(8, 32, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.first(image))
        means = image.mean((2, 3), keepdim=True)
        return self.second(image * torch.sigmoid(self.excite(torch.relu(self.squeeze(means)))))


@pytest.mark.this_machine
@pytest.mark.avx512
def test_excited_channels_are_of_an_image_in_half_precision(stored, monkeypatch):
    """The image that sums and the product read, and the numbers that it is multiplied by.

    Results are the same bits as of those in f32, as the product is rounded."""
    torch.manual_seed(0)
    model, image = _Excited().bfloat16(), torch.randn(1, 16, 23, 21).bfloat16()
    result = result_of(model, image, "cpu:skylake-avx512")
    in_half = stored.copy()
    stored.clear()
    monkeypatch.setattr(half_readers, "is_channel_scale", lambda *_: False)
    np.testing.assert_array_equal(result, result_of(model, image, "cpu:skylake-avx512"))
    assert in_half - stored == Counter(output=2)


class _EnlargedBeside(torch.nn.Module):
    """Nearest pixels at twice the size, above those that they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.first(image))
        small = torch.nn.functional.gelu(self.second(torch.nn.functional.avg_pool2d(image, 2)))
        return torch.cat([image, small.repeat_interleave(2, 2).repeat_interleave(2, 3)], 2)


def test_repeated_pixels_on_cuda_are_read_by_whatever_reads_them():
    """Operations on elements, there, of which what reads them need not take half precision."""
    model, image = _EnlargedBeside().bfloat16(), torch.randn(2, 32, 16, 16).bfloat16()
    iree.winograd.compile(iree.winograd.import_torch(model, image), target="cuda:sm_90a", strict=True)


class _DenseBlock(torch.nn.Module):
    """What a layer computes beside what it read, and a last one of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _convolution(3, 32, 3, padding=1), _convolution(32, 16, 3, padding=1)
        self.last = _convolution(48, 16, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.first(image))
        return self.last(torch.cat([first, torch.relu(self.second(first))], 1))


def test_channels_of_any_size_are_concatenated_in_half_precision_on_cuda(tmp_path):
    """No kernel reads or writes an image in f32."""
    model, image = _DenseBlock().half(), torch.randn(1, 3, 24, 20).half()
    sizes = {2 + d: torch.export.Dim(f"size_{d}", min=2) for d in range(2)}
    exported = torch.export.export(model, (image,), dynamic_shapes=(sizes,))
    flags = [f"--iree-hal-dump-executable-sources-to={tmp_path}"]
    imported = iree.winograd.import_torch(exported)
    iree.winograd.compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    texts = [path.read_text() for path in tmp_path.glob("*winograd*.mlir")]
    images = [each for text in texts for each in re.findall(r"subspan.*memref<\?x(?:vector<\dx)?(\w+)", text)]
    assert set(images) == {"f16"}


class _Strided(torch.nn.Module):
    """The end of a stage, of which the next one reads every other pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (torch.nn.Conv2d(16, 16, 1) for _ in range(3))
        self.last = torch.nn.Conv2d(16, 16, 1, stride=2)
        self.between = torch.nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = torch.relu(self.first(image))
        between = torch.relu(self.between(torch.relu(self.second(image))))
        return self.last(torch.relu(self.third(between) + image))


@pytest.mark.this_machine
@pytest.mark.avx512
def test_pixels_that_are_copied_between_convolutions_are_in_half_precision(stored, monkeypatch):
    """And so is the image that they are of, which a convolution reads, too."""
    torch.manual_seed(0)
    expect_one_more(stored, _Strided(), lambda: monkeypatch.setattr(CpuSearchSpace, "copies_half", False))


@pytest.mark.this_machine
def test_without_wide_vectors_only_a_programs_own_images_are_stored_in_half_precision(stored):
    """SSE2 has no conversions of f16; those of bf16 are arithmetic on integers."""
    torch.manual_seed(0)
    build, shape, _, _ = LAYERS["Winograd"]
    for type_, images in ((torch.float16, (0, 0)), (torch.bfloat16, (1, 1))):
        stored.clear()
        result_of(build().to(type_), torch.randn(shape).to(type_), "cpu:x86-64")
        assert (stored["input"], stored["output"]) == images


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("Winograd", torch.float16),
        *wide_combinations([("residual", torch.bfloat16), ("direct", torch.bfloat16)]),
    ],
)
def test_results_on_gpus_are_those_of_f32_between(name, type_, gpu_target, stored, monkeypatch):
    torch.manual_seed(0)
    build, shape, options, (read, written) = LAYERS[name]
    model, image = build().to(type_), torch.randn(shape).to(type_)
    result = result_of(model, image, gpu_target, **options)
    # The program's own image is transposed first where a kernel doesn't read it channels first.
    assert stored["input"] >= read - 1 and stored["output"] >= written
    monkeypatch.setattr(StoreHalf, "run", lambda *_: None)
    np.testing.assert_array_equal(result, result_of(model, image, gpu_target, **options))


@pytest.mark.parametrize(
    ("build", "size", "expected"),
    [
        *wide_combinations(
            [
                (_Transformer, (32, 6, 8), (4, 4)),
                (_Normalized, (40, 41, 41), (3, 3)),
                (_Concatenated, (24, 31, 31), (4, 4)),
                (_Merged, (32, 12, 14), (6, 6)),
            ]
        ),
    ],
)
def test_what_lies_between_layers_is_in_half_precision(
    build, size, expected, gpu_target, stored, monkeypatch
):
    """Bit by bit as with f32 between, also by compilers that aren't trusted with it by default."""
    monkeypatch.setattr(GpuTarget, "of", _converting(GpuTarget.of))
    torch.manual_seed(0)
    model, image = build(size[0]).half(), torch.randn(2, *size).half()
    result = result_of(model, image, gpu_target, output_tile=1)
    assert (stored["input"], stored["output"]) == expected
    monkeypatch.setattr(StoreHalf, "run", lambda *_: None)
    monkeypatch.setattr(lower_layer_norm, "_half_forms", lambda *_: [])
    np.testing.assert_array_equal(result, result_of(model, image, gpu_target, output_tile=1))


def _converting(of: Callable[[ExecutableTarget], GpuTarget]) -> Callable[[ExecutableTarget], GpuTarget]:
    """Gives targets whose other code reads and writes half precision, too."""

    def converting(target: ExecutableTarget) -> GpuTarget:
        found = of(target)
        return replace(found, iree_code=replace(found.iree_code, converts_half=True))

    return converting
