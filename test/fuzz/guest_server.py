"""Loads programs and calls them for another process, in a guest: requests on stdin, answers on stdout."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

import iree.winograd
from guarded_call import GuardedCall, call_guarded

CALLABLE_WITHOUT_NAME = ""


class _Programs:
    """Those that are loaded, by the numbers that the other process gave them."""

    def __init__(self) -> None:
        self._loaded: dict[int, Any] = {}

    def load(self, number: int, program: bytes | str, device: str, threads: int | None) -> dict[str, Any]:
        """The signatures of its functions, by name."""
        loaded = iree.winograd.load(program, device, threads=threads)
        self._loaded[number] = loaded
        return {name: getattr(loaded, name).signature for name in loaded.functions}

    def call(self, number: int, function: str, arguments: Any, edge: Any) -> GuardedCall:
        loaded = self._loaded[number]
        called = getattr(loaded, function) if function != CALLABLE_WITHOUT_NAME else loaded
        return call_guarded(called, arguments, edge)

    def drop(self, *numbers: int) -> None:
        for number in numbers:
            del self._loaded[number]


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    programs = _Programs()
    while True:
        try:
            method, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            answer = True, getattr(programs, method)(*arguments)
        except Exception as error:
            answer = False, error
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
