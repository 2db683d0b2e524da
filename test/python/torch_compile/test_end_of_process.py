"""Results that live when the interpreter ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENDING = """
import atexit
import builtins
import functools
import sys
import torch

@atexit.register
def call_once_more():
    # After the hooks of what is imported below.
    with torch.no_grad():
        builtins.last = second(image)

from iree.runtime._binding import create_hal_driver
from iree.winograd.loading import device
from iree.winograd.torch_compile import compiled_part

if sys.argv[2] == "_open_cuda_gpu":
    # In place of one for CUDA: a device with the same cache, opened the same way.
    @functools.cache
    def open_sharing(uri):
        hal = create_hal_driver("local-sync").create_default_device(allocators=["caching"])
        return device.Device(uri, hal, in_host_memory=False, workers=0)

    device._open_cuda_gpu = open_sharing
    compiled_part.PartCompiler._open_device = lambda compiler: device.open_device("cuda://0")

image = torch.ones(1, 3, 12, 12)
torch.set_num_threads(1)

def run(channels):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, channels, 3), torch.nn.ReLU()).eval()
    compiled = torch.compile(model, backend="winograd", options={"cache_folder": sys.argv[1]})
    with torch.no_grad():
        return compiled, compiled(image)

first, builtins.first = run(4)
second, result = run(8)
# The interpreter frees what `builtins` holds, modules and their globals in an order of its own.
builtins.view = result[:, 1:].detach()
del result
# Only programs keep the device.
atexit.register(getattr(device, sys.argv[2]).cache_clear)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="has glibc overwrite freed memory")
@pytest.mark.wide
def test_results_may_outlive_the_device(tmp_path: Path) -> None:
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    # The second process finds the programs of the first.
    for opening in ("_open_host_device", "_open_cuda_gpu"):
        command = [sys.executable, "-W", "ignore", "-c", ENDING, str(tmp_path), opening]
        outcome = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (outcome.returncode, outcome.stderr) == (0, ""), opening
