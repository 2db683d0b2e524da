"""What becomes of torch's threads when programs need their processors."""

import sys
import time
from collections.abc import Iterator

import pytest
import torch
from iree.winograd.pipelines.machines.host import available_processors
from iree.winograd.torch_compile.openmp import release_processors
from own_threads import own_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads of a process are files of Linux")
_WAITING = 2


@pytest.fixture
def waiting_threads() -> Iterator[None]:
    """Torch's threads, in front of a calling one, that have computed something and wait for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 + _WAITING)
    _compute()
    yield
    torch.set_num_threads(before)


def _compute() -> None:
    assert float(torch.full((1 << 20,), 2.0).sqrt().square().sub(2).abs().max()) < 1e-6


def _has_threads(count: int) -> bool:
    """Whether this process has so many threads; those that have ended may be listed for a moment."""
    end = time.monotonic() + 5
    while len(own_threads()) != count:
        if time.monotonic() > end:
            return False
        time.sleep(1e-3)
    return True


@pytest.mark.usefixtures("waiting_threads")
def test_threads_end_that_would_share_processors_with_workers() -> None:
    count = len(own_threads())
    # A program of one thread has no workers.
    release_processors(max(2, available_processors()))
    assert _has_threads(count - _WAITING)
    _compute()
    assert _has_threads(count)


@pytest.mark.usefixtures("waiting_threads")
def test_threads_stay_where_a_program_is_for_its_caller_alone() -> None:
    count = len(own_threads())
    release_processors(1)
    assert _has_threads(count)
