"""Kernels as dispatches of one module: tensors bound by quads, executables that equal kernels share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from iree.winograd.dialect.bindings import flow, ir
from iree.winograd.pipelines.emission.dispatch import DispatchSignature, KernelFunction, emit_executable
from iree.winograd.pipelines.emission.index import Index

from .grid import Grid
from .memory import QUAD, GlobalBuffer, quad_type, span
from .target import GpuTarget


@dataclass(frozen=True)
class TensorArgument:
    """A tensor of f32 as an argument of a kernel; `leading` gives its first extent for a dynamic batch."""

    extents: tuple[int | None, ...]
    by_quads: bool
    leading: Callable[[Index], Index] = lambda batch: batch

    @staticmethod
    def of(value: ir.Value, by_quads: bool) -> TensorArgument:
        """A tensor of the program: a dynamic first extent is the batch."""
        shape = ir.RankedTensorType(value.type).shape
        dynamic = ir.ShapedType.get_dynamic_size()
        return TensorArgument(tuple(None if size == dynamic else size for size in shape), by_quads)

    @property
    def is_dynamic(self) -> bool:
        return bool(self.extents) and self.extents[0] is None

    @property
    def type(self) -> ir.RankedTensorType:
        sizes = [ir.ShapedType.get_dynamic_size() if size is None else size for size in self.extents]
        return ir.RankedTensorType.get(sizes, ir.F32Type.get())

    def bind(self, argument: ir.Value, batch: Index) -> GlobalBuffer:
        """The kernel's view of the tensor."""
        inner = tuple(size for size in self.extents[1:] if size is not None)
        first = self.leading(batch) if self.is_dynamic else Index(prod(self.extents[:1]))
        size = first * prod(inner)
        element = quad_type() if self.by_quads else ir.F32Type.get()
        count = size // (QUAD if self.by_quads else 1)
        return GlobalBuffer(span(argument, element, count), (0, *inner), self.by_quads, size, argument)


@dataclass
class Launcher:
    """Launches kernels in one module, for one target."""

    module: ir.Operation
    target: GpuTarget
    _executables: dict[object, str] = field(default_factory=dict)

    def launch(
        self,
        key: object,
        name: str,
        threads: int,
        operands: Sequence[tuple[ir.Value, TensorArgument]],
        result: TensorArgument,
        batch: int | ir.Value,
        workgroups: Callable[[Index], tuple[Index, ...]],
        body: Callable[[KernelFunction[GlobalBuffer]], None],
        resident_threads: int | None = None,
        warp_threads: int | None = None,
    ) -> ir.Value:
        """Emits a dispatch at the insertion point, and the kernel it runs unless one of equal `key` exists.

        `batch` is a value where it is known only at run time. `resident_threads` is how many threads a
        multiprocessor should have registers for, if the target can be told, `warp_threads` how many threads a
        warp has to have, if that matters. Gives the dispatch's result.
        """
        arguments = [argument for _, argument in operands]
        is_dynamic = not isinstance(batch, int)
        signature = DispatchSignature(tuple(each.type for each in arguments), result.type, is_dynamic)
        key = (key, *((each.extents, each.by_quads) for each in (*arguments, result)))
        if key not in self._executables:
            unique = name if name not in self._executables.values() else f"{name}_{len(self._executables)}"
            grid = Grid(workgroups, self.target.max_workgroups)

            def placed(function: KernelFunction[GlobalBuffer]) -> None:
                body(replace(function, workgroup=grid.place(function.workgroup, function.batch)))

            emit_executable(
                self.module,
                unique,
                signature,
                _translation(threads, warp_threads),
                None if is_dynamic else batch,
                grid.launched,
                placed,
                [each.bind for each in (*arguments, result)],
                self._residency(threads, resident_threads),
            )
            self._executables[key] = unique
        workload = [batch] if is_dynamic else []
        entry = ir.ArrayAttr.get([ir.SymbolRefAttr.get([self._executables[key]] * 2)])
        extents = [each.leading(Index(batch)).value for each in arguments if each.is_dynamic]
        dispatch = flow.DispatchOp(
            [result.type],
            workload,
            entry,
            [*(value for value, _ in operands), *workload],
            extents,
            [result.leading(Index(batch)).value] if result.is_dynamic else [],
        )
        return dispatch.results[0]

    def _residency(self, threads: int, resident_threads: int | None) -> dict[str, ir.Attribute]:
        name = self.target.residency_attribute
        if name is None or resident_threads is None:
            return {}
        workgroups = max(1, resident_threads // threads)
        return {name: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), workgroups)}


def _translation(threads: int, warp_threads: int | None) -> ir.Attribute:
    """A codegen pipeline of IREE's for kernels that come as vectors and loops already."""
    warp = "" if warp_threads is None else f" subgroup_size = {warp_threads}"
    return ir.Attribute.parse(
        '#iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"canonicalize,cse"> '
        f"workgroup_size = [{threads}, 1, 1]{warp}>"
    )
