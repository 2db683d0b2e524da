"""Instructions on registers of a lane's own, and of others by shuffles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from .numbers import HALVES, PAIRS, ROUNDINGS, TYPES, Array, flushed, maxima_of_pairs
from .program import Instruction
from .warp_state import LANES, WarpState

COMPARISONS: Mapping[str, Callable[..., Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "neu": np.not_equal,
    "nan": lambda left, right: np.isnan(left) | np.isnan(right),
}


class ArithmeticInstructions(WarpState):
    def _binary(self, each: Instruction, active: Array, function: Callable[..., Array]) -> None:
        type_ = each.opcode[-1]
        left, right = (self.value(operand, type_) for operand in each.operands[1:3])
        with np.errstate(all="ignore"):
            self.write(each.operands[0], function(left, right).astype(TYPES[type_]), active)

    def do_add(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.add)

    def do_sub(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.subtract)

    def do_min(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.minimum)

    def do_max(self, each: Instruction, active: Array) -> None:
        if each.opcode[1] == "NaN" and each.opcode[-1] in PAIRS:
            left, right = (self.value(operand, "b32") for operand in each.operands[1:3])
            self.write(each.operands[0], maxima_of_pairs(left, right, PAIRS[each.opcode[-1]]), active)
            return
        drops_nan = each.opcode[-1] == "f32" and "NaN" not in each.opcode
        self._binary(each, active, np.fmax if drops_nan else np.maximum)

    def do_div(self, each: Instruction, active: Array) -> None:
        if "ftz" in each.opcode:
            left, right = (flushed(self.value(operand, "f32")) for operand in each.operands[1:3])
            with np.errstate(all="ignore"):
                self.write(each.operands[0], flushed(left / right), active)
            return
        self._binary(each, active, np.divide if each.opcode[-1] == "f32" else np.floor_divide)

    def do_rem(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.remainder)

    def do_and(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.bitwise_and)

    def do_or(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.bitwise_or)

    def do_xor(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.bitwise_xor)

    def _shift(self, each: Instruction, active: Array, function: Callable[..., Array]) -> None:
        type_ = TYPES[each.opcode[-1]]
        value = self.value(each.operands[1], each.opcode[-1])
        self.write(
            each.operands[0], function(value, self.value(each.operands[2], "u32").astype(type_)), active
        )

    def do_shl(self, each: Instruction, active: Array) -> None:
        self._shift(each, active, np.left_shift)

    def do_shr(self, each: Instruction, active: Array) -> None:
        self._shift(each, active, np.right_shift)

    def _product(self, each: Instruction) -> tuple[Array, str]:
        *_, part, type_ = each.opcode
        left, right = (self.value(operand, type_) for operand in each.operands[1:3])
        if type_ == "f32":
            with np.errstate(all="ignore"):
                return left * right, type_
        if part == "wide":
            wide = type_[0] + str(2 * int(type_[1:]))
            return left.astype(TYPES[wide]) * right.astype(TYPES[wide]), wide
        if part == "hi":
            bits = int(type_[1:])
            product = [int(a) * int(b) >> bits for a, b in zip(left, right, strict=True)]
            return np.array(product).astype(TYPES[type_]), type_
        with np.errstate(all="ignore"):
            return left * right, type_

    def do_mul(self, each: Instruction, active: Array) -> None:
        self.write(each.operands[0], self._product(each)[0], active)

    def do_mad(self, each: Instruction, active: Array) -> None:
        product, type_ = self._product(each)
        with np.errstate(all="ignore"):
            self.write(each.operands[0], product + self.value(each.operands[3], type_), active)

    def do_fma(self, each: Instruction, active: Array) -> None:
        one, other, addend = (
            self.value(operand, "f32").astype(np.longdouble) for operand in each.operands[1:]
        )
        with np.errstate(all="ignore"):
            self.write(each.operands[0], (one * other + addend).astype(np.float32), active)

    def do_mov(self, each: Instruction, active: Array) -> None:
        # What isn't read of a register is `_`.
        parts = [re.findall(r"%\w+|\b_\b", operand) for operand in each.operands]
        if len(parts[0]) > 1:
            found = self.value(each.operands[1], each.opcode[-1])
            halves = np.ascontiguousarray(found).view(np.uint16).reshape(LANES, -1)
            for i, target in enumerate(parts[0]):
                self.write(target, halves[:, i].copy(), active)
        elif len(parts[1]) > 1:
            halves = np.stack([self.value(source, "u16") for source in parts[1]], 1)
            self.write(each.operands[0], halves.view(TYPES[each.opcode[-1]])[:, 0], active)
        else:
            self.write(each.operands[0], self.value(each.operands[1], each.opcode[-1]).copy(), active)

    def do_cvta(self, each: Instruction, active: Array) -> None:
        self.do_mov(each, active)

    def do_cvt(self, each: Instruction, active: Array) -> None:
        to, source = each.opcode[-2:]
        if to in HALVES:
            high, low = (HALVES[to](self.value(operand, source)) for operand in each.operands[1:])
            self.write(each.operands[0], np.stack([low, high], 1).view(np.uint32)[:, 0], active)
            return
        value = self.value(each.operands[1], source)
        rounding = next((ROUNDINGS[part] for part in each.opcode if part in ROUNDINGS), None)
        with np.errstate(all="ignore"):
            rounded = value if rounding is None else rounding(value)
            self.write(each.operands[0], rounded.astype(TYPES[to]), active)

    def do_abs(self, each: Instruction, active: Array) -> None:
        self.write(each.operands[0], np.abs(self.value(each.operands[1], each.opcode[-1])), active)

    def do_neg(self, each: Instruction, active: Array) -> None:
        self.write(each.operands[0], -self.value(each.operands[1], each.opcode[-1]), active)

    def do_not(self, each: Instruction, active: Array) -> None:
        self.write(each.operands[0], ~self.value(each.operands[1], each.opcode[-1]), active)

    def do_prmt(self, each: Instruction, active: Array) -> None:
        """Each byte of the result is one of those of two words, as four bits of the third say."""
        low, high, chosen = (self.value(operand, "b32").astype(np.uint64) for operand in each.operands[1:])
        words, found = low | high << np.uint64(32), np.zeros(LANES, np.uint64)
        for i in range(4):
            number = chosen >> np.uint64(4 * i) & np.uint64(0xF)
            assert (number < 8).all(), "signs are spread"
            found |= (words >> (number * np.uint64(8)) & np.uint64(0xFF)) << np.uint64(8 * i)
        self.write(each.operands[0], found.astype(np.uint32), active)

    def do_rcp(self, each: Instruction, active: Array) -> None:
        rounded = flushed if "ftz" in each.opcode else np.asarray
        with np.errstate(all="ignore"):
            quotient = np.float32(1) / rounded(self.value(each.operands[1], "f32"))
            self.write(each.operands[0], rounded(quotient), active)

    def do_rsqrt(self, each: Instruction, active: Array) -> None:
        with np.errstate(all="ignore"):
            exact = 1 / np.sqrt(self.value(each.operands[1], "f32").astype(np.float64))
        self.write(each.operands[0], exact.astype(np.float32), active)

    def do_ex2(self, each: Instruction, active: Array) -> None:
        with np.errstate(all="ignore"):
            exact = np.exp2(self.value(each.operands[1], "f32").astype(np.float64)).astype(np.float32)
        self.write(
            each.operands[0], np.where(exact < np.finfo(np.float32).tiny, np.float32(0), exact), active
        )

    def do_setp(self, each: Instruction, active: Array) -> None:
        left, right = (self.value(operand, each.opcode[-1]) for operand in each.operands[1:3])
        with np.errstate(all="ignore"):
            self.write(each.operands[0], COMPARISONS[each.opcode[1]](left, right), active)

    def do_selp(self, each: Instruction, active: Array) -> None:
        one, other = (self.value(operand, each.opcode[-1]) for operand in each.operands[1:3])
        self.write(each.operands[0], np.where(self.registers[each.operands[3]], one, other), active)

    def do_shfl(self, each: Instruction, active: Array) -> None:
        assert active.all() and each.opcode[2] in ("bfly", "idx")
        target, *others = each.operands
        source, offset = others[-4:-2]
        # Of the thread of a number, or of each that is as far away.
        lanes = (np.arange(LANES) if each.opcode[2] == "bfly" else np.zeros(LANES, np.int64)) ^ int(offset)
        self.write(target, self.value(source, "b32")[lanes], active)
        if len(others) == 5:
            self.write(others[0], np.full(LANES, True), active)
