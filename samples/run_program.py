"""Run a compiled program on random inputs; a size that it leaves open is 1, or as asked for.

python samples/run_program.py program.vmfb --device local-task --threads 4 --size 8
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd import WinogradError, load
from iree.winograd.loading.signatures import TensorSignature


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", help="a .vmfb")
    parser.add_argument("--device", default="local-task", help="a device of IREE's runtime")
    parser.add_argument("--threads", type=int, help="workers of local-task")
    parser.add_argument("--function", help="the function to call, if there are several")
    parser.add_argument("--size", type=int, default=1, help="for the sizes that the program leaves open")
    options = parser.parse_args()
    try:
        program = load(options.program, options.device, threads=options.threads)
        function = getattr(program, options.function or program.functions[0])
        if function.signature is None:
            print(f"error: {options.program} doesn't tell what {function.name} takes", file=sys.stderr)
            return 1
        arguments = [random_array(signature, options.size) for signature in function.signature.inputs]
        results = function(*arguments)
    except (WinogradError, AttributeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for result in results if isinstance(results, tuple) else (results,):
        print(f"{result.dtype}{list(result.shape)}: {result.min():.6g} to {result.max():.6g}")
    samples = []
    for _ in range(20):
        begin = time.perf_counter()
        function(*arguments)
        samples.append(1e3 * (time.perf_counter() - begin))
    print(f"{statistics.median(samples):.3f} ms a call")
    return 0


def random_array(signature: TensorSignature, size: int) -> npt.NDArray[Any]:
    """Normal values for a tensor of 32-bit floats, the only kind that this sample makes."""
    shape = [size if extent is None else extent for extent in signature.shape]
    return np.random.default_rng(0).standard_normal(shape, np.float32)


if __name__ == "__main__":
    sys.exit(main())
