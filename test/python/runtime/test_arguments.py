"""What loaded programs take, and what they say of what doesn't fit."""

from collections.abc import Callable
from pathlib import Path

import iree.compiler
import iree.runtime
import numpy as np
import pytest
import torch
from iree.winograd.errors import CallError
from iree.winograd.loading.runtime import LoadedProgram, load
from loaded_programs import HOST_DEVICES, Array, aligned, compile_program, random_array

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


def test_arguments_by_name() -> None:
    text = "func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> attributes {iree.reflection = "
    text += """{"winograd.inputs" = "[\\"image\\", \\"input.1\\"]"}} {
  %difference = arith.subf %x, %y : tensor<f32>
  return %difference : tensor<f32>
}
"""
    program = load(compile_program(text), "local-sync")
    image, other = np.float32(5), np.float32(3)
    for result in (
        program(image, other),
        program(image, **{"input.1": other}),
        program(**{"input.1": other, "image": image}),
    ):
        np.testing.assert_array_equal(result, 2)
    for positional, by_name, message in (
        ((image,), {"mask": other}, "main has no argument 'mask', only image, input.1"),
        ((image,), {"image": other}, "argument 'image' of main is given twice"),
        ((), {"input.1": other}, r"main takes 2 argument\(s\), got 1: image is missing"),
    ):
        with pytest.raises(CallError, match=message):
            program(*positional, **by_name)


def test_names_that_a_program_does_not_have(program: LoadedProgram, vmfb_without_signature: bytes) -> None:
    with pytest.raises(CallError, match="main has no argument 'x', only none by name"):
        program(x=random_array(4, 64))
    with pytest.raises(CallError, match="main doesn't say what its arguments are called"):
        load(vmfb_without_signature, "local-sync")(x=random_array(5, 3))


@pytest.mark.parametrize("element", ["float32", "bfloat16"])
def test_arrays_of_jax(element: str) -> None:
    jax = pytest.importorskip("jax")
    type_ = {"float32": "f32", "bfloat16": "bf16"}[element]
    text = f"func.func @main(%x: tensor<2x3x{type_}>) -> tensor<2x3x{type_}> {{\n"
    text += f"  %0 = arith.addf %x, %x : tensor<2x3x{type_}>\n  return %0 : tensor<2x3x{type_}>\n}}\n"
    x = jax.numpy.arange(6, dtype=element).reshape(2, 3)
    result = load(compile_program(text), "local-sync")(x)
    np.testing.assert_array_equal(result, np.asarray(x + x), strict=True)
    np.testing.assert_array_equal(x, np.arange(6).reshape(2, 3))


def test_scalars_are_arguments() -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  return %x : tensor<f32>\n}\n"
    result = load(compile_program(text), "local-sync")(np.array(2.5, np.float32))
    np.testing.assert_array_equal(result, np.array(2.5, np.float32), strict=True)


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
        (([1.0],), r"must be tensor<4x64xf32>, got float32 of shape \(1,\)"),
        (([[1.0], [1.0, 2.0]],), "got list: .* inhomogeneous shape"),
        ((["one"],), "got <U3 of shape"),
        (("one",), "got str, which is no array"),
        ((torch.zeros(4, 64, device="meta"),), "got a tensor on meta; move it to the CPU"),
        ((torch.zeros(4, 64, dtype=torch.bfloat16),), r"got bfloat16 of shape \(4, 64\)"),
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
            (random_array(5, 3), np.zeros((1, 2), np.longdouble)),
            r"argument 1 of main must be an array of numbers or booleans, got float128 of shape \(1, 2\)",
        ),
        (
            (random_array(5, 3), np.zeros((1, 2), ">i2")),
            r"argument 1 of main must be an array of numbers or booleans, got >i2 of shape",
        ),
        (
            ([[1.0, 2.0, 3.0]], np.zeros((1, 2), np.uint8)),
            "main failed: .*element type mismatch; expected f32 .* but have f64",
        ),
    ],
)
def test_arguments_that_a_program_without_signature_rejects(
    vmfb_without_signature: bytes, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(CallError, match=message):
        load(vmfb_without_signature, "local-sync")(*arguments)
