"""Whether a program is in a dialect that IREE has to convert first.

To find out, IREE loads all dialects that it could convert, and prepares hundreds of passes for them: a fifth
of the time that a small program takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.compiling.flag_name import flag_name

_FLAG = "iree-input-type"
_CONVERTED = (b"torch", b"tm_tensor", b"hlo", b"tosa", b"sdy")
"""In the names of all that are converted. Where they stand in anything else, IREE looks itself."""


def input_type_flags(program: bytes, stated: Sequence[str]) -> tuple[str, ...]:
    """What tells IREE how to read `program`, as text or bytecode, where the user's flags `stated` don't."""
    if _FLAG in map(flag_name, stated):
        return ()
    return (f"--{_FLAG}={'auto' if any(name in program for name in _CONVERTED) else 'none'}",)
