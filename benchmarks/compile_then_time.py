"""Networks that compile side by side in processes of their own, and are timed when all have compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from benchmarks.isolation import Conversation


class CompiledNetwork:
    """A network in a process of its own that has compiled it, or failed to in so many `seconds`.

    The process is `python -m MODULE TASK`. It tells `row`s, with `is_done` when it has compiled, and again
    when it has been timed, for which it has as long again. It sees one `gpu`, if any.
    """

    def __init__(
        self,
        module: str,
        task: dict[str, Any],
        facts: Mapping[str, Any],
        *,
        processors: frozenset[int],
        seconds: float,
        gpu: int | None = None,
    ) -> None:
        variables = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
        self._conversation = Conversation(module, task, processors=processors, variables=variables)
        self.row: dict[str, Any] = dict(facts)
        self._seconds = seconds
        self._hear(self._conversation.answer, "compile")

    def __enter__(self) -> CompiledNetwork:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conversation.__exit__(kind, error, trace)

    def timed(self) -> dict[str, Any]:
        """The row, with times unless something failed before."""
        if "failure" not in self.row:
            self._hear(lambda: self._conversation.ask({}), "time")
        self._conversation.end()
        return self.row

    def _hear(self, first: Callable[[], dict[str, Any]], work: str) -> None:
        """Take what the process tells, until it is done with its `work`, or has taken too long."""
        limit = threading.Timer(self._seconds, self._conversation.end)
        limit.start()
        hear = first
        try:
            while True:
                answer = hear()
                hear = self._conversation.answer
                self.row |= answer["row"]
                if answer["is_done"]:
                    return
        except EOFError as error:
            is_late = not limit.is_alive()
            self.row["failure"] = f"took more than {self._seconds:.0f} s to {work}" if is_late else str(error)
        finally:
            limit.cancel()
