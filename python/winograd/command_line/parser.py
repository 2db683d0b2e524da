"""Command lines of `iree-winograd`: a slip in a name is told from what it may have meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from iree.winograd.command_line.suggestion import most_similar

_INVALID_CHOICE = re.compile(r"(argument \S+: )?invalid choice: '([^']*)'.*", re.DOTALL)


class CommandParser(argparse.ArgumentParser):
    """Ends the process at arguments that it doesn't know: a command with its own usage, not its parent's."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error("; ".join(self._unknown(unknown)))
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print the usage and `message` on the standard error, and end the process with code 2."""
        if match := _INVALID_CHOICE.fullmatch(message):
            choices = [str(choice) for action in self._actions for choice in action.choices or ()]
            meant = most_similar(match[2], choices)
            hint = f"choose from {', '.join(choices)}" if meant is None else f"did you mean {meant!r}?"
            message = f"{match[1] or ''}there is no {match[2]!r}; {hint}"
        super().error(message)

    def _unknown(self, arguments: Sequence[str]) -> Iterator[str]:
        names = [each.lstrip("-") for action in self._actions for each in action.option_strings]
        options = [argument for argument in arguments if argument.startswith("-")]
        if not options:
            # Beside an unknown option they may be its value.
            yield f"{arguments[0]!r} is one argument too many"
        for argument in options:
            meant = most_similar(argument, names)
            yield f"unknown option {argument!r}" + ("" if meant is None else f", did you mean '--{meant}'?")
