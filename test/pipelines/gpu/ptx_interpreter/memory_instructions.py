"""Instructions on memory: loads, stores, copies beside the computation, and barriers that count these."""

from __future__ import annotations

import re

import numpy as np

from .numbers import TYPES, Array
from .program import Instruction
from .tensor_maps import TensorMapInstructions
from .warp_state import CLUSTER_STEP, LANES, Phases


class MemoryInstructions(TensorMapInstructions):
    def arrive(self) -> None:
        """What was to arrive as soon as copies have come does so."""
        for copies, place, lanes in self.arrivals:
            for to, found, _ in copies:
                self.workgroup.shared[to] = found
            self.workgroup.phases[place].arrivals += lanes
        self.arrivals = []

    def do_prefetch(self, each: Instruction, active: Array) -> None:
        """Nothing: it only takes time."""

    def do_ld(self, each: Instruction, active: Array) -> None:
        if each.opcode[1] == "param":
            value = self.workgroup.parameters[each.operands[1][1:-1]]
            # What is loaded is as wide as the register, or narrower.
            width = np.uint64 if each.operands[0].startswith("%rd") else np.uint32
            self.write(each.operands[0], np.full(LANES, value, np.uint64).astype(width), active)
            return
        size = np.dtype(TYPES[each.opcode[-1]]).itemsize
        targets = re.findall(r"%\w+", each.operands[0])
        address = self.address(each.operands[1])
        assert (address[active] % (size * len(targets)) == 0).all()
        memory, place = self.memory(each.opcode[1], address, active)
        places = np.where(active, place, place[active][0])
        for i, target in enumerate(targets):
            found = memory[places[:, None] + (i * size + np.arange(size))]
            self.write(target, found.copy().view(TYPES[each.opcode[-1]])[:, 0], active)

    def do_st(self, each: Instruction, active: Array) -> None:
        type_ = each.opcode[-1]
        size = np.dtype(TYPES[type_]).itemsize
        sources = [part for part in re.split(r"[{},\s]+", each.operands[1]) if part]
        address = self.address(each.operands[0])
        assert (address[active] % (size * len(sources)) == 0).all()
        # Lanes may write to the workgroups of a cluster, one each.
        owners = address // CLUSTER_STEP if each.opcode[1] == "shared" else np.zeros(LANES, np.int64)
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
        elif each.opcode[2:4] == ("bulk", "tensor"):
            self.copy_box(each, active)
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
            # Fewer than 16 bytes go through the first cache.
            assert (each.opcode[2], size) in (("cg", 16), ("ca", 8)) and len(each.operands) < 5
            copied = self.value((*each.operands, str(size))[3], "u32")[active]
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
        there = address + (number.astype(np.uint64) + np.uint64(1)) * np.uint64(CLUSTER_STEP)
        self.write(each.operands[0], there, active)

    def do_mbarrier(self, each: Instruction, active: Array) -> None:
        expects = "expect_tx" in each.opcode
        number = 1 if expects else -1 if each.opcode[1] == "arrive" else 0
        (place,) = set(self.address(each.operands[number])[active].tolist())
        if expects:
            self.workgroup.phases[place].bytes += int(self.value(each.operands[2], "u32")[active][0])
        if each.opcode[1] == "init":
            self.workgroup.phases[place] = Phases(int(self.value(each.operands[1], "u32")[active][0]))
        else:
            assert each.opcode[1] == "arrive"
            self.workgroup.phases[place].arrivals += int(active.sum())
