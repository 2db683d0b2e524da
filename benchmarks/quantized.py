"""Times quantised networks beside the same in f32, both of ours, on one thread, in processor time.

    python -m benchmarks.quantized --network mobilenetv2 resnet18 --form qdq pt2e

`qdq` is an ONNX file by `onnxruntime.quantization`, `pt2e` what torch exported and `torchao` converted for
x86 (`pip install --no-deps torchao`): bytes of images, and of filters with a scale for each output. Calls go
in turns, so that other load on the machine hits both alike. Differences are from the tool that quantised the
network, which rounds at the same places: relative, of all outputs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.isolation import answer_task, run_isolated
from benchmarks.results_file import ResultsFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

FORMS = ("qdq", "pt2e")
_IMAGES = 4
"""That activations' scales are of."""


def main() -> None:
    if answer_task(lambda task: _measure(**task)):
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", default=["mobilenetv2", "resnet18"])
    parser.add_argument("--form", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, help="a JSON file, continued where it ended")
    options = parser.parse_args()
    results = ResultsFile(options.output, "networks")
    for network in options.network:
        for form in options.form:
            if form in results.rows.get(network, {}):
                continue
            task = {"network": network, "form": form, "rounds": options.rounds}
            outcome = run_isolated("benchmarks.quantized", task)
            figures = {"failure": outcome.failure} if outcome.failure else outcome.messages[-1]
            results.add(network, {**results.rows.get(network, {}), form: figures})
            print(f"{network:12} {form:5}{_line(figures)}", flush=True)


def _line(figures: dict[str, Any]) -> str:
    if "failure" in figures:
        return f" failed: {figures['failure']}"
    return (
        f"{1e3 * figures['quantized']:8.2f} ms, f32 {1e3 * figures['f32']:.2f}: {figures['ratio']:.2f}"
        f", difference {figures['difference']:.1e}, {figures['dispatches']} dispatches of {figures['layers']}"
    )


def _measure(network: str, form: str, rounds: int) -> dict[str, Any]:
    import iree.winograd
    import torch

    from benchmarks.networks.catalog import NETWORKS
    from benchmarks.timing import Contender, time_interleaved

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    model = NETWORKS[network].calibrated()
    images = [NETWORKS[network].input(1) for _ in range(_IMAGES)]
    imported, expected = (_qdq if form == "qdq" else _pt2e)(model, images)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        quantized = iree.winograd.compile(imported, threads=1, report=report)
        stated = json.loads(report.read_text())
    plain = iree.winograd.compile(iree.winograd.import_torch(model, images[0]), threads=1)
    programs = {
        name: iree.winograd.load(compiled, threads=1)
        for name, compiled in (("quantized", quantized), ("f32", plain))
    }
    contenders = [Contender(name, _call(program, images[0])) for name, program in programs.items()]
    timings = time_interleaved(contenders, rounds=rounds, burst_seconds=0.1, clock=time.process_time)
    result = torch.as_tensor(programs["quantized"](images[0])).double().numpy()
    seconds = {name: timing.median for name, timing in timings.items()}
    return {
        **seconds,
        "ratio": seconds["quantized"] / seconds["f32"],
        "difference": _relative(result, expected),
        "dispatches": len(stated["dispatches"]),
        "layers": len(stated["layers"]),
    }


def _call(program: Any, image: torch.Tensor) -> Callable[[], Any]:
    return lambda: program(image)


def _relative(result: npt.NDArray[np.float64], expected: npt.NDArray[Any]) -> float:
    import numpy as np

    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))


def _qdq(model: torch.nn.Module, images: list[torch.Tensor]) -> tuple[Any, npt.NDArray[Any]]:
    """The network as an ONNX file between bytes, and what ONNX Runtime makes of the first image by it."""
    import iree.winograd
    import onnxruntime
    import torch
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left: Iterator[torch.Tensor] = iter(images)

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._left, None)
            return None if image is None else {"images": image.numpy()}

    with tempfile.TemporaryDirectory() as folder:
        path, quantized = Path(folder, "model.onnx"), Path(folder, "quantized.onnx")
        torch.onnx.export(
            model, (images[0],), path, input_names=["images"], external_data=False, verbose=False
        )
        quantization.quantize_static(
            path, quantized, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True
        )
        options = onnxruntime.SessionOptions()
        # As it is written, not as it is fused.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(quantized, options)
        (expected,) = session.run(None, {"images": images[0].numpy()})
        return iree.winograd.import_onnx(quantized), expected


def _pt2e(model: torch.nn.Module, images: list[torch.Tensor]) -> tuple[Any, npt.NDArray[Any]]:
    """The network as torch exports it, between bytes, and what torch makes of the first image by it."""
    import iree.winograd
    import torch
    from torchao.quantization.pt2e import quantize_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer

    exported = torch.export.export(model, (images[0],)).module()
    quantizer = x86_inductor_quantizer.X86InductorQuantizer()
    quantizer.set_global(x86_inductor_quantizer.get_default_x86_inductor_quantization_config())
    prepared = quantize_pt2e.prepare_pt2e(exported, quantizer)
    for image in images:
        prepared(image)
    converted = quantize_pt2e.convert_pt2e(prepared)
    return iree.winograd.import_torch(converted, images[0]), converted(images[0]).numpy()


if __name__ == "__main__":
    main()
