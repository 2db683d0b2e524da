"""From pooled windows to dispatches."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.pixel_function import PixelFunction
from iree.winograd.pipelines.emission.work import BATCH
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.max_pooling import MaxPoolingKernel
from iree.winograd.pipelines.gpu.kernels.window_sums import WindowSumsKernel
from iree.winograd.pipelines.gpu.kernels.windows import WINDOW_THREADS, WindowKernel
from iree.winograd.pipelines.problems.tensor_operations import MaxPooling, WindowSums


def lowered_windows(launcher: Launcher, operation: MaxPooling | WindowSums) -> ir.Value:
    """Emits the dispatch of an operation: `N x OH... x C`."""
    windows, batch = operation.windows, size_of(operation.image, 0)
    image = TensorArgument.of(operation.image, by_quads=windows.channels % QUAD == 0)
    element = image.element if operation.half is None else str(operation.half)
    together = launcher.target.together(windows.channels, image.element, element)
    image = replace(image, together=together)
    images = batch if isinstance(batch, int) else 1
    kernel: WindowKernel
    if isinstance(operation, MaxPooling):
        kernel = MaxPoolingKernel(windows, images, together)
    else:
        finish = PixelFunction.of(operation.finishing.operations, operation.finishing.dimensions)
        kernel = WindowSumsKernel(windows, images, together, finish)
    extents = image.extents[0], *windows.outputs, windows.channels
    result = replace(image, extents=extents, element=element)
    threads = WorkgroupThreads(WINDOW_THREADS)
    return launcher.launch(kernel, kernel.name, threads, [(operation.image, image)], result, {BATCH: batch})
