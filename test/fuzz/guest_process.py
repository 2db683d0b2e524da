"""Programs for AArch64 as functions on numpy arrays, as `iree.winograd.load` gives them on such a machine."""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from guarded import Edge
from guarded_call import GuardedCall
from guest import ROOT, Guest
from guest_server import CALLABLE_WITHOUT_NAME

Array = npt.NDArray[Any]

_SOURCES = ("dialect", "passes", "pipelines")
_PR_SET_PDEATHSIG = 1


class GuestEndedError(Exception):
    """A program, or loading it, has ended the guest's process; the text has the signal and what was said."""


class GuestProcess:
    """A process of a guest, which loads and calls programs."""

    def __init__(self, processor: str) -> None:
        """Raises NoGuestError."""
        guest = Guest.find(processor)
        self._folder = tempfile.TemporaryDirectory(prefix="iree-winograd-guest-")
        self._said = Path(self._folder.name, "said.txt")
        paths = [Path(__file__).parent, *filter(None, [guest.packages]), self._imported()]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        if guest.packages is not None:
            environment.pop("PYTHONHOME", None)
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [*guest.command, "-W", "ignore", str(Path(__file__).with_name("guest_server.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=environment,
                preexec_fn=_end_with_parent,
            )
        self._numbers = itertools.count()
        self._dropped: list[int] = []
        self._asking = threading.RLock()

    def _imported(self) -> Path:
        """A folder in which the checkout lies as it is imported."""
        package = Path(self._folder.name, "iree", "winograd")
        package.mkdir(parents=True)
        sources = (ROOT / "python" / "winograd").iterdir()
        for source in (*sources, *(ROOT / name for name in _SOURCES)):
            (package / source.name).symlink_to(source)
        return package.parents[1]

    def load(
        self,
        program: bytes | str | os.PathLike[str],
        device: str = "local-task",
        *,
        threads: int | None = None,
    ) -> GuestProgram:
        """As `iree.winograd.load`, of which it raises the errors, and GuestEndedError."""
        number = next(self._numbers)
        given = program if isinstance(program, bytes) else os.path.abspath(program)
        return GuestProgram(self, number, self.ask("load", number, given, device, threads))

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the server's returns, or raises. Raises GuestEndedError."""
        with self._asking:
            if self._dropped:
                dropped, self._dropped = self._dropped, []
                self.ask("drop", *dropped)
            done, answer = self._exchange((method, *arguments))
        if not done:
            raise answer
        return answer

    def _exchange(self, request: tuple[Any, ...]) -> tuple[bool, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            answer: tuple[bool, Any] = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            raise GuestEndedError(self._last_words()) from None
        return answer

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def forget(self, number: int) -> None:
        """Have a program be dropped before the next request: the collector may call this amid one."""
        self._dropped.append(number)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._folder.cleanup()

    def _last_words(self) -> str:
        code = self._process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"{name}\n{self._said.read_text(errors='replace')[-4000:]}"


class GuestProgram:
    """A program that a guest has loaded. Its functions are attributes; it is called like the only one."""

    def __init__(self, guest: GuestProcess, number: int, signatures: Mapping[str, Any]) -> None:
        self._guest = guest
        self._number = number
        self._signatures = signatures
        weakref.finalize(self, guest.forget, number)

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(self._signatures)

    def __getattr__(self, name: str) -> GuestFunction:
        if name not in self.__dict__.get("_signatures", {}):
            raise AttributeError(name)
        return GuestFunction(self, name, self._signatures[name])

    def __call__(self, *arguments: Any) -> Any:
        return GuestFunction(self, CALLABLE_WITHOUT_NAME, None)(*arguments)

    def call(self, function: str, arguments: Sequence[Array], edge: Edge) -> GuardedCall:
        """Call one of its functions on arrays beside pages that may not be touched."""
        answer: GuardedCall = self._guest.ask("call", self._number, function, arguments, edge)
        return answer


class GuestFunction:
    def __init__(self, program: GuestProgram, name: str, signature: Any) -> None:
        self._program = program
        self._name = name
        self.signature = signature

    def __call__(self, *arguments: Any) -> Any:
        """As a loaded function; arguments that lie in one memory don't in the guest.

        Raises AssertionError where the program writes beyond an argument.
        """
        given = [_as_array(argument) for argument in arguments]
        call = self._program.call(self._name, given, "end")
        assert not call.overrun, f"writes beyond arguments {call.overrun}"
        for index, values in call.changed.items():
            given[index][...] = values
        has_tensor = any(_is_tensor(argument) for argument in arguments)
        results = [_as_tensor(result) if has_tensor else result for result in call.results]
        return results[0] if len(results) == 1 else tuple(results)


@cache
def _process(processor: str) -> list[GuestProcess]:
    return []


def load_in_guest(
    processor: str, program: bytes | str, device: str = "local-task", *, threads: int | None = None
) -> GuestProgram:
    """As `iree.winograd.load`, in this process's guest; another one begins where that has ended.

    Raises NoGuestError, GuestEndedError, and what `load` raises.
    """
    started = _process(processor)
    if started and started[0].has_ended:
        started.pop().stop()
    if not started:
        started.append(GuestProcess(processor))
    return started[0].load(program, device, threads=threads)


def _end_with_parent() -> None:
    """A call that hangs would outlive a process that is killed for it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_tensor(argument: Any) -> bool:
    return hasattr(argument, "detach")


def _as_array(argument: Any) -> Array:
    """A numpy array of an argument's numbers, in its memory where there is one."""
    if not _is_tensor(argument):
        return np.asarray(argument)
    import ml_dtypes
    import torch

    detached = argument.detach()
    if detached.dtype == torch.bfloat16:
        bits: Array = detached.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: Array = detached.numpy()
    return array


def _as_tensor(result: Array) -> Any:
    import torch

    if result.dtype.name == "bfloat16":
        return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(result)
