"""Functions that are launched as graphs: layouts of arguments and results, and failures; on the host."""

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from iree.winograd.cuda.driver import CudaDriver
from iree.winograd.errors import CallError
from iree.winograd.loading.launchable import Launchable
from iree.winograd.loading.launched_function import Argument, LaunchedFunction, Order
from iree.winograd.pipelines.problems.launches import Launch, LaunchList, Memory, Place, ResultPlace

from ..cuda.host_driver import HostDriver
from ..cuda.test_launch_graph import add, binaries, floats, program

__all__ = ["binaries", "program"]

CHANNELS_LAST: Order = (0, 2, 3, 1)
CHANNELS_FIRST: Order = (0, 3, 1, 2)
SHAPE = (1, 2, 4, 2)
"""Of 16 elements, as a program sees an image of 2 channels and 2x4 pixels, channels last."""

Make = Callable[..., LaunchedFunction]


def place(kind: str, number: int, offset: int = 0) -> Place:
    return Place(Memory(kind, number), offset)  # type: ignore[arg-type]


@pytest.fixture
def host(binaries: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> HostDriver:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    from iree.winograd.cuda.executable import kernels

    return HostDriver({kernels(binaries[0])[0].name: (3, add)})


@pytest.fixture
def make_function(host: HostDriver, binaries: Sequence[bytes]) -> Make:
    """Makes a function that adds arguments in `orders` of dimensions, with `results` in `result_orders`."""

    def make(
        results: Sequence[ResultPlace],
        orders: Sequence[Order | None] = (None, None),
        result_orders: Sequence[Order | None] = (None,),
        read_only: Sequence[int] = (0, 1),
    ) -> LaunchedFunction:
        (kernel,) = host.kernels
        at = place("allocation", 0, 64) if results[0].place.offset else place("allocation", 0)
        tensors = (place("argument", 0), place("argument", 1), at)
        launches = LaunchList(((Launch(kernel, (1, 1, 1), tensors),),), (64 + at.offset,), tuple(results))
        program = SimpleNamespace(executables=lambda: binaries, constants=lambda: ())
        launchable = Launchable(program, launches)  # type: ignore[arg-type]
        arguments = [Argument(number, order, number in read_only) for number, order in enumerate(orders)]

        def fail(reason: str) -> Callable[..., Any]:
            assert reason.startswith(host.failing)
            return lambda *arguments: "one by one"

        return LaunchedFunction(
            CudaDriver(host),
            launchable,
            arguments,
            result_orders,
            torch.device("cpu"),
            fail,
        )

    return make


SUM = ResultPlace(place("allocation", 0, 64), "f32", SHAPE)
SUM_ALONE = ResultPlace(place("allocation", 0), "f32", SHAPE)
"""All that is in its block."""


@pytest.mark.parametrize("total", [SUM, SUM_ALONE])
def test_sums_of_tensors_in_any_layout(make_function: Make, host: HostDriver, total: ResultPlace) -> None:
    """Arguments and results are channels last for the program, and channels first for torch."""
    function = make_function([total], [CHANNELS_LAST, CHANNELS_LAST], [CHANNELS_FIRST])
    dense = torch.arange(16.0).reshape(1, 2, 2, 4)
    channels_last = dense.contiguous(memory_format=torch.channels_last)
    strided = torch.arange(32.0).reshape(1, 2, 2, 8)[..., ::2]
    kept = []
    for first, second in ((channels_last, channels_last), (dense, strided), (strided, channels_last)):
        result = function(first, second)
        assert result.shape == (1, 2, 2, 4) and result.is_contiguous(memory_format=torch.channels_last)
        kept.append((result, first + second))
    for result, expected in kept:
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert host.streams == [5, 5, 5]


def test_an_argument_that_lies_askew_is_copied(make_function: Make) -> None:
    function = make_function([SUM])
    memory = torch.arange(64.0)
    aligned = next(offset for offset in range(16) if memory[offset:].data_ptr() % 64 == 0)
    for offset in (aligned, aligned + 1):
        argument = memory[offset : offset + 16].reshape(SHAPE)
        torch.testing.assert_close(function(argument, argument), 2 * argument, rtol=0, atol=0)


@pytest.mark.parametrize("total", [SUM, SUM_ALONE])
def test_results_are_memory_of_their_own(make_function: Make, total: ResultPlace) -> None:
    """Also where a program returns an argument, and a result twice."""
    returned = ResultPlace(place("argument", 0), "f32", SHAPE)
    function = make_function([total, total, returned], result_orders=[None, None, None])
    argument = torch.ones(SHAPE)
    first, second, third = function(argument, argument)
    assert len({each.data_ptr() for each in (argument, first, second, third)}) == 4
    torch.testing.assert_close((first, second, third), (2 * argument, 2 * argument, argument))


def test_results_of_two_types_share_a_block(make_function: Make) -> None:
    bits = ResultPlace(place("allocation", 0, 64), "i32", SHAPE)
    function = make_function([SUM, bits], result_orders=[None, None])
    total, same = function(torch.ones(SHAPE), torch.ones(SHAPE))
    assert (total.dtype, same.dtype) == (torch.float32, torch.int32)
    np.testing.assert_array_equal(same.numpy(), total.numpy().view(np.int32))


def test_an_argument_that_kernels_write_to_is_copied(make_function: Make, host: HostDriver) -> None:
    def write(tensors: Sequence[int], numbers: Sequence[int]) -> None:
        add(tensors, numbers)
        floats(tensors[0])[:] = -1

    (kernel,) = host.kernels
    host.kernels[kernel] = (3, write)
    argument = torch.ones(SHAPE)
    for read_only in ((1,), ()):
        function = make_function([SUM], read_only=read_only)
        torch.testing.assert_close(function(argument, argument), 2 * torch.ones(SHAPE))
        torch.testing.assert_close(argument, torch.ones(SHAPE))


def test_a_caller_captures_kernels_but_of_a_first_call(
    make_function: Make, host: HostDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = make_function([SUM])
    argument = torch.ones(SHAPE)
    for is_captured in (True, False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", partial(bool, is_captured))
        host.calls.clear()
        if is_captured and not host.streams:
            with pytest.raises(CallError, match="first call: call it once before"):
                function(argument, argument)
            assert host.calls == []
        else:
            torch.testing.assert_close(function(argument, argument), 2 * argument)
            assert ("cuGraphLaunch" in host.calls) != is_captured


def test_kernels_are_launched_one_by_one_where_there_can_be_no_graph(
    make_function: Make, host: HostDriver
) -> None:
    host.failing = "cuModuleLoadData"
    function = make_function([SUM])
    assert function(torch.ones(SHAPE), torch.ones(SHAPE)) == "one by one"
    host.failing = ""
    assert function(torch.ones(SHAPE), torch.ones(SHAPE)) == "one by one"


def test_a_launch_that_fails_is_an_error_of_the_call(make_function: Make, host: HostDriver) -> None:
    function = make_function([SUM])
    function(torch.ones(SHAPE), torch.ones(SHAPE))
    host.failing = "cuGraphLaunch"
    with pytest.raises(CallError, match="the program failed: cuGraphLaunch"):
        function(torch.ones(SHAPE), torch.ones(SHAPE))
