"""ONNX models by way of the importer and the commands; operators are the conformance tests'."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import iree.winograd
import numpy as np
import onnx
import pytest
from iree.winograd.cli import main
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CallError, InvalidOptionError, ModelImportError
from iree.winograd.loading.signatures import TensorSignature
from iree.winograd.passes.match.navigation import walk
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import CHANNELS, FILTERS, convolution_model
from warm_python import iree_winograd
from wide import sampled, wide_combinations

# Sums of 72 products and a bias; F(m, 3) may err some times as much as a direct convolution.
TOLERANCE = 8 * CHANNELS * 9 * UNIT_ROUNDOFF["float32"]
DOUBLE_TOLERANCE = TOLERANCE * 2.0**-29  # Of the 53 bits of a double, 24 are a single's.


def signature(name: str, *shape: int | None) -> TensorSignature:
    return TensorSignature(shape, "f32", name)


def stem_locations(model: iree.winograd.ImportedModel) -> list[str]:
    module = model.build(ir.Context()).operation
    return [str(each.location) for each in walk(module) if each.name == "linalg.conv_2d_nchw_fchw"]


def test_a_file_with_external_data_is_compiled_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = convolution_model()
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "net.onnx", save_as_external_data=True, location="net.data", size_threshold=64)
    Path("folder").mkdir()
    command = iree_winograd("compile", "../net.onnx", "--quiet")
    outcome = subprocess.run(command, cwd="folder", capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    program = iree.winograd.load("folder/net.vmfb", "local-sync")
    assert program.main.signature.inputs == (signature("image", None, CHANNELS, 12, 12),)
    assert program.main.signature.outputs == (signature("features:0", None, FILTERS, 12, 12),)
    for batch in (1, 3):
        image = np.random.default_rng(batch).standard_normal((batch, CHANNELS, 12, 12), np.float32)
        (expected,) = ReferenceEvaluator(convolution_model()).run(None, {"image": image})
        assert np.abs(program(image) - expected).max() < TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize("door", sampled(["import_onnx", "path", "command"], ["command"]))
def test_a_model_of_doubles_takes_and_returns_them(door: str, tmp_path: Path) -> None:
    model = convolution_model((1, CHANNELS, 12, 12), element_type=TensorProto.DOUBLE)
    path, program = tmp_path / "net.onnx", tmp_path / "net.vmfb"
    onnx.save(model, path)
    if door == "command":
        command = iree_winograd("compile", "net.onnx", "-o", "net.vmfb")
        subprocess.run(command, cwd=tmp_path, check=True)
    else:
        iree.winograd.compile(path if door == "path" else iree.winograd.import_onnx(model), output=program)
    image = np.random.default_rng(1).standard_normal((1, CHANNELS, 12, 12))
    (expected,) = ReferenceEvaluator(model).run(None, {"image": image})
    result = iree.winograd.load(program, "local-sync")(image)
    assert result.dtype == np.float64
    assert np.abs(result - expected).max() < DOUBLE_TOLERANCE * np.abs(expected).max()


def test_a_users_flag_makes_doubles_singles() -> None:
    model = iree.winograd.import_onnx(
        convolution_model((1, CHANNELS, 12, 12), element_type=TensorProto.DOUBLE)
    )
    program = iree.winograd.compile(model, flags=["--iree-input-demote-f64-to-f32=true"])
    (image,) = iree.winograd.load(program, "local-sync").main.signature.inputs
    assert image.element_type == "f32"


def test_sizes_are_settled_by_the_compile_command(tmp_path: Path) -> None:
    onnx.save(convolution_model(("N", CHANNELS, "h", "w")), tmp_path / "net.onnx")
    command = iree_winograd("compile", "net.onnx", "--target", "cpu")
    sizes = ["--size", "h=12", "--size=w=12", "--report=net.json", "--quiet"]
    outcome = subprocess.run([*command, *sizes], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    program = iree.winograd.load(tmp_path / "net.vmfb", "local-sync")
    assert program.main.signature.inputs == (signature("image", None, CHANNELS, 12, 12),)
    outcome = subprocess.run(
        [*command, "--size=depth=3", "-o", "other.vmfb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert outcome.stderr == "iree-compile: net.onnx: no input has a dimension 'depth'; there is N, h, w\n"
    assert not (tmp_path / "other.vmfb").exists()


def test_what_is_no_program_goes_to_the_standard_output(tmp_path: Path) -> None:
    onnx.save(convolution_model(), tmp_path / "net.onnx")
    command = iree_winograd("compile", "net.onnx", "--compile-to=flow")
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr.partition(",")[0]) == (
        0,
        "the program: 1 of 1 layers rewritten",
    )
    assert "flow.dispatch" in outcome.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["net.onnx", "--target"], 2, "argument --target: expected one argument"),
        (["net.onnx", "--size=h"], 2, "argument --size: 'h' is not like height=224"),
        (["net.onnx", "--target=abacus"], 1, "target 'abacus' is not known"),
        (["net.mlir", "--dynamic-batch"], 1, "--size, --size-hint and --dynamic-batch are for ONNX models"),
    ],
)
def test_bad_options_of_the_compile_command(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main(["compile", *arguments]) == code
    except SystemExit as exit_:
        assert exit_.code == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
def test_import_writes_what_iree_reads(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "net.onnx", tmp_path / f"net.{suffix}"
    onnx.save(convolution_model(("N", CHANNELS, "h", "w")), source)
    assert main(["import", str(source), "--size", "h=10", "--size=w=12", "-o", str(target)]) == 0
    assert "input image: tensor<?x8x10x12xf32>" in capsys.readouterr().err
    module = ir.Module.parse(target.read_bytes(), ir.Context()).operation
    (function,) = (each for each in walk(module) if each.name == "func.func")
    assert "tensor<?x8x10x12xf32>" in str(function.attributes["function_type"])
    assert target.read_bytes().startswith(b"ML\xefR") == (suffix == "mlirbc")


def test_weights_are_not_in_the_program_and_nodes_are_names() -> None:
    model = iree.winograd.import_onnx(convolution_model())
    assert [weight.nbytes for weight in model.weights.values()] == [FILTERS * CHANNELS * 9 * 4]
    assert len(model.program) < FILTERS * CHANNELS * 9 * 4 / 2
    assert stem_locations(model) == ['loc("/stem/Conv")']


def test_what_is_joined_of_weights_is_a_weight(tmp_path: Path) -> None:
    """As torch's newer exporter writes the gates of recurrent layers; whole numbers are exact."""
    generator = np.random.default_rng(0)
    weights, rows = (generator.integers(-9, 10, shape).astype(np.float32) for shape in ((64, 128), (5, 64)))
    nodes = [
        helper.make_node("Slice", ["weights", "half", "end", "axis"], ["last"]),
        helper.make_node("Slice", ["weights", "begin", "half", "axis"], ["first"]),
        helper.make_node("Concat", ["last", "first"], ["joined"], axis=0),
        helper.make_node("MatMul", ["rows", "joined"], ["products"]),
    ]
    bounds = {"begin": 0, "half": 32, "end": 64, "axis": 0}
    known = [helper.make_tensor(name, TensorProto.INT64, [1], [each]) for name, each in bounds.items()]
    graph = helper.make_graph(
        nodes,
        "joined",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, rows.shape)],
        [helper.make_tensor_value_info("products", TensorProto.FLOAT, (5, 128))],
        [*known, onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    imported = iree.winograd.import_onnx(model)
    program = iree.winograd.compile(imported, target="cpu:haswell", report=tmp_path / "report.json")
    (layer,) = json.loads((tmp_path / "report.json").read_text())["layers"]
    # What is multiplied by a matrix that is known only at run time has none.
    assert layer["problem"] is not None
    expected = rows @ np.concatenate([weights[32:], weights[:32]])
    np.testing.assert_array_equal(np.asarray(iree.winograd.load(program)(rows)), expected)


def test_old_operator_sets_are_converted() -> None:
    model = iree.winograd.import_onnx(convolution_model(opset=7))
    assert stem_locations(model) == ['loc("/stem/Conv")']


def test_dynamic_batch_leaves_the_callers_model_alone() -> None:
    model = convolution_model((1, CHANNELS, 12, 12))
    before = model.SerializeToString()
    imported = iree.winograd.import_onnx(model, dynamic_batch=True, entry="forward")
    assert imported.entry == "forward"
    assert imported.inputs == (signature("image", None, CHANNELS, 12, 12),)
    assert imported.outputs == (signature("features:0", None, FILTERS, 12, 12),)
    assert model.SerializeToString() == before


def test_a_batch_that_is_fixed_within() -> None:
    model = convolution_model((1, CHANNELS, 12, 12))
    model.graph.node.append(helper.make_node("Reshape", ["features:0", "shape"], ["flat"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, -1]), "shape"))
    model.graph.output[0].name = "flat"
    with pytest.raises(
        ModelImportError, match="has a batch of 1 within, so that the one of the output 'flat'"
    ):
        iree.winograd.import_onnx(model, dynamic_batch=True)


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({"w": 9, "h": 12}, "?x?12x?9"),
        *wide_combinations(
            [
                ({"N": 32}, "?32x?224x?224"),
                ({"h": 20}, "?x?20x?20"),
                ({"w": 31}, "?x?31x?31"),
                ({"N": 5, "h": 20}, "?5x?20x?20"),
            ]
        ),
    ],
)
def test_sizes_that_are_expected(hints: dict[str, int], expected: str, tmp_path: Path) -> None:
    model = iree.winograd.import_onnx(convolution_model(("N", CHANNELS, "h", "w")), size_hint=hints)
    program = iree.winograd.compile(model, report=tmp_path / "report.json", target="cpu:haswell")
    (layer,) = json.loads((tmp_path / "report.json").read_text())["layers"]
    assert layer["problem"]["text"].startswith(f"{expected}x{CHANNELS}->")
    assert iree.winograd.load(program).main.signature.inputs == (
        signature("image", None, CHANNELS, None, None),
    )


