"""A convolution of a training step by its program, beside torch's operators, as a GPU takes time for both.

What torch takes isn't known beforehand: no limit of a GPU says how near to it cuDNN's kernels are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from iree.winograd.torch_compile.division import Part

_CALLS = 20
"""In a row, after a few that aren't timed: the first ones load kernels, and may search for torch's."""
_FIRST_CALLS = 3
_ROUNDS = 3
"""Of both in turns, the fastest of which counts."""


class CallTimes(NamedTuple):
    """Seconds of one of several calls in a row."""

    call: float
    """Until all that they queued is done."""
    host: float
    """Until it is queued."""


def arguments_of(part: Part) -> list[torch.Tensor] | None:
    """Tensors as those that `part` is called on; None where some sizes aren't known.

    What torch draws of random numbers is as it would be without.
    """
    arguments: list[torch.Tensor] = []
    for node in part.graph.graph.find_nodes(op="placeholder"):
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor) or not all(
            isinstance(size, int) for size in (*value.shape, *value.stride())
        ):
            return None
        given = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        # As activations and gradients are after a normalization.
        generator = torch.Generator(value.device)
        arguments.append(given.normal_(generator=generator) if value.is_floating_point() else given.zero_())
    return arguments


def slower_reason(
    ours: Callable[..., Any], torchs: Callable[..., Any], arguments: Sequence[torch.Tensor]
) -> str | None:
    """Why torch is to compute what a program does on `arguments`, which are on a GPU, if it is."""
    for function in (ours, torchs):
        for _ in range(_FIRST_CALLS):
            function(*arguments)
    rounds = [(_timed(ours, arguments), _timed(torchs, arguments)) for _ in range(_ROUNDS)]
    ours_times, torchs_times = (
        CallTimes(*(min(each) for each in zip(*times, strict=True))) for times in zip(*rounds, strict=True)
    )
    return reason_of(ours_times, torchs_times)


def reason_of(ours: CallTimes, torchs: CallTimes) -> str | None:
    """Why torch is to compute what takes these times, if it is.

    A step may be bound by the GPU, where shorter calls are saved time, or by the host, where it isn't.
    """
    saved = (torchs.call - ours.call) - max(0.0, ours.host - torchs.host)
    if saved > 0:
        return None
    times = f"{1e6 * torchs.call:.0f} us where its program takes {1e6 * ours.call:.0f}"
    hosts = f"{1e6 * torchs.host:.0f} and {1e6 * ours.host:.0f} of them on the host"
    return f"as measured torch takes {times}, {hosts}"


def _timed(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> CallTimes:
    # Some numbers may be on the host.
    device = next(each.device for each in arguments if each.device.type == "cuda")
    torch.cuda.synchronize(device)
    begin = time.perf_counter()
    for _ in range(_CALLS):
        function(*arguments)
    queued = time.perf_counter() - begin
    torch.cuda.synchronize(device)
    return CallTimes((time.perf_counter() - begin) / _CALLS, queued / _CALLS)
