"""Objects that are never freed."""

from __future__ import annotations

import ctypes


def keep_for_good(thing: object) -> None:
    """Never free `thing`, since threads may be at work on it that nobody can wait for."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
