import copy
import os
import resource
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import iree.compiler
import iree.runtime
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.device import BorrowedArrays, _open_host_device, open_device
from iree.winograd.errors import CallError, InvalidOptionError, LoadError
from iree.winograd.pipelines.machines.host import physical_cores
from iree.winograd.runtime import BUFFER_ALIGNMENT, LoadedProgram, load

Array = npt.NDArray[np.float32]

PROGRAM = """
#rows = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %empty = tensor.empty() : tensor<4x64xf32>
  %doubled = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xf32>) outs(%empty : tensor<4x64xf32>) {
  ^bb0(%element: f32, %unused: f32):
    %sum = arith.addf %element, %element : f32
    linalg.yield %sum : f32
  } -> tensor<4x64xf32>
  return %doubled : tensor<4x64xf32>
}
func.func @swap(%x: tensor<?x2xf32>, %y: tensor<?x3xi64>) -> (tensor<?x3xi64>, tensor<?x2xf32>) {
  return %y, %x : tensor<?x3xi64>, tensor<?x2xf32>
}
func.func @twice(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %doubled = arith.addf %x, %x : tensor<4x64xf32>
  return %doubled, %doubled : tensor<4x64xf32>, tensor<4x64xf32>
}
"""

WITHOUT_SIGNATURE = """
func.func @main(%x: !torch.vtensor<[?,3],f32>, %y: !torch.vtensor<[?,2],ui8>)
    -> (!torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],i1>, !torch.vtensor<[?,2],ui8>)
    attributes {torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = 17 : si64} {
  %relu = torch.operator "onnx.Relu"(%x) : (!torch.vtensor<[?,3],f32>) -> !torch.vtensor<[?,3],f32>
  %equal = torch.operator "onnx.Equal"(%x, %relu)
      : (!torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],f32>) -> !torch.vtensor<[?,3],i1>
  return %relu, %equal, %y : !torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],i1>, !torch.vtensor<[?,2],ui8>
}
"""
"""As ONNX models are imported: on the types of torch-mlir, for which IREE keeps no signature."""

HOST_DEVICES = ["local-sync", "local-task"]


def compile_program(text: str) -> bytes:
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    return bytes(iree.compiler.compile_str(text, extra_args=[*flags, "--iree-llvmcpu-target-cpu=generic"]))


@pytest.fixture(scope="module")
def vmfb() -> bytes:
    return compile_program(PROGRAM)


@pytest.fixture(params=HOST_DEVICES)
def program(request: pytest.FixtureRequest, vmfb: bytes) -> LoadedProgram:
    return load(vmfb, request.param)


def random_array(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def aligned(array: Array, offset: int) -> Array:
    """A copy of `array` whose first element lies `offset` bytes after a multiple of the alignment."""
    memory = np.empty(array.nbytes + 2 * BUFFER_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % BUFFER_ALIGNMENT + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def test_numpy_in_numpy_out(program: LoadedProgram) -> None:
    x = random_array(4, 64)
    result = program(x)
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, 2 * x)


def test_torch_in_torch_out(program: LoadedProgram) -> None:
    x = torch.from_numpy(random_array(4, 64)).requires_grad_()
    result = program(x)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, 2 * x.detach())


@pytest.mark.parametrize("offset", [0, 4, 16, 32])
def test_any_alignment(program: LoadedProgram, offset: int) -> None:
    x = aligned(random_array(4, 64), offset)
    np.testing.assert_array_equal(program(x), 2 * x)


@pytest.mark.parametrize(
    "view", [lambda x: x[:, ::2], lambda x: x[::-1, :64], lambda x: np.asfortranarray(x[:, :64])]
)
def test_views_are_read_in_their_own_order(program: LoadedProgram, view: Callable[[Array], Array]) -> None:
    x = view(random_array(4, 128))
    np.testing.assert_array_equal(program(x), 2 * x)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_arrays_without_elements(shape: tuple[int, int]) -> None:
    type_ = f"tensor<{'x'.join(map(str, shape))}xf32>"
    source = f"""func.func @double(%x: {type_}, %y: tensor<2xf32>) -> ({type_}, tensor<2xf32>) {{
      %a = arith.addf %x, %x : {type_}
      %b = arith.addf %y, %y : tensor<2xf32>
      return %a, %b : {type_}, tensor<2xf32>
    }}"""
    program = iree.winograd.load(iree.winograd.compile(source, target="cpu"), device="local-sync")
    none, doubled = program(aligned(random_array(*shape), 0), np.float32([1, 2]))
    assert none.shape == shape
    np.testing.assert_array_equal(doubled, [2, 4])


