"""What a compiled program says of its functions to whoever calls them; read without the compiler.

Reflection attributes of IREE's of a function.
"""

from __future__ import annotations

DECLARATION_KEY = "iree.abi.declaration"
"""The types of arguments and results, as IREE writes them where it does."""

UNALIGNED_KEY = "winograd.unaligned"
"""The numbers, between spaces, of the arguments that may lie anywhere in memory."""

READ_ONLY_KEY = "winograd.read_only"
"""Those of the arguments that the function doesn't write to."""

STORAGE_KEY = "winograd.storage"
"""Those of the arguments that the program declares as memory for results of its own."""

THREADS_KEY = "winograd.threads"
"""The number of threads that the kernels are for."""

FEATURES_KEY = "winograd.features"
"""The features of the processor that the kernels are for, on CPUs: LLVM's names between spaces."""

ORDER_KEY = "winograd.order"
"""How versions of IREE begin whose runtime keeps the order by which kernels wait for each other; nothing
where they don't."""

ORDERED_VERSIONS = "3.13."
"""How versions of IREE begin whose runtime has workers take the workgroups of kernels in the order of these.
With another order those that wait might keep the workers from those that are waited for, for ever."""

LAYERS_KEY = "winograd.layers"
"""For each kernel, the names of the layers that it computes, in the order of a call: an object in JSON. A
name is empty where the model has none."""

INPUTS_KEY = "winograd.inputs"
OUTPUTS_KEY = "winograd.outputs"
"""What the model calls its arguments and its results: a list of strings in JSON each."""
