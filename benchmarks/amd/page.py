"""The report on a program's layers as HTML, with what a compiler made of its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from iree.winograd.report.markup import element
from iree.winograd.report.page import decision_page

from benchmarks.amd.compiled import CompiledProgram
from benchmarks.amd.kernel import COLUMNS, CompiledKernel

_TEXTS = ("target", "kernel", "by")
"""Columns that aren't numbers."""


def program_page(program: CompiledProgram) -> str:
    """The text of the page. Raises ValueError for a program of stock IREE's, of which there is no report."""
    if program.report is None:
        raise ValueError("there is no report on a program of stock IREE's")
    return decision_page(program.report, *_section(program.kernels))


def _section(kernels: Sequence[CompiledKernel]) -> Iterator[Element]:
    header = element("tr", *(_cell("th", name, name) for name in COLUMNS))
    rows = (
        element("tr", *(_cell("td", name, text) for name, text in zip(COLUMNS, kernel.row, strict=True)))
        for kernel in kernels
    )
    table = element("table", element("thead", header), element("tbody", *rows))
    yield element("h2", "Kernels, as compiled")
    yield element(
        "p",
        "Registers of a thread and how many of them are saved in memory, bytes of shared memory, waves that "
        "a SIMD has room for; of the main loop the instructions, its products, the parts of all and of "
        "vector instructions that multiply, and the part of the peak rate that published rates leave it.",
    )
    yield element("div", table, class_="scroll")


def _cell(tag: str, column: str, text: str) -> Element:
    return element(tag, text, **({} if column in _TEXTS else {"class_": "number"}))
