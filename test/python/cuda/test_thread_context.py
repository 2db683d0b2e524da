"""Threads that call programs on CUDA."""

from __future__ import annotations

import threading
from dataclasses import replace

import iree.winograd
import numpy as np
import pytest
from iree.winograd.cuda.driver import CudaDriver
from iree.winograd.cuda.thread_context import context_of_this_thread
from iree.winograd.loading.device import open_device
from iree.winograd.loading.runtime import load_on

from .host_driver import HostDriver

DOUBLING = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(("contexts", "after"), [([], [1]), ([2], [2])])
def test_a_thread_without_a_context_gets_that_of_another(contexts: list[int], after: list[int]) -> None:
    host = HostDriver({})
    enter = context_of_this_thread(CudaDriver(host))
    host.contexts = list(contexts)
    enter()
    assert host.contexts == after


def test_each_thread_enters_before_it_calls_the_runtime() -> None:
    entered: list[int] = []
    device = replace(open_device("local-sync"), enter=lambda: entered.append(threading.get_ident()))
    program = load_on(iree.winograd.compile(DOUBLING, threads=1), device)
    assert set(entered) == {threading.get_ident()}
    entered.clear()
    results: list[np.ndarray] = []
    caller = threading.Thread(target=lambda: results.append(program(np.ones(4, np.float32))))
    caller.start()
    caller.join()
    assert set(entered) == {caller.ident}
    np.testing.assert_array_equal(results[0], np.full(4, 2, np.float32))
