"""A network with work for passes, which of them have none in it, and one that compiles in a second."""

from __future__ import annotations

from functools import cache

import iree.winograd as winograd
import numpy as np
import torch
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.passes.infrastructure.registry import pass_name
from iree.winograd.pipelines.compile_pipeline import compile_pipeline
from iree.winograd.pipelines.selection.options import WinogradOptions
from numpy.typing import NDArray

# What passes find to do differs between one thread and several, which is not to be this machine's number.
PIPELINE = compile_pipeline(WinogradOptions(threads=2))
PASSES = [pass_name(pass_) for pass_ in PIPELINE]
FOR_ANNOTATIONS = "winograd-assign-schedule"
"""Has work only for layers that come with an algorithm."""
FOR_CALLED = ("winograd-reshape-returned", "winograd-separate-calls")
"""Have work only where functions are called that IREE doesn't inline."""
FOR_BATCHES = "winograd-loop-over-images"
"""Has work only where images of a batch exceed the caches: `test/pipelines/cpu/test_image_loops.py`."""
FOR_HALF = ("winograd-widen-half", "winograd-admit-shorts")
"""Have work only for numbers of half precision: `test/pipelines/test_widen_half.py`, `admit-shorts.mlir`."""
FOR_ATTENTION = ("winograd-fuse-attention", "winograd-lower-attention")
"""Have work only where there is attention: `test/pipelines/cpu/test_attention.py`."""
FOR_GLOBALS = "winograd-fold-globals"
"""Has work only for weights in globals, as iree-turbine exports them: `test/passes/fold-globals.mlir`."""
FOR_TORCH_TYPES = "winograd-note-signature"
"""Has work only for functions on the types of torch-mlir: `test/pipelines/note-signature.mlir`."""
FOR_UNKNOWN_SIZES = (
    "winograd-expect-sizes",
    "winograd-fold-offsets",
    "winograd-insert-to-pad",
    "winograd-select-pixels",
    "winograd-assert-first",
    "winograd-check-casts",
    "winograd-limit-sizes",
    "winograd-reuse-memory",
    "winograd-keep-commands",
)
"""Have work only for unknown sizes: `test_unknown_sizes.py`, `test_resizing_of_any_size.py` beside this."""
FOR_SHUFFLED = "winograd-permute-shuffled"
"""Has work only where channels become pixels: `test/python/test_pixel_shuffle.py`."""
FOR_INTEGERS = ("winograd-wrap-conversions", "winograd-bound-shifts", "winograd-separate-transpositions")
"""Have work only where there are integers: `test/pipelines/test_integers.py`."""
FOR_QUANTISED = "winograd-round-by-sums"
"""Has work only where numbers are rounded to integers: `test/pipelines/test_quantized_models.py`."""
FOR_ONE_NUMBER = "winograd-fill-unknown-sizes"
"""Has work only for tensors of unknown sizes: `test/python/test_torch_operators.py`."""
FOR_GPUS = (
    "winograd-compute-at-load",
    "winograd-drop-unit-batch",
    "winograd-lower-elementwise",
    "winograd-lower-gated",
    "winograd-lower-group-norm",
    "winograd-insert-phases",
    "winograd-copy-rearranged",
    "winograd-merge-projections",
    "winograd-skip-empty",
    "winograd-sum-repeated-taps",
)
"""Have work only there: `test_batch_matmul.py`, `test_elementwise.py`, `test_concatenations.py`,
`test_rearranged.py`, `test_attention.py`, `test_gated.py`, `test_group_norm.py` of GPUs,
`test_unknown_sizes.py` of these, and `test_sum_repeated_taps.py`."""
FOR_NORMALIZED = "winograd-transpose-normalized"
"""Has work only where arguments are normalized: `test/pipelines/cpu/test_group_norm.py`."""
FOR_LONG_ROWS = "winograd-split-matmuls"
"""Has work only for long rows and few results: `test/pipelines/test_split_sums.py`."""
FOR_ONE_THREAD = ("winograd-overwrite-operands", "winograd-place-scratch")
"""Have work only for programs of one thread: `overwrite-operands.mlir`, `place-scratch.mlir`."""
FOR_OTHERS = {
    *FOR_ONE_THREAD,
    FOR_ANNOTATIONS,
    *FOR_GPUS,
    *FOR_CALLED,
    FOR_BATCHES,
    *FOR_HALF,
    *FOR_ATTENTION,
    FOR_GLOBALS,
    FOR_TORCH_TYPES,
    *FOR_UNKNOWN_SIZES,
    FOR_SHUFFLED,
    *FOR_INTEGERS,
    FOR_ONE_NUMBER,
    FOR_QUANTISED,
    FOR_NORMALIZED,
    FOR_LONG_ROWS,
}
Example = tuple[ImportedModel, NDArray[np.float32], NDArray[np.float64]]
"""An imported network, an image, and the result for it."""


class Network(torch.nn.Module):
    """Something for every pass to do, for some of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.local = torch.nn.LocalResponseNorm(3)
        self.film = torch.nn.Conv3d(3, 8, (1, 3, 3))
        self.grouped = torch.nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.left = torch.nn.Conv2d(4, 8, 1)
        self.right = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.synthesis = torch.nn.ConvTranspose1d(8, 1, 32, stride=16)
        self.dilated = torch.nn.Conv2d(4, 8, (1, 3), padding=(0, 15), dilation=(1, 15))
        self.dilated = torch.nn.Conv2d(8, 4, (3, 1), padding=(12, 0), dilation=(12, 1))
        self.head = torch.nn.Linear(16, 4096)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = image + image.max(1, keepdim=True).values
        normal = self.local(torch.relu(self.norm(self.stem(x))))
        pooled = torch.nn.functional.max_pool2d(normal, 3, 1, 1)
        x = torch.tanh(self.up(self.grouped(pooled)))
        x = x + torch.nn.functional.interpolate(image[:, :1], scale_factor=2, mode="bilinear")
        frames = torch.nn.functional.max_pool3d(self.film(image[:, :, None]), (1, 2, 2))
        x = torch.cat([torch.relu(self.left(x)), torch.relu(self.right(x))], 1)
        _, of_stem, _ = torch.ops.aten.convolution_backward(
            normal,
            image,
            self.stem.weight,
            None,
            [1, 1],
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            1,
            [False, True, False],
        )
        tokens = pooled.flatten(2)
        scores = tokens.transpose(1, 2) @ tokens
        rows = torch.relu(torch.nn.functional.layer_norm(tokens, tokens.shape[-1:]))
        means = frames.mean() + scores.mean() + rows.mean() + self.synthesis(tokens).mean()
        means = means + self.dilated(pooled).mean()
        return self.head(x.mean((2, 3))) + of_stem.mean() + means


class TwoLayers(torch.nn.Module):
    """What takes a second to compile."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.right = torch.nn.Conv2d(4, 8, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.right(torch.relu(self.norm(self.stem(image)))))


@cache
def network() -> Example:
    torch.manual_seed(0)
    return example(Network(), (10, 12))


@cache
def two_layers() -> Example:
    torch.manual_seed(0)
    return example(TwoLayers(), (20, 24))


def example(model: Network | TwoLayers, size: tuple[int, int]) -> Example:
    model.eval().norm.running_var.uniform_(0.5, 2.0)
    image = torch.randn(1, 3, *size)
    imported = winograd.import_torch(model, image)
    with torch.no_grad():
        expected = model.double()(image.double())
    return imported, image.numpy(), expected.numpy()
