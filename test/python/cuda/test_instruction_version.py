"""The version that a module's text says it is of: that of what is in it, if it is a later one."""

from __future__ import annotations

import pytest
from iree.winograd.cuda.instruction_version import with_version

TEXT = b".version %s\n.target sm_90a\n.address_size 64\n\t%s [%%rd1], 0;\n"
MAPPING, OTHER = b"tensormap.replace.tile.rank.shared::cta.b1024.b32", b"st.shared.b32"


@pytest.mark.parametrize(
    ("said", "instruction", "version"),
    [(b"8.0", MAPPING, b"8.6"), (b"8.7", MAPPING, b"8.7"), (b"8.0", OTHER, b"8.0")],
    ids=["earlier", "later", "no such instruction"],
)
def test_has_what_is_in_the_text(said: bytes, instruction: bytes, version: bytes) -> None:
    assert with_version(TEXT % (said, instruction)) == TEXT % (version, instruction)
