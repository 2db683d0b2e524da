"""What the process of a tool does for `benchmarks.threads`: its contenders are prepared, then take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iree.winograd.atomic_file import atomic_file

from benchmarks.isolation import questions, tell
from benchmarks.one_processor import on_one_processor
from benchmarks.timing import Contender, time_interleaved

if TYPE_CHECKING:
    from benchmarks.thread_subjects import ThreadSubject

PEERS = ("torch", "onnxruntime", "openvino")
TOOLS = (*PEERS, "iree", "ours", "limits")


@dataclass(frozen=True)
class Preparation:
    """What a process prepares: a subject in one of `TOOLS` for numbers of threads."""

    name: str
    batch: int
    threads: tuple[int, ...]
    programs: str
    """The folder of compiled ones."""
    tool: str


@dataclass(frozen=True)
class Turn:
    """A burst of each contender on so many threads, from the first to the last or backwards."""

    threads: int
    burst_seconds: float
    backwards: bool


def take_turns(preparation: Preparation) -> None:
    """Tells what failed when all is prepared, and then medians of each turn that is asked for."""
    from benchmarks.thread_subjects import thread_subject

    subject = thread_subject(preparation.name, preparation.batch)
    prepared = _Prepared(preparation, subject)
    tell(prepared.description())
    for question in questions():
        if "empty" in question:
            tell({"seconds": prepared.empty_dispatch_seconds(question["empty"])})
        else:
            tell(prepared.turn(Turn(**question)))


class _Prepared:
    def __init__(self, preparation: Preparation, subject: ThreadSubject) -> None:
        self._preparation = preparation
        self._subject = subject
        self._folder = Path(preparation.programs)
        self._failures: dict[str, dict[str, str]] = {}
        self._contenders = {threads: self._prepare(threads) for threads in preparation.threads}

    def description(self) -> dict[str, Any]:
        described: dict[str, Any] = {"failures": self._failures}
        if self._preparation.tool == "ours":
            described["shape"] = self._subject.image.shape
            described["programs"] = {
                threads: str(self._compiled("ours", threads)) for threads in self._contenders
            }
        return described

    def turn(self, turn: Turn) -> dict[str, float]:
        if self._preparation.tool == "torch":
            import torch

            torch.set_num_threads(turn.threads)
        contenders = self._contenders[turn.threads]
        with on_one_processor() if turn.threads == 1 else nullcontext():
            timings = time_interleaved(
                contenders[::-1] if turn.backwards else contenders, rounds=1, burst_seconds=turn.burst_seconds
            )
        return {name: timing.median for name, timing in timings.items()}

    def empty_dispatch_seconds(self, threads: int) -> float:
        from benchmarks.empty_dispatch import empty_dispatch_seconds

        return empty_dispatch_seconds(self._folder / f"empty-{threads}.vmfb", threads)

    def _prepare(self, threads: int) -> Sequence[Contender]:
        tool = self._preparation.tool
        if tool in PEERS:
            return self._subject.peers(tool, threads)
        if tool == "iree":
            return [*self._stock("iree", threads), *self._stock("iree-tiled", threads)]
        if tool == "limits":
            return self._probes(threads)
        from benchmarks.empty_dispatch import compile_empty_dispatches

        self._written(f"empty-{threads}", compile_empty_dispatches, threads)
        return our_calls(self._compiled("ours", threads), self._subject.image, threads)

    def _probes(self, threads: int) -> Sequence[Contender]:
        from benchmarks.limits import ThreadProbes, compile_thread_probes, filters_of, layers_of

        report = self._compiled("ours", threads).with_suffix(".json")
        filters = filters_of(layers_of(report, self._preparation.batch))
        program = self._written(f"limits-{threads}", compile_thread_probes, threads)
        return ThreadProbes(threads, filters).contenders(program)

    def _stock(self, compiler: str, threads: int) -> list[Contender]:
        from benchmarks.compiled import bind_program

        try:
            program = self._compiled(compiler, threads)
            return [Contender(compiler, bind_program(program, self._subject.image, threads)[0])]
        except Exception as failure:
            self._failures[compiler] = {"failure": str(failure).partition("\n")[0]}
            return []

    def _compiled(self, compiler: str, threads: int) -> Path:
        name = f"{self._preparation.name}-{self._preparation.batch}"
        return self._subject.compiled(self._folder, name, compiler, threads)

    def _written(self, name: str, compiled: Callable[[int], bytes], threads: int) -> Path:
        """The file in the folder with a program that doesn't depend on the subject."""
        path = self._folder / f"{name}.vmfb"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(str(path)) as unfinished:
                Path(unfinished).write_bytes(compiled(threads))
        return path


def our_calls(program: Path, image: Any, threads: int) -> list[Contender]:
    """Calls through `load` on an array where numpy puts large ones, 16 bytes into a page, and aligned."""
    import numpy as np
    from iree.winograd.loading.device import BUFFER_ALIGNMENT
    from iree.winograd.loading.runtime import load

    loaded = load(program, threads=threads)
    contenders = []
    for name, offset in (("ours", 16), ("ours-aligned", 0)):
        memory = np.empty(image.nbytes + 2 * BUFFER_ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % BUFFER_ALIGNMENT + offset
        array = memory[first : first + image.nbytes].view(image.dtype).reshape(image.shape)
        array[...] = image
        contenders.append(Contender(name, lambda array=array: loaded(array)))
    return contenders
