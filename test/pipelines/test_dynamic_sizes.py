"""Sizes beside the batch that a kernel is told at run time: the signature of a dispatch says which."""

from __future__ import annotations

import iree.winograd as winograd
import numpy as np
import pytest
from iree.winograd.calibration.programs import compile_module
from iree.winograd.dialect.bindings import func, ir, tensor
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.pipelines.cpu.lowering import translation
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.dispatch import KernelFunction, emit_dispatch, emit_executable
from iree.winograd.pipelines.emission.signature import DispatchSignature, DispatchTensor, stated_batch
from iree.winograd.pipelines.emission.work import BATCH, Size

HEIGHT, WIDTH = Size("input", 0), Size("input", 1)
CHANNELS = 4
DYNAMIC = ir.ShapedType.get_dynamic_size()


def images(*sizes: int) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([*sizes, CHANNELS], ir.F32Type.get())


def signature(height: int | None) -> DispatchSignature:
    """That of a kernel which exchanges rows and columns."""
    rows, name = (DYNAMIC, (HEIGHT,)) if height is None else (height, ())
    return DispatchSignature(
        (DispatchTensor(images(DYNAMIC, rows, DYNAMIC), (BATCH, *name, WIDTH)),),
        DispatchTensor(images(DYNAMIC, DYNAMIC, rows), (BATCH, WIDTH, *name)),
        (*stated_batch(None), (HEIGHT, height), (WIDTH, None)),
    )


def exchange(function: KernelFunction[Buffer]) -> None:
    source, result = function.buffers
    sizes = function.work.sizes
    number, row = function.work.workgroup[0] // sizes[HEIGHT], function.work.workgroup[0] % sizes[HEIGHT]
    with loop(sizes[WIDTH]) as column:
        value = source.load(source.offset([number, row, column, 0]), CHANNELS)
        result.store(value, result.offset([number, column, row, 0]))


def exchanging_program(height: int | None) -> bytes:
    with ir.Context(), ir.Location.unknown():
        module, told = ir.Module.create(), signature(height)
        with ir.InsertionPoint(module.body):
            emit_executable(
                module.operation,
                "exchange",
                told,
                translation(),
                lambda sizes: (sizes.batch * sizes[HEIGHT],),
                exchange,
                told.bindings(),
            )
            function = func.FuncOp("exchanged", ([told.operands[0].type], [told.result.type]))
            with ir.InsertionPoint(function.add_entry_block()):
                (image,) = function.arguments
                position = {BATCH: 0, HEIGHT: 1, WIDTH: 2}
                sizes = [tensor.dim(image, index_constant(position[each])) for each in told.dynamic_sizes]
                func.ReturnOp([emit_dispatch("exchange", told, [image], sizes)])
        return compile_module(module, "cpu")


@pytest.mark.parametrize("height", [None, 5])
def test_a_kernel_is_told_its_sizes_at_run_time(height, tmp_path):
    path = tmp_path / "exchange.vmfb"
    path.write_bytes(exchanging_program(height))
    program = winograd.load(path)
    for batch, rows, columns in ((1, 5, 3), (2, height or 4, 7), (3, height or 1, 1)):
        image = np.arange(batch * rows * columns * CHANNELS, dtype=np.float32)
        image = image.reshape(batch, rows, columns, CHANNELS)
        np.testing.assert_array_equal(program.exchanged(image), image.transpose(0, 2, 1, 3))


def test_known_sizes_are_numbers_in_a_kernel():
    """What a kernel computes of a size that is known takes no operation."""
    with ir.Context(), ir.Location.unknown():
        told = signature(5)
        block = ir.Module.create().body
        with ir.InsertionPoint(block):
            assert told.dynamic_sizes == [BATCH, WIDTH]
            sizes = told.kernel_sizes([index_constant(2), index_constant(3)])
        assert sizes[HEIGHT].known == 5
        assert sizes[WIDTH].known is None


def test_a_dynamic_dimension_needs_a_size():
    with ir.Context(), ir.Location.unknown():
        with pytest.raises(ValueError, match="other dynamic dimensions"):
            DispatchTensor(images(DYNAMIC, 4, DYNAMIC), (BATCH,))
        with pytest.raises(ValueError, match="other dynamic dimensions"):
            DispatchTensor.of(images(4, DYNAMIC))