def test_sizes_that_no_input_has() -> None:
    with pytest.raises(ModelImportError, match="no input has a dimension 'height'; there is N"):
        iree.winograd.import_onnx(convolution_model(), sizes={"height": 3})
    with pytest.raises(ModelImportError, match="no input has a dimension 'height'; there is N"):
        iree.winograd.import_onnx(convolution_model(), size_hint={"height": 3})


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", 10**20])
def test_what_can_be_no_size(size: object) -> None:
    with pytest.raises(
        InvalidOptionError, match="the size of 'N' must be a positive integer below 2147483648, got"
    ):
        iree.winograd.import_onnx(convolution_model(), sizes={"N": size})


def test_images_that_are_smaller_than_the_window() -> None:
    """torch-mlir writes a result of a negative size, which MLIR doesn't read."""
    model = convolution_model((1, CHANNELS, 1, "width"))
    del model.graph.node[0].attribute[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelImportError, match=r"/stem/Conv.*: a result would be of size -1"):
        iree.winograd.import_onnx(model)


def test_padding_of_a_convolution_that_takes_elements_away() -> None:
    model, cropped = convolution_model((1, CHANNELS, 12, 12)), convolution_model((1, CHANNELS, 11, 11))
    for each, pads in ((model, [1, -1, -1, 1]), (cropped, [1, 0, 0, 1])):
        del each.graph.node[0].attribute[:]
        each.graph.node[0].attribute.append(helper.make_attribute("pads", pads))
        each.graph.output[0].type.tensor_type.ClearField("shape")
    image = np.random.default_rng(1).standard_normal((1, CHANNELS, 12, 12), np.float32)
    program = iree.winograd.load(iree.winograd.compile(iree.winograd.import_onnx(model)))
    (expected,) = ReferenceEvaluator(cropped).run(None, {"image": image[:, :, :-1, 1:]})
    np.testing.assert_allclose(np.asarray(program(image)), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize(
    ("image", "weights", "reason"),
    [
        ((1, 4, None, None), (8, 3, 3, 3), "an image of 4 channels and a filter of [38] in 1 group"),
        ((1, 3, None), (3, 3, 3, 3), "an image of rank 3 and a filter of rank 4"),
    ],
)
def test_a_filter_for_other_images(
    operator: str, image: tuple[int | None, ...], weights: tuple[int, ...], reason: str
) -> None:
    node = helper.make_node(operator, ["image", "filter"], ["result"], name="stem")
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("image", image), ("result", None))
    ]
    taps = numpy_helper.from_array(np.ones(weights, np.float32), "filter")
    graph = helper.make_graph([node], "mismatch", values[:1], values[1:], [taps])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(ModelImportError, match=f"node 'stem': the operator {operator} isn't .* {reason}"):
        iree.winograd.import_onnx(model)


