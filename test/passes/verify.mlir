// RUN: winograd-opt --winograd-verify --split-input-file --verify-diagnostics %s

func.func @missing_attribute(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op lacks the attribute 'groups'}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @no_groups(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'groups' must be a positive integer, but is 0 : i64}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 0 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @negative_padding(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'padding_low' must be 2 sizes of at least 0, but is (-1, 0)}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: -1, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @padding_rank(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'padding_high' must be 2 sizes of at least 0, but is (0,)}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @padding_kind(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'padding_high': expected array<i64: ...>, got [0, 0]}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = [0, 0], groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @decomposition_kind(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': expected a dictionary, got 4 : i64}}
  %v = "winograd.input_transform"(%x) {decomposition = 4 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @decomposition_entry(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': lacks the entry 'step'}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @decomposition_unknown_entry(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': has an unknown entry 'tile'}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>], tile = 4},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @decomposition_rank(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': output_tile (4,) must have 2 dimensions, as kernel_size (3, 3) has}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @decomposition_size(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': output_tile (0, 4) must be at least 1 in every dimension}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 0, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @missing_tap(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': views ((0, 0),) must cover all 9 taps of the kernel, not 4}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 2, 2>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @tap_twice(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': views ((0, 0), (0, 1)) must cover tap (0, 1) of the kernel only once}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>, array<i64: 0, 1>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @spacing(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'decomposition': spacing (1, 1) must be a multiple of step (2, 1)}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 2, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @input_rank(%x: tensor<16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op input must be a tensor of 4 dimensions, but is tensor<16x16x8xf32>}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @input_element_type(%x: tensor<1x16x16x8xf64>) {
  // expected-error @below {{'winograd.input_transform' op input must have elements of type f32, f16 or bf16, but is tensor<1x16x16x8xf64>}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf64>) -> tensor<36x16x8xf64>
  return
}

func.func @domain_type(%x: tensor<1x18x18x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op result must have elements of type f32, f16 or bf16, but is tensor<36x16x8xf64>}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x18x18x8xf32>) -> tensor<36x16x8xf64>
  return
}

// -----

func.func @input_groups(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op input tensor<1x16x16x8xf32> must have channels that 3 groups divide}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 3 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @small_input(%x: tensor<1x2x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op input tensor<1x2x16x8xf32>, padded to (2, 16), must hold the kernel (3, 3)}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x2x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @input_result(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op result must be tensor<36x16x8xf32>, but is tensor<36x9x8xf32>}}
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x9x8xf32>
  return
}

// -----

func.func @filter_size(%w: tensor<5x3x8x4xf32>) {
  // expected-error @below {{'winograd.filter_transform' op filter tensor<5x3x8x4xf32> must have the kernel size (3, 3)}}
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<5x3x8x4xf32>) -> tensor<36x8x4xf32>
  return
}

// -----

func.func @filter_groups(%w: tensor<3x3x8x4xf32>) {
  // expected-error @below {{'winograd.filter_transform' op filter tensor<3x3x8x4xf32> must have output channels that 3 groups divide}}
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 3 : i64} : (tensor<3x3x8x4xf32>) -> tensor<36x8x4xf32>
  return
}

// -----

func.func @filter_permutation(%w: tensor<4x8x3x3xf32>) {
  // expected-error @below {{'winograd.filter_transform' op attribute 'permutation' must be a permutation of 4 dimensions, but is array<i64: 2, 3, 1, 1>}}
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, permutation = array<i64: 2, 3, 1, 1>} : (tensor<4x8x3x3xf32>) -> tensor<36x8x4xf32>
  return
}

// -----

func.func @permuted_filter_size(%w: tensor<4x8x3x3xf32>) {
  // expected-error @below {{'winograd.filter_transform' op filter tensor<3x4x3x8xf32> must have the kernel size (3, 3)}}
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, permutation = array<i64: 2, 0, 3, 1>} : (tensor<4x8x3x3xf32>) -> tensor<36x8x4xf32>
  return
}

// -----

func.func @flipped_filter(%w: tensor<3x3x8x4xf32>) {
  // expected-error @below {{'winograd.filter_transform' op attribute 'flipped' must be a unit, but is true}}
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    flipped = true, groups = 1 : i64} : (tensor<3x3x8x4xf32>) -> tensor<36x8x4xf32>
  return
}

// -----

func.func @filter_result(%w: tensor<3x3x8x4xf32>) {
  // expected-error @below {{'winograd.filter_transform' op result must be tensor<36x8x4xf32>, but is tensor<16x8x4xf32>}}
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<3x3x8x4xf32>) -> tensor<16x8x4xf32>
  return
}

// -----

