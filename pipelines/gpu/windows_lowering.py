"""From sums of windows to dispatches."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.pixel_function import PixelFunction
from iree.winograd.pipelines.emission.work import BATCH
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.window_sums import WINDOW_THREADS, WindowSumsKernel
from iree.winograd.pipelines.problems.tensor_operations import WindowSums


def lowered_windows(launcher: Launcher, operation: WindowSums) -> ir.Value:
    """Emits the dispatch of an operation: `N x OH... x C`."""
    windows, batch = operation.windows, size_of(operation.image, 0)
    finish = PixelFunction.of(operation.finishing.operations, operation.finishing.dimensions)
    kernel = WindowSumsKernel(windows, finish, batch if isinstance(batch, int) else 1)
    image = TensorArgument.of(operation.image, by_quads=windows.channels % QUAD == 0)
    result = replace(image, extents=(image.extents[0], *windows.outputs, windows.channels))
    threads = WorkgroupThreads(WINDOW_THREADS)
    return launcher.launch(kernel, kernel.name, threads, [(operation.image, image)], result, {BATCH: batch})
