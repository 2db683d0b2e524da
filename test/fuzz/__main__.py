"""Checks random programs for a while: `python test/fuzz --jobs 32 --seconds 500 --output findings.json`."""

from __future__ import annotations

import argparse
import json
import signal
import sys

from campaign import Campaign, run_campaign
from configuration import DRAWN_NUMBERS, TARGETS
from number_types import NUMBER_TYPES

UNITS = {"": 1, "s": 1, "min": 60, "h": 3600}


def seconds(text: str) -> float:
    """The seconds of "90", "10min" or "2h". Raises ValueError for other texts."""
    number = text.rstrip("sminh")
    return float(number) * UNITS[text[len(number) :]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="programs to be checked at the same time")
    parser.add_argument("--seconds", type=seconds, default=60.0, help="a number, or one with s, min or h")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--targets", default="avx512,amx,avx2,sse", help=f"separated by commas, of {', '.join(TARGETS)}"
    )
    parser.add_argument(
        "--numbers",
        default=",".join(DRAWN_NUMBERS),
        help=f"what tensors hold, drawn from these separated by commas, of {', '.join(NUMBER_TYPES)}",
    )
    parser.add_argument("--output", default=None, help="a file for what was found, as JSON")
    parser.add_argument(
        "--stock-every", type=int, default=20, help="one in so many programs is compared with IREE alone, too"
    )
    parser.add_argument("--only-open", action="store_true", help="only functions of images of open sizes")
    parser.add_argument(
        "--only-between", action="store_true", help="only functions with layers between convolutions"
    )
    arguments = parser.parse_args()
    targets = arguments.targets.split(",")
    for target in targets:
        if target not in TARGETS:
            parser.error(f"unknown target {target!r}")
    numbers = arguments.numbers.split(",")
    for name in numbers:
        if name not in NUMBER_TYPES:
            parser.error(f"unknown numbers {name!r}")
    campaign = Campaign(
        arguments.jobs,
        arguments.seconds,
        arguments.seed,
        tuple(targets),
        tuple(numbers),
        arguments.stock_every,
        arguments.only_open,
        arguments.only_between,
    )
    # Whoever ends a campaign wants to know what it found until then.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = run_campaign(campaign)
    print(report.text())
    if arguments.output is not None:
        with open(arguments.output, "w") as file:
            json.dump(report.record(), file, indent=1)
    return 1 if report.defects else 0


if __name__ == "__main__":
    sys.exit(main())