func.func @accumulator(%m: tensor<36x15x4xf32>) {
  // expected-error @below {{'winograd.output_transform' op accumulator must be tensor<36x16x4xf32>, but is tensor<36x15x4xf32>}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [],
    operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x15x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @output_rank(%m: tensor<36x16x4xf32>) {
  // expected-error @below {{'winograd.output_transform' op result must be a tensor of 4 dimensions, but is tensor<14x14x4xf32>}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [],
    operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<14x14x4xf32>
  return
}

// -----

func.func @map_count(%m: tensor<36x16x4xf32>, %b0: tensor<4xf32>) {
  // expected-error @below {{'winograd.output_transform' op attribute 'indexing_maps' must have an entry for each of 1 epilogue operands, but has 0}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @map_dimensions(%m: tensor<36x16x4xf32>, %b0: tensor<4xf32>) {
  // expected-error @below {{'winograd.output_transform' op indexing map #0 must have 4 dimensions and no symbols, but is (d0) -> (d0)}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(k) -> (k)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @map_expression(%m: tensor<36x16x4xf32>, %b0: tensor<8xf32>) {
  // expected-error @below {{'winograd.output_transform' op epilogue operand #0 must be read at dimensions of the result or 0, but is at d3 * 2}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (2 * k)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<8xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @operand_rank(%m: tensor<36x16x4xf32>, %b0: tensor<4x1xf32>) {
  // expected-error @below {{'winograd.output_transform' op epilogue operand #0 must be a tensor of 1 dimensions, but is tensor<4x1xf32>}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<4x1xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @operand_size(%m: tensor<36x16x4xf32>, %b0: tensor<5xf32>) {
  // expected-error @below {{'winograd.output_transform' op epilogue operand #0 tensor<5xf32> must have size 4 in dimension 0, as result tensor<1x14x14x4xf32> has in dimension 3}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<5xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @operand_channels_outermost(%m: tensor<36x16x4xf32>, %b0: tensor<4x14xf32>) {
  // expected-error @below {{'winograd.output_transform' op epilogue operand #0 tensor<4x14xf32> must have channels innermost, but is read at (d0, d1, d2, d3) -> (d3, d1)}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k, h)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<4x14xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @operand_dynamic(%m: tensor<36x16x4xf32>, %b0: tensor<14x?xf32>) {
  // expected-error @below {{'winograd.output_transform' op epilogue operand #0 tensor<14x?xf32> may have sizes known at run time only as the result has, the batch outermost}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (h, n)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<14x?xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @segment_sizes(%m: tensor<36x16x4xf32>, %b0: tensor<4xf32>) {
  // expected-error @below {{'winograd.output_transform' op attribute 'operandSegmentSizes' must be array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>, but is array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>}}
  %y = "winograd.output_transform"(%m, %b0) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k)>],
    operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>, tensor<4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @block_arguments(%m: tensor<36x16x4xf32>) {
  // expected-error @below {{'winograd.output_transform' op block arguments must be of types (f32), but are (f32, f32)}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32, %b: f32):
    vector.yield %a : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [],
    operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @terminator(%m: tensor<36x16x4xf32>) {
  // expected-error @below {{'winograd.output_transform' op must end its region with vector.yield}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    "some.operation"(%a) : (f32) -> ()
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [],
    operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @yielded(%m: tensor<36x16x4xf32>) {
  // expected-error @below {{'winograd.output_transform' op must yield f32, but yields (f32, f32)}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a, %a : f32, f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [],
    operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @unknown(%x: tensor<4xf32>) {
  // expected-error @below {{'winograd.transform' op is not an operation of the dialect}}
  "winograd.transform"(%x) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @operands(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op must have 1 operands, but has 2}}
  %v = "winograd.input_transform"(%x, %x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<1x16x16x8xf32>, tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @layout_kind(%x: tensor<1x8x16x16xf32>) {
  // expected-error @below {{'winograd.input_transform' op attribute 'channels_first' must be a unit, but is true}}
  %v = "winograd.input_transform"(%x) {channels_first = true, decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x16x16xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @channels_first(%x: tensor<1x16x16x8xf32>) {
  // expected-error @below {{'winograd.input_transform' op result must be tensor<36x8x16xf32>, but is tensor<36x16x8xf32>}}
  %v = "winograd.input_transform"(%x) {channels_first, decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return
}

// -----

func.func @gradient_tiles(%dy: tensor<2x14x14x4xf32>) {
  // expected-error @below {{'winograd.gradient_transform' op result must be tensor<36x32x4xf32>, but is tensor<36x16x4xf32>}}
  %z = "winograd.gradient_transform"(%dy) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<2x14x14x4xf32>) -> tensor<36x16x4xf32>
  return
}

// -----

func.func @filter_gradient_kernel(%sums: tensor<36x8x4xf32>) {
  // expected-error @below {{'winograd.filter_gradient' op result tensor<3x5x8x4xf32> must have the kernel size (3, 3)}}
  %dw = "winograd.filter_gradient"(%sums) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<36x8x4xf32>) -> tensor<3x5x8x4xf32>
  return
}

// -----

func.func @filter_gradient_sums(%sums: tensor<36x4x4xf32>) {
  // expected-error @below {{'winograd.filter_gradient' op accumulator must be tensor<36x8x4xf32>, but is tensor<36x4x4xf32>}}
  %dw = "winograd.filter_gradient"(%sums) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<36x4x4xf32>) -> tensor<3x3x8x4xf32>
  return
}
