"""What functions say of themselves to whoever calls them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir


def note_numbers(function: ir.Operation, key: str, numbers: Sequence[int]) -> None:
    """Add `numbers`, of arguments for example, to the reflection of a `util.func`, if there are any."""
    note_words(function, key, [str(number) for number in numbers])


def note_words(function: ir.Operation, key: str, words: Sequence[str]) -> None:
    """Add `words`, with spaces between them, to the reflection of a `util.func`, if there are any."""
    if not words:
        return
    reflection = function.attributes.get("iree.reflection", ())
    entries = {named.name: named.attr for named in reflection}
    entries[key] = ir.StringAttr.get(" ".join(words), function.context)
    function.attributes["iree.reflection"] = ir.DictAttr.get(entries, function.context)
