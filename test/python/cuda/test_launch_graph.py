"""Kernels of a program as a CUDA graph: their order, memory that moves, failures; on the host."""

import ctypes
import gc
from collections.abc import Sequence

import iree.winograd as winograd
import numpy as np
import numpy.typing as npt
import pytest
from iree.winograd.cuda.driver import CudaDriver, CudaError
from iree.winograd.cuda.early_launch import MARKER, with_waits
from iree.winograd.cuda.executable import executables, images, kernels
from iree.winograd.cuda.launch_graph import LaunchGraph, LoadedKernels
from iree.winograd.loading.program_context import INSTANCE
from iree.winograd.loading.program_module import program_module
from iree.winograd.pipelines.problems.launches import (
    LAUNCHES_KEY,
    Copy,
    Fill,
    Launch,
    LaunchList,
    Memory,
    Place,
)
from iree.winograd.pipelines.problems.open_launches import OPEN_LAUNCHES_KEY, OpenLaunches
from iree.winograd.pipelines.problems.wait_place import WAIT_PLACE
from machine_code import opcodes

from .host_driver import HostDriver

pytestmark = pytest.mark.xdist_group("launch graph")

PROGRAM = """
func.func @main(%image: tensor<1x16x16x8xf32>, %filters: tensor<3x3x8x8xf32>) -> tensor<1x14x14x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x14x14x8xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x14x14x8xf32>) -> tensor<1x14x14x8xf32>
  %sums = linalg.conv_2d_nhwc_hwcf
    ins(%image, %filters : tensor<1x16x16x8xf32>, tensor<3x3x8x8xf32>)
    outs(%filled : tensor<1x14x14x8xf32>) -> tensor<1x14x14x8xf32>
  return %sums : tensor<1x14x14x8xf32>
}
"""
ELEMENTS = 16

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def program() -> bytes:
    compiled: bytes = winograd.compile(PROGRAM, target="cuda:sm_90a", strict=True)
    return compiled


@pytest.fixture(scope="module")
def binaries(program: bytes) -> Sequence[bytes]:
    return list(executables(program))


def test_a_program_holds_what_a_call_launches(program: bytes, binaries: Sequence[bytes]) -> None:
    """The kernels of a call are among those of the program, and lead from its arguments to its result."""
    module = program_module(INSTANCE, program)
    launches = LaunchList.from_json(module.lookup_function("main").reflection[LAUNCHES_KEY])
    assert LaunchList.from_json(launches.to_json()) == launches
    commands = [command for stage in launches.stages for command in stage]
    names = {kernel.name for binary in binaries for kernel in kernels(binary)}
    assert {command.kernel for command in commands if isinstance(command, Launch)} == names
    read = {place.memory for command in commands if isinstance(command, Launch) for place in command.tensors}
    assert {Memory("argument", 0), Memory("argument", 1)} <= read
    (result,) = launches.results
    assert (result.shape, result.element_type) == ((1, 14, 14, 8), "f32")
    assert result.place.memory in read
    assert 4 * np.prod(result.shape) <= launches.allocations[result.place.memory.number]


def test_a_program_of_open_sizes_holds_what_a_call_launches() -> None:
    """At each size its kernels lead from its arguments to a result of that size, which has memory."""
    source = PROGRAM.replace("1x16x16x8", "1x?x?x8").replace("1x14x14x8", "1x?x?x8")
    sizes = "".join(
        f"""
  %border{each} = arith.constant 2 : index
  %dimension{each} = arith.constant {each} : index
  %size{each} = tensor.dim %image, %dimension{each} : tensor<1x?x?x8xf32>
  %height{each} = arith.subi %size{each}, %border{each} : index"""
        for each in (1, 2)
    )
    source = source.replace(
        "%empty = tensor.empty()", f"{sizes}\n  %empty = tensor.empty(%height1, %height2)"
    )
    compiled = winograd.compile(source, target="cuda:sm_90a", strict=True)
    module = program_module(INSTANCE, compiled)
    reflection = module.lookup_function("main").reflection
    assert LAUNCHES_KEY not in reflection
    launches = OpenLaunches.from_json(reflection[OPEN_LAUNCHES_KEY])
    names = {kernel.name for binary in executables(compiled) for kernel in kernels(binary)}
    # More pixels than kernels number by 32 bits, with what lies behind the last ones.
    assert launches.at(((1, 65535, 65535, 8), (3, 3, 8, 8))).stages
    assert not launches.at(((1, 65536, 65536, 8), (3, 3, 8, 8))).stages
    for height, width in ((16, 16), (40, 9), (3, 500)):
        shapes = (1, height, width, 8), (3, 3, 8, 8)
        known = launches.at(shapes)
        commands = [command for stage in known.stages for command in stage if isinstance(command, Launch)]
        assert {command.kernel for command in commands} <= names
        assert {Memory("argument", 0), Memory("argument", 1)} <= {
            place.memory for command in commands for place in command.tensors
        }
        (result,) = known.results
        assert result.shape == (1, height - 2, width - 2, 8)
        assert 4 * np.prod(result.shape) <= known.allocations[result.place.memory.number]


