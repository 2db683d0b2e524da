// RUN: winograd-opt --winograd-verify %s | filecheck %s
// RUN: winograd-opt --winograd-verify %s | iree-opt --irdl-file=%S/../../dialect/winograd.irdl.mlir | filecheck %s

// The ops of F(4x4, 3x3) on a padded image; the epilogue adds a bias.
// CHECK-LABEL: @winograd
// CHECK: "winograd.input_transform"
// CHECK: "winograd.filter_transform"
// CHECK: "winograd.output_transform"
func.func @winograd(%x: tensor<1x14x14x8xf32>, %w: tensor<3x3x8x4xf32>, %zeros: tensor<36x16x4xf32>, %bias: tensor<4xf32>)
    -> tensor<1x14x14x4xf32> {
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>}
    : (tensor<1x14x14x8xf32>) -> tensor<36x16x8xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<3x3x8x4xf32>) -> tensor<36x8x4xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<36x16x8xf32>, tensor<36x8x4xf32>)
    outs(%zeros : tensor<36x16x4xf32>) -> tensor<36x16x4xf32>
  %y = "winograd.output_transform"(%m, %bias) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<36x16x4xf32>, tensor<4xf32>) -> tensor<1x14x14x4xf32>
  return %y : tensor<1x14x14x4xf32>
}

// One spatial dimension, two groups, stride 2: phases of the stride are views, summed by the product.
// CHECK-LABEL: @grouped_strided
// CHECK: "winograd.input_transform"
func.func @grouped_strided(%x: tensor<?x17x8xf32>) -> tensor<6x?x8xf32> {
  %v = "winograd.input_transform"(%x) {
    decomposition = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>,
      part_size = array<i64: 2>, spacing = array<i64: 2>, step = array<i64: 2>, views = [array<i64: 0>, array<i64: 1>]},
    groups = 2 : i64, padding_low = array<i64: 0>, padding_high = array<i64: 0>}
    : (tensor<?x17x8xf32>) -> tensor<6x?x8xf32>
  return %v : tensor<6x?x8xf32>
}

// Images may be channels first; the maps of an epilogue are those of (n, spatial..., k) all the same.
// CHECK-LABEL: @channels_first
// CHECK: "winograd.input_transform"{{.*}}channels_first
// CHECK: "winograd.output_transform"
// CHECK: channels_first
func.func @channels_first(%x: tensor<1x8x14x12xf32>, %m: tensor<36x12x4xf32>, %bias: tensor<4xf32>)
    -> (tensor<36x12x8xf32>, tensor<1x4x14x12xf32>) {
  %v = "winograd.input_transform"(%x) {channels_first,
    decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>}
    : (tensor<1x8x14x12xf32>) -> tensor<36x12x8xf32>
  %y = "winograd.output_transform"(%m, %bias) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {channels_first,
    decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k)>],
    operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<36x12x4xf32>, tensor<4xf32>) -> tensor<1x4x14x12xf32>
  return %v, %y : tensor<36x12x8xf32>, tensor<1x4x14x12xf32>
}

// The transposes of the output's and the filter's transform, for the gradient of a filter.
// CHECK-LABEL: @weight_gradient
// CHECK: "winograd.gradient_transform"
// CHECK: "winograd.filter_gradient"
func.func @weight_gradient(%dy: tensor<2x14x14x4xf32>, %sums: tensor<36x8x4xf32>)
    -> (tensor<36x32x4xf32>, tensor<3x3x8x4xf32>) {
  %z = "winograd.gradient_transform"(%dy) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<2x14x14x4xf32>) -> tensor<36x32x4xf32>
  %dw = "winograd.filter_gradient"(%sums) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<36x8x4xf32>) -> tensor<3x3x8x4xf32>
  return %z, %dw : tensor<36x32x4xf32>, tensor<3x3x8x4xf32>
}

// The domain's type is that of the elements there, whatever is stored.
// CHECK-LABEL: @domains
// CHECK: "winograd.input_transform"
// CHECK-SAME: -> tensor<36x16x8xf16>
// CHECK: "winograd.filter_transform"
// CHECK-SAME: -> tensor<36x8x4xf32>
func.func @domains(%x: tensor<1x18x18x8xf16>, %w: tensor<3x3x8x4xbf16>) -> (tensor<36x16x8xf16>, tensor<36x8x4xf32>) {
  %v = "winograd.input_transform"(%x) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>}
    : (tensor<1x18x18x8xf16>) -> tensor<36x16x8xf16>
  %u = "winograd.filter_transform"(%w) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]},
    groups = 1 : i64} : (tensor<3x3x8x4xbf16>) -> tensor<36x8x4xf32>
  return %v, %u : tensor<36x16x8xf16>, tensor<36x8x4xf32>
}
