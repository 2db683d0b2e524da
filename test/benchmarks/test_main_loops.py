"""Main loops are found in assembly of both instruction sets."""

from __future__ import annotations

import re

import pytest

from benchmarks.main_loops import LAYERS, Layer, assembly, count_sums, product_loops

AARCH64 = """
kernel:
.LBB0_1:
\t.loc\t1 2 1
.LBB0_2:                                // %loop
\tldr\ts15, [x22]
\tprfm\tpstl1keep, [x24, x23]
\tfmla\tv12.4s, v14.4s, v15.s[0]
\tfmla\tv11.4s, v13.4s, v15.s[0]
\tstr\tq11, [sp, #16]
\tb.ne\t.LBB0_2
\tb.ne\t.LBB0_1
.LBB0_3:
\tfmla\tv12.4s, v14.4s, v15.4s
\tfmla\tv11.4s, v13.4s, v15.4s
\tfmla\tv10.4s, v13.4s, v15.4s
\tstr\tq12, [x9, #640]
\tcbnz\tx3, .LBB0_3
"""
X86 = """
.LBB0_1:
\tvmovups\t(%rdx), %zmm1
\tvfmadd231ps\t(%rsi){1to16}, %zmm1, %zmm2    # zmm2 = (zmm1 * mem) + zmm2
\tjne\t.LBB0_1
.LBB0_2:
\tvfmadd231ps\t%zmm1, %zmm1, %zmm2
\tvfmadd213ps\t%zmm1, %zmm1, %zmm3
\tvmovups\t%zmm2, 64(%rdx)
\tjne\t.LBB0_2
"""


def test_counts_products_and_no_transforms() -> None:
    """What a loop stores on the stack is spilled, not made."""
    assert [(len(body), count_sums(body)) for body in product_loops(AARCH64)] == [(6, 2), (5, 0)]
    assert [(len(body), count_sums(body)) for body in product_loops(X86)] == [(3, 1), (4, 0)]


@pytest.mark.wide
@pytest.mark.parametrize("layer", [LAYERS[1], LAYERS[6]], ids=str)
def test_blocks_of_sums_that_leave_room_multiply_by_lanes(layer: Layer) -> None:
    """A load for each element would keep them waiting: there are four elements in one of NEON's registers."""
    loops = (loop for text in assembly(layer, "apple-m1") for loop in product_loops(text))
    main_loop = max(loops, key=count_sums)
    lanes = {found[1] for line in main_loop if (found := re.search(r"fmla.*\.s\[(\d)\]", line))}
    assert lanes == {"0", "1", "2", "3"}
    assert not any(re.search(r"\bld\w+\s+s\d+|\[sp\b", line) for line in main_loop)