def test_a_program_for_another_target_has_none() -> None:
    compiled = winograd.compile(PROGRAM, target="vulkan", strict=True)
    assert list(executables(compiled)) == []
    module = program_module(INSTANCE, compiled)
    assert LAUNCHES_KEY not in module.lookup_function("main").reflection


def test_executables_name_their_kernels(binaries: Sequence[bytes]) -> None:
    """As their text has them, with the threads of a workgroup that it states."""
    (binary,) = binaries
    (image,) = images(binary)
    for kernel in kernels(binary):
        assert f".entry {kernel.name}(".encode() in image.content or b"ELF" in image.content[:4]
        assert np.prod(kernel.threads) <= 1024


def test_weights_that_look_like_executables_are_none() -> None:
    header = b"CDA1" + bytes(4) + (32).to_bytes(8, "little") + bytes(48)
    assert list(executables(b"weights" + header + bytes(32))) == []
    assert list(executables(b"weights" + header)) == []


def floats(address: int) -> Floats:
    """The elements of a tensor at an address."""
    return np.ctypeslib.as_array((ctypes.c_float * ELEMENTS).from_address(address))


def add(tensors: Sequence[int], numbers: Sequence[int]) -> None:
    """The last of three tensors becomes the sum of the others."""
    floats(tensors[2])[:] = floats(tensors[0]) + floats(tensors[1])


def scale(tensors: Sequence[int], numbers: Sequence[int]) -> None:
    """The last of three tensors becomes the product of the others."""
    floats(tensors[2])[:] = floats(tensors[0]) * floats(tensors[1])


def array(*values: float) -> Floats:
    return np.resize(np.array(values, np.float32), ELEMENTS)


def place(kind: str, number: int, offset: int = 0) -> Place:
    return Place(Memory(kind, number), offset)  # type: ignore[arg-type]


SIZE = 4 * ELEMENTS


def launches_of(first: str, second: str) -> LaunchList:
    """A block of four tensors: ones, argument + constant, a copy of the argument, and their product + ones.

    The tensors of the first stage may be computed in any order, and those of the next need both.
    """
    ones = Fill(place("allocation", 0), SIZE, 0x3F800000, 4)
    total = Launch(
        first, (1, 1, 1), (place("argument", 0), place("constant", 0), place("allocation", 0, SIZE))
    )
    copied = Copy(place("argument", 0), place("allocation", 0, 2 * SIZE), SIZE)
    product = Launch(
        second,
        (1, 1, 1),
        (
            place("allocation", 0, SIZE),
            place("allocation", 0, 2 * SIZE),
            place("allocation", 0, 3 * SIZE),
        ),
    )
    final = Launch(
        first,
        (1, 1, 1),
        (place("allocation", 0, 3 * SIZE), place("allocation", 0), place("allocation", 1)),
    )
    return LaunchList(((ones, total, copied), (product,), (final,)), (4 * SIZE, SIZE), ())


MOVING = [Memory("argument", 0), Memory("allocation", 0), Memory("allocation", 1)]


class Call:
    """An argument and blocks of a call, whose result is in the last."""

    def __init__(self, argument: Floats) -> None:
        self._memory = (argument, np.zeros(4 * ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32))
        self.result = self._memory[-1]

    @property
    def addresses(self) -> tuple[int, ...]:
        return tuple(block.ctypes.data for block in self._memory)


CONSTANT = array(1, 2, 3)


def expected(argument: Floats) -> Floats:
    return np.asarray((argument + CONSTANT) * argument + 1)


@pytest.fixture
def host(binaries: Sequence[bytes]) -> HostDriver:
    """A driver in which two kernels of the program add and multiply."""
    names = [kernel.name for binary in binaries for kernel in kernels(binary)]
    assert len(names) >= 2
    return HostDriver({names[0]: (3, add), names[1]: (3, scale)}, variables=[MARKER.encode()])


def make_graph(host: HostDriver, binaries: Sequence[bytes], call: Call, *names: str) -> LaunchGraph:
    launches = launches_of(*(names or list(host.kernels)[:2]))
    driver = CudaDriver(host)
    loaded = LoadedKernels(driver, binaries)
    return LaunchGraph(driver, loaded, launches, [CONSTANT.ctypes.data], MOVING, call.addresses)


