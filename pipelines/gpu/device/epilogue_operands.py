"""What epilogues read, by as many neighbouring channels as a thread finishes at once."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.pipelines.emission.epilogue import VectorEpilogue, reads_along_channels

from .memory import GlobalBuffer


def by_channels(epilogue: VectorEpilogue, channels: int) -> VectorEpilogue:
    """The epilogue of vectors of so many channels, as which what it reads of neighbouring ones is loaded.

    Raises ValueError as `span` does.
    """
    operands = [
        operand.by(channels)
        if isinstance(operand, GlobalBuffer) and reads_along_channels(indexing_map)
        else operand
        for operand, indexing_map in zip(epilogue.operands, epilogue.transform.indexing_maps, strict=True)
    ]
    return replace(epilogue, operands=operands)
