"""Conversion between Python values and the attributes that the winograd ops hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import Decomposition


def sizes_attribute(sizes: Sequence[int], context: ir.Context | None = None) -> ir.DenseI64ArrayAttr:
    """`array<i64: ...>`, one entry per spatial dimension."""
    return ir.DenseI64ArrayAttr.get(list(sizes), context=context)


def sizes_of(attribute: ir.Attribute) -> tuple[int, ...]:
    """The entries of an `array<i64: ...>`. Raises ValueError for any other attribute."""
    if not isinstance(attribute, ir.DenseI64ArrayAttr):
        raise ValueError(f"expected array<i64: ...>, got {attribute}")
    return tuple(attribute)


def decomposition_attribute(decomposition: Decomposition, context: ir.Context | None = None) -> ir.DictAttr:
    """`decomposition` as a dictionary with one entry per field, sizes as `array<i64: ...>`."""
    entries: dict[str, ir.Attribute] = {}
    for field in fields(decomposition):
        value = getattr(decomposition, field.name)
        entries[field.name] = (
            ir.ArrayAttr.get([sizes_attribute(view, context) for view in value], context=context)
            if field.name == "views"
            else sizes_attribute(value, context)
        )
    return ir.DictAttr.get(entries, context=context)


def decomposition_of(attribute: ir.Attribute) -> Decomposition:
    """The inverse of `decomposition_attribute`. Raises ValueError that says which entry is wrong."""
    if not isinstance(attribute, ir.DictAttr):
        raise ValueError(f"expected a dictionary, got {attribute}")
    names = [field.name for field in fields(Decomposition)]
    for entry in attribute:
        if entry.name not in names:
            raise ValueError(f"has an unknown entry '{entry.name}'")
    values: dict[str, tuple[int, ...] | tuple[tuple[int, ...], ...]] = {}
    for name in names:
        if name not in attribute:
            raise ValueError(f"lacks the entry '{name}'")
        try:
            values[name] = _entry_value(name, attribute[name])
        except ValueError as error:
            raise ValueError(f"entry '{name}': {error}") from None
    return Decomposition(**values)  # type: ignore[arg-type]


def _entry_value(name: str, attribute: ir.Attribute) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
    if name != "views":
        return sizes_of(attribute)
    if not isinstance(attribute, ir.ArrayAttr):
        raise ValueError(f"expected an array of array<i64: ...>, got {attribute}")
    return tuple(sizes_of(view) for view in attribute)
