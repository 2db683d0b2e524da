"""What somebody may have meant who wrote a name that isn't known."""

from __future__ import annotations

import difflib
from collections.abc import Collection

_LEAST_SIMILARITY = 0.7


def most_similar(flag: str, names: Collection[str]) -> str | None:
    """The one of `names`, without dashes, that `flag` may be a slip of: similar, or the end of just one."""
    name = flag.lstrip("-").partition("=")[0]
    similar = difflib.get_close_matches(name, names, n=1, cutoff=_LEAST_SIMILARITY)
    longer = [each for each in names if each.endswith(f"-{name}")]
    # Two words or more say enough for the rest to be meant.
    if len(longer) == 1 and ("-" in name or not similar):
        return longer[0]
    return similar[0] if similar else None
