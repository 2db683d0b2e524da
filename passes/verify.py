"""Check winograd ops."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.verify import InvalidOperationError, verify_operation
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.match.navigation import walk


@register_pass("winograd-verify")
class Verify:
    """Check winograd ops.

    The bindings hold the ops unregistered, so that MLIR's own verifier can't know them. This pass checks
    operands, attributes, types and regions, and emits an error for each op that is not valid, such as

        error: 'winograd.input_transform' op result must be 'tensor<36x16x8xf32>', but is 'tensor<36x9x8xf32>'
    """

    def run(self, module: ir.Operation) -> None:
        valid = True
        for operation in walk(module):
            try:
                verify_operation(operation)
            except InvalidOperationError as error:
                operation.location.emit_error(f"'{operation.name}' op {error}")
                valid = False
        if not valid:
            raise PassError
