// RUN: winograd-opt --winograd-fold-filter --winograd-verify --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-fold-filter='most-growth=3' --split-input-file %s | filecheck --check-prefix=LOAD %s
// RUN: winograd-opt --winograd-fold-filter --split-input-file %s | iree-opt --irdl-file=%S/../../dialect/winograd.irdl.mlir --split-input-file -o %t

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A filter that grows by more bytes than it may stays, and the module says when it is to be transformed.
// LOAD: module attributes {winograd.folds_at_load}
// LOAD-LABEL: @constant
// LOAD: "winograd.filter_transform"

// F(2, 3) of the filter [8, 8, 8], whose last element is the last tap, in the order that the op wants.
// CHECK-LABEL: @constant
// CHECK-NEXT: %[[U:.*]] = arith.constant dense_resource<winograd_filter> : tensor<4x1x1xf32>
// CHECK-NEXT: return %[[U]]
// CHECK: winograd_filter: "0x04000000{{[0-9A-F]*}}00000041"
func.func @constant() -> tensor<4x1x1xf32> {
  %w = arith.constant dense<8.0> : tensor<1x1x3xf32>
  %e = tensor.empty() : tensor<3x1x1xf32>
  %t = linalg.transpose ins(%w : tensor<1x1x3xf32>) outs(%e : tensor<3x1x1xf32>) permutation = [2, 1, 0]
  %u = "winograd.filter_transform"(%t) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x1xf32>) -> tensor<4x1x1xf32>
  return %u : tensor<4x1x1xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// Resources are read and written as they are; the filter is [1, 2, 3].
// CHECK-LABEL: @resource
// CHECK: arith.constant dense_resource<winograd_filter> : tensor<4x1x1xf32>
// CHECK-NOT: "winograd.filter_transform"
func.func @resource() -> tensor<4x1x1xf32> {
  %w = arith.constant dense_resource<w> : tensor<3x1x1xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x1xf32>) -> tensor<4x1x1xf32>
  return %u : tensor<4x1x1xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F0000004000004040" } } #-}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A filter known only at run time keeps its op.
// CHECK-LABEL: @argument
// CHECK: "winograd.filter_transform"
func.func @argument(%w: tensor<3x1x1xf32>) -> tensor<4x1x1xf32> {
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x1xf32>) -> tensor<4x1x1xf32>
  return %u : tensor<4x1x1xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}
#reversed = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// A flipped filter of one channel, whose only index there is a constant: the elements of [1, 2, 3] are read from
// the last one, 3, on.
// CHECK-LABEL: @reversed
// CHECK: arith.constant dense_resource<winograd_filter> : tensor<4x1x1xf32>
// CHECK-NOT: "winograd.filter_transform"
// CHECK: winograd_filter: "0x04000000{{[0-9A-F]*}}0000803F"
func.func @reversed() -> tensor<4x1x1xf32> {
  %w = arith.constant dense_resource<w> : tensor<3x1x1xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %e = tensor.empty() : tensor<3x1x1xf32>
  %r = linalg.generic {indexing_maps = [#reversed], iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<3x1x1xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %k = linalg.index 2 : index
    %j = arith.subi %c2, %i : index
    %x = tensor.extract %w[%j, %c0, %k] : tensor<3x1x1xf32>
    linalg.yield %x : f32
  } -> tensor<3x1x1xf32>
  %u = "winograd.filter_transform"(%r) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x1xf32>) -> tensor<4x1x1xf32>
  return %u : tensor<4x1x1xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F0000004000004040" } } #-}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// The op itself reads the taps [1, 2, 3], which lie last, flipped: the last element is the first of them.
// CHECK-LABEL: @read_permuted_and_flipped
// CHECK: arith.constant dense_resource<winograd_filter> : tensor<4x1x1xf32>
// CHECK-NOT: "winograd.filter_transform"
// CHECK: winograd_filter: "0x04000000{{[0-9A-F]*}}0000803F"
func.func @read_permuted_and_flipped() -> tensor<4x1x1xf32> {
  %w = arith.constant dense_resource<w> : tensor<1x1x3xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64, permutation = array<i64: 2, 1, 0>, flipped}
    : (tensor<1x1x3xf32>) -> tensor<4x1x1xf32>
  return %u : tensor<4x1x1xf32>
}
{-# dialect_resources: { builtin: { w: "0x040000000000803F0000004000004040" } } #-}

// -----

// The transposition of a constant filter is done for a convolution that stays one, too.
// CHECK-LABEL: @convolution
// CHECK-NOT: linalg.transpose
// CHECK: %[[W:.*]] = arith.constant dense_resource<channels_last_filter> : tensor<1x1x8x4xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf ins(%{{.*}}, %[[W]]
func.func @convolution(%x: tensor<1x4x4x8xf32>, %y: tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %w = arith.constant dense<8.0> : tensor<4x8x1x1xf32>
  %e = tensor.empty() : tensor<1x1x8x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x8x1x1xf32>) outs(%e : tensor<1x1x8x4xf32>) permutation = [2, 3, 1, 0]
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %t : tensor<1x4x4x8xf32>, tensor<1x1x8x4xf32>)
    outs(%y : tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  return %r : tensor<1x4x4x4xf32>
}

