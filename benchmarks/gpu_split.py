"""Products on matrix units of a GPU of NVIDIA, of split and of rounded numbers: are they right, and how fast.

    python -m benchmarks.gpu_split build build/gpu-split            (where the compiler is)
    python -m benchmarks.gpu_split run build/gpu-split --output build/gpu-split.json               (the GPU)

First convolutions of many kinds are compared with float64, also with images whose scale is that of very large
or very small numbers. Then layers of ResNets are timed side by side: ours as chosen, as chosen for sm_80 and
without matrix units, and as chosen where errors of 1e-3 are admitted; cuDNN in fp32 and in TF32, which are
timed as `benchmarks.gpu` does. Errors are relative to float64 in the 1-norm, of one such layer. What is
chosen is also timed with matrix units adding up all products, and in blocks of `--summed-blocks`. At last the
batched products of F(4x4, 3x3) are timed apart, beside cuBLAS' in fp32 and in TF32. Running needs the runtime
and torch, not the compiler.
"""

from __future__ import annotations

from functools import partial

from benchmarks.build_and_run import build_and_run_parser
from benchmarks.gpu_split_cases import LAYERS
from benchmarks.gpu_split_programs import build, variants_of
from benchmarks.gpu_split_run import run


def main() -> None:
    parser = build_and_run_parser(__doc__, rounds=9)
    parser.add_argument("--batches", nargs="+", type=int, help="only layers with one of these batch sizes")
    parser.add_argument("--promising", type=int, default=0, help="so many schedules of each kind, too")
    parser.add_argument(
        "--summed-blocks",
        nargs="*",
        type=int,
        default=[],
        help="of large products, beside those that are chosen",
    )
    parser.add_argument("--limits", nargs="*", type=float, default=[], help="of errors, a variant for each")
    parser.add_argument("--variants", nargs="+", help="only those whose names begin so")
    parser.add_argument("--processes", type=int, default=1, help="that compile at the same time")
    options = parser.parse_args()
    if options.action == "build":
        layers = [layer for layer in LAYERS if options.batches is None or layer.batch in options.batches]
        variants = partial(
            variants_of,
            promising=options.promising,
            summed_blocks=options.summed_blocks,
            limits=options.limits,
        )
        build(options.folder, layers, variants, options.variants, options.processes)
    else:
        run(options.folder, options.output, options.rounds)


if __name__ == "__main__":
    main()
