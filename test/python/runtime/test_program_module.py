"""The memory in which a program lies."""

import mmap

import numpy as np
import pytest
from iree.winograd.loading.program_module import HUGE_PAGE_BYTES, in_huge_pages


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="Linux has huge pages")
@pytest.mark.parametrize("size", [1, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, 2 * HUGE_PAGE_BYTES + 3])
def test_a_copy_begins_at_a_huge_page(size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    copies = [in_huge_pages(content) for _ in range(2)]
    for copy in copies:
        assert np.frombuffer(copy, np.uint8).ctypes.data % HUGE_PAGE_BYTES == 0
        assert bytes(copy) == content