// -----

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// One tap for tiles of one output is as it was.
// CHECK-LABEL: @one_tap
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[U:.*]] = tensor.collapse_shape %{{.*}} {{\[}}[0, 1], [2], [3]] : tensor<1x1x8x4xf32> into tensor<1x8x4xf32>
// CHECK-NEXT: return %[[U]]
func.func @one_tap() -> tensor<1x8x4xf32> {
  %w = arith.constant dense_resource<w> : tensor<4x8x1x1xf32>
  %e = tensor.empty() : tensor<1x1x8x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x8x1x1xf32>) outs(%e : tensor<1x1x8x4xf32>) permutation = [2, 3, 1, 0]
  %u = "winograd.filter_transform"(%t) {decomposition = #f1, groups = 1 : i64} : (tensor<1x1x8x4xf32>) -> tensor<1x8x4xf32>
  return %u : tensor<1x8x4xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A large filter that is computed of a constant as large, element by element; one that grows is left to IREE.
// CHECK-LABEL: @computed
// CHECK: arith.constant dense_resource<winograd_filter> : tensor<4x22000x1xf32>
// CHECK: "winograd.filter_transform"
func.func @computed() -> (tensor<4x22000x1xf32>, tensor<4x22000x1xf32>) {
  %w = arith.constant dense<8.0> : tensor<3x22000x1xf32>
  %tap = arith.constant dense<8.0> : tensor<3x1x1xf32>
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<3x22000x1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<3x22000x1xf32>) outs(%e : tensor<3x22000x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %positive = arith.cmpf ogt, %a, %zero : f32
    %r = arith.select %positive, %half, %zero : f32
    linalg.yield %r : f32
  } -> tensor<3x22000x1xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, 0, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%tap : tensor<3x1x1xf32>) outs(%e : tensor<3x22000x1xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.mulf %a, %half : f32
    linalg.yield %r : f32
  } -> tensor<3x22000x1xf32>
  %u = "winograd.filter_transform"(%s) {decomposition = #f2, groups = 1 : i64} : (tensor<3x22000x1xf32>) -> tensor<4x22000x1xf32>
  %v = "winograd.filter_transform"(%g) {decomposition = #f2, groups = 1 : i64} : (tensor<3x22000x1xf32>) -> tensor<4x22000x1xf32>
  return %u, %v : tensor<4x22000x1xf32>, tensor<4x22000x1xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A filter that a kernel transforms in each call stays.
// CHECK-LABEL: @taken
// CHECK: "winograd.filter_transform"
func.func @taken(%v: tensor<4x5x8xf32>, %zeros: tensor<4x5x16xf32>) -> tensor<4x5x16xf32> {
  %w = arith.constant dense<8.0> : tensor<3x8x16xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x8x16xf32>) -> tensor<4x8x16xf32>
  %m = linalg.batch_matmul {winograd.takes_filter} ins(%v, %u : tensor<4x5x8xf32>, tensor<4x8x16xf32>) outs(%zeros : tensor<4x5x16xf32>) -> tensor<4x5x16xf32>
  return %m : tensor<4x5x16xf32>
}
