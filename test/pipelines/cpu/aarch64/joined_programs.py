"""Programs for AArch64 that are run as one, in an emulator or on such a machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from guest import NoGuestError
from guest_process import load_in_guest

_MAIN = re.compile(r"func\.func @main\((.*)\) -> (tensor<\S+>) {")


def load_or_skip(processor: str, compiled: bytes, threads: int) -> Any:
    """As `load_in_guest`, on so many threads; skips the test where there is no emulator."""
    device, workers = ("local-sync", None) if threads == 1 else ("local-task", threads)
    try:
        return load_in_guest(processor, compiled, device, threads=workers)
    except NoGuestError as error:
        pytest.skip(str(error))


def as_one(programs: Sequence[str]) -> str:
    """MLIR of one function `main` that has the arguments of all programs' `main`, and results, in order."""
    parts, arguments, calls, results, types = [], [], [], [], []
    for number, text in enumerate(programs):
        found = _MAIN.search(text)
        assert found is not None, "a program has one function, main"
        of_part = [each.rpartition(": ")[2] for each in found[1].split(", %")]
        names = [f"%a{number}_{position}" for position in range(len(of_part))]
        parts.append(text.replace("func.func @main(", f"func.func private @part{number}("))
        arguments += [f"{name}: {type_}" for name, type_ in zip(names, of_part, strict=True)]
        signature = f"({', '.join(of_part)}) -> {found[2]}"
        calls.append(f"%r{number} = call @part{number}({', '.join(names)}) : {signature}")
        results.append(f"%r{number}")
        types.append(found[2])
    body = "\n  ".join([*calls, f"return {', '.join(results)} : {', '.join(types)}"])
    main = f"func.func @main({', '.join(arguments)}) -> ({', '.join(types)}) {{\n  {body}\n}}"
    return "\n".join([*parts, main])
