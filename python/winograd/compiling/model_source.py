"""Imported models as what is compiled, with the flags that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.flag_name import flag_name
from iree.winograd.compiling.input_type import input_type_flags
from iree.winograd.dialect.bindings import ir

if TYPE_CHECKING:
    from iree.winograd.importers.imported_model import ImportedModel


def open_model(compilation: Compilation, model: ImportedModel, flags: Sequence[str]) -> ir.Operation:
    """`model` as what `compilation` compiles, whose session gets the flags that the model needs.

    Those that are among `flags`, the user's, whatever their values, stay as they are.
    """
    stated = {flag_name(flag) for flag in flags}
    implied = (*model.flags, *input_type_flags(model.program, flags))
    compilation.session.set_flags(*(each for each in implied if flag_name(each) not in stated))
    return model.build(compilation.context).operation
