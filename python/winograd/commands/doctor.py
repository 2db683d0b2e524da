"""`iree-winograd doctor`: what there is, what works, and what to do about the rest."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.winograd.health.finding import Finding

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what is installed and works, and what to do about the rest",
        description="Looks at packages, processor, devices, the iree-compile of shells and Python, and the "
        "files of earlier runs. Each problem comes with a remedy; with problems the exit code is 1.",
    )
    parser.add_argument("--database", metavar="FILE", help="look at this tuning database as well")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    problems, findings = 0, []
    for finding in _findings(options.database):
        problems += finding.remedy is not None
        findings.append(asdict(finding))
        if not options.json:
            _print(finding)
    if options.json:
        print(json.dumps(findings))
    elif problems:
        print(f"{problems} problem(s)")
    else:
        print("no problems")
    return 1 if problems else 0


def _findings(database: str | None) -> Iterator[Finding]:
    from iree.winograd.health.devices import device_findings
    from iree.winograd.health.files import file_findings
    from iree.winograd.health.packages import package_findings
    from iree.winograd.health.processor import processor_findings
    from iree.winograd.health.tools import tool_findings

    yield from package_findings()
    yield from processor_findings()
    yield from device_findings()
    yield from tool_findings()
    yield from file_findings(database)


def _print(finding: Finding) -> None:
    mark = "ok" if finding.present else "absent"
    print(f"{mark if finding.remedy is None else 'PROBLEM':8} {finding.subject}: {finding.state}", flush=True)
    if finding.remedy is not None:
        print(f"{'':8} remedy: {finding.remedy}", flush=True)
