"""Counts of the instructions of AMD's GPUs, as RADV and LLVM write them: of a kernel, or of its main loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from benchmarks.assembly_loops import Syntax, loops

_SYNTAX = Syntax(
    label=re.compile(r"([A-Za-z_.$][\w.$]*):"), branch=re.compile(r"\s+s_c?branch\w*\s+([^;\s]*)")
)
_INSTRUCTION = re.compile(r"\s+([a-z]\w+)\s*([^;]*)")
_ENCODING = re.compile(r"(?:_(?:e32|e64|dpp|sdwa))+$")
_MULTIPLY_ADD = re.compile(r"v_(?:pk_|dual_)?(?:fma|fmac|fmaak|fmamk)_f32")
_MULTIPLICATION = re.compile(rf"{_MULTIPLY_ADD.pattern}|v_(?:pk_|dual_)?mul_f32")
_CACHED = re.compile(
    r"(?:buffer|global|flat)_load_\w*?(?:dword(?:x(\d))?|[bui](8|16|32|64|96|128)|(short)|(byte))\b"
)
_SHARED = re.compile(r"ds_(read|load|write|store)(_?2)?(?:addr|st64)?\w*?_([bui]\d+)")
_MATRIX_PRODUCT = re.compile(r"v_(?:wmma|mfma)_f32_(\d+)x(\d+)x(\d+)_?(\w+)")


@dataclass(frozen=True)
class MatrixProduct:
    """An instruction that multiplies matrices: `multiply_adds` of numbers of a type, "f16" for example."""

    multiply_adds: int
    factors: str

    @staticmethod
    def of(name: str) -> MatrixProduct | None:
        match = _MATRIX_PRODUCT.match(name)
        return None if match is None else MatrixProduct(prod(map(int, match.groups()[:3])), match[4])


@dataclass
class Instructions:
    """Numbers of instructions, each as a wave issues it."""

    names: Counter[str] = field(default_factory=Counter)
    multiply_adds: int = 0
    """Of f32, of a thread, outside of matrix units."""
    multiplying: int = 0
    """Instructions that do these, or multiply matrices."""
    shared_bytes: int = 0
    """That a thread loads from shared memory, or stores to it."""
    cached_bytes: int = 0
    """That it loads from memory, through the first cache."""

    @staticmethod
    def of(lines: Sequence[str], *, separate: bool = False) -> Instructions:
        """Of code; where it is `separate` that multiplies and adds, a multiplication is a multiply-add."""
        counts = Instructions()
        for line in lines:
            if match := _INSTRUCTION.match(line):
                counts._add(
                    _ENCODING.sub("", match[1]), match[2], _MULTIPLICATION if separate else _MULTIPLY_ADD
                )
        return counts

    @property
    def total(self) -> int:
        return self.names.total()

    @property
    def vector(self) -> int:
        """Those of the vector unit, and of matrix units."""
        return sum(number for name, number in self.names.items() if name.startswith("v_"))

    @property
    def saved(self) -> int:
        """Accesses to memory that registers are saved in."""
        return sum(number for name, number in self.names.items() if name.startswith("scratch_"))

    @property
    def matrix_products(self) -> list[tuple[MatrixProduct, int]]:
        named = ((MatrixProduct.of(name), number) for name, number in self.names.items())
        return [(product, number) for product, number in named if product is not None]

    @property
    def work(self) -> int:
        """What the code is for, to tell loops apart: multiply-adds of a thread, or those of matrices."""
        return self.multiply_adds + sum(each.multiply_adds * number for each, number in self.matrix_products)

    def _add(self, name: str, operands: str, multiplies: re.Pattern[str]) -> None:
        self.names[name] += 1
        # RDNA 3 and 4 issue pairs: "v_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6".
        parts = [name, *re.findall(r"::\s*(v_\w+)", operands)]
        done = sum(multiplies.match(each) is not None for each in parts)
        self.multiply_adds += done * (2 if name.startswith("v_pk_") else 1)
        self.multiplying += done > 0 or MatrixProduct.of(name) is not None
        if match := _SHARED.match(name):
            self.shared_bytes += int(match[3][1:]) // 8 * (2 if match[2] else 1)
        if match := _CACHED.match(name):
            self.cached_bytes += _loaded_bytes(match)


def _loaded_bytes(match: re.Match[str]) -> int:
    quads, bits, short, byte = match.groups()
    if bits is not None:
        return int(bits) // 8
    return 2 if short else 1 if byte else 4 * int(quads or 1)


def main_loop(code: str, *, separate: bool = False) -> Instructions | None:
    """The shortest of the loops that multiply most, or None where none does, since they are unrolled.

    `separate` says that it may multiply and add by instructions of their own.
    """
    found = sorted(loops(code.splitlines(), _SYNTAX), key=len)
    for alone in (False, True) if separate else (False,):
        counted = (Instructions.of(lines, separate=alone) for lines in found)
        loop = max((each for each in counted if each.work), key=lambda each: each.work, default=None)
        if loop is not None:
            return loop
    return None
