"""Kernels for NVIDIA's GPUs on a CPU: what their text (PTX) says, one warp at a time.

Each warp runs until the next barrier before another one does, and what is copied beside the computation
arrives when its warp waits for it: so that what isn't waited for is missing. Matrix units truncate
(`matrix_unit_sums.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matrix_unit_sums import product_on_matrix_units

Array = npt.NDArray[np.generic]

LANES = 32
_ALL = np.full(LANES, True)
"""Of the lanes of a warp."""
_SHARED_BASE = 1 << 12
_GLOBAL_STEP = 1 << 40
_CLUSTER_STEP = 1 << 30
"""Between the shared memory of a cluster's workgroups, as they see that of each other."""
_TF32_BITS, _UPPER_HALF = 0xFFFFE000, 0xFFFF0000
_TYPES: Mapping[str, type[np.generic]] = {
    "b8": np.uint8,
    "b16": np.uint16,
    "u16": np.uint16,
    "s16": np.int16,
    "b32": np.uint32,
    "u32": np.uint32,
    "s32": np.int32,
    "f16": np.float16,
    "f32": np.float32,
    "b64": np.uint64,
    "u64": np.uint64,
    "s64": np.int64,
    "pred": np.bool_,
}
_SWIZZLED_BYTES = 128
"""Of a row."""
_TOGETHER = ("await", "bar", "barrier", "ldmatrix", "mma", "shfl", "wgmma")
"""What all lanes of a warp do at once."""
_WAITING = (
    r"\{\s*\.reg \.pred\s+P1;\s*LAB_WAIT:\s*mbarrier\.try_wait\.parity\.shared\.b64 P1, (.*?), \d+;"
    r"\s*@P1 bra\.uni DONE;\s*bra\.uni\s+LAB_WAIT;\s*DONE:\s*\}"
)
"""As LLVM writes that threads wait for a phase of a barrier in shared memory."""
_COMPARISONS: Mapping[str, Callable[..., Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "neu": np.not_equal,
    "nan": lambda left, right: np.isnan(left) | np.isnan(right),
}

_NUMBERS: Mapping[str, Callable[[Array], Array]] = {
    "f16": lambda bits: bits.view(np.float16).astype(np.float64),
    "bf16": lambda bits: _single(bits.astype(np.uint32) << np.uint32(16)),
}
_FACTORS: Mapping[str, tuple[Callable[[Array], list[Array]], int]] = {
    "tf32": (lambda bits: [_single(bits & np.uint32(_TF32_BITS))], 1),
    "bf16": (lambda bits: [_single(bits << np.uint32(16)), _single(bits & np.uint32(_UPPER_HALF))], 2),
    "f16": (lambda bits: [_f16(bits), _f16(bits >> np.uint32(16))], 2),
}
"""What a register holds of an operand of matrix units, and how many numbers that is."""
_HALVES: Mapping[str, Callable[[Array], Array]] = {
    "f16x2": lambda single: single.astype(np.float16).view(np.uint16),
    "bf16x2": lambda single: _upper_half(single.view(np.uint32)),
}
"""What a register's half is of a number of fp32."""
_PAIRS: Mapping[str, str] = {"f16x2": "f16", "bf16x2": "bf16"}
"""What two numbers of a register are."""
_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {"rmi": np.floor, "rzi": np.trunc, "rni": np.rint}


@dataclass(frozen=True)
class Instruction:
    predicate: str | None
    negated: bool
    opcode: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel's instructions, and where its labels are."""

    parameters: tuple[str, ...]
    threads: int
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    cluster: int = 1
    """Workgroups that run at once."""

    @staticmethod
    def parsed(text: str, name: str) -> Kernel:
        """The kernel of that name in a module."""
        found = re.search(rf"\.entry {name}\((.*?)\)\s*\.maxntid (\d+)(.*?)\{{", text, re.S)
        assert found is not None, name
        body = re.sub(r"//[^\n]*", "", text[found.end() : _end_of_block(text, found.end())])
        body = re.sub(_WAITING, r"await.parity \1;", body)
        instructions: list[Instruction] = []
        labels = {}
        for statement in body.split(";"):
            line = statement.strip().lstrip("{} \n\t")
            while label := re.match(r"(\$\w+):\s*", line):
                labels[label[1]] = len(instructions)
                line = line[label.end() :]
            if line and not line.startswith("."):
                instructions.append(_parsed(" ".join(line.split())))
        parameters = tuple(re.findall(r"(\w+_param_\d+)", found[1]))
        cluster = re.search(r"\.reqnctapercluster (\d+)", found[3])
        workgroups = 1 if cluster is None else int(cluster[1])
        return Kernel(parameters, int(found[2]), tuple(instructions), labels, workgroups)

    @cached_property
    def waiting(self) -> frozenset[int]:
        """Where lanes wait for all others of their warp: before what they do at once, and at the end."""
        together = (i for i, each in enumerate(self.instructions) if each.opcode[0] in _TOGETHER)
        return frozenset((*together, len(self.instructions)))

    @staticmethod
    def by_stage(text: str) -> dict[str, Kernel]:
        """The kernels of a program that has one of each stage, after which they are named."""
        names = re.findall(r"\.entry (winograd_(\w+?)_\w+)\(", text)
        return {stage: Kernel.parsed(text, name) for name, stage in names}

    def run(self, arguments: Sequence[Array], workgroups: Iterator[tuple[int, ...]]) -> None:
        """Runs some workgroups on arrays, those that it writes to changed in place, and numbers (0-D arrays).

        Those of a cluster follow each other.
        """
        numbers = iter(workgroups)
        while together := [_Workgroup(self, arguments, each) for each in islice(numbers, self.cluster)]:
            assert len(together) == self.cluster
            for workgroup in together:
                workgroup.cluster = together
            running = [each.run() for each in together]
            while (waiting := [next(each, False) for each in running])[0]:
                assert all(waiting), "some workgroups of a cluster end where others wait"
            assert not any(waiting), "some workgroups of a cluster end where others wait"


def _end_of_block(text: str, begin: int) -> int:
    """Where the block ends that begins there."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return begin + brace.start()
    raise AssertionError("a block doesn't end")


def _parsed(line: str) -> Instruction:
    found = re.fullmatch(r"(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*)", line)
    assert found is not None, line
    operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s|]+", found[4])
    return Instruction(found[2], found[1] == "!", tuple(re.split(r"\.|::", found[3])), tuple(operands))


class _Workgroup:
    def __init__(self, kernel: Kernel, arguments: Sequence[Array], number: tuple[int, ...]) -> None:
        self.kernel, self.number = kernel, number
        self.shared = np.full(1 << 18, 0xFF, np.uint8)
        self.phases: dict[int, _Phases] = {}
        self.buffers = [each.reshape(-1).view(np.uint8) for each in arguments]
        self.parameters = {
            name: (i + 1) * _GLOBAL_STEP if argument.ndim else int(argument)
            for i, (name, argument) in enumerate(zip(kernel.parameters, arguments, strict=True))
        }
        self.cluster = [self]
        self.has_ended = False

    def run(self) -> Iterator[bool]:
        """Runs until the end; stops where it waits for its cluster."""
        warps = [_Warp(self, i) for i in range(self.kernel.threads // LANES)]
        running = [each.run() for each in warps]
        while running:
            places = {each: next(each, "end") for each in running}
            while waiting := [each for each, place in places.items() if place == "phase"]:
                arrivals = sum(each.arrivals for each in self.phases.values())
                places.update({each: next(each, "end") for each in waiting})
                arrived = sum(each.arrivals for each in self.phases.values()) > arrivals
                assert arrived or set(places.values()) != {"phase"}, "all wait for each other"
            assert len(set(places.values())) == 1, "some warps end where others wait"
            if "end" in places.values():
                self.has_ended = True
                return
            if "cluster" in places.values():
                yield True
            # The one that was last goes first.
            running.reverse()


@dataclass
class _Phases:
    """Those of a barrier in shared memory, each of so many arrivals."""

    expected: int
    arrivals: int = 0
    bytes: int = 0
    """Of copies, that have yet to come before the last arrival counts."""

    def are_past(self, parity: int) -> bool:
        """Whether the last one of a parity has ended."""
        return self.bytes == 0 and self.arrivals // self.expected % 2 != parity


@dataclass
class _Warp:
    workgroup: _Workgroup
    number: int
    registers: dict[str, Array] = field(default_factory=dict)
    copies: list[list[tuple[Array, Array, int]]] = field(default_factory=lambda: [[]])
    copies_out: list[list[tuple[Array, int, int, int]]] = field(default_factory=lambda: [[]])
    """To the device's memory, by groups: where to, the place there and in shared memory, and bytes."""
    arrivals: list[tuple[list[tuple[Array, Array, int]], int, int]] = field(default_factory=list)
    """At barriers in shared memory, of so many lanes, once copies have come."""
    products: list[list[tuple[Callable[[], None], list[str]]]] = field(default_factory=lambda: [[]])
    """Of the warp's warpgroup, those that aren't waited for, by groups, and the registers of their sums."""
    sums: dict[str, Array] = field(default_factory=dict)
    """What these are added to, by register."""

    def run(self) -> Iterator[str]:
        """Runs until the end; stops at each barrier."""
        places = np.zeros(LANES, np.int64)
        instructions = self.workgroup.kernel.instructions
        end = len(instructions)
        while (following := self._next(places))[0] < end:
            place, active = following
            instruction = instructions[place]
            places[active] = place + 1
            if instruction.predicate is not None:
                chosen = self.registers[instruction.predicate]
                active = active & (~chosen if instruction.negated else chosen)
                if not active.any():
                    continue
            name = instruction.opcode[0]
            if name == "bra":
                places[active] = self.workgroup.kernel.labels[instruction.operands[0]]
            elif name == "ret":
                places[active] = end
            elif instruction.opcode[:2] == ("barrier", "cluster"):
                assert active.all()
                if instruction.opcode[2] == "wait":
                    self.arrive()
                    yield "cluster"
            elif instruction.opcode[:2] == ("bar", "warp"):
                assert active.all()
            elif name in ("bar", "barrier"):
                assert active.all()
                self.arrive()
                yield "barrier"
            elif name == "await":
                # One lane may wait by itself, if others don't go on meanwhile.
                (place,) = set(self.address(instruction.operands[0])[active].tolist())
                (parity,) = set(self.value(instruction.operands[1], "u32")[active].tolist())
                while not self.workgroup.phases[place].are_past(parity):
                    self.arrive()
                    yield "phase"
            else:
                getattr(self, f"do_{name}")(instruction, active)
        self.arrive()

    def arrive(self) -> None:
        """What was to arrive as soon as copies have come does so."""
        for copies, place, lanes in self.arrivals:
            for to, found, _ in copies:
                self.workgroup.shared[to] = found
            self.workgroup.phases[place].arrivals += lanes
        self.arrivals = []

    def _next(self, places: Array) -> tuple[int, Array]:
        """Where lanes go on, and which: those that are furthest behind, unless they wait for all others."""
        found = set(places.tolist())
        if len(found) == 1:
            return found.pop(), _ALL
        place = min(found - self.workgroup.kernel.waiting or found)
        return place, places == place

    # Operands

    def value(self, operand: str, type_: str) -> Array:
        wanted = _TYPES[type_]
        if (found := self.registers.get(operand)) is not None:
            return found if found.dtype == wanted else found.view(wanted)
        if operand.startswith("%tid.x"):
            return (np.arange(LANES) + self.number * LANES).astype(wanted)
        if operand.startswith("%ctaid."):
            return np.full(LANES, self.workgroup.number["xyz".index(operand[-1])]).astype(wanted)
        return _constant(operand, type_)

    def write(self, register: str, value: Array, active: Array) -> None:
        if active is not _ALL and register in self.registers and not active.all():
            old = self.registers[register]
            value = np.where(active, value, old.view(value.dtype))
        self.registers[register] = value

    def address(self, operand: str) -> Array:
        base, _, offset = operand[1:-1].partition("+")
        if base.startswith("%"):
            found = self.registers[base].astype(np.int64)
        else:
            found = self.value(base, "u64").astype(np.int64)
        return found + int(offset or 0)

    def memory(self, space: str, address: Array, active: Array) -> tuple[Array, Array]:
        if space == "shared":
            (number,) = set((address[active] // _CLUSTER_STEP).tolist())
            owner = self.workgroup.cluster[number - 1] if number else self.workgroup
            assert not owner.has_ended, "a workgroup's memory is read when it has ended"
            return owner.shared, address - number * _CLUSTER_STEP - _SHARED_BASE
        number = int(address[active][0]) // _GLOBAL_STEP
        assert (address[active] // _GLOBAL_STEP == number).all()
        return self.workgroup.buffers[number - 1], address - number * _GLOBAL_STEP

    # Instructions

    def _binary(self, each: Instruction, active: Array, function: Callable[..., Array]) -> None:
        type_ = each.opcode[-1]
        left, right = (self.value(operand, type_) for operand in each.operands[1:3])
        with np.errstate(all="ignore"):
            self.write(each.operands[0], function(left, right).astype(_TYPES[type_]), active)

    def do_add(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.add)

    def do_sub(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.subtract)

    def do_min(self, each: Instruction, active: Array) -> None:
        self._binary(each, active, np.minimum)

    def do_max(self, each: Instruction, active: Array) -> None:
        if each.opcode[1] == "NaN" and each.opcode[-1] in _PAIRS:
            left, right = (self.value(operand, "b32") for operand in each.operands[1:3])
            self.write(each.operands[0], _maxima_of_pairs(left, right, _PAIRS[each.opcode[-1]]), active)
            return
        self._binary(each, active, np.fmax if each.opcode[-1] == "f32" else np.maximum)

    def do_div(self, each: Instruction, active: Array) -> None:
        if "ftz" in each.opcode:
            left, right = (_flushed(self.value(operand, "f32")) for operand in each.operands[1:3])
            with np.errstate(all="ignore"):
                self.write(each.operands[0], _flushed(left / right), active)
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
        type_ = _TYPES[each.opcode[-1]]
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
            return left.astype(_TYPES[wide]) * right.astype(_TYPES[wide]), wide
        if part == "hi":
            bits = int(type_[1:])
            product = [int(a) * int(b) >> bits for a, b in zip(left, right, strict=True)]
            return np.array(product).astype(_TYPES[type_]), type_
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
            self.write(each.operands[0], halves.view(_TYPES[each.opcode[-1]])[:, 0], active)
        else:
            self.write(each.operands[0], self.value(each.operands[1], each.opcode[-1]).copy(), active)

    def do_cvta(self, each: Instruction, active: Array) -> None:
        self.do_mov(each, active)

    def do_cvt(self, each: Instruction, active: Array) -> None:
        to, source = each.opcode[-2:]
        if to in _HALVES:
            high, low = (_HALVES[to](self.value(operand, source)) for operand in each.operands[1:])
            self.write(each.operands[0], np.stack([low, high], 1).view(np.uint32)[:, 0], active)
            return
        value = self.value(each.operands[1], source)
        rounding = next((_ROUNDINGS[part] for part in each.opcode if part in _ROUNDINGS), None)
        with np.errstate(all="ignore"):
            rounded = value if rounding is None else rounding(value)
            self.write(each.operands[0], rounded.astype(_TYPES[to]), active)

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
        flushed = _flushed if "ftz" in each.opcode else np.asarray
        with np.errstate(all="ignore"):
            quotient = np.float32(1) / flushed(self.value(each.operands[1], "f32"))
            self.write(each.operands[0], flushed(quotient), active)

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
            self.write(each.operands[0], _COMPARISONS[each.opcode[1]](left, right), active)

    def do_selp(self, each: Instruction, active: Array) -> None:
        one, other = (self.value(operand, each.opcode[-1]) for operand in each.operands[1:3])
        self.write(each.operands[0], np.where(self.registers[each.operands[3]], one, other), active)

    def do_prefetch(self, each: Instruction, active: Array) -> None:
        """Nothing: it only takes time."""

    def do_ld(self, each: Instruction, active: Array) -> None:
        if each.opcode[1] == "param":
            value = self.workgroup.parameters[each.operands[1][1:-1]]
            # What is loaded is as wide as the register, or narrower.
            width = np.uint64 if each.operands[0].startswith("%rd") else np.uint32
            self.write(each.operands[0], np.full(LANES, value, np.uint64).astype(width), active)
            return
        size = np.dtype(_TYPES[each.opcode[-1]]).itemsize
        targets = re.findall(r"%\w+", each.operands[0])
        address = self.address(each.operands[1])
        assert (address[active] % (size * len(targets)) == 0).all()
        memory, place = self.memory(each.opcode[1], address, active)
        places = np.where(active, place, place[active][0])
        for i, target in enumerate(targets):
            found = memory[places[:, None] + (i * size + np.arange(size))]
            self.write(target, found.copy().view(_TYPES[each.opcode[-1]])[:, 0], active)

    def do_st(self, each: Instruction, active: Array) -> None:
        type_ = each.opcode[-1]
        size = np.dtype(_TYPES[type_]).itemsize
        sources = [part for part in re.split(r"[{},\s]+", each.operands[1]) if part]
        address = self.address(each.operands[0])
        assert (address[active] % (size * len(sources)) == 0).all()
        # Lanes may write to the workgroups of a cluster, one each.
        owners = address // _CLUSTER_STEP if each.opcode[1] == "shared" else np.zeros(LANES, np.int64)
        for owner in np.unique(owners[active]):
            writing = active & (owners == owner)
            memory, place = self.memory(each.opcode[1], address, writing)
            for i, source in enumerate(sources):
                bytes_ = np.ascontiguousarray(self.value(source, type_)).view(np.uint8).reshape(LANES, size)
                memory[place[writing][:, None] + (i * size + np.arange(size))] = bytes_[writing]

    def do_cp(self, each: Instruction, active: Array) -> None:
        if each.opcode[2] == "mbarrier":
            (place,) = set(self.address(each.operands[0])[active].tolist())
            self.arrivals.append((self.copies.pop(), place, int(active.sum())))
            self.copies.append([])
        elif each.opcode[2] == "bulk" and each.opcode[3] in ("commit_group", "wait_group"):
            self._order_copies_out(each)
        elif each.opcode[2:4] == ("bulk", "global"):
            self._begin_copies_out(each, active)
        elif each.opcode[2] == "bulk":
            self._copy_in_bulk(each, active)
        elif each.opcode[2] == "commit_group":
            self.copies.append([])
        elif each.opcode[2] == "wait_group":
            pending = int(each.operands[0])
            arrived = self.copies[: len(self.copies) - 1 - pending]
            for to, found, _ in (copy for group in arrived for copy in group):
                self.workgroup.shared[to] = found
            self.copies = self.copies[len(arrived) :]
        else:
            size = int(each.operands[2])
            assert size == 16 and len(each.operands) < 5
            copied = self.value((*each.operands, "16")[3], "u32")[active]
            assert np.isin(copied, (0, size)).all()
            _, to = self.memory("shared", self.address(each.operands[0]), active)
            assert (to[active] % size == 0).all()
            targets = to[active][:, None] + np.arange(size)
            # What is there meanwhile is no number.
            self.workgroup.shared[targets] = 0xFF
            found = np.zeros((len(targets), size), np.uint8)
            # Whatever is cleared has no source.
            reading = active.copy()
            reading[active] = copied > 0
            if reading.any():
                memory, place = self.memory("global", self.address(each.operands[1]), reading)
                assert (place[reading] % size == 0).all()
                found[copied > 0] = memory[place[reading][:, None] + np.arange(size)]
            self.copies[-1].append((targets, found, size))

    def _copy_in_bulk(self, each: Instruction, active: Array) -> None:
        """A copy by one lane, of whose bytes a barrier is told."""
        assert active.sum() == 1
        (size,) = self.value(each.operands[2], "u32")[active].tolist()
        _, to = self.memory("shared", self.address(each.operands[0]), active)
        memory, place = self.memory("global", self.address(each.operands[1]), active)
        (to,), (place,) = to[active], place[active]
        assert size % 16 == to % 16 == place % 16 == 0
        self.workgroup.shared[to : to + size] = memory[place : place + size]
        (barrier,) = self.address(each.operands[3])[active].tolist()
        self.workgroup.phases[barrier].bytes -= size

    def _begin_copies_out(self, each: Instruction, active: Array) -> None:
        """Copies to the device's memory, one of each lane, of what shared memory has when they are done."""
        sizes = self.value(each.operands[2], "u32")[active].tolist()
        memory, to = self.memory("global", self.address(each.operands[0]), active)
        _, place = self.memory("shared", self.address(each.operands[1]), active)
        for target, source, size in zip(to[active], place[active], sizes, strict=True):
            assert size % 16 == target % 16 == source % 16 == 0 and size > 0
            self.copies_out[-1].append((memory, target, source, size))

    def _order_copies_out(self, each: Instruction) -> None:
        if each.opcode[3] == "commit_group":
            self.copies_out.append([])
            return
        done = len(self.copies_out) - 1 - int(each.operands[0])
        for memory, target, source, size in (copy for group in self.copies_out[:done] for copy in group):
            memory[target : target + size] = self.workgroup.shared[source : source + size]
        self.copies_out = self.copies_out[max(0, done) :]

    def do_mapa(self, each: Instruction, active: Array) -> None:
        """The address of what is at the same place in a workgroup of the cluster."""
        address, number = self.value(each.operands[1], "u64"), self.value(each.operands[2], "u32")
        there = address + (number.astype(np.uint64) + np.uint64(1)) * np.uint64(_CLUSTER_STEP)
        self.write(each.operands[0], there, active)

    def do_shfl(self, each: Instruction, active: Array) -> None:
        assert active.all() and each.opcode[2] == "bfly"
        target, *others = each.operands
        source, offset = others[-4:-2]
        lanes = np.arange(LANES) ^ int(offset)
        self.write(target, self.value(source, "b32")[lanes], active)
        if len(others) == 5:
            self.write(others[0], np.full(LANES, True), active)

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
        read, together = _FACTORS[each.opcode[-2]]
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

    def do_fence(self, each: Instruction, active: Array) -> None:
        """Nothing: what is written is seen at once."""

    def do_setmaxnreg(self, each: Instruction, active: Array) -> None:
        """Nothing: there are registers for all."""
        assert active.all() and int(each.operands[0]) % 8 == 0

    def do_mbarrier(self, each: Instruction, active: Array) -> None:
        expects = "expect_tx" in each.opcode
        number = 1 if expects else -1 if each.opcode[1] == "arrive" else 0
        (place,) = set(self.address(each.operands[number])[active].tolist())
        if expects:
            self.workgroup.phases[place].bytes += int(self.value(each.operands[2], "u32")[active][0])
        if each.opcode[1] == "init":
            self.workgroup.phases[place] = _Phases(int(self.value(each.operands[1], "u32")[active][0]))
        else:
            assert each.opcode[1] == "arrive"
            self.workgroup.phases[place].arrivals += int(active.sum())

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
                        a[row + i % 2 * 8, place * 2 + i // 2 * 8 + j] = _NUMBERS[number](halves[:, j].copy())
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
            places = start - _SHARED_BASE + i // 8 * stride + i % 8 * _SWIZZLED_BYTES + j * 2
            places ^= places // _SWIZZLED_BYTES % 8 * 16
        else:
            places = start - _SHARED_BASE + i // 8 * stride + i % 8 * 16 + j // 8 * leading + j % 8 * 2
        found = self.workgroup.shared[places[..., None] + np.arange(2)]
        return _NUMBERS[number](found.copy().view(np.uint16)[..., 0])


@cache
def _constant(operand: str, type_: str) -> Array:
    """A number that an instruction names, for each lane."""
    wanted = _TYPES[type_]
    if operand == "__dynamic_shared_memory__":
        return np.full(LANES, _SHARED_BASE).astype(wanted)
    if operand.startswith(("0f", "0F")):
        return np.full(LANES, int(operand[2:], 16), np.uint32).view(wanted)
    number = int(operand.removesuffix("U"), 0)
    bits = 8 * np.dtype(wanted).itemsize
    return (
        np.full(LANES, number % (1 << bits), f"u{bits // 8}").view(wanted)
        if bits > 8
        else np.full(LANES, bool(number))
    )


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


def _maxima_of_pairs(left: Array, right: Array, type_: str) -> Array:
    """The larger of both in each half of a register, a NaN where one is."""
    halves = [np.ascontiguousarray(each).view(np.uint16) for each in (left, right)]
    one, other = (_NUMBERS[type_](each) for each in halves)
    return np.where((one >= other) | np.isnan(one), *halves).view(np.uint32)


def _upper_half(bits: Array) -> Array:
    """bf16's nearest number, the even one of two as near."""
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )


def _flushed(value: Array) -> Array:
    """Without what is below the least normal number of f32."""
    return np.where(np.abs(value) < np.finfo(np.float32).tiny, np.float32(0), value)


def _single(bits: Array) -> Array:
    return bits.view(np.float32).astype(np.float64)


def _f16(bits: Array) -> Array:
    """The number that the lower half of each is."""
    return bits.astype(np.uint16).view(np.float16).astype(np.float64)
