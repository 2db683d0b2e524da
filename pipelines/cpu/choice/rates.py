"""Rates of the CPU's kernels, as measured on a core of Zen 5 (docs/explanation/cost-model.md).

They are properties of the kernels rather than of one machine: calibrated, they predict Zen 4 as well.
"""

from __future__ import annotations

PRODUCT_EFFICIENCY = 0.9
"""The part of the peak rate that register-blocked products reach."""
TILE_PRODUCT_EFFICIENCY = 0.96
"""The part of the rate of register blocks, fetching ahead included, that products of tiles reach."""
ACCUMULATE_CYCLES = 3.8
"""Of adding one vector of sums to those of the reduction block before, in memory."""
TOTAL_CYCLES = 0.5
"""The same of a total in a register: an addition, beside the multiply-adds of the next block."""
INPUT_OPERATION_CYCLES = 1.3
OUTPUT_OPERATION_CYCLES = 0.6
"""Of one operation of a transform: outputs are fetched ahead, inputs partly waited for."""
ELEMENT_CYCLES = 1.0
OUTPUT_ELEMENT_CYCLES = 2.0
"""Of reading or writing one vector in a transform: tiles overlap, their elements lie apart."""
MEMORY_FILTERS = 0.9
"""The part of memory's bandwidth, as long runs reach it, that the reading of filters does."""
CACHED_FILTERS = 0.54
"""The same of a cache's bandwidth."""
SHARED_TILES = 0.5
"""The same of tiles that other threads have transformed, once for each part of the channels."""
CACHED_TILES = 0.3
"""The same of those of a weight gradient: a few lines of each, which products then wait for."""
MEMORY_TILES = 0.4
"""That of memory's bandwidth, for such lines that are read, and for those of transforms that are written."""
FIRST_CACHE_FILTERS = 0.5
"""The part of the first cache that keeps a panel of filters, beside pixels and outputs."""
FETCHED_LINES = 4
"""Cache lines beside filters that the direct kernel fetches for each channel of a register block: outputs,
the next pixels and the next filters, and loads that wait for these."""
PIXEL_CYCLES = 0.03
VECTOR_CYCLES = 0.25
"""For each pixel, and each vector of filters, of a channel of a register block, beside what its multiply-adds
or its loads take."""
DEPTHWISE_PRODUCTS = 0.7
"""The part of the peak rate that gradients of depthwise filters reach: pixels share few sets of L1."""
CHANNEL_VECTORS = 0.5
"""That of a bandwidth, of images that are read one vector of channels after the other, and fetched ahead."""
CHANNEL_PARTS = 0.25
"""The same of images of which a thread reads a part of the channels, which aren't fetched ahead."""
NEAR_IMAGES_L2_CACHES = 8
"""Times the L2 cache: images of a batch, and what is made of them, that are still near when they are read."""
UNIT_NEAR_IMAGES_L2_CACHES = 2
"""The same of what matrix units multiply in half precision: faster than the last cache of a server reads."""
FAR_BYTE_SECONDS = 5e-11
"""Of a convolution whose images lie farther away, for each byte that it reads or writes: what a depthwise one
takes longer on a core of Zen 4, where others take 2e-11 to 5e-11."""
UNHIDDEN_FRACTION = 0.36
"""The part of reading filters, or of the multiplying meanwhile if shorter, that doesn't overlap."""
SCATTERED_BYTES_PER_CYCLE = 25.0
"""Of outputs that exceed the second cache: what writing them takes longer where each pass over the pixels
writes a part of their channels, than all lines side by side in one pass."""
STORE_CYCLES = 2.9
"""Of the epilogue and the store of one vector of outputs."""
FINISHED_VECTOR_CYCLES = 0.6
FINISHED_SUM_CYCLES = 0.055
LONE_VECTOR_CYCLES = 0.8
"""The same of outputs of bf16 on vectors of its pairs, on Zen 4: of a vector, for each vector of sums of its
register block, and of one that no neighbour is rounded with."""
TAP_ROW_CYCLES = 8.5
"""Of starting the loop over one row of taps."""
STAGED_BYTES_PER_CYCLE = 18.0
SPLIT_PIXEL_CYCLES = 33.0
"""Of splitting 32 channels of an element of an image, which come from L2 or further, for a matrix unit."""
COPIED_PIXEL_CYCLES = 12.0
"""The same of copying them as bf16, or as two parts of it each, those of f16."""
SPLIT_FILTER_CYCLES = 9.0
"""The same of filters that were fetched ahead."""
TILE_ROW_CYCLES = 1.3
"""Of loading a row of a tile from L2 or L1, as far as the unit doesn't multiply meanwhile."""
TILE_EFFICIENCY = 0.36
"""The part of a matrix unit's peak rate, a row of a tile each cycle, that its kernel reaches in networks on
Emerald Rapids, whose threads share cores with others': with zeros it would reach nearly all of it."""
F16_TILE_EFFICIENCY = 0.5
"""The same of numbers of f16, for which a loaded tile is multiplied more often than for those of bf16."""
GRANITE_TILE_EFFICIENCY = 0.52
"""The same on a core of Granite Rapids."""
HIDDEN_OUTPUT = 0.4
"""The part of making outputs that hides behind the products of the next register block of tiles."""
PERMISSION_SECONDS = 2e-7
"""Of asking for a matrix unit and telling it the shapes of tiles."""
SHUFFLE_CYCLES = 1.5
"""Of a shuffle by which images are transposed, reading and writing included: 1.3 on Zen 4."""
SHARED_LINE_SECONDS = 3e-8
"""Of a cache line where what a thread writes of a channel ends and another one goes on, for each of them: it
moves from core to core, as do those behind that hardware fetches ahead."""
STRAGGLING_PER_DOUBLING = 0.17
"""Of a workgroup's time, by which the last thread is done after the others: for each doubling of threads."""
