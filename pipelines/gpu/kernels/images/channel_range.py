"""Which channels of a tensor, channels last, a kernel reads where they are."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice


@dataclass(frozen=True)
class ChannelRange:
    """Channels of each pixel from `first` on, as many as whatever reads them has."""

    first: int
    row: int
    """All channels of a pixel."""

    @staticmethod
    def of(part: ChannelSlice) -> ChannelRange:
        return ChannelRange(part.first, ir.RankedTensorType(part.whole.type).shape[-1])
