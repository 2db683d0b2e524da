"""What launching a dispatch and waiting for it costs, on so many threads, before any work is done."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from iree.winograd.calibration.programs import compile_module
from iree.winograd.dialect.bindings import func, ir
from iree.winograd.loading.runtime import load
from iree.winograd.pipelines.cpu.lowering import translation
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.dispatch import KernelFunction, emit_dispatch, emit_executable
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.signature import DispatchSignature

from benchmarks.timing import Contender, time_interleaved

_LANES = 16
_CHAINS = {"short": 1, "long": 257}


def compile_empty_dispatches(threads: int) -> bytes:
    """The program that `empty_dispatch_seconds` measures."""
    return compile_module(_chains(threads), "cpu")


def empty_dispatch_seconds(path: Path, threads: int) -> float:
    """From the end of a dispatch of a workgroup per thread to that of the next, on workers awake from it.

    The file has the program.
    """
    program = load(path, threads=threads)
    rows = np.ones((threads, _LANES), np.float32)
    timings = time_interleaved(
        [Contender(name, partial(getattr(program, name), rows)) for name in _CHAINS], burst_seconds=0.05
    )
    longer = timings["long"].median - timings["short"].median
    return longer / (_CHAINS["long"] - _CHAINS["short"])


def _chains(threads: int) -> ir.Module:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        rows = ir.RankedTensorType.get([threads, _LANES], ir.F32Type.get())
        signature = DispatchSignature.of([rows], rows)

        def copy_row(function: KernelFunction[Buffer]) -> None:
            source, result = function.buffers
            offset = function.work.workgroup[0] * _LANES
            result.store(source.load(offset, _LANES), offset)

        with ir.InsertionPoint(module.body):
            emit_executable(
                module.operation,
                "copy_row",
                signature,
                translation(),
                lambda _: (Index(threads),),
                copy_row,
                signature.bindings(),
            )
            for name, length in _CHAINS.items():
                function = func.FuncOp(name, ([rows], [rows]))
                with ir.InsertionPoint(function.add_entry_block()):
                    (value,) = function.arguments
                    for _ in range(length):
                        value = emit_dispatch("copy_row", signature, [value])
                    func.ReturnOp([value])
        return module
