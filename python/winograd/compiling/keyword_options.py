"""Options as keywords of the Python API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from iree.winograd.errors import InvalidOptionError
from iree.winograd.passes.infrastructure.option import options_of

OptionsT = TypeVar("OptionsT")


def make_options(options_class: type[OptionsT], options: Mapping[str, Any]) -> OptionsT:
    """An `options_class` with the options of these names.

    Raises `InvalidOptionError` for one that isn't known or has a bad value.
    """
    known = [option.name for option in options_of(options_class)]
    for name in options:
        if name not in known:
            raise InvalidOptionError(f"option {name!r} is not known; known are {', '.join(known)}")
    try:
        return options_class(**{name: _plain(value) for name, value in options.items()})
    except ValueError as error:
        raise InvalidOptionError(str(error)) from None


def _plain(value: Any) -> Any:
    """`value` in the type that options have: lists are tuples, paths are text."""
    if isinstance(value, list):
        return tuple(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value
