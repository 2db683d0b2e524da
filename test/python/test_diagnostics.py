"""Diagnostics at the locations that frontends give."""

from __future__ import annotations

import pytest
from iree.winograd.compiling.diagnostics import diagnostic_at
from iree.winograd.dialect.bindings import ir


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ('"/stem/Conv"', "<unknown>:0: remark: /stem/Conv: left"),
        # As the operators of functions that an ONNX model holds.
        ('callsite("/stem/Conv" at "/stem")', "<unknown>:0: remark: /stem/Conv: left"),
        ('fused["/stem/Conv", "sums"]', "<unknown>:0: remark: /stem/Conv: left"),
        ('"stem.conv"("net.py":7:1)', "net.py:7:1: remark: stem.conv: left"),
        ("unknown", "<unknown>:0: remark: left"),
    ],
)
def test_layers_are_named_once(location: str, text: str) -> None:
    with ir.Context():
        operation = ir.Module.parse(f"module {{}} loc({location})").operation
        assert diagnostic_at(operation.location, "remark", "left").format() == text
