"""Options, declared once: a field of a frozen dataclass that says what its values are.

    @dataclass(frozen=True)
    class WinogradOptions:
        threads: int | None = option(
            None, "a positive integer", "threads that ...", accepts=is_positive, flag="iree-winograd-threads"
        )

        def __post_init__(self) -> None:
            check_options(self)

The field's type says how values are written: an `int`, `bool`, `str`, `float`, a `Literal` of strings or
integers, a tuple of these (written with commas), or any of these `| None`, whose None is written `auto`, but
for a string's, which is not written at all. From the declaration come the text forms, the checks of values
that programs and that command lines give, and what help texts and documentation say.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_METADATA = "option"
TRUE_WORDS = ("", "true", "TRUE", "True", "1")
FALSE_WORDS = ("false", "FALSE", "False", "0")
"""As LLVM's flags are written."""


@dataclass(frozen=True)
class Option:
    """What is known of the option that a field is."""

    name: str
    type: Any
    default: object
    values: str
    """What its values are, but for those that the type lists: "a positive integer"."""
    purpose: str
    auto: str
    """What it is if it is left to the project, where None or `auto` stands for that: "one per core"."""
    flag: str | None
    """Of `iree-compile`, without dashes; None where it has none."""
    accepts: Callable[[Any], bool]

    @property
    def text_name(self) -> str:
        """As pass options are written."""
        return self.name.replace("_", "-")

    @property
    def help(self) -> str:
        """What it is for, on one line."""
        return f"{self.purpose}; auto is {self.auto}" if self.auto else self.purpose

    @property
    def listed_values(self) -> tuple[str, ...]:
        """What may be written for it, each either as it is written or described."""
        value_type, is_optional = _optional(self.type)
        if value_type is bool:
            return ("true", "false")
        if get_origin(value_type) is Literal:
            return tuple(str(choice) for choice in get_args(value_type))
        return ("auto", self.values) if is_optional and value_type is not str else (self.values,)

    def parse(self, text: str | None) -> object:
        """The value that is written `text`, None being the mere name. Raises ValueError."""
        if text is None and self.type is not bool:
            raise ValueError("needs a value")
        try:
            value = _parse(self.type, text or "")
            is_known = value is None or self.accepts(value)
        except ValueError:
            is_known = False
        if not is_known:
            raise ValueError(f"must be {_alternatives(self.listed_values)}, got {text!r}")
        return value

    def check(self, value: object) -> None:
        """Raise ValueError when `value` isn't one of the option's."""
        is_optional = _optional(self.type)[1]
        if value is None and is_optional:
            return
        if not _is_instance(value, self.type) or not self.accepts(value):
            listed = tuple("None" if is_optional and each == "auto" else each for each in self.listed_values)
            raise ValueError(f"{self.name} must be {_alternatives(listed)}, got {value!r}")


def option(
    default: object,
    values: str = "",
    purpose: str = "",
    *,
    auto: str = "",
    flag: str | None = None,
    accepts: Callable[[Any], bool] = lambda value: True,
) -> Any:
    """A field that is an option; the parameters are the fields of `Option`."""
    return dataclasses.field(default=default, metadata={_METADATA: (values, purpose, auto, flag, accepts)})


def same_option(declaring_class: type, name: str, **changes: object) -> Any:
    """A field that is the option `name` of `declaring_class`, with another `default` if one is given."""
    (declared,) = (field for field in dataclasses.fields(declaring_class) if field.name == name)
    return dataclasses.field(default=changes.get("default", declared.default), metadata=declared.metadata)


def options_of(options_class: type) -> tuple[Option, ...]:
    """The options that a class declares, in order: none if it is no dataclass.

    Other fields are for programs only.
    """
    return _declared_options(options_class)


@cache
def _declared_options(options_class: type) -> tuple[Option, ...]:
    if not dataclasses.is_dataclass(options_class):
        return ()
    hints = get_type_hints(options_class)
    return tuple(
        Option(field.name, hints[field.name], field.default, *field.metadata[_METADATA])
        for field in dataclasses.fields(options_class)
        if _METADATA in field.metadata
    )


def check_options(instance: Any) -> None:
    """Raise ValueError when an option of a dataclass has a value that it doesn't take."""
    for each in options_of(type(instance)):
        each.check(getattr(instance, each.name))


def shared_values(instance: Any, options_class: type) -> dict[str, Any]:
    """The values, by name, of those options of `instance` that `options_class` has, too."""
    return {each.name: getattr(instance, each.name) for each in options_of(options_class)}


def is_positive(number: float) -> bool:
    return number > 0


def _alternatives(values: tuple[str, ...]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last


def _optional(value_type: Any) -> tuple[Any, bool]:
    """The type apart from None, and whether None is one of its values."""
    if get_origin(value_type) not in (Union, types.UnionType):
        return value_type, False
    (other,) = (member for member in get_args(value_type) if member is not types.NoneType)
    return other, True


def _parse(value_type: Any, text: str) -> object:
    value_type, is_optional = _optional(value_type)
    if is_optional and text == "auto" and value_type is not str:
        return None
    if value_type is bool:
        return _choose({**dict.fromkeys(TRUE_WORDS, True), **dict.fromkeys(FALSE_WORDS, False)}, text)
    if get_origin(value_type) is Literal:
        return _choose({str(choice): choice for choice in get_args(value_type)}, text)
    if get_origin(value_type) is tuple:
        elements = text.split(",")
        return tuple(map(_parse, _element_types(value_type, len(elements)), elements))
    if value_type in (int, float) and not re.fullmatch("[-+.a-z0-9]*", text):
        # Python's numbers may hold blanks and underscores.
        raise ValueError
    if value_type not in (int, float, str):
        raise TypeError(f"an option can't have type {value_type}")
    return value_type(text)


def _choose(choices: Mapping[str, object], text: str) -> object:
    if text not in choices:
        raise ValueError
    return choices[text]


def _is_instance(value: object, value_type: Any) -> bool:
    value_type, _ = _optional(value_type)
    if get_origin(value_type) is Literal:
        return value in get_args(value_type)
    if get_origin(value_type) is tuple:
        if not isinstance(value, tuple):
            return False
        try:
            return all(map(_is_instance, value, _element_types(value_type, len(value))))
        except ValueError:
            return False
    if value_type in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if value_type is float else value_type)


def _element_types(tuple_type: Any, count: int) -> tuple[Any, ...]:
    """Of a tuple with `count` elements. Raises ValueError when the type is one of another number."""
    types_of_elements: tuple[Any, ...] = get_args(tuple_type)
    if types_of_elements[-1] is Ellipsis:
        return types_of_elements[:1] * count
    if len(types_of_elements) != count:
        raise ValueError
    return types_of_elements