def test_read_only_arrays(program: LoadedProgram, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", random_array(4, 64))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    frozen = aligned(random_array(4, 64), 0)
    frozen.flags.writeable = False
    for x in (mapped, frozen):
        np.testing.assert_array_equal(program(x), 2 * x)


def test_tensors_that_are_lazily_negated(program: LoadedProgram) -> None:
    x = torch.from_numpy(random_array(4, 64))
    negated = torch.complex(x, x).conj().imag
    assert negated.is_neg()
    assert torch.equal(program(negated), -2 * x)


def test_functions_are_attributes(program: LoadedProgram) -> None:
    assert program.functions == ("main", "swap", "twice")
    assert str(program.main.signature.inputs[0]) == "tensor<4x64xf32>"
    x, y = random_array(5, 2), np.arange(21).reshape(7, 3)
    first, second = program.swap(x, y)
    np.testing.assert_array_equal(first, y)
    np.testing.assert_array_equal(second, x)
    with pytest.raises(AttributeError, match=r"'other'.*'main', 'swap', 'twice'"):
        _ = program.other


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


def test_results_outlive_the_program_and_later_calls(vmfb: bytes) -> None:
    program = load(vmfb, "local-sync")
    results = [program(np.full((4, 64), value, np.float32)) for value in range(8)]
    del program
    for value, result in enumerate(results):
        np.testing.assert_array_equal(result, 2 * value)


def test_a_file_is_loaded(vmfb: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program.vmfb"
    path.write_bytes(vmfb)
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(path, "local-sync")(x), 2 * x)
    np.testing.assert_array_equal(load(str(path), "local-sync")(x), 2 * x)


def test_the_number_of_threads_is_as_asked(vmfb: bytes) -> None:
    before = thread_count()
    x = random_array(4, 64)
    # No other test asks for these and no machine has as many cores, so the devices are new.
    for threads in (11, 13):
        np.testing.assert_array_equal(load(vmfb, "local-task", threads=threads)(x), 2 * x)
    added = thread_count() - before
    assert 11 + 13 <= added <= 11 + 13 + 2 * 2


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


def test_one_thread_is_the_calling_one(vmfb: bytes) -> None:
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(vmfb, "local-task", threads=1)(x), 2 * x)
    assert open_device("local-task", 1) is open_device("local-sync")


def test_as_many_threads_as_cores_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iree.winograd.device.available_processors", os.cpu_count)
    assert open_device("local-task", physical_cores()) is open_device("local-task")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads be batch work")
