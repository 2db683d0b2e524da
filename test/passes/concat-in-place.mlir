// RUN: winograd-opt --winograd-concat-in-place --winograd-verify --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-concat-in-place --split-input-file --verify-diagnostics %s

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The parts go into one tensor, one after the other.
// CHECK-LABEL: @one
// CHECK-SAME: (%[[X:.*]]: tensor<1x7x7x8xf32>, %[[M:.*]]: tensor<1x49x4xf32>)
// CHECK-DAG: %[[EMPTY:.*]] = tensor.empty() : tensor<1x7x7x12xf32>
// CHECK-DAG: %[[Y:.*]] = "winograd.output_transform"(%[[M]])
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[Y]] into %[[EMPTY]][0, 0, 0, 0] [1, 7, 7, 4] [1, 1, 1, 1]
// CHECK: %[[BOTH:.*]] = tensor.insert_slice %[[X]] into %[[FIRST]][0, 0, 0, 4] [1, 7, 7, 8] [1, 1, 1, 1]
// CHECK: return %[[BOTH]]
func.func @one(%x: tensor<1x7x7x8xf32>, %m: tensor<1x49x4xf32>) -> tensor<1x7x7x12xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %c = tensor.concat dim(3) %y, %x : (tensor<1x7x7x4xf32>, tensor<1x7x7x8xf32>) -> tensor<1x7x7x12xf32>
  return %c : tensor<1x7x7x12xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What is concatenated with more is a slice of the larger tensor.
