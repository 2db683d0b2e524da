"""Arguments and results: whose memory they are, and how long they live."""

import resource
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import iree.compiler
import iree.runtime
import numpy as np
import pytest
from iree.winograd.loading.device import BUFFER_ALIGNMENT, BorrowedArrays, open_device
from iree.winograd.loading.runtime import LoadedProgram, load
from loaded_programs import HOST_DEVICES, PROGRAM, aligned, compile_program, random_array
from wide import wide


def test_results_are_memory_of_their_own(program: LoadedProgram) -> None:
    x, y = aligned(random_array(5, 2), 0), np.zeros((1, 3), np.int64)
    _, result = program.swap(x, y)
    expected = x.copy()
    x[...] = 0
    np.testing.assert_array_equal(result, expected)


def test_results_that_are_one_value_are_memory_of_their_own(program: LoadedProgram) -> None:
    x = random_array(4, 64)
    first, second = program.twice(x)
    first[...] = 0
    np.testing.assert_array_equal(second, 2 * x)


def test_results_have_the_type_that_they_were_computed_in() -> None:
    text = "func.func @main(%x: tensor<?xi8>, %y: tensor<?xi1>) -> (tensor<2xi8>, tensor<?xi1>) {\n"
    text += "  %c = arith.constant dense<[-1, 2]> : tensor<2xi8>\n"
    text += "  return %c, %y : tensor<2xi8>, tensor<?xi1>\n}\n"
    first, second = load(compile_program(text), "local-sync")(np.zeros(3, np.int8), np.array([True, False]))
    np.testing.assert_array_equal(first, np.array([-1, 2], np.int8), strict=True)
    np.testing.assert_array_equal(second, np.array([True, False]), strict=True)


def test_results_outlive_the_program_and_later_calls(vmfb: bytes) -> None:
    program = load(vmfb, "local-sync")
    results = [program(np.full((4, 64), value, np.float32)) for value in range(8)]
    del program
    for value, result in enumerate(results):
        np.testing.assert_array_equal(result, 2 * value)


def test_views_of_results_outlive_the_results(vmfb: bytes) -> None:
    program = load(vmfb, "local-sync")
    # Later results would be in memory that was let go of too early.
    views = [program(np.full((4, 64), value, np.float32))[:, ::2].T for value in range(8)]
    for value, view in enumerate(views):
        np.testing.assert_array_equal(view, 2 * value)


