// The winograd dialect, for tools that read IRDL: iree-opt --irdl-file=winograd.irdl.mlir.
//
// IRDL checks what ops are made of: the number of operands, the presence and kind of attributes. How the sizes of
// their types follow from the attributes is checked by the pass winograd-verify;
// docs/explanation/architecture.md says what the ops mean. A constraint that is used twice asks for the same type twice, hence one for each use, and a number of
// optional epilogue operands instead of any number of the same type. The attribute channels_first, which images may have,
// isn't declared: IRDL asks for all attributes that it knows. IRDL has no terminators: an epilogue ends with
// vector.yield.
irdl.dialect @winograd {
  // N x H... x C -> [A*g, T, V*C/g]: the tiles of all views of a padded input, transformed.
  irdl.operation @input_transform {
    %input = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %decomposition = irdl.base "#builtin.dictionary"
    %padding_low = irdl.base "#builtin.dense_array"
    %padding_high = irdl.base "#builtin.dense_array"
    %groups = irdl.base "#builtin.integer"
    irdl.operands(input: %input)
    irdl.results(result: %result)
    irdl.attributes {
      "decomposition" = %decomposition,
      "padding_low" = %padding_low,
      "padding_high" = %padding_high,
      "groups" = %groups
    }
  }

  // R... x C/g x K -> [A*g, V*C/g, K/g]: the parts of a filter, transformed.
  irdl.operation @filter_transform {
    %filter = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %decomposition = irdl.base "#builtin.dictionary"
    %groups = irdl.base "#builtin.integer"
    irdl.operands(filter: %filter)
    irdl.results(result: %result)
    irdl.attributes {
      "decomposition" = %decomposition,
      "groups" = %groups
    }
  }

  // N x OH... x K -> [A*g, T, K/g]: the gradients of the outputs of all tiles, transformed.
  irdl.operation @gradient_transform {
    %gradient = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %decomposition = irdl.base "#builtin.dictionary"
    %groups = irdl.base "#builtin.integer"
    irdl.operands(gradient: %gradient)
    irdl.results(result: %result)
    irdl.attributes {
      "decomposition" = %decomposition,
      "groups" = %groups
    }
  }

  // [A*g, V*C/g, K/g] -> R... x C/g x K: the gradients of the taps of all parts.
  irdl.operation @filter_gradient {
    %accumulator = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %decomposition = irdl.base "#builtin.dictionary"
    %groups = irdl.base "#builtin.integer"
    irdl.operands(accumulator: %accumulator)
    irdl.results(result: %result)
    irdl.attributes {
      "decomposition" = %decomposition,
      "groups" = %groups
    }
  }

  // [A*g, T, K/g] -> N x OH... x K: the outputs of all tiles, each passed through the epilogue in the region.
  irdl.operation @output_transform {
    %accumulator = irdl.base "!builtin.tensor"
    %operand_0 = irdl.base "!builtin.tensor"
    %operand_1 = irdl.base "!builtin.tensor"
    %operand_2 = irdl.base "!builtin.tensor"
    %operand_3 = irdl.base "!builtin.tensor"
    %operand_4 = irdl.base "!builtin.tensor"
    %operand_5 = irdl.base "!builtin.tensor"
    %operand_6 = irdl.base "!builtin.tensor"
    %operand_7 = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %decomposition = irdl.base "#builtin.dictionary"
    %groups = irdl.base "#builtin.integer"
    %indexing_maps = irdl.base "#builtin.array"
    %epilogue = irdl.region with size 1
    irdl.operands(
      accumulator: %accumulator,
      operand_0: optional %operand_0,
      operand_1: optional %operand_1,
      operand_2: optional %operand_2,
      operand_3: optional %operand_3,
      operand_4: optional %operand_4,
      operand_5: optional %operand_5,
      operand_6: optional %operand_6,
      operand_7: optional %operand_7
    )
    irdl.results(result: %result)
    irdl.attributes {
      "decomposition" = %decomposition,
      "groups" = %groups,
      "indexing_maps" = %indexing_maps
    }
    irdl.regions(epilogue: %epilogue)
  }
}
