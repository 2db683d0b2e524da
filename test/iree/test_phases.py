"""IREE's compilation, phase by phase: names, going on from one, and what programs say of targets."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from iree.compiler import api
from iree.winograd.compiling import embedding
from iree.winograd.compiling.phases import PHASES
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import walk
from stock import StockCompilation, called, text_after

# It changes with the version of IREE, not with what is here.
pytestmark = pytest.mark.wide

SQUARE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = arith.mulf %x, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


def test_phases_have_these_names_and_this_order() -> None:
    command = [embedding.stock_tool("iree-compile"), "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (values,) = re.findall(r"--compile-to=<value>.*\n((?: {2,}=.*\n)+)", text)
    assert tuple(re.findall(r"=([\w-]+) ", values)) == PHASES


def test_a_program_goes_on_from_each_phase() -> None:
    """As text, and so as what it says itself: nothing about it is kept elsewhere."""
    compilation = StockCompilation(SQUARE)
    for phase in PHASES[1 : PHASES.index("vm")]:
        compilation.run_to(phase).edit(lambda text: text)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(called(compilation.run_to("end").binary(), x)[0], x * x)


def test_a_module_of_the_bindings_goes_on_where_it_was_taken_out() -> None:
    """And what was changed of it meanwhile is what is compiled."""
    session = api.Session()
    session.set_flags("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    invocation = api.Invocation(session)
    assert invocation.parse_source(api.Source.wrap_buffer(session, SQUARE.encode() + b"\0"))
    embedding.set_phases(invocation, "start", "preprocessing")
    assert invocation.execute()
    module = invocation.export_module()
    (product,) = (each for each in walk(module) if each.name == "arith.mulf")
    with ir.InsertionPoint(product), product.location:
        double = ir.Operation.create("arith.addf", [product.results[0].type], list(product.operands))
    product.results[0].replace_all_uses_with(double.results[0])
    product.erase()
    invocation.import_module(module)
    embedding.set_phases(invocation, "preprocessing", "end")
    assert invocation.execute()
    output = api.Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(called(bytes(output.map_memory()), x)[0], 2 * x)
    embedding.close_invocation(invocation)
    embedding.close_session(session)


def test_diagnostics_come_with_their_severity_and_place() -> None:
    session = api.Session()
    invocation = api.Invocation(session)
    found: list[Diagnostic] = []
    embedding.report_diagnostics(invocation, found.append)
    source = SQUARE.replace("%x, %x", "%x, %y").encode()
    assert not invocation.parse_source(api.Source.wrap_buffer(session, source + b"\0"))
    (error,) = found
    assert (error.severity, error.message) == ("error", "use of undeclared SSA value name")
    assert error.position is not None and error.position.line == 3
    embedding.close_invocation(invocation)
    embedding.close_session(session)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cpu:haswell", ['"llvm-cpu", "embedded-elf-x86_64"', "+avx2", "+fma"]),
        ("vulkan", ['"vulkan-spirv", "vulkan-spirv-fb"', "max_thread_count_per_workgroup = 128"]),
        ("vulkan:ampere", ["<NV_WMMA_F32_16x16x16_F16>", "subgroup_size_choices = [32]"]),
        ("vulkan:rdna3", ["<WMMAR3_F32_16x16x16_F16>", "subgroup_size_choices = [32, 64]"]),
        (
            "cuda:sm_80",
            ['"cuda", "cuda-nvptx-fb"', 'arch = "sm_80"', "max_workgroup_memory_bytes = 166912"],
        ),
        ("cuda:sm_90a", ['arch = "sm_90a"', "max_workgroup_counts = [2147483647, 65535, 65535]"]),
        ("hip:gfx942", ['"rocm", "rocm-hsaco-fb"', "<MFMA_F32_16x16x16_F16>", "choices = [64]"]),
        ("hip:gfx1100", ["<WMMAR3_F32_16x16x16_F16>", "subgroup_size_choices = [32, 64]"]),
    ],
)
def test_devices_are_globals_whose_text_names_targets(target: str, said: list[str]) -> None:
    text = StockCompilation(SQUARE, target).run_to("preprocessing").text(generic=True)
    (device,) = re.findall(r"^#device_target\w* = #hal\.device\.target<.*$", text, re.MULTILINE)
    named = re.findall(r"#(executable_target\w*)", device)
    described = device + "".join(
        line for line in text.splitlines() if any(line.startswith(f"#{name} = ") for name in named)
    )
    assert re.search(r'"util\.global"\(\) <\{.*initial_value = #device_target.*type = !hal\.device', text)
    assert [each for each in said if each not in described] == []


def test_the_signature_of_a_function_is_in_its_reflection() -> None:
    assert (
        'iree.abi.declaration = "sync func @main(%input0: tensor<4xf32>) -> (%output0: tensor<4xf32>)"'
    ) in text_after("abi", SQUARE)