def test_a_part_of_a_copied_result_outlives_the_rest() -> None:
    device = open_device("local-sync")
    array = random_array(12, 64)
    view = device.copy_from_host(array)
    for _ in range(50):
        row = device.copy_to_host(view, array.dtype)[3]
        # Reuses what was freed too early.
        others = [random_array(12, 64) for _ in range(3)]
        np.testing.assert_array_equal(row, array[3])
        del others


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what memory the process has")
def test_without_a_cache_freed_memory_is_used_for_other_sizes() -> None:
    """A cache would keep an allocation of each size."""
    script = """
import numpy as np
from iree.winograd.loading.device import open_device

def mebibytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) / 256

device = open_device("local-task", 1, caching=False)
assert device is not open_device("local-task", 1)
array = np.ones(2**22, np.float32)
device.copy_from_host(array)
before = mebibytes()
for size in range(40):
    device.copy_from_host(array[: 2**22 - 2**12 * size])
assert mebibytes() - before < 3 * 16, mebibytes() - before
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("device", ["local-sync", "vulkan", *wide(["local-task"])])
def test_results_may_live_until_the_interpreter_ends(tmp_path: Path, device: str) -> None:
    backend = "vulkan" if device == "vulkan" else "local"
    flags = [f"--iree-hal-target-device={backend}", "--iree-hal-local-target-device-backends=llvm-cpu"]
    (tmp_path / "program.vmfb").write_bytes(iree.compiler.compile_str(PROGRAM, extra_args=flags))
    script = (
        "import builtins, numpy, iree.winograd.loading.runtime as runtime\n"
        f"program = runtime.load('program.vmfb', '{device}')\n"
        "result = program.main(numpy.ones((4, 64), numpy.float32))\n"
        "builtins.kept = program.main(result)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_results_of_a_gpu_are_their_callers() -> None:
    """They come through memory that is kept from call to call, also where several threads call."""
    vmfb = iree.compiler.compile_str(PROGRAM, extra_args=["--iree-hal-target-device=vulkan"])
    program = load(vmfb, "vulkan")
    arrays = [np.full((4, 64), number, np.float32) for number in range(24)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(program.main, arrays))
    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(result, 2 * array)
    made = []
    allocator = type(program.main.device.hal.allocator)
    with pytest.MonkeyPatch.context() as patch:
        allocate = allocator.allocate_buffer
        patch.setattr(allocator, "allocate_buffer", lambda *a, **k: made.append(k) or allocate(*a, **k))
        np.testing.assert_array_equal(program.main(arrays[3]), 2 * arrays[3])
    assert made == []


STATE_SIZE = 1 << 22


STATEFUL = f"""
util.global private mutable @state : tensor<?xf32>
func.func @set(%x: tensor<{STATE_SIZE}xf32>, %size: tensor<i64>) {{
  %0 = func.call @keep(%x, %size) : (tensor<{STATE_SIZE}xf32>, tensor<i64>) -> tensor<i64>
  return
}}
func.func @keep(%x: tensor<{STATE_SIZE}xf32>, %size: tensor<i64>) -> tensor<i64> {{
  %scalar = tensor.extract %size[] : tensor<i64>
  %index = arith.index_cast %scalar : i64 to index
  %part = tensor.extract_slice %x[0] [%index] [1] : tensor<{STATE_SIZE}xf32> to tensor<?xf32>
  %squares = arith.mulf %part, %part : tensor<?xf32>
  util.global.store %squares, @state : tensor<?xf32>
  return %size : tensor<i64>
}}
func.func @get() -> tensor<?xf32> {{
  %state = util.global.load @state : tensor<?xf32>
  return %state : tensor<?xf32>
}}
"""
"""IREE waits for the result of `keep`, but not for what it stores, and for nothing in `set`."""


@pytest.fixture(scope="module")
def stateful_vmfb() -> bytes:
    return compile_program(STATEFUL)


@pytest.mark.parametrize("device", HOST_DEVICES)
@pytest.mark.parametrize("function", ["set", "keep"])
def test_arguments_may_change_after_a_call(stateful_vmfb: bytes, function: str, device: str) -> None:
    program = load(stateful_vmfb, device, threads=2 if device == "local-task" else None)
    for value in range(8):
        x = aligned(np.full(STATE_SIZE, value, np.float32), 0)
        getattr(program, function)(x, np.array(STATE_SIZE))
        x[...] = -1
        np.testing.assert_array_equal(program.get(), np.full(STATE_SIZE, value**2, np.float32))


@pytest.mark.parametrize("device", HOST_DEVICES)
def test_arguments_live_as_long_as_they_are_used(vmfb: bytes, device: str) -> None:
    opened = open_device(device, 2 if device == "local-task" else None)
    borrowed = BorrowedArrays()
    array = aligned(random_array(4, 64), 0)
    expected, owner = array.copy(), weakref.ref(array.base)
    view = borrowed.borrow(opened, array)
    del array
    assert owner() is not None
    np.testing.assert_array_equal(view.map().asarray(view.shape, np.dtype(np.float32)), expected)
    del view
    borrowed.wait()
    assert owner() is None


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_memory_between_arguments_and_results_is_kept() -> None:
    """Whatever programs before have freed, and where a device without a cache gives memory back."""
    device = open_device("local-task", 2)
    views = [device.copy_from_host(np.ones(BUFFER_ALIGNMENT * size, np.uint8)) for size in range(1, 100)]
    del views
    open_device("local-task", 2, caching=False)
    large = "tensor<4096x8192xf32>"
    program = load(
        compile_program(f"""
func.func @main(%x: tensor<f32>) -> tensor<8192xf32> {{
  %zero = arith.constant 0.0 : f32
  %value = tensor.extract %x[] : tensor<f32>
  %empty = tensor.empty() : {large}
  %filled = linalg.fill ins(%value : f32) outs(%empty : {large}) -> {large}
  %stored = util.optimization_barrier %filled : {large}
  %sums = tensor.empty() : tensor<8192xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%sums : tensor<8192xf32>) -> tensor<8192xf32>
  %result = linalg.reduce {{ arith.addf }}
    ins(%stored : {large}) outs(%zeros : tensor<8192xf32>) dimensions = [0]
  return %result : tensor<8192xf32>
}}"""),
        threads=2,
    )
    x = np.full((), 0.5, np.float32)
    faults = []
    # What tests before this one freed may be returned to the system with the memory of the first call.
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.testing.assert_array_equal(program(x), np.full(8192, 2048, np.float32))
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    pages = 4 * 4096 * 8192 // resource.getpagesize()
    assert min(faults) < pages // 4
