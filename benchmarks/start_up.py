"""What a user waits for before anything is compiled: processor time of starting Python and the compiler.

    python -m benchmarks.start_up

The file `iree_winograd.pth` runs at every start of Python in an environment that has iree-winograd; the row
on it is that line alone, in a process that has done nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY

from benchmarks.compiled import PLAIN_FLAGS
from benchmarks.processor_time import processor_seconds

_PTH = Path(__file__).parents[1] / "python" / "iree_winograd.pth"
_IDENTITY = "func.func @identity(%x: tensor<1xf32>) -> tensor<1xf32> { return %x : tensor<1xf32> }\n"
_NO_PACKAGES = ("-S", "-c")


def commands(folder: Path) -> Mapping[str, Sequence[str | Path]]:
    """The commands to time by what they show."""
    program = folder / "identity.mlir"
    program.write_text(_IDENTITY)
    compiler = [TOOL_DIRECTORY / "iree-compile", *PLAIN_FLAGS, program, "-o", "/dev/null"]
    finder = f"import sys; sys.path += {[entry for entry in sys.path if entry]}"
    pth = f"import iree; {_PTH.read_text().strip()}"
    return {
        "python, no packages": [sys.executable, *_NO_PACKAGES, finder],
        "the same and iree_winograd.pth": [sys.executable, *_NO_PACKAGES, f"{finder}; {pth}"],
        "python": [sys.executable, "-c", "pass"],
        "import iree.winograd": [sys.executable, "-c", "import iree.winograd"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "from iree.winograd import load": [sys.executable, "-c", "from iree.winograd import load"],
        "import iree.compiler.api": [sys.executable, "-c", "import iree.compiler.api"],
        "from iree.winograd import compile": [sys.executable, "-c", "from iree.winograd import compile"],
        "iree-compile, no operation": compiler,
        "iree-compile --iree-enable-winograd, no operation": [*compiler, "--iree-enable-winograd"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands(Path(folder)).items():
            seconds = processor_seconds(command, options.rounds, {"IREE_WINOGRAD_PYTHON": sys.executable})
            print(f"{name:52}{1e3 * seconds:7.0f} ms", flush=True)


if __name__ == "__main__":
    main()