def test_a_caller_leaves_cores_to_workers_while_it_waits(
    vmfb: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = []

    def set_policy(thread: int, policy: int, parameters: os.sched_param) -> None:
        policies.append(policy)

    monkeypatch.setattr(os, "sched_setscheduler", set_policy)
    monkeypatch.setattr("iree.winograd.device.available_processors", lambda: 4)
    x = random_array(4, 64)
    # No other test asks for these, so the devices are new: more workers than cores, and fewer.
    load(vmfb, "local-task", threads=5)(x)
    assert policies == [os.SCHED_BATCH, os.SCHED_OTHER]
    load(vmfb, "local-task", threads=3)(x)
    load(vmfb, "local-sync")(x)
    assert len(policies) == 2


@pytest.mark.parametrize(
    ("threads", "cores", "processors", "flags"),
    [
        (2, 2, 2, (0, 0)),
        (16, 16, 16, (16, 50)),
        (8, 8, 16, (0, 50)),
        (4, 16, 16, (4, 50)),
        (9, 8, 8, (9, 0)),
    ],
    ids=["few cores", "many cores", "cores of two processors", "some of the cores", "too many"],
)
def test_workers_spin_and_stay_where_it_helps(
    threads: int, cores: int, processors: int, flags: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr("iree.winograd.device.available_processors", lambda: processors)
    monkeypatch.setattr("iree.winograd.device.physical_cores", lambda: cores)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(iree.runtime.flags, "parse_flags", lambda *flags: parsed.extend(flags))
    monkeypatch.setattr("iree.winograd.device.binding.create_hal_driver", MagicMock())
    _open_host_device.__wrapped__("local-task", threads)
    groups, spinning = flags
    assert f"--task_topology_group_count={groups}" in parsed
    assert f"--task_worker_spin_us={spinning}" in parsed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads be batch work")
@pytest.mark.parametrize("call", ["sched_getaffinity", "sched_getscheduler", "sched_setscheduler"])
def test_a_caller_in_a_sandbox(vmfb: bytes, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(os, call, refuse)
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(vmfb, "local-task", threads=2)(x), 2 * x)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_memory_between_arguments_and_results_is_kept() -> None:
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
    program(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.testing.assert_array_equal(program(x), np.full(8192, 2048, np.float32))
    pages = 4 * 4096 * 8192 // resource.getpagesize()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < pages // 4


def thread_count() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), r"main takes 1 argument\(s\), got 0"),
        ((random_array(4, 64), random_array(4, 64)), r"main takes 1 argument\(s\), got 2"),
        (
            (random_array(2, 64),),
            r"argument 0 of main must be tensor<4x64xf32>, got float32 of shape \(2, 64\)",
        ),
        ((np.zeros((4, 64)),), r"argument 0 of main must be tensor<4x64xf32>, got float64 of shape"),
        ((torch.zeros(4, 64, dtype=torch.bool),), "must be tensor<4x64xf32>, got bool"),
        (([1.0],), "got list, which is no numpy array or torch tensor"),
        ((torch.zeros(4, 64, device="meta"),), "got a tensor on meta; move it to the CPU"),
        ((torch.zeros(4, 64, dtype=torch.bfloat16),), "got a tensor that is no numpy array: .*BFloat16"),
        ((torch.zeros(4, 64).to_sparse(),), "got a tensor that is no numpy array: .*Sparse layout"),
    ],
)
def test_arguments_that_do_not_fit(
    program: LoadedProgram, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(CallError, match=message):
        program(*arguments)


def test_static_sizes_beside_dynamic_ones_are_checked(program: LoadedProgram) -> None:
    expected = r"argument 1 of swap must be tensor<\?x3xi64>, got int64 of shape \(7, 2\)"
    with pytest.raises(CallError, match=expected):
        program.swap(random_array(5, 2), np.zeros((7, 2), np.int64))
    with pytest.raises(CallError, match="argument 0 of swap"):
        program.swap(random_array(5, 2, 1), np.zeros((7, 3), np.int64))


@pytest.fixture(scope="module")
def vmfb_without_signature() -> bytes:
    return compile_program(WITHOUT_SIGNATURE)


@pytest.mark.parametrize("device", HOST_DEVICES)
def test_a_program_without_signature(vmfb_without_signature: bytes, device: str) -> None:
    program = load(vmfb_without_signature, device)
    assert program.functions == ("main",)
    assert program.main.signature is None
    x, y = random_array(5, 3), np.arange(14, dtype=np.uint8).reshape(7, 2)
    for positive, equal, same in (
        program(x, y),
        map(torch.Tensor.numpy, program(torch.from_numpy(x), torch.from_numpy(y))),
    ):
        np.testing.assert_array_equal(positive, np.maximum(x, 0), strict=True)
        np.testing.assert_array_equal(equal, x >= 0, strict=True)
        np.testing.assert_array_equal(same, y, strict=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((random_array(5, 3),), "main failed: .*expected 2 arguments but passed 1"),
        (
            (random_array(5, 4), np.zeros((1, 2), np.uint8)),
            "main failed: .*shape dimension 1 mismatch; expected 3 but have 4",
        ),
        (
            (np.zeros((5, 3)), np.zeros((1, 2), np.uint8)),
            "main failed: .*element type mismatch; expected f32 .* but have f64",
        ),
        (
            (random_array(5, 3), np.zeros((1, 2), np.complex64)),
            r"argument 1 of main must be an array of numbers or booleans, got complex64 of shape \(1, 2\)",
        ),
        (([1.0], [2]), "argument 0 of main .* got list, which is no numpy array or torch tensor"),
    ],
)
def test_arguments_that_a_program_without_signature_rejects(
    vmfb_without_signature: bytes, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(CallError, match=message):
        load(vmfb_without_signature, "local-sync")(*arguments)


def test_scalars_are_arguments() -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n"
    result = load(compile_program(text), "local-sync")(np.array(2.5, np.float32))
    np.testing.assert_array_equal(result, np.array(2.5, np.float32), strict=True)


def test_results_have_the_type_that_they_were_computed_in() -> None:
    text = "func.func @main(%x: tensor<?xi8>, %y: tensor<?xi1>) -> (tensor<2xi8>, tensor<?xi1>) {\n"
    text += "  %c = arith.constant dense<[-1, 2]> : tensor<2xi8>\n"
    text += "  return %c, %y : tensor<2xi8>, tensor<?xi1>\n}\n"
    first, second = load(compile_program(text), "local-sync")(np.zeros(3, np.int8), np.array([True, False]))
    np.testing.assert_array_equal(first, np.array([-1, 2], np.int8), strict=True)
    np.testing.assert_array_equal(second, np.array([True, False]), strict=True)


def test_functions_on_what_numpy_has_no_type_for_are_left_out() -> None:
    text = PROGRAM
    for number, element_type in enumerate(("index", "complex<f32>", "bf16", "f8E4M3FN")):
        tensor = f"tensor<4x{element_type}>"
        text += f"func.func @other_{number}(%x: {tensor}) -> {tensor} {{\n  return %x : {tensor}\n}}\n"
    program = load(compile_program(text), "local-sync")
    assert program.functions == ("main", "swap", "twice")
    x = random_array(4, 64)
    np.testing.assert_array_equal(program(x), 2 * x)
    with pytest.raises(AttributeError, match="no function 'other_0' on arrays"):
        _ = program.other_0


def test_programs_can_be_copied(program: LoadedProgram) -> None:
    x = random_array(4, 64)
    np.testing.assert_array_equal(copy.copy(program)(x), 2 * x)


def test_several_functions_without_main_are_called_by_name() -> None:
    text = PROGRAM.replace("@main", "@double")
    program = load(compile_program(text), "local-sync")
    x = random_array(4, 64)
    np.testing.assert_array_equal(program.double(x), 2 * x)
    with pytest.raises(CallError, match=r"no function 'main': call one of \('double', 'swap', 'twice'\)"):
        program(x)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"can't read '.*missing\.vmfb': No such file"):
        load(tmp_path / "missing.vmfb", "local-sync")
    with pytest.raises(LoadError, match="Is a directory"):
        load(tmp_path, "local-sync")


