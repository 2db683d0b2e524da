"""What IREE's runtime calls a kernel with, for each workgroup."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .functions import Function
from .values import Integer, Pointer, Structure

_DISPATCH = (
    '!llvm.struct<"iree_hal_executable_dispatch_state_v0_t", '
    "(i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr)>"
)
_EXTENT_X, _EXTENT_Y, _EXTENT_Z, _BINDINGS = 4, 5, 6, 10
"""Fields of what all workgroups have in common: how many there are, and the addresses of bindings."""
_WORKGROUP = "!llvm.struct<(i32, i32, i16, i16, i32, ptr, i32, i32)>"
_X, _Y, _Z, _LOCAL = 0, 1, 2, 5
"""Fields of what one of them has: its place, and memory of its own."""
_PARAMETER = "{llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.noundef}"


@dataclass(frozen=True)
class Call:
    """Addresses of what a workgroup is called with: of the last one only the workgroup's own."""

    environment: Pointer
    dispatch: Pointer
    state: Pointer

    def of(self, state: Pointer) -> Call:
        """That of another workgroup."""
        return Call(self.environment, self.dispatch, state)

    @property
    def operands(self) -> tuple[Pointer, Pointer, Pointer]:
        return self.environment, self.dispatch, self.state


@dataclass(frozen=True)
class Grid:
    """Workgroups of a kernel: all, those along x, and those along x and y."""

    count: Integer
    row: Integer
    plane: Integer

    @staticmethod
    def load(dispatch: Pointer) -> Grid:
        fields = dispatch.load_structure(ir.Type.parse(_DISPATCH))
        extents = fields.integer(_EXTENT_X, 32), fields.integer(_EXTENT_Y, 32), fields.integer(_EXTENT_Z, 16)
        row, rows, planes = [extent.widened(64) for extent in extents]
        plane = row * rows
        return Grid(plane * planes, row, plane)


def emit_kernel(name: str) -> Function:
    """Emits a function that IREE calls, with its first block."""
    return Function.emit(name, 3, is_internal=False, arguments=[ir.Attribute.parse(_PARAMETER)] * 3)


def kernel_call(kernel: Function) -> Call:
    """What a kernel was called with."""
    return Call(*kernel.entry.pointers)


def load_first_binding(dispatch: Pointer) -> Pointer:
    """The address of the first array that a kernel was given."""
    fields = dispatch.load_structure(ir.Type.parse(_DISPATCH))
    return fields.pointer(_BINDINGS).load_pointer()


def load_state(state: Pointer) -> Structure:
    """What one workgroup is called with.

    IREE says of what kernels are called with that it begins at a multiple of 16 bytes, which what its workers
    have on their stacks doesn't: without AVX, LLVM copies by instructions that need it.
    """
    return state.with_nothing_known().load_structure(_state_type())


def new_state(one: Integer) -> Pointer:
    """Memory on the stack for that."""
    return Pointer.to_new(one, _state_type(), CACHE_LINE_BYTES)


def is_first(state: Structure, none: Integer) -> Integer:
    """Whether it is the first workgroup that is called."""
    x, y = state.integer(_X, 32), state.integer(_Y, 32)
    z = state.integer(_Z, 16).widened(32)
    return (x | y | z).equals(none)


def local_memory_place(state: Pointer) -> Pointer:
    """Where the address of the workgroup's own memory is put."""
    return state.field(_LOCAL, _state_type())


@dataclass(frozen=True)
class Place:
    """Where the place of a workgroup is put."""

    x: Pointer
    y: Pointer
    z: Pointer

    @staticmethod
    def of(state: Pointer) -> Place:
        # The first field is where the structure is.
        return Place(state, state.field(_Y, _state_type()), state.field(_Z, _state_type()))

    def store(self, number: Integer, grid: Grid) -> None:
        """Puts there that of a workgroup by its number."""
        z, in_plane = number // grid.plane, number % grid.plane
        y, x = in_plane // grid.row, in_plane % grid.row
        narrow_x, narrow_y, narrow_z = x.narrowed(32), y.narrowed(32), z.narrowed(16)
        self.x.store(narrow_x)
        self.y.store(narrow_y)
        self.z.store(narrow_z)


def _state_type() -> ir.Type:
    return ir.Type.parse(_WORKGROUP)
