"""Guards of torch.compile, most of which only say that the modules of a model are what they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_OF_MODULES = ("._modules[", "._parameters[", "._buffers[")
"""Parts of the names of what a guard is of."""
_OF_STRUCTURE = frozenset(("EMPTY_NN_MODULE_HOOKS_DICT", "NOT_PRESENT_IN_GENERIC_DICT"))
_OF_NUMBERS = frozenset(("CONSTANT_MATCH", "EQUALS_MATCH"))


def fewer_guards(guards: Sequence[Any]) -> list[bool]:
    """Which `guards` torch.compile keeps, as its option `guard_filter_fn`: not those of a model's structure.

    Kept are those of arguments, of the state of torch, and of numbers and flags of modules, `training` among
    them. A hook that is added, a module that another one takes the place of, and weights of another shape,
    layout or type then go unseen, with which results may be wrong. Whether weights are those of before a
    program that holds them finds out itself.
    """
    return [_is_kept(each.guard_type, each.name) for each in guards]


def _is_kept(kind: str, name: str) -> bool:
    is_of_modules = kind in _OF_STRUCTURE or any(part in name for part in _OF_MODULES)
    return kind in _OF_NUMBERS or not is_of_modules