def test_commands_are_done_in_order_wherever_memory_lies(host: HostDriver, binaries: Sequence[bytes]) -> None:
    first, second = Call(array(2, 5)), Call(array(-1, 4, 9))
    graph = make_graph(host, binaries, first)
    for call, argument in ((first, array(2, 5)), (second, array(-1, 4, 9)), (first, array(2, 5))):
        call.result[:] = 0
        graph.launch(call.addresses, stream=7)
        np.testing.assert_array_equal(call.result, expected(argument))
    assert (host.streams, len(host.nodes)) == ([7, 7, 7], 5)


def test_graphs_take_turns(host: HostDriver, binaries: Sequence[bytes]) -> None:
    """Each does what it did before, with memory where it was."""
    arguments = array(2, 5), array(-1, 4, 9)
    calls = [Call(argument) for argument in arguments]
    graphs = [make_graph(host, binaries, call) for call in calls]
    for number in (0, 1, 0):
        for call in calls:
            call.result[:] = 0
        graphs[number].launch(calls[number].addresses, stream=7)
        np.testing.assert_array_equal(calls[number].result, expected(arguments[number]))
        np.testing.assert_array_equal(calls[1 - number].result, 0)


def test_kernels_that_wait_are_launched_ahead_of_the_end_of_others(
    host: HostDriver, binaries: Sequence[bytes]
) -> None:
    """A fill, two kernels with a copy in between, and one that is behind the second."""
    call = Call(array(2, 5))
    graph = make_graph(host, binaries, call)
    assert [len(node.early) for node in host.nodes.values()] == [0, 0, 0, 0, 1]
    graph.launch(call.addresses, stream=7)
    np.testing.assert_array_equal(call.result, expected(array(2, 5)))


def test_kernels_that_do_not_wait_are_launched_behind_others(
    host: HostDriver, binaries: Sequence[bytes]
) -> None:
    host.variables = ()
    make_graph(host, binaries, Call(array(1)))
    assert [len(node.early) for node in host.nodes.values()] == [0] * 5


def test_drivers_without_early_launches_have_graphs(host: HostDriver, binaries: Sequence[bytes]) -> None:
    host.lacking = "cuGraphAddDependencies_v2"
    call = Call(array(2, 5))
    graph = make_graph(host, binaries, call)
    assert [len(node.early) for node in host.nodes.values()] == [0] * 5
    graph.launch(call.addresses, stream=7)
    np.testing.assert_array_equal(call.result, expected(array(2, 5)))


def test_kernels_of_a_program_wait_where_the_architecture_can(binaries: Sequence[bytes]) -> None:
    """The first instruction of each that reads memory, and the variable by which loaders know it."""
    entry = b".visible .entry kernel(\n\t.param .u64 a\n)\n.maxntid 32, 1, 1\n{\n\tret;\n}\n"
    text = b".version 8.0\n.target %s\n.address_size 64\n\n" + 2 * entry
    waiting = with_waits(text % b"sm_90a")
    assert waiting.count(b"{\n\tgriddepcontrol.wait;\n\tret;\n}") == 2
    assert waiting.count(MARKER.encode()) == 1
    assert with_waits(text % b"sm_86") == text % b"sm_86"
    # A kernel that isn't found must not be launched early.
    other = text % b"sm_90a" + entry.replace(b".visible", b".visible .noreturn")
    assert with_waits(other) == other
    ask = (
        b"\t.reg .b64 %rd<2>;\n\tmov.u32 %r1, %tid.x;\n\t// begin inline asm\n\tprefetch.global.L2 [%rd1];\n"
    )
    asking = (text % b"sm_90").replace(b"\tret", ask + b"\tld.global.b32 %r2, [%rd1];\n" + ask + b"\tret")
    assert with_waits(asking).count(ask + b"\tgriddepcontrol.wait;\n\tld.global.b32") == 2
    # Addresses are found before, and what a kernel says that it may read.
    finds = b"\tmov.u32 %r1, %tid.x;\n"
    finding = (text % b"sm_90").replace(b"\tret", finds + b"\tst.global.b32 [%rd1], %r1;\n\tret")
    assert with_waits(finding).count(finds + b"\tgriddepcontrol.wait;\n\tst.global.b32") == 2
    place = f"\t{WAIT_PLACE}\n".encode()
    saying = finding.replace(b"\tst.global", b"\tld.global.b32 %r1, [%rd2];\n" + place + b"\tst.global")
    assert with_waits(saying).count(b"[%rd2];\n\tgriddepcontrol.wait;\n" + place) == 2
    # Another kernel may have written it since this one began.
    assert with_waits(asking.replace(b"ld.global", b"ld.global.nc")) == with_waits(asking)
    assert all(MARKER.encode() in image.content for binary in binaries for image in images(binary))


