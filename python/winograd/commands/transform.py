"""`iree-winograd transform`: the points, matrices, recipes, operations and errors of F(m, r)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.atomic_file import atomic_file

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "transform",
        help="show the transforms of F(m, r)",
        description="Shows the interpolation points of F(m, r), its three matrices as exact fractions, their "
        "recipes, the operations that they take and the rounding errors to expect.",
    )
    parser.add_argument("-m", type=int, help="outputs of a tile")
    parser.add_argument("-r", type=int, help="filter taps")
    parser.add_argument(
        "--points",
        metavar="P,P,...",
        help="m + r - 1 distinct rationals or 'inf' (added when it alone is missing), 0,1,-1,1/2,-2 say; "
        "the shipped points by default. Write --points=-1,... for a list that starts with a minus sign",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--table",
        action="store_true",
        help="print the tables of docs/measurements/transforms.md, for all shipped sizes",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="write a plot of the operations to a file"
    )
    parser.set_defaults(run=lambda options: run(options, parser))
    return parser


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Runs the subcommand. Impossible options end the process through `parser.error`."""
    if (options.m is None) != (options.r is None):
        parser.error("-m and -r go together")
    if not (options.table or options.plot or options.m is not None):
        parser.error("-m and -r are needed, or --table or --plot")
    if options.points is not None and options.m is None:
        parser.error("--points needs -m and -r")
    if options.plot is not None and options.plot.suffix != ".svg":
        parser.error(f"--plot writes SVG, so the file must end in .svg, but it is {options.plot}")
    # Other subcommands don't need numpy.
    from iree.winograd.commands import transform_report
    from iree.winograd.commands.transform_plot import operations_plot
    from iree.winograd.commands.transform_tables import all_tables

    if options.plot is not None:
        try:
            with atomic_file(str(options.plot)) as temporary:
                Path(temporary).write_text(operations_plot(), encoding="utf-8")
        except OSError as error:
            parser.error(f"the plot can't be written: {error}")
    if options.table:
        print(all_tables(), end="")
    if options.m is None:
        return 0
    try:
        found = transform_report.transforms_of(options.m, options.r, options.points)
    except ValueError as error:
        parser.error(str(error))
    print(transform_report.as_json(found) if options.json else transform_report.as_text(found))
    return 0
