"""Functions of open sizes that are launched as graphs, one for each size; on the host."""

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from iree.winograd.cuda.driver import CudaDriver
from iree.winograd.cuda.executable import kernels
from iree.winograd.errors import CallError
from iree.winograd.loading import gpu_calls, open_launched_function
from iree.winograd.loading.gpu_calls import GpuCalls
from iree.winograd.loading.launchable import OpenLaunchable
from iree.winograd.loading.launched_function import Argument, Order
from iree.winograd.loading.open_launched_function import FindSpecial, OpenLaunchedFunction, SpecialLaunchable
from iree.winograd.loading.signatures import FunctionSignature, TensorSignature
from iree.winograd.pipelines.problems.launches import Launch, LaunchList, Memory, Place, ResultPlace
from iree.winograd.pipelines.problems.open_launches import CONSTANT, SIZE, OpenLaunches, Step

from ..cuda.host_driver import HostDriver
from ..cuda.test_launch_graph import binaries, program

__all__ = ["binaries", "program"]

ELEMENTS = 4
"""That a workgroup adds."""

Make = Callable[..., OpenLaunchedFunction]


def add(tensors: Sequence[int], numbers: Sequence[int]) -> None:
    """The last of three tensors becomes the sum of the others, each of so many workgroups' elements."""
    first, second, total = (
        np.ctypeslib.as_array((ctypes.c_float * (ELEMENTS * numbers[0])).from_address(address))
        for address in tensors
    )
    total[:] = first + second


