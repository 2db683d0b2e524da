"""`--mlir-print-ir-*`: printing a program before and after passes, for the passes of this project too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import PassManager

_PREFIX = "mlir-print-ir-"
_OWN_PASS = "winograd-"


@dataclass(frozen=True)
class IRDumps:
    """Which passes to print the program before and after; `all_before` and `all_after` mean every one."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    all_before: bool = False
    all_after: bool = False
    after_change: bool = False
    after_failure: bool = False

    def enable(self, manager: PassManager, pass_name: str) -> None:
        """Make `manager`, which runs the pass `pass_name` alone, print what is wanted of it."""
        before = self.all_before or pass_name in self.before
        after = self.all_after or pass_name in self.after or self.after_change or self.after_failure
        if before or after:
            manager.enable_ir_printing(
                print_before_all=before,
                print_after_all=after,
                print_after_change=self.after_change,
                print_after_failure=self.after_failure,
            )


def take_ir_dumps(flags: Iterable[str]) -> tuple[IRDumps, tuple[str, ...]]:
    """The dumps that `flags` ask of our passes, and `flags` without the names of our passes, for IREE."""
    named: dict[str, set[str]] = {"before": set(), "after": set()}
    switches: set[str] = set()
    others = []
    for flag in flags:
        name, _, value = flag.lstrip("-").partition("=")
        kind = name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""
        if kind in named:
            passes = value.split(",")
            named[kind] |= set(passes)
            rest = [pass_name for pass_name in passes if not pass_name.startswith(_OWN_PASS)]
            if rest:
                others.append(f"--{name}={','.join(rest)}")
            continue
        if value in ("", "true", "1"):
            switches.add(kind)
        others.append(flag)
    dumps = IRDumps(
        before=frozenset(named["before"]),
        after=frozenset(named["after"]),
        all_before="before-all" in switches,
        all_after="after-all" in switches,
        after_change="after-change" in switches,
        after_failure="after-failure" in switches,
    )
    return dumps, tuple(others)
