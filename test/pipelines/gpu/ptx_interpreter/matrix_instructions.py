"""Instructions of matrix units. They truncate (`matrix_unit_sums.py`)."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from matrix_unit_sums import product_on_matrix_units

from .numbers import FACTORS, NUMBERS, Array
from .program import Instruction
from .warp_state import LANES, SHARED_BASE, WarpState

_SWIZZLED_BYTES = 128
"""Of a row."""


class _Described(NamedTuple):
    """An operand's first byte, and its distances: that of the leading dimension, and the other."""

    start: int
    leading: int
    stride: int
    swizzled: bool
    """Whether rows are of 128 bytes, whose chunks of 16 change places by the number of the row."""

    @staticmethod
    def by(descriptor: Array) -> _Described:
        (number,) = set(descriptor.tolist())
        assert number >> 62 <= 1, "rows are shorter"
        fields = ((number >> first & 0x3FFF) << 4 for first in (0, 16, 32))
        return _Described(*fields, swizzled=bool(number >> 62))


class MatrixInstructions(WarpState):
    def do_ldmatrix(self, each: Instruction, active: Array) -> None:
        """Eight rows of 16 bytes a matrix, at the places that eight lanes give; a lane gets two numbers."""
        *kind, space, type_ = each.opcode[1:]
        is_transposed = kind[4:] == ["trans"]
        assert (
            active.all()
            and kind[:4] == ["sync", "aligned", "m8n8", "x4"]
            and (space, type_) == ("shared", "b16")
        )
        memory, place = self.memory("shared", self.address(each.operands[1]), active)
        assert (place % 16 == 0).all()
        matrices = memory[place[:, None] + np.arange(16)].view(np.uint16).reshape(4, 8, 8)
        if is_transposed:
            matrices = np.ascontiguousarray(matrices.swapaxes(1, 2))
        rows = matrices.view(np.uint32).reshape(4, LANES)
        for target, matrix in zip(re.findall(r"%\w+", each.operands[0]), rows, strict=True):
            self.write(target, matrix.copy(), active)

    def do_mma(self, each: Instruction, active: Array) -> None:
        assert active.all()
        targets, left, right, sums = (re.findall(r"%\w+", operand) for operand in each.operands)
        lane = np.arange(LANES)
        row, place = lane // 4, lane % 4
        read, together = FACTORS[each.opcode[-2]]
        assert f"m16n8k{8 * together}" in each.opcode
        a, b, c = np.empty((16, 8 * together)), np.empty((8 * together, 8)), np.empty((16, 8))
        for i, register in enumerate(left):
            for j, numbers in enumerate(read(self.value(register, "u32"))):
                a[row + i % 2 * 8, (place + i // 2 * 4) * together + j] = numbers
        for i, register in enumerate(right):
            for j, numbers in enumerate(read(self.value(register, "u32"))):
                b[(place + i * 4) * together + j, row] = numbers
        for i, register in enumerate(sums):
            c[row + i // 2 * 8, place * 2 + i % 2] = self.value(register, "f32")
        found = product_on_matrix_units(a, b, c)
        for i, register in enumerate(targets):
            self.write(register, found[row + i // 2 * 8, place * 2 + i % 2], active)

    def do_setmaxnreg(self, each: Instruction, active: Array) -> None:
        """Nothing: there are registers for all."""
        assert active.all() and int(each.operands[0]) % 8 == 0

    def do_wgmma(self, each: Instruction, active: Array) -> None:
        """Products of this warp's 16 rows of a warpgroup's, whose sums are no numbers until it waits."""
        assert active.all()
        if each.opcode[1] == "commit_group":
            self.products.append([])
        elif each.opcode[1] == "wait_group":
            pending = int(each.operands[0])
            done = self.products[: len(self.products) - 1 - pending]
            self.products = self.products[len(done) :]
            for multiply, _ in (product for group in done for product in group):
                multiply()
            awaited = {each for group in self.products for _, targets in group for each in targets}
            for register in set(self.sums) - awaited:
                self.registers[register] = self.sums.pop(register)
        elif each.opcode[1] == "mma_async":
            self._begin_products(each)

    def _begin_products(self, each: Instruction) -> None:
        targets, held = (re.findall(r"%\w+", operand) for operand in each.operands[:2])
        rows, columns, kept, *scales = each.operands[1:]
        is_held = rows.startswith("{")
        is_transposed = is_held and scales[-1] == "1"
        assert scales == ["1", "1", *([str(int(is_transposed))] if is_held else ["0", "0"])]
        number = each.opcode[-1]
        count = 2 * len(targets)
        assert f"m64n{count}k16" in each.opcode and each.opcode[-3] == "f32"
        pairs = [self.value(register, "u32") for register in held] if is_held else []
        descriptors = [_Described.by(self.value(each, "u64")) for each in (rows, columns)[is_held:]]
        adds = bool(self.registers[kept].all())
        for register in targets:
            if register not in self.sums:
                self.sums[register] = self.registers.get(register, np.full(LANES, np.nan, np.float32))
            self.registers[register] = np.full(LANES, np.nan, np.float32)
        lane = np.arange(LANES)
        row, place = lane // 4, lane % 4

        def multiply() -> None:
            a, c = np.empty((16, 16)), np.zeros((16, count))
            if is_held:
                for i, pair in enumerate(pairs):
                    halves = np.ascontiguousarray(pair).view(np.uint16).reshape(LANES, 2)
                    for j in range(2):
                        a[row + i % 2 * 8, place * 2 + i // 2 * 8 + j] = NUMBERS[number](halves[:, j].copy())
            else:
                first = self.number % 4 * 16
                a = self._matrix(descriptors[0], 16 + first, number)[first:]
            if is_transposed:
                # Neighbours along the reduction dimension lie 16 bytes apart.
                assert not descriptors[-1].swizzled
                start, leading, stride, _ = descriptors[-1]
                b = self._matrix(_Described(start, stride, leading, False), 16, number, count)
            else:
                b = self._matrix(descriptors[-1], count, number).T
            if adds:
                for i, register in enumerate(targets):
                    c[row + i // 2 % 2 * 8, i // 4 * 8 + place * 2 + i % 2] = self.sums[register].view(
                        np.float32
                    )
            found = product_on_matrix_units(a, b, c)
            for i, register in enumerate(targets):
                self.sums[register] = found[row + i // 2 % 2 * 8, i // 4 * 8 + place * 2 + i % 2]

        self.products[-1].append((multiply, targets))

    def _matrix(self, described: _Described, rows: int, number: str, columns: int = 16) -> Array:
        """Rows of 16 bytes in shared memory, or swizzled ones, eight of which follow each other."""
        start, leading, stride, swizzled = described
        i, j = np.arange(rows)[:, None], np.arange(columns)
        if swizzled:
            places = start - SHARED_BASE + i // 8 * stride + i % 8 * _SWIZZLED_BYTES + j * 2
            places ^= places // _SWIZZLED_BYTES % 8 * 16
        else:
            places = start - SHARED_BASE + i // 8 * stride + i % 8 * 16 + j // 8 * leading + j % 8 * 2
        found = self.workgroup.shared[places[..., None] + np.arange(2)]
        return NUMBERS[number](found.copy().view(np.uint16)[..., 0])
