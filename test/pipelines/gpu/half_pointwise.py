"""Pointwise layers of half precision by a schedule, compiled for CUDA to be interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import pytest
from iree.winograd.pipelines.gpu.choice import search_space
from iree.winograd.pipelines.selection import prediction


@contextmanager
def choosing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Has programs computed by a schedule.

    What was predicted without it isn't taken for it, nor the other way round.
    """

    def forget() -> None:
        for each in vars(prediction).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()

    def choose(schedule: Any) -> None:
        forget()
        monkeypatch.setattr(search_space, "default_schedules", lambda *_: (schedule,))

    yield choose
    forget()


def pointwise_ptx(
    image: np.ndarray,
    filters: np.ndarray,
    folder: Path,
    bias: np.ndarray | None = None,
    *,
    is_open: bool = False,
) -> str:
    """The kernels of an NHWC image of f16 by HWCF filters of one pixel, as the compiler leaves them there.

    With `is_open` the image may have any height and width.
    """
    size = ("?", "?") if is_open else image.shape[1:3]
    begun = "linalg.fill ins(%zero : f16) outs(%e : {0}) -> {0}"
    if bias is not None:
        begun = "linalg.broadcast ins(%b : {1}) outs(%e : {0}) dimensions = [0, 1, 2]"
    image_type, filters_type, result_type = (
        f"tensor<{'x'.join(map(str, extents))}xf16>"
        for extents in (
            (image.shape[0], *size, image.shape[-1]),
            filters.shape,
            (image.shape[0], *size, filters.shape[-1]),
        )
    )
    bias = np.zeros(filters.shape[-1], np.float16) if bias is None else bias
    bias_type = f"tensor<{bias.size}xf16>"
    source = f"""func.func @main(%x: {image_type}) -> {result_type} {{
      %zero = arith.constant 0.0 : f16
      %w = arith.constant dense<"0x{filters.tobytes().hex()}"> : {filters_type}
      %b = arith.constant dense<"0x{bias.tobytes().hex()}"> : {bias_type}
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %height = tensor.dim %x, %c1 : {image_type}
      %width = tensor.dim %x, %c2 : {image_type}
      %e = tensor.empty({"%height, %width" if is_open else ""}) : {result_type}
      %z = {begun.format(result_type, bias_type)}
      %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : {image_type}, {filters_type})
        outs(%z : {result_type}) -> {result_type}
      return %r : {result_type}
    }}"""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    iree.winograd.compile(source, target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    return text
