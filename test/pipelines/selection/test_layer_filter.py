"""Naming layers by number and by location."""

from __future__ import annotations

import pytest
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.selection.layer_filter import is_layer_allowed, layer_precision, location_names
from iree.winograd.pipelines.selection.options import WinogradOptions

LOCATION = 'fused["layer1.0.conv1"("model.py":3:4), callsite("layer1/relu"("a.py":1:1) at "b.py":2:2)]'


def make_operation(location: str) -> ir.Operation:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    text = f'"test.operation"() : () -> () loc({location})'
    return ir.Module.parse(text, context).body.operations[0].operation


def test_names_in_nested_locations() -> None:
    operation = make_operation(LOCATION)
    assert list(location_names(operation.location)) == ["layer1.0.conv1", "layer1/relu"]


@pytest.mark.parametrize(
    ("allow", "deny", "allowed"),
    [
        ((), (), True),
        (("3",), (), True),
        (("2", "4-9"), (), False),
        (("2-5",), (), True),
        (("2-5",), ("3",), False),
        (("layer1.*",), (), True),
        (("layer2.*",), (), False),
        ((), ("*/relu",), False),
        ((), ("layer1",), True),
        (("layer2.*", "3"), ("layer3.*",), True),
    ],
)
def test_allow_and_deny(allow: tuple[str, ...], deny: tuple[str, ...], allowed: bool) -> None:
    assert is_layer_allowed(allow, deny, 3, make_operation(LOCATION)) is allowed


@pytest.mark.parametrize(
    ("precisions", "expected"),
    [
        ((), "bf16"),
        (("layer1.*=f32", "3=f16"), "f32"),
        (("layer2.*=f32", "2-4=fastest"), "fastest"),
        (("a=b=f32",), "bf16"),
    ],
)
def test_the_first_pattern_that_matches_has_the_precision(precisions: tuple[str, ...], expected: str) -> None:
    assert WinogradOptions(layer_precisions=precisions).layer_precisions == precisions
    assert layer_precision("bf16", precisions, 3, make_operation(LOCATION)) == expected


@pytest.mark.parametrize(
    "fields",
    [{"output_tile": 0}, {"output_tile": 9}, {"fold_filters": "never"}, {"deny": ("",)}, {"precision": "f8"}]
    + [{"layer_precisions": (each,)} for each in ("f32", "=f32", "conv1=f8", "conv1=")],
)
def test_options_out_of_range(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        WinogradOptions(**fields)  # type: ignore[arg-type]
