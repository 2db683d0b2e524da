"""What is imported when: the compiler, the runtime and numpy take long, and not all need them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("statement", "unneeded"),
    [
        ("import iree.winograd", ("iree.compiler", "iree.runtime", "numpy")),
        ("import iree.winograd.cli", ("iree.compiler", "iree.runtime", "numpy")),
        ("from iree.winograd import WinogradOptions", ("iree.compiler", "iree.runtime", "numpy")),
        ("from iree.winograd import load", ("iree.compiler",)),
        ("from iree.winograd import compile", ("iree.runtime", "torch")),
        ("from iree.winograd import tune", ("torch", "optuna", "distributed")),
        (
            "import iree.winograd.driver",
            ("iree.winograd.pipelines.gpu.backend", "iree.compiler.dialects.nvvm"),
        ),
    ],
)
def test_what_takes_long_is_imported_where_it_is_needed(statement: str, unneeded: tuple[str, ...]) -> None:
    check = f"{statement}; import sys; print(*sys.modules.keys() & set({unneeded}))"
    outcome = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == []
