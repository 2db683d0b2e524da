"""The order of all passes: those on a program, and on what IREE makes of it on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iree.winograd.passes.compute_before_concat import ComputeBeforeConcat
from iree.winograd.passes.concat_in_place import ConcatInPlace
from iree.winograd.passes.convert_conv import ConvertConv
from iree.winograd.passes.convert_matmul import ConvertMatmul
from iree.winograd.passes.convert_weight_gradient import ConvertWeightGradient
from iree.winograd.passes.drop_rounding import DropRounding
from iree.winograd.passes.drop_unit_dimensions import DropUnitDimensions
from iree.winograd.passes.fold_filter import MOST_GROWTH, FoldFilter
from iree.winograd.passes.fold_globals import FoldGlobals
from iree.winograd.passes.fold_offsets import FoldOffsets
from iree.winograd.passes.fold_resampling import FoldResampling
from iree.winograd.passes.fold_scale import FoldScale
from iree.winograd.passes.fuse_epilogue import FuseEpilogue
from iree.winograd.passes.fuse_pad import FusePad
from iree.winograd.passes.infrastructure.option import shared_values
from iree.winograd.passes.infrastructure.registry import Pass
from iree.winograd.passes.insert_to_pad import InsertToPad
from iree.winograd.passes.join_slices import JoinSlices
from iree.winograd.passes.merge_bounds import MergeBounds
from iree.winograd.passes.merge_branches import MergeBranches
from iree.winograd.passes.merge_elementwise import MergeElementwise
from iree.winograd.passes.merge_phases import MergePhases
from iree.winograd.passes.merge_quantization import MergeQuantization
from iree.winograd.passes.move_strides import MoveStrides
from iree.winograd.passes.nest_concatenations import NestConcatenations
from iree.winograd.passes.normalize_layout import NormalizeLayout
from iree.winograd.passes.permute_shuffled import PermuteShuffled
from iree.winograd.passes.separate_resampling import SeparateResampling
from iree.winograd.passes.split_pooling import SplitPooling
from iree.winograd.passes.split_results import SplitResults
from iree.winograd.passes.split_transposed import SplitTransposed
from iree.winograd.passes.trim_taps import TrimTaps
from iree.winograd.passes.unroll_pooling import UnrollPooling
from iree.winograd.pipelines.selection.options import WinogradOptions

from .for_target.compute_scales_first import ComputeScalesFirst
from .for_target.drop_unit_batch import DropUnitBatch
from .for_target.fold_gradient_layout import FoldGradientLayout
from .for_target.fold_layout import FoldLayout
from .for_target.fuse_attention import FuseAttention
from .for_target.insert_first import InsertFirst
from .for_target.insert_phases import InsertPhases
from .for_target.loop_over_images import LoopOverImages
from .for_target.merge_projections import MergeProjections
from .for_target.move_resizing import MoveResizing
from .for_target.split_matmuls import SplitMatmuls
from .for_target.split_products import SplitProducts
from .for_target.split_sums import SplitSums
from .for_target.store_half import StoreHalf
from .for_target.store_half_gradient import StoreHalfGradient
from .for_target.store_split import StoreSplit
from .for_target.sum_repeated_taps import SumRepeatedTaps
from .for_target.widen_half import WidenHalf
from .iree_workarounds.admit_shorts import AdmitShorts
from .iree_workarounds.assert_first import AssertFirst
from .iree_workarounds.bound_shifts import BoundShifts
from .iree_workarounds.check_casts import CheckCasts
from .iree_workarounds.distribute_rows import DistributeRows
from .iree_workarounds.fill_unknown_sizes import FillUnknownSizes
from .iree_workarounds.keep_nan import KeepNan
from .iree_workarounds.read_before_update import ReadBeforeUpdate
from .iree_workarounds.reduce_by_lanes import ReduceByLanes
from .iree_workarounds.reshape_returned import ReshapeReturned
from .iree_workarounds.round_by_sums import RoundBySums
from .iree_workarounds.separate_calls import SeparateCalls
from .iree_workarounds.separate_reductions import SeparateReductions
from .iree_workarounds.separate_transpositions import SeparateTranspositions
from .iree_workarounds.skip_empty import SkipEmpty
from .iree_workarounds.wrap_conversions import WrapConversions
from .machines.host import physical_cores
from .on_program.admit_helpers import AdmitHelpers
from .on_program.chain_kernels import ChainKernels
from .on_program.compute_at_load import ComputeAtLoad
from .on_program.drop_barriers import DropBarriers
from .on_program.end_computed_first import EndComputedFirst
from .on_program.insert_as_computed import InsertAsComputed
from .on_program.keep_commands import KeepCommands
from .on_program.limit_sizes import LimitSizes
from .on_program.note_features import NoteFeatures
from .on_program.note_launches import NoteLaunches
from .on_program.note_layers import Dispatch, NoteLayers
from .on_program.note_signature import NoteSignature
from .on_program.note_threads import NoteThreads
from .on_program.note_unaligned import NoteUnaligned
from .on_program.note_writes import NoteWrites
from .on_program.overwrite_operands import OverwriteOperands
from .on_program.own_results import OwnResults
from .on_program.place_scratch import PlaceScratch
from .on_program.reuse_memory import ReuseMemory
from .on_program.share_workgroups import ShareWorkgroups
from .selection.assign_schedule import AssignSchedule
from .selection.decision import Decision
from .selection.expect_sizes import ExpectSizes
from .selection.select_algorithm import SelectAlgorithm
from .to_kernels.copy_inserted import CopyInserted
from .to_kernels.copy_parts import CopyParts
from .to_kernels.copy_rearranged import CopyRearranged
from .to_kernels.lower_attention import LowerAttention
from .to_kernels.lower_batch_matmul import LowerBatchMatmul
from .to_kernels.lower_elementwise import LowerElementwise
from .to_kernels.lower_gated import LowerGated
from .to_kernels.lower_group_norm import LowerGroupNorm
from .to_kernels.lower_layer_norm import LowerLayerNorm
from .to_kernels.lower_pointwise_pairs import LowerPointwisePairs
from .to_kernels.lower_resampling import LowerResampling
from .to_kernels.lower_softmax import LowerChannelSoftmax, LowerSoftmax
from .to_kernels.lower_sums import LowerSums
from .to_kernels.lower_to_dispatch import LowerToDispatch
from .to_kernels.pool_in_place import PoolInPlace
from .to_kernels.select_pixels import SelectPixels
from .to_kernels.transpose_images import TransposeImages
from .to_kernels.transpose_normalized import TransposeNormalized


def compile_pipeline(
    options: WinogradOptions,
    observe: Callable[[Decision], None] | None = None,
    warn: Callable[[str], None] | None = None,
    *,
    keeps_all: bool = True,
) -> list[Pass]:
    """The passes that rewrite a program between IREE's `preprocessing` and the rest of it, in order.

    `observe` is told what is decided of each layer, with all candidates if it `keeps_all`, and `warn` of
    convolutions that are left at several times the cost.
    """
    threads = options.threads or physical_cores()
    options = replace(options, threads=threads)
    # Layers by themselves may have another precision, which `SelectAlgorithm` knows of.
    of_all_layers = replace(options, max_relative_error=options.error_limit)
    return [
        FoldGlobals(),
        FoldOffsets(),
        InsertToPad(),
        AdmitShorts(),
        WidenHalf(),
        ExpectSizes(**shared_values(options, ExpectSizes)),
        MergeQuantization(),
        SplitResults(),
        JoinSlices(),
        NestConcatenations(),
        FuseAttention(),
        LowerSoftmax(),
        LowerLayerNorm(),
        FoldResampling(),
        SumRepeatedTaps(),
        MergePhases(),
        SplitTransposed(),
        DropUnitDimensions(),
        PermuteShuffled(),
        TransposeNormalized(),
        NormalizeLayout(),
        LowerChannelSoftmax(),
        TrimTaps(),
        MergeBranches(),
        MoveStrides(),
        MoveResizing(**shared_values(options, MoveResizing)),
        MergeProjections(**shared_values(of_all_layers, MergeProjections)),
        LowerAttention(**shared_values(options, LowerAttention)),
        SplitProducts(**shared_values(options, SplitProducts)),
        LowerBatchMatmul(**shared_values(options, LowerBatchMatmul)),
        DropUnitBatch(),
        LoopOverImages(**shared_values(of_all_layers, LoopOverImages)),
        SelectAlgorithm(
            **shared_values(options, SelectAlgorithm), observe=observe, keeps_all=keeps_all, warn=warn
        ),
        ConvertMatmul(),
        ConvertConv(),
        ConvertWeightGradient(),
        FusePad(),
        SelectPixels(),
        MergeElementwise(),
        ComputeBeforeConcat(),
        FuseEpilogue(),
        DropRounding(),
        MergeBounds(),
        FoldScale(),
        # IREE evaluates what is left of filters when the program is loaded.
        *([] if options.fold_filters == "load" else [FoldFilter(_most_growth(options))]),
        ConcatInPlace(),
        InsertFirst(),
        InsertPhases(),
        UnrollPooling(),
        SplitPooling(),
        LowerResampling(),
        SeparateResampling(),
        PoolInPlace(),
        AssignSchedule(**shared_values(of_all_layers, AssignSchedule)),
        CopyRearranged(),
        FoldLayout(),
        StoreHalfGradient(),
        FoldGradientLayout(),
        StoreHalf(),
        TransposeImages(),
        CopyParts(),
        LowerGated(),
        LowerPointwisePairs(),
        LowerGroupNorm(),
        LowerSums(),
        LowerElementwise(),
        SplitMatmuls(),
        SplitSums(),
        RoundBySums(),
        KeepNan(),
        WrapConversions(),
        BoundShifts(),
        FillUnknownSizes(),
        ComputeScalesFirst(),
        SeparateReductions(),
        SeparateTranspositions(),
        StoreSplit(),
        LowerToDispatch(),
        CopyInserted(),
        ComputeAtLoad(),
        ChainKernels(**shared_values(options, ChainKernels)),
        OverwriteOperands(**shared_values(options, OverwriteOperands)),
        PlaceScratch(**shared_values(options, PlaceScratch)),
        ReshapeReturned(),
        SeparateCalls(),
        CheckCasts(),
        NoteSignature(),
        NoteUnaligned(),
        NoteThreads(**shared_values(options, NoteThreads)),
        NoteFeatures(),
        # What is noted of functions isn't of this one.
        AdmitHelpers(**shared_values(options, AdmitHelpers)),
    ]


def _most_growth(options: WinogradOptions) -> int | None:
    return MOST_GROWTH if options.fold_filters == "auto" else None


def optimized_pipeline() -> list[Pass]:
    """The passes on a program after IREE's `global-optimization` phase, before dispatches are formed."""
    return [InsertAsComputed()]


def dispatch_pipeline() -> list[Pass]:
    """The passes on a program after IREE's `flow` phase, which made dispatches of it."""
    return [EndComputedFirst(), ReadBeforeUpdate(), LimitSizes(), AssertFirst()]


def command_pipeline(observe: Callable[[Dispatch], None] | None = None) -> list[Pass]:
    """The passes on a program after IREE's `stream` phase, which made commands of it.

    `observe` is told of each dispatch.
    """
    # Which tensors may share memory is seen while kernels come one after the other.
    return [NoteWrites(), NoteLayers(observe), ReuseMemory(), OwnResults(), DropBarriers()]


def configuration_pipeline() -> list[Pass]:
    """The passes on a program after IREE's `executable-configurations` phase, on how its kernels work."""
    return [ReduceByLanes(), DistributeRows()]


def translated_pipeline() -> list[Pass]:
    """The passes on a program after IREE's `executable-targets` phase, which translated its kernels."""
    return [ShareWorkgroups()]


def binary_pipeline() -> list[Pass]:
    """The passes on a program after IREE's `hal` phase, in which all that it does is settled."""
    # What is launched by our own list is seen while no launch is in a branch.
    return [NoteLaunches(), SkipEmpty(), KeepCommands()]
