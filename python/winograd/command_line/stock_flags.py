"""What the stock `iree-compile` makes of the flags that it knows and this project doesn't."""

from __future__ import annotations

import subprocess
from functools import cache


@cache
def takes_next_argument(flag: str) -> bool:
    """Whether the value of `flag`, which has no `=`, is the argument that follows it.

    LLVM's parser takes whatever follows a flag that requires a value, and only there: `--version`, which ends
    the process with success when it is a flag, tells the two apart. This takes 20 ms.
    """
    # The names of flags need no compiler.
    from iree.winograd.compiling import embedding

    command = [str(embedding.stock_tool("iree-compile")), flag, "--version"]
    trial = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return trial.returncode != 0
