"""Convolutions that are left to IREE at several times the cost: said once, with what to do about it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import iree.winograd as winograd
import pytest
from iree.winograd import LeftWarning

CONVOLUTION = """
  %{result} = linalg.conv_2d_nhwc_hwcf
    {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
    ins(%image, %filter_{result} : {image}, {filters}) outs(%init : {output}) -> {output}"""


def program(element: str = "f32", rows: str = "14", batch: str = "1", count: int = 2) -> str:
    """Several 3x3 convolutions of one image of `batch` x `rows` x 14 x 8 to 16 channels."""
    output_rows = rows if rows == "?" else str(int(rows) - 2)
    types = {
        "image": f"tensor<{batch}x{rows}x14x8x{element}>",
        "filters": f"tensor<3x3x8x16x{element}>",
        "output": f"tensor<{batch}x{output_rows}x12x16x{element}>",
    }
    names = [f"result{number}" for number in range(count)]
    arguments = "%image: {image}, %init: {output}".format(**types)
    arguments += "".join(f", %filter_{name}: {types['filters']}" for name in names)
    body = "".join(CONVOLUTION.format(result=name, **types) for name in names)
    results = ", ".join([types["output"]] * count)
    values = ", ".join(f"%{name}" for name in names)
    return f"func.func @main({arguments}) -> ({results}) {{{body}\n  return {values} : {results}\n}}\n"


SIZES = r"2 of 2 convolution\(s\) left .*: 2 with sizes .* at run time .compile a program for each size"


def test_compile_warns_once(capfd: pytest.CaptureFixture[str]) -> None:
    text = program(rows="?")
    with pytest.warns(LeftWarning, match=SIZES) as caught:
        winograd.compile(text)
    assert [warning.category for warning in caught] == [LeftWarning]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        winograd.compile(text, remarks=True)
    assert capfd.readouterr().err.count("convolution(s) left to IREE") == 1


def test_layers_that_are_taken_or_excluded_are_none_of_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        winograd.compile(program())
        winograd.compile(program(batch="?"))
        winograd.compile(program("f16"))
        winograd.compile(program(rows="?"), deny=["0-1"])
        winograd.compile(program(rows="?"), enable_winograd=False)


def test_halves_are_no_cliff_on_gpus() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        winograd.compile(program("f16"), target="vulkan")


@pytest.mark.parametrize("command", ["iree-compile", "iree-winograd compile"])
def test_commands_warn_once(command: str, tmp_path: Path) -> None:
    (tmp_path / "program.mlir").write_text(program(rows="?"))
    tool, *subcommand = command.split()
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    enabling = [] if subcommand else ["--iree-enable-winograd"]
    outcome = subprocess.run(
        [
            Path(sys.executable).with_name(tool),
            *subcommand,
            "program.mlir",
            *flags,
            *enabling,
            "-o",
            "p.vmfb",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stderr.count("2 of 2 convolution(s) left to IREE") == 1
    assert ": warning: 2 of 2" in outcome.stderr
    assert "compile a program for each size" in outcome.stderr
