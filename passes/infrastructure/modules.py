"""Modules that register what they hold when they are imported."""

from __future__ import annotations

import importlib
import pkgutil


def import_modules(package_name: str) -> None:
    """Import every module in the package `package_name`, but not those of packages in it."""
    package = importlib.import_module(package_name)
    for module in pkgutil.iter_modules(package.__path__, f"{package_name}."):
        importlib.import_module(module.name)