def test_machine_code_touches_memory_when_it_has_waited(binaries: Sequence[bytes]) -> None:
    """An assembler might load earlier what kernels only read, for all of their time as PTX has it."""
    codes = [code for binary in binaries for image in images(binary) for code in opcodes(image.content)]
    if not codes:
        pytest.skip("there is no assembler")
    assert len(codes) == len([kernel for binary in binaries for kernel in kernels(binary)])
    for code in codes:
        assert not MEMORY_ACCESSES.intersection(code[: code.index(WAIT)])
        assert MEMORY_ACCESSES.intersection(code)


WAIT = 0x82E
"""`ACQBULK` of sm_90, as `nvdisasm -hex` has it."""
MEMORY_ACCESSES = frozenset({0x980, 0x981, 0x985, 0x986, 0x3BA, 0xFAE})
"""`LD`, `LDG`, `ST`, `STG`, `UBLKCP` and `LDGSTS`."""


def test_only_what_names_memory_that_moved_is_told(host: HostDriver, binaries: Sequence[bytes]) -> None:
    call = Call(array(1))
    graph = make_graph(host, binaries, call)
    other = array(3)
    host.calls.clear()
    graph.launch(call.addresses, 0)
    assert host.calls == ["cuGraphLaunch"]
    graph.launch((other.ctypes.data, *call.addresses[1:]), 0)
    assert sorted(host.calls[1:]) == [
        "cuCtxGetCurrent",
        "cuGraphExecKernelNodeSetParams",
        "cuGraphExecMemcpyNodeSetParams",
        "cuGraphLaunch",
    ]
    np.testing.assert_array_equal(call.result, expected(other))


@pytest.mark.parametrize("contexts", [[1], [], [2]])
def test_graphs_are_freed(host: HostDriver, binaries: Sequence[bytes], contexts: list[int]) -> None:
    """Whatever the context is of the thread that collects them."""
    graph = make_graph(host, binaries, Call(array(1)))
    host.contexts = list(contexts)
    del graph
    gc.collect()
    assert host.contexts == contexts
    assert host.freed == ["executable", "graph", "module"]
    # Kernels that were launched may run.
    assert host.calls.index("cuCtxSynchronize") < host.calls.index("cuModuleUnload")


@pytest.mark.parametrize(
    "failing", ["cuModuleLoadData", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags"]
)
def test_failures_name_what_failed_and_free_the_rest(
    host: HostDriver, binaries: Sequence[bytes], failing: str
) -> None:
    host.failing = failing
    with pytest.raises(CudaError, match=rf"{failing}: CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
        make_graph(host, binaries, Call(array(1)))
    assert host.calls.count("cuGraphCreate") == host.freed.count("graph") and "executable" not in host.freed
    assert host.freed[-1:] == ["module"] * (failing != "cuModuleLoadData")


def test_a_graph_that_cannot_be_made_with_early_launches_is_made_without(
    host: HostDriver, binaries: Sequence[bytes]
) -> None:
    host.failing = "cuGraphAddDependencies_v2"
    call = Call(array(2, 5))
    graph = make_graph(host, binaries, call)
    assert [len(node.early) for node in host.nodes.values()] == [0] * 5
    graph.launch(call.addresses, stream=7)
    np.testing.assert_array_equal(call.result, expected(array(2, 5)))


def test_commands_are_queued_one_by_one_where_a_caller_captures(
    host: HostDriver, binaries: Sequence[bytes]
) -> None:
    """The graph's own launches aren't changed by what was queued of other memory."""
    first, second = Call(array(2, 5)), Call(array(-1, 4, 9))
    graph = make_graph(host, binaries, first)
    host.calls.clear()
    graph.queue(second.addresses, stream=3)
    assert not any("Graph" in each for each in host.calls)
    np.testing.assert_array_equal(second.result, expected(array(-1, 4, 9)))
    graph.launch(first.addresses, stream=7)
    np.testing.assert_array_equal(first.result, expected(array(2, 5)))
    assert host.streams == [3] * 5 + [7]


def test_a_kernel_that_the_program_lacks_is_named(host: HostDriver, binaries: Sequence[bytes]) -> None:
    with pytest.raises(CudaError, match="the program has no kernel other"):
        make_graph(host, binaries, Call(array(1)), "other", "other")
