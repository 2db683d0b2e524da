"""Instructions on tensor maps, and copies of boxes of the matrices that they describe."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from .numbers import Array
from .program import Instruction
from .warp_state import WarpState

_MAP_BYTES = 128
_MAP_FIELDS = (
    ("global_address", None),
    ("rank", None),
    ("box_dim", 0),
    ("box_dim", 1),
    ("global_dim", 0),
    ("global_dim", 1),
    ("global_stride", 0),
    ("element_stride", 0),
    ("element_stride", 1),
    ("elemtype", None),
    ("interleave_layout", None),
    ("swizzle_mode", None),
    ("fill_mode", None),
)
"""Of a tensor map, here of 64 bits each, in this order. How GPUs have them nobody says."""
_HALF_TYPES, _SWIZZLES_128 = (6, 10), 3
"""What `elemtype` and `swizzle_mode` are of f16 and bf16, and of rows of 128 bytes."""
_HALF_BYTES, _ROW_BYTES, _CHUNK = 2, 128, 16


class TensorMapInstructions(WarpState):
    def do_tensormap(self, each: Instruction, active: Array) -> None:
        """Changes a field of a tensor map in shared memory, or copies one to the device's memory."""
        if each.opcode[1] == "cp_fenceproxy":
            assert active.all() and each.opcode[2] == "global" and each.operands[2] == str(_MAP_BYTES)
            memory, place = self.memory("global", self.address(each.operands[0]), active)
            shared, source = self.memory("shared", self.address(each.operands[1]), active)
            assert place[0] % 64 == source[0] % _MAP_BYTES == 0
            memory[place[0] : place[0] + _MAP_BYTES] = shared[source[0] : source[0] + _MAP_BYTES]
            return
        assert active.sum() == 1 and each.opcode[1:3] == ("replace", "tile")
        *ordinal, operand = each.operands[1:]
        kind = (each.opcode[3], int(ordinal[0]) if ordinal else None)
        shared, place = self.memory("shared", self.address(each.operands[0]), active)
        first = place[active][0] + 8 * _MAP_FIELDS.index(kind)
        wide = self.value(operand, "u64" if each.opcode[-1] == "b64" else "u32")[active].astype(np.uint64)
        shared[first : first + 8] = wide.view(np.uint8)

    def do_fence(self, each: Instruction, active: Array) -> None:
        """Nothing: what is written is seen at once. Only tensor maps are seen as they were at a fence."""
        if each.opcode[:5] == ("fence", "proxy", "tensormap", "generic", "acquire"):
            memory, place = self.memory("global", self.address(each.operands[0]), active)
            (address,) = set(self.address(each.operands[0])[active].tolist())
            first = place[active][0]
            self.maps[address] = memory[first : first + _MAP_BYTES].copy()

    def copy_box(self, each: Instruction, active: Array) -> None:
        """Copies rows of a matrix, by one lane, or zeros where there are none, and tells a barrier."""
        assert active.sum() == 1 and each.opcode[4] == "2d"
        base, *coordinates = re.findall(r"%\w+", each.operands[1])
        (seen,) = self.address(f"[{base}]")[active].tolist()
        fields = self._fields(self.maps[seen])
        width, height = fields["box_dim", 0], fields["box_dim", 1]
        assert width * _HALF_BYTES == _ROW_BYTES and height <= 256
        column, row = (int(self.value(each, "s32")[active][0]) for each in coordinates)
        found = np.zeros((height, width), np.uint16)
        rows = min(height, max(0, fields["global_dim", 1] - row))
        columns = min(width, max(0, fields["global_dim", 0] - column))
        for number in range(rows if columns else 0):
            first = fields["global_address", None] + (row + number) * fields["global_stride", 0]
            address = np.full(active.shape, first + column * _HALF_BYTES, np.int64)
            memory, place = self.memory("global", address, active)
            bytes_ = memory[place[0] : place[0] + columns * _HALF_BYTES]
            found[number, :columns] = bytes_.view(np.uint16)
        _, to = self.memory("shared", self.address(each.operands[0]), active)
        (to,) = to[active]
        places = to + np.arange(height * _ROW_BYTES // _CHUNK) * _CHUNK
        places ^= places // _ROW_BYTES % 8 * _CHUNK
        shared = self.workgroup.shared
        shared[places[:, None] + np.arange(_CHUNK)] = found.view(np.uint8).reshape(-1, _CHUNK)
        (barrier,) = self.address(each.operands[2])[active].tolist()
        self.workgroup.phases[barrier].bytes -= height * _ROW_BYTES

    def _fields(self, described: Array) -> Mapping[tuple[str, int | None], int]:
        """What a tensor map says of a matrix of half precision."""
        numbers = described.view(np.uint64).tolist()
        fields = dict(zip(_MAP_FIELDS, numbers, strict=False))
        assert not any(numbers[len(_MAP_FIELDS) :])
        assert fields["rank", None] == fields["element_stride", 0] == fields["element_stride", 1] == 1
        assert fields["elemtype", None] in _HALF_TYPES and fields["swizzle_mode", None] == _SWIZZLES_128
        assert fields["interleave_layout", None] == fields["fill_mode", None] == 0
        assert fields["global_address", None] % 16 == fields["global_stride", 0] % 16 == 0
        return fields
