"""Resources are read back as they were made."""

from __future__ import annotations

import gc
import io

import iree.winograd.dialect.resource_data as resource_data_module
import numpy as np
import pytest
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.resource_data import resource_data
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.match.values.constants import constant_array


@pytest.mark.parametrize("shape", [(1,), (3, 5), (64, 3, 3, 3), (1000, 513)])
@pytest.mark.parametrize("name", ["w", "torch_tensor_64_torch.float32", "a name/with marks"])
def test_round_trip(shape, name):
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        type_ = ir.RankedTensorType.get(shape, ir.F32Type.get())
        with ir.InsertionPoint(module.body):
            read = arith.constant(type_, ir.DenseResourceElementsAttr.get_from_buffer(array, name, type_))
            made = resource_constant(array, name)
        for value in (read, made):
            np.testing.assert_array_equal(resource_data(value.owner.operation, np.float32), array)


def test_what_a_resource_was_made_of_is_forgotten_with_its_context():
    # Other tests' contexts may be alive.
    before = set(resource_data_module._arrays)
    for number in range(8):
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                value = resource_constant(np.full(4, number, np.float32), "same")
            bytecode = io.BytesIO()
            module.operation.write_bytecode(bytecode)
            copy = ir.Module.parse(bytecode.getvalue())
            assert (resource_data(copy.body.operations[0], np.float32) == number).all()
            assert (constant_array(value) == number).all()
        del module, value, copy
        gc.collect()
    assert set(resource_data_module._arrays) <= before


def test_resources_of_one_context_are_told_apart():
    arrays = [np.full((4, 4), number, np.float32) for number in range(3)]
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            values = [resource_constant(array, "same") for array in arrays]
        for value, array in zip(values, arrays, strict=True):
            np.testing.assert_array_equal(constant_array(value), array)


def test_resource_without_data_is_not_known():
    with ir.Context():
        module = ir.Module.parse("%w = arith.constant dense_resource<elided> : tensor<4xf32>")
        value = module.body.operations[0].result
        with pytest.raises(ValueError, match="resource"):
            resource_data(value.owner.operation, np.float32)
        assert constant_array(value) is None
