"""From pooled windows to dispatches."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
from iree.winograd.pipelines.emission.pixel_function import PixelFunction
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import (
    Launcher,
    LaunchSizes,
    TensorArgument,
    WorkgroupThreads,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.images.max_pooling import MaxPoolingKernel
from iree.winograd.pipelines.gpu.kernels.images.window_sums import WindowSumsKernel
from iree.winograd.pipelines.gpu.kernels.images.windows import WindowKernel
from iree.winograd.pipelines.gpu.lowerings.image_arguments import image_in_place
from iree.winograd.pipelines.problems.tensor_operations import MaxPooling, WindowSums


def lowered_windows(launcher: Launcher, operation: MaxPooling | WindowSums) -> ir.Value:
    """Emits the dispatch of an operation: `N x OH... x C`."""
    windows, sizes, target = operation.windows, _sizes(operation), launcher.target
    by_quads = windows.channels % QUAD == 0
    read, image = image_in_place(operation.image, windows.channels, by_quads=by_quads)
    element = image.element if operation.half is None else str(operation.half)
    together = target.together(windows.channels, image.element, element)
    image = replace(image, together=together)
    images = batch if isinstance(batch := sizes[BATCH], int) else 1
    kernel: WindowKernel
    if isinstance(operation, MaxPooling):
        kernel = MaxPoolingKernel(windows, images, together, target.has_maxima)
    else:
        finish = PixelFunction.of(operation.finishing.operations, operation.finishing.dimensions)
        kernel = WindowSumsKernel(windows, images, together, finish)
    extents = image.extents[0], *windows.outputs, windows.channels
    dynamic = image_tensor(operation.like.type, "output", channels_first=False).dynamic
    result = TensorArgument(extents, element, image.by_quads, dynamic, together=together)
    # Of an image of unknown sizes a thread has registers for all loads: by default the assembler has it wait
    # for a few at a time, and pooling of 5 x 5 took an H200 2.0 us for 1.3.
    resident = kernel.threads if windows.are_open else None
    threads = WorkgroupThreads(kernel.threads, resident)
    return launcher.launch(kernel, kernel.name, threads, [(read, image)], result, sizes)


def _sizes(operation: MaxPooling | WindowSums) -> LaunchSizes:
    """Those that the kernel is told: of an image of unknown sizes all of them."""
    sizes: dict[Size, int | ir.Value] = {BATCH: size_of(operation.image, 0)}
    if operation.windows.are_open:
        for of, value in (("input", operation.image), ("output", operation.like)):
            sizes |= {Size(of, d): size_of(value, 1 + d) for d in range(len(operation.windows.size))}
    return sizes
