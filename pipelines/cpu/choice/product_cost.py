"""What a product of matrices takes on a CPU."""

from __future__ import annotations

from iree.winograd.pipelines.cpu.processor.product import Product
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.machines.model import CpuMachine


def channel_seconds(product: Product, target: CpuTarget, machine: CpuMachine) -> float:
    """Seconds that a block of sums takes for one of the products that it sums."""
    work = product.channel_work
    return max(
        work.multiply_adds * multiply_add_seconds(target, machine),
        max(work.loads / machine.loads_per_cycle, machine.multiply_add_latency / work.independent_sums)
        / machine.clock,
    )


def multiply_add_seconds(target: CpuTarget, machine: CpuMachine) -> float:
    """From the start of one multiply-add of whole vectors to that of the next."""
    return 2 * target.vector_width / machine.flops
