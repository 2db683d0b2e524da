"""Random programs, checked by several processes until the time is over."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import program as p
from building import build
from checker_process import Checker, Finding, OutOfTimeError
from configuration import Configuration, configurations
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from iree.winograd.dialect.bindings import ir
from shrinking import shrink
from strategies import BETWEEN, programs

EXAMPLES_PER_ROUND = 10
"""After these Hypothesis copies parts of programs over others, so that most would repeat what was checked."""
SHRINKING_SECONDS = 60.0
LAST_SHRINKING_SECONDS = 20.0
"""After the time is over."""
LAST_CHECK_SECONDS = 30.0
"""After the time is over: programs that are still being checked then count as unfinished."""
MAX_OF_A_KIND = 12
"""Findings that are shrunk and reported of those that all say the same."""
STOCK_KINDS = ("stock", "stock result")
UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Campaign:
    jobs: int
    seconds: float
    seed: int
    targets: tuple[str, ...]
    numbers: tuple[str, ...]
    stock_every: int
    only_open: bool = False
    """Whether all functions have images of open sizes."""
    only_between: bool = False
    """Whether all functions have what lies between convolutions, that GPUs have kernels for."""


@dataclass(frozen=True)
class Reproduction:
    """A finding, and the smallest program found that has it."""

    kind: str
    message: str
    signature: str
    configuration: str
    program: str
    mlir: str


@dataclass
class Report:
    campaign: Campaign
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Reproduction] = field(default_factory=list)

    @property
    def defects(self) -> list[Reproduction]:
        """The findings that IREE alone doesn't have."""
        return [finding for finding in self.findings if finding.kind not in (*STOCK_KINDS, UNFINISHED)]

    @property
    def unfinished(self) -> list[Reproduction]:
        """The programs that were being checked when the time was over, which may hang."""
        return [finding for finding in self.findings if finding.kind == UNFINISHED]

    def record(self) -> dict[str, Any]:
        return {
            "campaign": asdict(self.campaign),
            "seconds": self.seconds,
            "counts": dict(sorted(self.counts.items())),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def text(self) -> str:
        lines = [f"{name}: {count}" for name, count in sorted(self.counts.items())]
        per_second = self.counts["convolutions"] / max(self.seconds, 1e-9) / self.campaign.jobs
        lines.append(f"{self.seconds:.0f} s, {per_second:.1f} convolutions per second and job")
        for finding in sorted(self.findings, key=lambda each: each.signature):
            lines += ["", finding.signature, finding.message[:1500], finding.configuration, finding.program]
        of_stock = len(self.findings) - len(self.defects) - len(self.unfinished)
        lines.append(
            f"\n{len(self.defects)} findings, {of_stock} of IREE alone; {len(self.unfinished)} unfinished"
        )
        return "\n".join(lines)


def run_campaign(campaign: Campaign) -> Report:
    """Check programs for `campaign.seconds`, and up to a minute more what is being checked or shrunk then.

    What was found until then is reported where the campaign is interrupted.
    """
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    start = time.monotonic()
    report = Report(campaign)
    with tempfile.TemporaryDirectory(prefix="iree-winograd-fuzz-") as claims:
        jobs = [
            context.Process(target=_explore, args=(campaign, number, claims, queue))
            for number in range(campaign.jobs)
        ]
        try:
            print(f"{campaign.jobs} jobs for {campaign.seconds:.0f} s", flush=True)
            for job in jobs:
                job.start()
            _collect(queue, campaign.jobs, report)
        except KeyboardInterrupt:
            for job in [job for job in jobs if job.pid is not None]:
                job.terminate()
        for job in jobs:
            if job.pid is not None:
                job.join()
    report.seconds = time.monotonic() - start
    return report


def _collect(queue: Any, running: int, report: Report) -> None:
    """Add to `report` what so many jobs say until they end."""
    while running:
        message = queue.get()
        if message is None:
            running -= 1
        elif isinstance(message, Reproduction):
            report.findings.append(message)
        else:
            report.counts.update(message)


class _TimeIsOver(BaseException):
    """Not an Exception: Hypothesis would take it for a failure of what it tests."""


def _explore(campaign: Campaign, number: int, claims: str, queue: Any) -> None:
    if hasattr(os, "sched_setaffinity"):
        # The compiler keeps a thread for each processor that it may run on.
        processors = sorted(os.sched_getaffinity(0))
        first = 2 * number
        os.sched_setaffinity(0, {processors[(first + i) % len(processors)] for i in range(2)})
    try:
        with Checker(time.monotonic() + campaign.seconds + LAST_CHECK_SECONDS) as checker:
            job = _Job(campaign, number, claims, queue, checker)
            while time.monotonic() < job.deadline:
                try:
                    job.round()
                except Exception:
                    # The programs of other rounds are others.
                    trace = traceback.format_exc()
                    queue.put(Reproduction("harness", trace, f"harness {number}", "", "", ""))
    finally:
        queue.put(None)


class _Job:
    def __init__(self, campaign: Campaign, number: int, claims: str, queue: Any, checker: Checker) -> None:
        self.campaign = campaign
        self.number = number
        self.claims = claims
        self.queue = queue
        self.checker = checker
        self.deadline = time.monotonic() + campaign.seconds
        self.rounds = 0
        self.checks = 0

    def round(self) -> None:
        """Check as many programs as Hypothesis should remember the choices of."""
        self.rounds += 1

        @hypothesis_seed((self.campaign.seed * 1000 + self.number) * 100_000 + self.rounds)
        @settings(
            max_examples=EXAMPLES_PER_ROUND,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(
            programs(self.campaign.only_open, BETWEEN if self.campaign.only_between else None),
            configurations(self.campaign.targets, self.campaign.numbers),
        )
        def check(program: p.Program, configuration: Configuration) -> None:
            if time.monotonic() > self.deadline:
                raise _TimeIsOver
            self.check(program, configuration)

        with suppress(_TimeIsOver):
            check()

    def check(self, program: p.Program, configuration: Configuration) -> None:
        if may_compile_for_ever(program, configuration):
            self.queue.put(Counter({"programs left out that IREE may compile for ever": 1}))
            return
        self.checks += 1
        with_stock = self.checks % self.campaign.stock_every == 0
        try:
            outcome = self.checker.check(program, configuration, with_stock)
        except OutOfTimeError as error:
            found = Finding(UNFINISHED, str(error))
            self._report(found, found.signature, configuration, program)
            return
        if outcome.finding is None:
            self.queue.put(outcome.counts)
            return
        signature = outcome.finding.signature
        self.queue.put(Counter({f"FOUND {signature}": 1}))
        if not self._claim(outcome.finding):
            return
        found = outcome.finding
        deadline = min(time.monotonic() + SHRINKING_SECONDS, self.deadline + LAST_SHRINKING_SECONDS)

        def fails(smaller: p.Program) -> bool:
            nonlocal found
            if time.monotonic() > deadline:
                return False
            try:
                again = self.checker.check(smaller, configuration, with_stock).finding
            except OutOfTimeError:
                return False
            if again is None or again.signature != signature:
                return False
            found = again
            return True

        smallest = shrink(program, fails)
        self._report(found, signature, configuration, smallest)

    def _report(
        self, found: Finding, signature: str, configuration: Configuration, program: p.Program
    ) -> None:
        self.queue.put(
            Reproduction(
                found.kind, found.message, signature, repr(configuration), repr(program), _mlir(program)
            )
        )

    def _claim(self, finding: Finding) -> bool:
        """Whether no job shrinks a finding like it yet, or few do where all of a kind read the same."""
        same = MAX_OF_A_KIND if finding.kind in ("result", "runs differ", "crash", "out of bounds") else 1
        digest = hashlib.sha256(finding.signature.encode()).hexdigest()[:24]
        for attempt in range(same):
            try:
                os.close(os.open(os.path.join(self.claims, f"{digest}-{attempt}"), os.O_CREAT | os.O_EXCL))
                return True
            except FileExistsError:
                continue
        return False


def may_compile_for_ever(program: p.Program, configuration: Configuration) -> bool:
    """Whether IREE 3.13 may, alone as well, until there is no memory: some small products with SVE."""
    return configuration.target == "sve" and bool(p.products(program))


def _mlir(program: p.Program) -> str:
    with ir.Context() as context:
        return str(build(program, context))
