"""Note which layers the dispatches of a program are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.reflection import note_words
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import is_public, walk

from ..problems.reflection import LAYERS_KEY
from ..selection.layer_filter import location_names

_DISPATCH = "stream.cmd.dispatch"


@dataclass(frozen=True)
class Dispatch:
    """A dispatch of a program: its kernel, and the name of what it computes, empty if the model has none."""

    kernel: str
    name: str


@register_pass("winograd-note-layers")
@dataclass(frozen=True)
class NoteLayers:
    """Note which layers the dispatches of a program are, as reflection of its functions.

    Who measures a program sees the names of kernels, which say what they compute and not for which layer.
    After IREE's phase `stream` the dispatches, IREE's own among them, are in the order in which they run, and
    their locations have the names that the model's exporter gave. Nothing is noted where there are none.

        util.func public @main(%arg0: !hal.buffer_view) {
          stream.cmd.dispatch @conv_2::@conv_2 {...} loc("layer1.conv1")
          stream.cmd.dispatch @conv_2::@conv_2 {...} loc("layer1.conv2")
      becomes
        util.func public @main(%arg0: !hal.buffer_view)
            attributes {iree.reflection = {winograd.layers = '{"conv_2":["layer1.conv1","layer1.conv2"]}'}} {
    """

    observe: Callable[[Dispatch], None] | None = None
    """Is told of each dispatch."""

    def run(self, module: ir.Operation) -> None:
        functions = [each for each in walk(module) if each.name == "util.func" and is_public(each)]
        rewrite_each("function", functions, self._note)

    def _note(self, function: ir.Operation) -> None:
        layers: dict[str, list[str]] = {}
        for operation in walk(function):
            if operation.name != _DISPATCH:
                continue
            dispatch = Dispatch(_kernel(operation), next(location_names(operation.location), ""))
            layers.setdefault(dispatch.kernel, []).append(dispatch.name)
            if self.observe is not None:
                self.observe(dispatch)
        _note_names(function, layers)


def _note_names(function: ir.Operation, layers: Mapping[str, Sequence[str]]) -> None:
    if any(name for names in layers.values() for name in names):
        note_words(function, LAYERS_KEY, [json.dumps(layers, separators=(",", ":"))])


def _kernel(dispatch: ir.Operation) -> str:
    """The name that the runtime measures it by, of the first variant if there are several."""
    return str(ir.SymbolRefAttr(dispatch.attributes["entry_points"][0]).value[-1])
