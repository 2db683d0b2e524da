"""The text of a kernel (PTX): instructions and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

_TOGETHER = ("await", "bar", "barrier", "ldmatrix", "mma", "shfl", "wgmma")
"""What all lanes of a warp do at once."""
_WAITING = (
    r"\{\s*\.reg \.pred\s+P1;\s*LAB_WAIT:\s*mbarrier\.try_wait\.parity\.shared\.b64 P1, (.*?), \d+;"
    r"\s*@P1 bra\.uni DONE;\s*bra\.uni\s+LAB_WAIT;\s*DONE:\s*\}"
)
"""As LLVM writes that threads wait for a phase of a barrier in shared memory."""


@dataclass(frozen=True)
class Instruction:
    predicate: str | None
    negated: bool
    opcode: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A kernel's instructions, and where its labels are."""

    parameters: tuple[str, ...]
    threads: int
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    cluster: int = 1
    """Workgroups that run at once."""

    @staticmethod
    def parsed(text: str, name: str) -> Program:
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
        return Program(parameters, int(found[2]), tuple(instructions), labels, workgroups)

    @cached_property
    def waiting(self) -> frozenset[int]:
        """Where lanes wait for all others of their warp: before what they do at once, and at the end."""
        together = (i for i, each in enumerate(self.instructions) if each.opcode[0] in _TOGETHER)
        return frozenset((*together, len(self.instructions)))


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
