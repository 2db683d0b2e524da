"""What import statements name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path


def imported_names(module: str, path: Path, statements: Iterable[ast.AST]) -> Iterator[str]:
    """The full names of modules that those of `statements` that are imports may import.

    They are statements of `module`, whose source is the file `path`. Names of what else is imported from
    modules are among the results.
    """
    parts = module.split(".")
    package = parts if path.name == "__init__.py" else parts[:-1]
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*outer, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
