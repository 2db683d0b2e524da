"""Have programs of half precision compiled for Vulkan devices that store 16 bits."""

from __future__ import annotations

import re

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.values.half_precision import half_type

from ..problems.executable_target import devices

_NEEDED = {"compute": ("fp16", "int16"), "storage": ("b16",)}
_VULKAN = re.compile(
    r'#hal\.executable\.target<"vulkan-spirv".*?max_workgroup_counts = \[[^\]]*\]', re.DOTALL
)
"""An executable target up to the end of what its device has."""


@register_pass("winograd-admit-shorts")
class AdmitShorts:
    """Have programs of half precision compiled for Vulkan devices that store 16 bits.

    IREE's target for any GPU through Vulkan has storage of 32 bits alone. IREE reads arrays of f16 and bf16
    there as if their elements had 32 bits, which gives wrong numbers. With storage of 16 bits it is right:
    all GPUs of computers have that, nearly all others, too. A target that names a GPU has it already.

        wgp = <compute = fp32|int32, storage = b32, ...>
      becomes
        wgp = <compute = fp32|int32|fp16|int16, storage = b32|b16, ...>
    """

    def run(self, module: ir.Operation) -> None:
        declared = [each for each in devices(module) if _admitting(each) != _stated(each)]
        if declared and any(half_type(value) is not None for each in walk(module) for value in _values(each)):
            rewrite_each("device", declared, _admit)


def _values(operation: ir.Operation) -> list[ir.Value]:
    arguments = [argument for region in operation.regions for block in region for argument in block.arguments]
    return [*operation.results, *arguments]


def _stated(device: ir.Operation) -> str:
    return str(device.attributes["initial_value"])


def _admitting(device: ir.Operation) -> str:
    """The device as text, with what is needed in each of its targets for Vulkan."""
    return _VULKAN.sub(lambda target: _with_shorts(target[0]), _stated(device))


def _with_shorts(target: str) -> str:
    for name, needed in _NEEDED.items():

        def extended(listed: re.Match[str], needed: tuple[str, ...] = needed) -> str:
            has = listed[2].split("|")
            return listed[1] + "|".join([*has, *(each for each in needed if each not in has)])

        target = re.sub(rf"(\b{name} = )([\w|]+)", extended, target)
    return target


def _admit(device: ir.Operation) -> None:
    device.attributes["initial_value"] = ir.Attribute.parse(_admitting(device), device.context)
