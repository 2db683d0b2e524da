"""Checks programs in a process of its own, so that a crash of the compiler or of a program is a finding."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import program as p
from configuration import Configuration

MAX_CHECK = 600.0
"""Seconds; one that takes longer hangs. Twenty convolutions take 10, but of a processor that may be busy."""
CHECKS_PER_PROCESS = 40
"""The compiler's memory grows."""


@dataclass(frozen=True)
class Finding:
    kind: str
    message: str

    @property
    def signature(self) -> str:
        """The same for findings that are probably of one defect: what was said, without names and numbers."""
        lines = [line for line in self.message.splitlines() if line.strip()]
        said = " ".join(lines[:1])
        said = re.sub(r'loc\("[^"]*"\)|%[\w#]+|"?\b[cf]\d+\.v\d+"?|tensor<[^>]*>', "_", said)
        return f"{self.kind}: {re.sub(r'-?[0-9][0-9.e+-]*', '#', said)[:200]}"


@dataclass
class Outcome:
    finding: Finding | None
    counts: Counter[str] = field(default_factory=Counter)


class OutOfTimeError(Exception):
    """A check that wasn't over when there was no more time for it; the text says how long it took by then."""


class Checker:
    """Use it in a `with` statement.

    What isn't over at `deadline`, of the monotonic clock, raises `OutOfTimeError`.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self._deadline = deadline
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["checking"])
        self._process: Any = None
        self._connection: Connection | None = None
        self._checks = 0
        self._folder = tempfile.TemporaryDirectory(prefix="iree-winograd-fuzz-")
        self._said = Path(self._folder.name, "said.txt")

    def __enter__(self) -> Checker:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()
        self._folder.cleanup()

    def check(self, program: p.Program, configuration: Configuration, with_stock: bool) -> Outcome:
        """`check` of `checking.py`, in the other process."""
        outcome = self._ask(("check", program, configuration, with_stock))
        if outcome.finding is not None and outcome.finding.kind == "crash" and not configuration.verifies:
            # The verifier may say what of the program crashes the compiler.
            verified = self._ask(("check", program, replace(configuration, verifies=True), with_stock))
            outcome = outcome if verified.finding is None else verified
        # What IREE alone can't compile may fail in a kernel or in the program, in turn.
        if outcome.finding is not None and outcome.finding.kind in ("crash", "hang", "pass"):
            alone = self._ask(("stock", program, configuration, with_stock)).finding
            if alone is not None:
                finding = Finding("stock", f"{alone.kind} without this project: {alone.message}")
                return Outcome(finding)
        return outcome

    def _ask(self, request: tuple[str, p.Program, Configuration, bool]) -> Outcome:
        if self._checks >= CHECKS_PER_PROCESS:
            self._stop()
        if self._process is None:
            self._start()
        assert self._connection is not None
        self._checks += 1
        try:
            self._connection.send(request)
            patience = max(0.0, min(MAX_CHECK, self._deadline - time.monotonic()))
            if not self._connection.poll(patience):
                self._stop()
                if patience < MAX_CHECK:
                    raise OutOfTimeError(f"no answer in {patience:.0f} s, when the time was over")
                return Outcome(Finding("hang", f"no answer in {MAX_CHECK:.0f} s"))
            return self._connection.recv()  # type: ignore[no-any-return]
        except (EOFError, ConnectionError):
            return Outcome(Finding("crash", self._last_words()))

    def _start(self) -> None:
        self._connection, other = self._context.Pipe()
        self._said.write_bytes(b"")
        self._process = self._context.Process(target=_serve, args=(other, str(self._said)), daemon=True)
        self._process.start()
        other.close()
        self._checks = 0

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            assert self._connection is not None
            self._connection.close()
        self._process = self._connection = None

    def _last_words(self) -> str:
        self._process.join(10)
        code = self._process.exitcode
        name = signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"
        said = self._said.read_text(errors="replace")
        self._stop()
        return f"{name}\n{said[-4000:]}"


def _serve(connection: Connection, said: str) -> None:
    """Answer requests; what the process prints goes to the file `said`."""
    import faulthandler
    import gc
    import traceback

    import checking

    # What is imported stays.
    gc.freeze()

    with open(said, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.enable()
    while True:
        try:
            what, program, configuration, with_stock = connection.recv()
        except EOFError:
            return
        try:
            if what == "stock":
                counts = checking.check_stock(program, configuration)
            else:
                counts = checking.check(program, configuration, with_stock)
            outcome = Outcome(None, counts)
        except checking.FindingError as error:
            outcome = Outcome(Finding(error.kind, str(error)))
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(last.filename)}:{last.name}"
            message = f"{type(error).__name__} in {where}: {error}\n{traceback.format_exc()}"
            outcome = Outcome(Finding("exception", message))
        connection.send(outcome)