// CHECK-LABEL: @chain
// CHECK-SAME: (%[[X:.*]]: tensor<1x7x7x8xf32>, %[[Y:.*]]: tensor<1x7x7x4xf32>, %{{.*}}: tensor<1x12x4xf32>
// CHECK-NOT: tensor.concat
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<1x7x7x16xf32>
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[X]] into %[[EMPTY]][0, 0, 0, 0] [1, 7, 7, 8]
// CHECK: %[[SECOND:.*]] = tensor.insert_slice %[[Y]] into %[[FIRST]][0, 0, 0, 8] [1, 7, 7, 4]
// CHECK: %[[C:.*]] = tensor.extract_slice %[[SECOND]][0, 0, 0, 0] [1, 7, 7, 12] [1, 1, 1, 1]
// CHECK: "winograd.input_transform"(%[[C]])
// CHECK: %[[Z:.*]] = "winograd.output_transform"
// CHECK: %[[THIRD:.*]] = tensor.insert_slice %[[Z]] into %[[SECOND]][0, 0, 0, 12] [1, 7, 7, 4]
// CHECK: return %[[THIRD]]
func.func @chain(%x: tensor<1x7x7x8xf32>, %y: tensor<1x7x7x4xf32>, %u: tensor<1x12x4xf32>, %zeros: tensor<1x49x4xf32>) -> tensor<1x7x7x16xf32> {
  %c = tensor.concat dim(3) %x, %y : (tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x12xf32>
  %v = "winograd.input_transform"(%c) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x12xf32>) -> tensor<1x49x12xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<1x49x12xf32>, tensor<1x12x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %d = tensor.concat dim(3) %c, %z : (tensor<1x7x7x12xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x16xf32>
  return %d : tensor<1x7x7x16xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A concatenation that is used after it was extended is read from what it was extended to.
// CHECK-LABEL: @used_later
// CHECK-NOT: tensor.concat
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<1x7x7x16xf32>
// CHECK: %[[Z:.*]] = "winograd.output_transform"
// CHECK: %[[WHOLE:.*]] = tensor.insert_slice %[[Z]] into %{{.*}}[0, 0, 0, 12]
// CHECK: %[[C:.*]] = tensor.extract_slice %[[WHOLE]][0, 0, 0, 0] [1, 7, 7, 12] [1, 1, 1, 1]
// CHECK: return %[[WHOLE]], %[[C]]
func.func @used_later(%x: tensor<1x7x7x8xf32>, %y: tensor<1x7x7x4xf32>, %m: tensor<1x49x4xf32>) -> (tensor<1x7x7x16xf32>, tensor<1x7x7x12xf32>) {
  %c = tensor.concat dim(3) %x, %y : (tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x12xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %d = tensor.concat dim(3) %c, %z : (tensor<1x7x7x12xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x16xf32>
  return %d, %c : tensor<1x7x7x16xf32>, tensor<1x7x7x12xf32>
}

// -----

// Concatenations that no convolution writes, of other dimensions or not, stay.
// CHECK-LABEL: @others
// CHECK-COUNT-3: tensor.concat
// CHECK-NOT: tensor.insert_slice
func.func @others(%x: tensor<1x7x7x8xf32>, %y: tensor<?x7x7x8xf32>) -> (tensor<1x7x7x16xf32>, tensor<1x14x7x8xf32>, tensor<?x7x7x16xf32>) {
  %a = tensor.concat dim(3) %x, %x : (tensor<1x7x7x8xf32>, tensor<1x7x7x8xf32>) -> tensor<1x7x7x16xf32>
  %b = tensor.concat dim(1) %x, %x : (tensor<1x7x7x8xf32>, tensor<1x7x7x8xf32>) -> tensor<1x14x7x8xf32>
  %c = tensor.concat dim(3) %y, %y : (tensor<?x7x7x8xf32>, tensor<?x7x7x8xf32>) -> tensor<?x7x7x16xf32>
  return %a, %b, %c : tensor<1x7x7x16xf32>, tensor<1x14x7x8xf32>, tensor<?x7x7x16xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Parts of convolutions that are concatenated otherwise are written where they would be without it.
// CHECK-LABEL: @left
// CHECK-COUNT-2: tensor.concat
// CHECK-NOT: tensor.insert_slice
func.func @left(%m: tensor<1x49x4xf32>, %n: tensor<1x49x4xf32>, %x: tensor<1x7x7x4xf32>, %y: tensor<1x7x7x?xf32>) -> (tensor<1x14x7x4xf32>, tensor<1x7x7x?xf32>) {
  %rows = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  // expected-remark @below {{it concatenates another dimension than channels, the last}}
  %joined = tensor.concat dim(1) %rows, %x : (tensor<1x7x7x4xf32>, tensor<1x7x7x4xf32>) -> tensor<1x14x7x4xf32>
  %images = "winograd.output_transform"(%n) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  // expected-remark @below {{its channels are known only at run time}}
  %b = tensor.concat dim(3) %images, %y : (tensor<1x7x7x4xf32>, tensor<1x7x7x?xf32>) -> tensor<1x7x7x?xf32>
  return %joined, %b : tensor<1x14x7x4xf32>, tensor<1x7x7x?xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Sizes known only at run time follow from the convolution's input.
// CHECK-LABEL: @open
// CHECK-SAME: %[[X:.*]]: tensor<?x?x7x8xf32>
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[X]], %c0
// CHECK-DAG: %[[H:.*]] = tensor.dim %[[X]], %c1
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[N]], %[[H]]) : tensor<?x?x7x12xf32>
// CHECK: %[[PART:.*]] = tensor.insert_slice %{{.*}} into %[[EMPTY]][0, 0, 0, 0] [%[[N]], %[[H]], 7, 4] [1, 1, 1, 1]
// CHECK: %[[WHOLE:.*]] = tensor.insert_slice %[[X]] into %[[PART]][0, 0, 0, 4] [%[[N]], %[[H]], 7, 8] [1, 1, 1, 1]
// CHECK: return %[[WHOLE]]
func.func @open(%x: tensor<?x?x7x8xf32>, %f: tensor<1x8x4xf32>, %tiles: index) -> tensor<?x?x7x12xf32> {
  %zero = arith.constant 0.0 : f32
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<?x?x7x8xf32>) -> tensor<1x?x8xf32>
  %e = tensor.empty(%tiles) : tensor<1x?x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x?x8xf32>, tensor<1x8x4xf32>) outs(%z : tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x?x4xf32>) -> tensor<?x?x7x4xf32>
  %c = tensor.concat dim(3) %y, %x : (tensor<?x?x7x4xf32>, tensor<?x?x7x8xf32>) -> tensor<?x?x7x12xf32>
  return %c : tensor<?x?x7x12xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What is used elsewhere, too, is copied to its place.
// CHECK-LABEL: @shared
// CHECK-DAG: %[[EMPTY:.*]] = tensor.empty() : tensor<1x7x7x8xf32>
// CHECK-DAG: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[Y]] into %[[EMPTY]][0, 0, 0, 0] [1, 7, 7, 4] [1, 1, 1, 1]
// CHECK: %[[BOTH:.*]] = tensor.insert_slice %{{.*}} into %[[FIRST]][0, 0, 0, 4] [1, 7, 7, 4] [1, 1, 1, 1]
// CHECK: return %[[BOTH]], %[[Y]]
func.func @shared(%m: tensor<1x49x4xf32>, %x: tensor<1x7x7x4xf32>) -> (tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>) {
  %shared = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %c = tensor.concat dim(3) %shared, %x : (tensor<1x7x7x4xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x8xf32>
  return %c, %shared : tensor<1x7x7x8xf32>, tensor<1x7x7x4xf32>
}