@pytest.fixture
def host(binaries: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> HostDriver:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return HostDriver({kernels(binaries[0])[0].name: (3, add)})


def launches_of(kernel: str) -> OpenLaunches:
    """Of a function that adds matrices of any height and width."""
    steps = (
        Step(SIZE, (0, 0), 64),
        Step(SIZE, (0, 1), 64),
        Step("arith.muli", (0, 1), 64),
        Step(CONSTANT, (ELEMENTS,), 64),
        Step("arith.ceildivui", (2, 3), 64),
        Step(CONSTANT, (1,), 64),
        Step(CONSTANT, (0,), 64),
        Step("arith.muli", (4, 3), 64),
        Step("arith.muli", (7, 3), 64),
    )
    count, one, zero, size = 4, 5, 6, 8
    places = tuple(
        Place(Memory(kind, number), zero)
        for kind, number in (("argument", 0), ("argument", 1), ("allocation", 0))
    )
    total = ResultPlace(places[-1], "f32", (0, 1))
    return OpenLaunches(steps, LaunchList(((Launch(kernel, (count, one, one), places),),), (size,), (total,)))


@pytest.fixture
def make_function(host: HostDriver, binaries: Sequence[bytes]) -> Make:
    """Makes a function that adds two matrices with dimensions in `order`."""

    def make(
        order: Order | None = None,
        result_order: Order | None = None,
        find_special: FindSpecial | None = None,
    ) -> OpenLaunchedFunction:
        (kernel,) = host.kernels
        given = SimpleNamespace(executables=lambda: binaries, constants=lambda: ())

        def fail(reason: str) -> Callable[..., Any]:
            assert reason.startswith(host.failing) and host.failing
            return one_by_one

        def one_by_one(*arguments: Any) -> str:
            return "one by one"

        return OpenLaunchedFunction(
            CudaDriver(host),
            OpenLaunchable(given, launches_of(kernel)),  # type: ignore[arg-type]
            [Argument(number, order, True) for number in range(2)],
            [result_order],
            torch.device("cpu"),
            fail,
            one_by_one,
            find_special,
        )

    return make


def test_sizes_beyond_32_bits_with_a_sign_are_refused(make_function: Make, host: HostDriver) -> None:
    """Their kernels would be told others."""
    first = torch.zeros(1).expand(1, 2**31)
    with pytest.raises(CallError, match="a size of 2147483648"):
        make_function()(first, first)
    assert not any("Launch" in call for call in host.calls)


@pytest.mark.parametrize("order", [None, (1, 0)])
def test_sums_of_matrices_of_sizes_that_take_turns(
    make_function: Make, host: HostDriver, order: Order | None
) -> None:
    """Results of earlier calls stay as they are; the kernels are loaded once."""
    function = make_function(order, order)
    kept = []
    for height, width in ((4, 4), (12, 1), (4, 4), (8, 4), (1, 12), (12, 1)):
        first, second = torch.randn(2, height, width)
        kept.append((function(first, second), first + second))
    for result, expected in kept:
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert host.calls.count("cuModuleLoadData") == 1


def test_shapes_that_have_a_program_are_computed_by_it(
    make_function: Make, host: HostDriver, binaries: Sequence[bytes]
) -> None:
    """As long as it is found: its kernels are loaded once."""
    (kernel,) = host.kernels
    given = SimpleNamespace(executables=lambda: binaries, constants=lambda: ())
    special = SpecialLaunchable(
        OpenLaunchable(given, launches_of(kernel)).at([(8, 4)] * 2),  # type: ignore[arg-type]
        [Argument(number, None, True) for number in range(2)],
    )
    asked: list[Any] = []

    def find(shapes: Sequence[Sequence[int]]) -> SpecialLaunchable | None:
        asked.append([tuple(shape) for shape in shapes])
        return special if 1 < len(asked) < 5 and tuple(shapes[0]) == (8, 4) else None

    function = make_function(find_special=find)
    for number, (height, loaded) in enumerate(((8, 1), (8, 2), (4, 2), (8, 2), (8, 2))):
        first, second = torch.randn(2, height, 4)
        torch.testing.assert_close(function(first, second), first + second, rtol=0, atol=0)
        assert asked[number] == [(height, 4)] * 2
        assert host.calls.count("cuModuleLoadData") == loaded
    # The program has gone, to which other sizes came more often.
    function(first, second)
    assert not function._special


def test_graphs_of_the_last_shapes_are_kept(
    make_function: Make, host: HostDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_launched_function, "_MOST_SHAPES", 2)
    function = make_function()
    for height, graphs in ((4, 1), (8, 2), (4, 2), (12, 3), (4, 3), (8, 4)):
        ones = torch.ones(height, 4)
        torch.testing.assert_close(function(ones, ones), 2 * ones)
        assert host.calls.count("cuGraphCreate") == graphs
    assert host.freed.count("executable") == 2 and "module" not in host.freed
    del function
    assert host.freed.count("executable") == 4 and host.freed[-1] == "module"


def test_matrices_without_elements_are_left_to_the_program(make_function: Make, host: HostDriver) -> None:
    empty = torch.ones(0, 4)
    assert make_function()(empty, empty) == "one by one"
    assert "cuGraphCreate" not in host.calls


def test_kernels_that_cant_be_loaded_are_left_to_the_program(make_function: Make, host: HostDriver) -> None:
    host.failing = "cuModuleLoadData"
    function, ones = make_function(), torch.ones(4, 4)
    assert function(ones, ones) == function(ones, ones) == "one by one"


def test_calls_on_a_gpu_are_launched_at_each_size(
    host: HostDriver, binaries: Sequence[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a loaded program; arguments of other shapes are refused."""
    (kernel,) = host.kernels
    given = SimpleNamespace(executables=lambda: binaries, constants=lambda: ())
    matrix = TensorSignature((None, None), "f32")
    matrices = [tuple(torch.randn(2, *size)) for size in ((4, 4), (12, 1), (4, 4))]
    here = torch.empty(0).device
    with monkeypatch.context() as patched:
        patched.setattr(gpu_calls, "cuda_driver", lambda: CudaDriver(host))
        patched.setattr(torch, "device", lambda *_: here)
        calls = GpuCalls(
            "main",
            "cuda://0",
            FunctionSignature((matrix, matrix), (matrix,)),
            OpenLaunchable(given, launches_of(kernel)),  # type: ignore[arg-type]
            frozenset((0, 1)),
            lambda *arguments: pytest.fail("called on the host"),
        )
        sums = [calls(each) for each in matrices]
        assert not calls([torch.ones(4, 4, requires_grad=True), torch.ones(4, 4)]).requires_grad
        with pytest.raises(CallError, match=r"argument 0 of main must be .*, got \(4, 4\) of torch.float64"):
            calls([torch.ones(4, 4).double(), torch.ones(4, 4)])
        with pytest.raises(CallError, match="argument 1 of main must be"):
            calls([torch.ones(4, 4), torch.ones(4)])
    for total, (first, second) in zip(sums, matrices, strict=True):
        torch.testing.assert_close(total, first + second, rtol=0, atol=0)
