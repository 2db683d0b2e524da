"""Executables of a program's own: IREE compiles them as they are, and hands over memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
from stock import StockCompilation, called, compiled, kernel, text_after, workers

# It changes with the version of IREE, not with what is here.
pytestmark = pytest.mark.wide

X = np.arange(64, dtype=np.float32)
ONTO = """
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %r = flow.dispatch @k::@k(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return %r : tensor<64xf32>
}
"""
SPANS = """
  %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<64xf32>
  %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<64xf32>
"""
BINDINGS = "%a: !stream.binding, %b: !stream.binding"


def test_a_kernel_that_names_its_passes_stays_as_it_is_until_it_is_translated() -> None:
    body = """
      %v = vector.load %x[%c0] : memref<64xf32>, vector<16xf32>
      %s = vector.fma %v, %v, %v : vector<16xf32>
      vector.store %s, %y[%c0] : memref<64xf32>, vector<16xf32>
    """
    program = kernel("k", BINDINGS, SPANS + body) + ONTO
    compilation = StockCompilation(program).run_to("executable-configurations")
    text = compilation.text()
    assert (
        '#iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"canonicalize,cse">>' in text
    )
    function = text[text.index("func.func @k") : text.index("iree_codegen.dispatch_config")]
    operations = re.findall(r"(?:^|= )(vector\.\w+|hal\.[\w.]+|arith\.\w+)", function, re.MULTILINE)
    assert [each for each in operations if not each.startswith("arith.")] == [
        "hal.interface.binding.subspan",
        "hal.interface.binding.subspan",
        "vector.load",
        "vector.fma",
    ]
    (result,) = called(compilation.run_to("end").binary(), X)
    np.testing.assert_array_equal(result[:16], X[:16] * X[:16] + X[:16])


def test_a_workload_gives_the_grid_of_a_dispatch() -> None:
    program = (
        kernel(
            "k",
            "%a: !stream.binding, %n: index, %b: !stream.binding",
            """
              %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<?xf32>{%n}
              %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<?xf32>{%n}
              %w = stream.dispatch.workgroup.id[0] : index
              %v = memref.load %x[%w] : memref<?xf32>
              %s = arith.addf %v, %v : f32
              memref.store %s, %y[%w] : memref<?xf32>
            """,
            grid="%n",
            workload="%n: index",
        )
        + """
          func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
            %c0 = arith.constant 0 : index
            %n = tensor.dim %x, %c0 : tensor<?xf32>
            %r = flow.dispatch @k::@k[%n](%x, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
            return %r : tensor<?xf32>
          }
        """
    )
    vmfb = compiled(program)
    for size in (1, 37):
        np.testing.assert_array_equal(called(vmfb, X[:size])[0], 2 * X[:size])


def test_sums_are_not_reordered() -> None:
    """Sums of split numbers lose what they keep if `(a + b) - a` becomes `b`.

    A product and a sum may be rounded once, though, as `fma` does.
    """
    body = """
      %large = arith.constant dense<16777216.0> : vector<64xf32>
      %v = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
      %sum = arith.addf %v, %large : vector<64xf32>
      %rounded = arith.subf %sum, %large : vector<64xf32>
      vector.store %rounded, %y[%c0] : memref<64xf32>, vector<64xf32>
    """
    program = kernel("k", BINDINGS, SPANS + body) + ONTO
    assert set(re.findall(r"fastmath<.*?>", text_after("executable-targets", program))) == {
        "fastmath<contract>"
    }
    (result,) = called(compiled(program), X)
    np.testing.assert_array_equal(result, (X + np.float32(2**24)) - np.float32(2**24))
    assert (result != X).any()


def test_numbers_below_the_normal_ones_are_zero_in_kernels_and_not_after_them() -> None:
    """On workers, and while the calling thread runs them."""
    body = """
      %v = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
      %factor = arith.constant dense<1.5> : vector<64xf32>
      %s = arith.mulf %v, %factor : vector<64xf32>
      vector.store %s, %y[%c0] : memref<64xf32>, vector<64xf32>
    """
    program = compiled(kernel("k", BINDINGS, SPANS + body) + ONTO)
    small = np.full(64, 1e-40, np.float32)
    for device in (None, workers(2)):
        assert not called(program, small, device=device)[0].any()
        assert (small * np.float32(1.5)).all()


def test_numbers_are_rounded_to_half_precision_to_the_nearest() -> None:
    body = """
      %v = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
      %h = arith.truncf %v : vector<64xf32> to vector<64xf16>
      %s = arith.extf %h : vector<64xf16> to vector<64xf32>
      vector.store %s, %y[%c0] : memref<64xf32>, vector<64xf32>
    """
    # Halfway between neighbours, small ones below the normal, and the largest.
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    x[:6] = 1 + 2**-11, 1 + 3 * 2**-11, 6e-8, 3e-8, 65504, 65519
    (result,) = called(compiled(kernel("k", BINDINGS, SPANS + body) + ONTO), x)
    np.testing.assert_array_equal(result, x.astype(np.float16).astype(np.float32))


def test_vectors_are_accessed_at_any_multiple_of_an_element() -> None:
    """Though IREE takes buffers to be aligned to 64 bytes: accesses by that end the process elsewhere."""
    body = """
      %m = vector.constant_mask [9] : vector<16xi1>
      %z = arith.constant dense<0.0> : vector<16xf32>
      %v = vector.load %x[%c0] : memref<64xf32>, vector<16xf32>
      %w = vector.maskedload %x[%c0], %m, %z
        : memref<64xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
      %s = arith.addf %v, %w : vector<16xf32>
      vector.store %s, %y[%c0] : memref<64xf32>, vector<16xf32>
      vector.maskedstore %y[%c0], %m, %v : memref<64xf32>, vector<16xi1>, vector<16xf32>
    """
    text = text_after("executable-targets", kernel("k", BINDINGS, SPANS + body) + ONTO, "cpu:cascadelake")
    accesses = [line for line in text.splitlines() if re.search(r"llvm\.(load|store|intr\.masked)", line)]
    alignments = [
        int(found[1])
        for line in accesses
        if "vector<16xf32>" in line and (found := re.search(r"alignment(?: = |\()(\d+)", line))
    ]
    assert alignments == [4, 4, 4, 4]
    assert "llvm.intr.assume" not in text


@pytest.fixture(scope="module")
def scratch() -> bytes:
    """Gives the addresses of a mebibyte of each of 64 workgroups, which they write both ends of."""
    memory = "memref<262144xf32>"
    program = (
        kernel(
            "k",
            BINDINGS,
            f"""
              %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<64xf32>
              %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<64xindex>
              %supplied = memref.alloc() : memref<262144xf32, #iree_codegen.workgroup_local>
              %m = memref.memory_space_cast %supplied
                : memref<262144xf32, #iree_codegen.workgroup_local> to {memory}
              %address = memref.extract_aligned_pointer_as_index %m : {memory} -> index
              %w = stream.dispatch.workgroup.id[0] : index
              %last = arith.constant 262143 : index
              %v = memref.load %x[%w] : memref<64xf32>
              memref.store %v, %m[%c0] : {memory}
              memref.store %v, %m[%last] : {memory}
              memref.store %address, %y[%w] : memref<64xindex>
            """,
            grid=64,
        )
        + """
          func.func @main(%x: tensor<64xf32>) -> tensor<64xi64> {
            %r = flow.dispatch @k::@k(%x) : (tensor<64xf32>) -> tensor<64xi64>
            return %r : tensor<64xi64>
          }
        """
    )
    return compiled(program)


def test_the_calling_thread_has_scratch_memory_at_multiples_of_16(scratch: bytes) -> None:
    (addresses,) = called(scratch, X)
    assert (addresses % 16 == 0).all()


def test_each_worker_has_as_much_scratch_memory_as_a_flag_says(scratch: bytes) -> None:
    (addresses,) = called(scratch, X, device=workers(2, local_memory=2 << 20))
    assert (np.diff(np.unique(addresses)) >= 1 << 20).all()
    with pytest.raises(RuntimeError, match=r"requires 1048576b of local memory but only 65536b"):
        called(scratch, X, device=workers(2, local_memory=1 << 16))


def test_an_attribute_limits_the_registers_of_a_kernel_for_cuda() -> None:
    body = """
      %t = gpu.thread_id x
      %v = memref.load %x[%t] : memref<64xf32>
      memref.store %v, %y[%t] : memref<64xf32>
    """
    program = kernel(
        "k",
        BINDINGS,
        SPANS + body,
        translation=" workgroup_size = [64, 1, 1]",
        attributes="nvvm.minctasm = 4 : i32, ",
    )
    assert b".minnctapersm 4\n" in compiled(program + ONTO, "cuda:sm_80")