def test_open_sizes_that_are_reshaped_to_those_of_an_example() -> None:
    """As exporters write a shape that they take for constant: of other sizes there is no result."""
    model, pixels = convolution_model((1, CHANNELS, "height", "width")), 6 * 7
    *_, last = model.graph.node
    (result,) = last.output
    last.output[0] = "image of results"
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, FILTERS, pixels]), "shape"))
    model.graph.node.append(helper.make_node("Reshape", ["image of results", "shape"], [result]))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    program = iree.winograd.load(iree.winograd.compile(iree.winograd.import_onnx(model)))
    image = np.random.default_rng(1).standard_normal((1, CHANNELS, 14, 14), np.float32)
    fitting = np.ascontiguousarray(image[:, :, :6, :7])
    (expected,) = ReferenceEvaluator(model).run(None, {"image": fitting})
    np.testing.assert_allclose(np.asarray(program(fitting)), expected, atol=TOLERANCE, rtol=0)
    for other in (image, image[:, :, :3, :3]):
        with pytest.raises(CallError, match=f"isn't of size {pixels}, which the program takes it for"):
            program(np.ascontiguousarray(other))


def test_operators_that_are_not_known() -> None:
    with pytest.raises(
        ModelImportError, match=r"node '/stem/Conv': ONNX can't tell .* my\.own\.Twist returns"
    ):
        iree.winograd.import_onnx(convolution_model(operator="Twist"))
    typed = convolution_model(operator="Twist")
    typed.graph.value_info.append(
        helper.make_tensor_value_info("sums", onnx.TensorProto.FLOAT, ("N", FILTERS, 12, 12))
    )
    with pytest.raises(ModelImportError, match=r"node '/stem/Conv': .* the operator Twist"):
        iree.winograd.import_onnx(typed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot open '{}': No such file or directory"),
        (b"", "'{}' is no ONNX model"),
        (b"module {}\n", "'{}' is no ONNX model"),
    ],
)
def test_files_that_are_no_models(
    tmp_path: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    if content is not None:
        path.write_bytes(content)
    assert main(["import", str(path), "-o", str(tmp_path / "net.mlir")]) == 1
    assert capsys.readouterr().err == f"iree-winograd: error: {message.format(path)}\n"
    with pytest.raises(ModelImportError):
        iree.winograd.compile(path)
    assert not (tmp_path / "net.mlir").exists()


@pytest.mark.parametrize("suffix", ["json", "textproto"])
def test_other_formats_that_hold_no_model(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net.{suffix}"
    path.write_text("{")
    with pytest.raises(ModelImportError, match=f"net.{suffix}' is no ONNX model"):
        iree.winograd.import_onnx(path)


def test_external_data_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(convolution_model(), path, save_as_external_data=True, location="net.data", size_threshold=64)
    (tmp_path / "net.data").unlink()
    with pytest.raises(ModelImportError, match=r"cannot read the external data of '.*net\.onnx': .*filters"):
        iree.winograd.import_onnx(path)


def test_what_the_stock_tool_would_get(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(convolution_model(), path)
    command = iree_winograd("compile", str(path), "--compile-to=input")
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert "the stock tool reads no ONNX models: make a program by `iree-winograd import`" in outcome.stderr
