"""A JAX function, exported as StableHLO, compiled and run: convolutions of any form that JAX has.

python samples/jax_function.py        # needs `pip install jax`
"""

from __future__ import annotations

import jax
import numpy as np
from iree.winograd import compile, load
from jax import lax

LAYOUT = ("NHWC", "HWIO", "NHWC")


def main() -> None:
    generator = np.random.default_rng(0)
    filters = generator.standard_normal((3, 3, 16, 32), np.float32) / 12
    upsampling = generator.standard_normal((4, 4, 32, 8), np.float32) / 23

    def network(image: jax.Array) -> jax.Array:
        features = lax.conv_general_dilated(image, filters, (2, 2), "SAME", dimension_numbers=LAYOUT)
        return lax.conv_transpose(jax.nn.relu(features), upsampling, (2, 2), "SAME", dimension_numbers=LAYOUT)

    image = generator.standard_normal((1, 32, 32, 16), np.float32)
    # Weights are constants of the function, so their transforms are computed by the compiler.
    exported = jax.export.export(jax.jit(network))(image)
    program = load(compile(exported.mlir_module(), remarks=True, strict=True))
    expected = np.asarray(network(image))
    error = np.abs(program(image) - expected).max() / np.abs(expected).max()
    print(f"{exported.in_avals[0]} to {exported.out_avals[0]}: largest difference from JAX {error:.1e}")


if __name__ == "__main__":
    main()