@pytest.mark.parametrize("content", [b"", b"neither this nor that" * 10])
def test_not_a_program(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text.vmfb"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=r"text\.vmfb' is not a program"):
        load(path, "local-sync")
    with pytest.raises(LoadError, match="is not a program"):
        load(content, "local-sync")


def test_an_unknown_device(vmfb: bytes) -> None:
    with pytest.raises(LoadError, match=r"no device 'abacus' \(drivers: .*local-task.*\)"):
        load(vmfb, "abacus")


def test_a_program_for_another_target() -> None:
    flags = ["--iree-hal-target-device=vulkan"]
    vmfb = bytes(iree.compiler.compile_str(PROGRAM, extra_args=flags))
    with pytest.raises(LoadError, match="can't run on 'local-sync'"):
        load(vmfb, "local-sync")


@pytest.mark.parametrize(("device", "threads"), [("local-task", 0), ("local-sync", 2)])
def test_a_number_of_threads_that_makes_no_sense(vmfb: bytes, device: str, threads: int) -> None:
    with pytest.raises(InvalidOptionError, match=f"got {threads} for '{device}'"):
        load(vmfb, device, threads=threads)


@pytest.mark.parametrize("device", ["local-sync", "local-task", "vulkan"])
def test_results_may_live_until_the_interpreter_ends(tmp_path: Path, device: str) -> None:
    backend = "vulkan" if device == "vulkan" else "local"
    flags = [f"--iree-hal-target-device={backend}", "--iree-hal-local-target-device-backends=llvm-cpu"]
    (tmp_path / "program.vmfb").write_bytes(iree.compiler.compile_str(PROGRAM, extra_args=flags))
    script = (
        "import builtins, numpy, iree.winograd.runtime as runtime\n"
        f"program = runtime.load('program.vmfb', '{device}')\n"
        "result = program.main(numpy.ones((4, 64), numpy.float32))\n"
        "builtins.kept = program.main(result)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
