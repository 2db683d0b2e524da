"""Times the 3 x 3 layers of ResNet and VGG-16 against the other tools, side by side.

    python -m benchmarks.layers --network resnet --batch 1 8 --threads 1

The speed-up is our median against the smallest median of torch (eager and fused, both layouts), ONNX Runtime
and OpenVINO. oneDNN on buffers in its own blocked layout, which no program has for free, doesn't count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.compiled import COMPILERS, compiled_peer
from benchmarks.convolutions import (
    ConvolutionLayer,
    Operands,
    reference,
    relative_error,
    resnet_layers,
    vgg_layers,
)
from benchmarks.limits import LimitProbes
from benchmarks.peers import Peer, onnxruntime_peer, openvino_peers, torch_peers
from benchmarks.programs import LAYOUTS, convolution_program
from benchmarks.timing import Contender, time_interleaved

NETWORKS = {"resnet": resnet_layers, "vgg": vgg_layers}
PEERS = ("torch", "onnxruntime", "openvino")


def main() -> None:
    options = _parse_arguments()
    # Read by OpenMP when torch is loaded, hence before any peer is.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    probes = LimitProbes(options.threads)
    records = []
    for layer in _layers(options):
        records.append(_measure(layer, options, probes))
        _print(records[-1])
    if options.output is not None:
        report = {
            "machine": platform.processor() or platform.machine(),
            "threads": options.threads,
            "layers": records,
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--layer", help="only layers whose name contains this, e.g. '56x56 64->64'")
    parser.add_argument("--layout", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compilers", nargs="*", choices=COMPILERS, default=list(COMPILERS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--burst", type=float, default=0.05, help="seconds of a contender's turn in a round")
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/layers.json")
    return parser.parse_args()


def _layers(options: argparse.Namespace) -> list[ConvolutionLayer]:
    layers = [layer for batch in options.batch for name in options.network for layer in NETWORKS[name](batch)]
    return [layer for layer in layers if options.layer is None or options.layer in layer.name]


def _measure(layer: ConvolutionLayer, options: argparse.Namespace, probes: LimitProbes) -> dict[str, Any]:
    operands = layer.random_operands()
    exact = reference(operands)
    peers = [*_compiled(layer, operands, options), *_peers(layer, operands, options)]
    errors = {peer.name: relative_error(peer.output()[0], exact) for peer in peers}
    timings = time_interleaved(
        [*(Contender(peer.name, peer.run) for peer in peers), *probes.contenders],
        rounds=options.rounds,
        burst_seconds=options.burst,
    )
    limits = probes.limits(timings)
    return {
        "layer": layer.name,
        **asdict(layer),
        "limits": asdict(limits),
        "contenders": {
            peer.name: {
                "milliseconds": 1e3 * timings[peer.name].median,
                "spread": timings[peer.name].spread,
                "gflops": layer.flops / timings[peer.name].median / 1e9,
                "fraction_of_limit": limits.seconds(layer) / timings[peer.name].median,
                "error": errors[peer.name],
            }
            for peer in peers
        },
        "speedups": speedups(timings, [peer.name for peer in peers if not peer.steady_state]),
    }


def speedups(timings: dict[str, Timing], names: list[str]) -> dict[str, float]:
    """How many times faster each of our contenders is than the best that is neither ours nor plain IREE."""
    ours = [name for name in names if name.startswith("ours")]
    others = [name for name in names if not name.startswith(("ours", "iree"))]
    if not others:
        return {}
    best = min(timings[name].median for name in others)
    return {name: best / timings[name].median for name in ours}


def _compiled(layer: ConvolutionLayer, operands: Operands, options: argparse.Namespace) -> list[Peer]:
    peers = []
    for layout in options.layout:
        image = operands.image if layout == "nhwc" else operands.image_nchw
        program = convolution_program(layer, operands, layout)
        for name in options.compilers:
            vmfb = COMPILERS[name](program, options.threads)
            peers.append(compiled_peer(name, vmfb, image, layout, options.threads))
    return peers


def _peers(layer: ConvolutionLayer, operands: Operands, options: argparse.Namespace) -> list[Peer]:
    peers = []
    if "torch" in options.peers:
        peers += torch_peers(layer, operands, options.threads)
    if "onnxruntime" in options.peers:
        peers.append(onnxruntime_peer(layer, operands, options.threads))
    if "openvino" in options.peers:
        peers += openvino_peers(layer, operands, options.threads)
    return peers


def _print(record: dict[str, Any]) -> None:
    limits = record["limits"]
    print(f"\n{record['layer']}  ({limits['flops'] / 1e9:.0f} GFLOP/s, {limits['bandwidth'] / 1e9:.0f} GB/s)")
    for name, values in sorted(record["contenders"].items(), key=lambda item: item[1]["milliseconds"]):
        speedup = record["speedups"].get(name)
        print(
            f"  {name:18} {values['milliseconds']:9.3f} ms  +-{50 * values['spread']:4.1f}%"
            f"  {values['gflops']:7.1f} GFLOP/s  {100 * values['fraction_of_limit']:5.0f}% of direct limit"
            f"  error {values['error']:.1e}" + ("" if speedup is None else f"  speed-up {speedup:.2f}")
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
