"""Which features of a processor code may use, by LLVM's text of them."""

from __future__ import annotations

from collections.abc import Sequence


def enabled_features(text: str) -> Sequence[str]:
    """LLVM's names of those that `text` such as "+avx2,+avx512f,-avx512f" leaves enabled: here, avx2.

    Of what is said of one the last holds. IREE describes the host as all that processors of its model have,
    and then what this one has, which is less in a virtual machine.
    """
    enabled: dict[str, None] = {}
    for feature in filter(None, text.split(",")):
        if feature[0] == "+":
            enabled[feature[1:]] = None
        else:
            enabled.pop(feature[1:], None)
    return tuple(enabled)
