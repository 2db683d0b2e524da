"""`expected-{error,warning,remark,note}` comments, as `mlir-opt --verify-diagnostics` reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from iree.winograd.diagnostic import Diagnostic, Severity, SourcePosition

# For example: expected-error@+1 {{text}} or expected-remark-re@below {{text with {{regular.*}} expressions}}.
_EXPECTATION = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)?"
    r" *(?:@(?P<place>[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)
_REGEX_PART = re.compile(r"\{\{(.*?)\}\}")


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that has to be emitted on `line` (None: one without a place in the file)."""

    severity: Severity
    line: int | None
    pattern: re.Pattern[str]
    text: str

    def matches(self, diagnostic: Diagnostic) -> bool:
        line = diagnostic.position.line if diagnostic.position else None
        return (
            diagnostic.severity == self.severity
            and line == self.line
            and self.pattern.search(diagnostic.message) is not None
        )


def parse_expectations(source: str) -> list[Expectation]:
    """The expectations that the comments of `source` state.

    `@above` and `@below` refer to the nearest line that holds no expectation itself.
    """
    lines = source.splitlines()
    holds_expectation = [bool(_EXPECTATION.search(line)) for line in lines]
    expectations = []
    for index, line in enumerate(lines):
        if match := _EXPECTATION.search(line):
            target = _target_line(match["place"], index, holds_expectation)
            pattern = _compile(match["text"], is_regex=match["regex"] is not None)
            expectations.append(
                Expectation(cast(Severity, match["severity"]), target, pattern, match["text"])
            )
    return expectations


def check_diagnostics(source: str, filename: str, emitted: Sequence[Diagnostic]) -> list[Diagnostic]:
    """An error for every diagnostic that the comments of `source` don't expect, or expect in vain."""
    expectations = parse_expectations(source)
    problems = []
    for diagnostic in emitted:
        found = next((expected for expected in expectations if expected.matches(diagnostic)), None)
        if found is not None:
            expectations.remove(found)
            continue
        if diagnostic.severity == "note":
            continue
        problems.append(
            Diagnostic(
                "error", f"unexpected {diagnostic.severity}: {diagnostic.message}", diagnostic.position
            )
        )
    for expected in expectations:
        position = SourcePosition(filename, expected.line, 1) if expected.line is not None else None
        problems.append(
            Diagnostic("error", f'expected {expected.severity} "{expected.text}" was not produced', position)
        )
    return problems


def _target_line(place: str | None, index: int, holds_expectation: list[bool]) -> int | None:
    if place is None:
        return index + 1
    if place == "unknown":
        return None
    if place in ("above", "below"):
        step = -1 if place == "above" else 1
        index += step
        while 0 <= index < len(holds_expectation) and holds_expectation[index]:
            index += step
        return index + 1
    return index + 1 + int(place)


def _compile(text: str, *, is_regex: bool) -> re.Pattern[str]:
    if not is_regex:
        return re.compile(re.escape(text))
    pieces = _REGEX_PART.split(text)
    return re.compile(
        "".join(piece if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
    )
