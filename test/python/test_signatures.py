import pytest
from iree.winograd.loading.signatures import (
    FunctionSignature,
    SignatureError,
    TensorSignature,
    parse_declaration,
)


def test_static_dynamic_and_scalar_shapes() -> None:
    declaration = (
        "sync func @main(%input0: tensor<?x64xf32>, %input1: tensor<i64>) -> (%output0: tensor<4x?x3xf16>)"
    )
    assert parse_declaration(declaration) == FunctionSignature(
        inputs=(TensorSignature((None, 64), "f32"), TensorSignature((), "i64")),
        outputs=(TensorSignature((4, None, 3), "f16"),),
    )


def test_element_types_of_any_spelling() -> None:
    declaration = "sync func @f(%input0: tensor<4xindex>, %input1: tensor<?xcomplex<f32>>) -> (%output0: "
    assert parse_declaration(declaration + "tensor<complex<f64>>)") == FunctionSignature(
        inputs=(TensorSignature((4,), "index"), TensorSignature((None,), "complex<f32>")),
        outputs=(TensorSignature((), "complex<f64>"),),
    )


def test_no_arguments() -> None:
    signature = parse_declaration("sync func @main() -> (%output0: tensor<2xf32>)")
    assert signature == FunctionSignature(inputs=(), outputs=(TensorSignature((2,), "f32"),))


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ("", "isn't called synchronously"),
        (
            "async func @main(%input0: tensor<2xf32>) -> (%output0: tensor<2xf32>)",
            "isn't called synchronously",
        ),
        ("sync func @main(%input0: i32) -> (%output0: tensor<2xf32>)", "argument 0 is i32, no tensor"),
        (
            "sync func @main(%input0: tensor<2xf32>, %input1: !hal.fence) -> ()",
            "argument 1 is !hal.fence, no tensor",
        ),
        ("sync func @main() -> (%output0: tensor<f32>, %output1: f32)", "result 1 is f32, no tensor"),
    ],
)
def test_functions_on_other_things_than_tensors_have_no_signature(declaration: str, reason: str) -> None:
    with pytest.raises(SignatureError, match=reason):
        parse_declaration(declaration)


def test_printed_like_mlir() -> None:
    assert str(TensorSignature((None, 3, 224), "f32")) == "tensor<?x3x224xf32>"
    assert str(TensorSignature((), "i64")) == "tensor<i64>"


def test_negative_sizes_are_rejected() -> None:
    with pytest.raises(ValueError, match="-1"):
        TensorSignature((2, -1), "f32")
