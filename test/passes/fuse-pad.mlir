// RUN: winograd-opt --winograd-fuse-pad --winograd-verify --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-fuse-pad --split-input-file %s 2>%t.err | iree-opt --irdl-file=%S/../../dialect/winograd.irdl.mlir --split-input-file -o %t
// RUN: winograd-opt --winograd-fuse-pad --split-input-file --verify-diagnostics %s

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Padding need not be symmetric, and adds to the padding that the transform has.
// CHECK-LABEL: @zeros
// CHECK-SAME: (%[[X:.*]]: tensor<1x13x14x8xf32>)
// CHECK-NOT: tensor.pad
// CHECK: "winograd.input_transform"(%[[X]])
// CHECK-SAME: padding_high = array<i64: 2, 1>, padding_low = array<i64: 1, 2>
func.func @zeros(%x: tensor<1x13x14x8xf32>) -> tensor<36x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 2, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x13x14x8xf32> to tensor<1x16x16x8xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 1>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return %v : tensor<36x16x8xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A tensor inserted into zeros is padding, too.
// CHECK-LABEL: @inserted
// CHECK-SAME: (%[[X:.*]]: tensor<1x14x14x8xf32>)
// CHECK-NOT: tensor.insert_slice
// CHECK: "winograd.input_transform"(%[[X]])
// CHECK-SAME: padding_high = array<i64: 1, 2>, padding_low = array<i64: 1, 0>
func.func @inserted(%x: tensor<1x14x14x8xf32>) -> tensor<36x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x16x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32>
  %p = tensor.insert_slice %x into %f[0, 1, 0, 0] [1, 14, 14, 8] [1, 1, 1, 1]
    : tensor<1x14x14x8xf32> into tensor<1x16x16x8xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return %v : tensor<36x16x8xf32>
}

// -----

// The same where the number of images is known only at run time, all of which are inserted.
#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @inserted_batch
// CHECK-SAME: (%[[X:.*]]: tensor<?x14x14x8xf32>,
// CHECK: "winograd.input_transform"(%[[X]])
// CHECK-SAME: padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>
// CHECK: "winograd.input_transform"(%inserted_slice
func.func @inserted_batch(%x: tensor<?x14x14x8xf32>, %n: index, %k: index)
    -> (tensor<36x?x8xf32>, tensor<36x?x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x16x16x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x16x16x8xf32>) -> tensor<?x16x16x8xf32>
  %p = tensor.insert_slice %x into %f[0, 1, 1, 0] [%n, 14, 14, 8] [1, 1, 1, 1]
    : tensor<?x14x14x8xf32> into tensor<?x16x16x8xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<?x16x16x8xf32>) -> tensor<36x?x8xf32>
  // expected-remark @below {{what it inserts where is known only at run time}}
  %q = tensor.insert_slice %x into %f[0, 1, 1, 0] [%k, 14, 14, 8] [1, 1, 1, 1]
    : tensor<?x14x14x8xf32> into tensor<?x16x16x8xf32>
  %w = "winograd.input_transform"(%q) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<?x16x16x8xf32>) -> tensor<36x?x8xf32>
  return %v, %w : tensor<36x?x8xf32>, tensor<36x?x8xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Padding that has another user stays for it.
// CHECK-LABEL: @shared
// CHECK-SAME: (%[[X:.*]]: tensor<1x14x14x8xf32>)
// CHECK: %[[P:.*]] = tensor.pad
// CHECK: "winograd.input_transform"(%[[X]])
// CHECK: return %{{.*}}, %[[P]]
func.func @shared(%x: tensor<1x14x14x8xf32>) -> (tensor<36x16x8xf32>, tensor<1x16x16x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x14x14x8xf32> to tensor<1x16x16x8xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  return %v, %p : tensor<36x16x8xf32>, tensor<1x16x16x8xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Padding with something else, of channels, or of a size known only at run time stays.
// CHECK-LABEL: @left
// CHECK-COUNT-3: "winograd.input_transform"(%padded{{.*}}) {{.*}} padding_high = array<i64: 0, 0>
func.func @left(%x: tensor<1x14x14x8xf32>, %c: tensor<1x16x16x7xf32>, %n: index)
    -> (tensor<36x16x8xf32>, tensor<36x16x8xf32>, tensor<36x?x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  // expected-remark @below {{its padding is not zeros}}
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %one : f32
  } : tensor<1x14x14x8xf32> to tensor<1x16x16x8xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  // expected-remark @below {{it pads the batch or channels}}
  %q = tensor.pad %c low[0, 0, 0, 0] high[0, 0, 0, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x16x16x7xf32> to tensor<1x16x16x8xf32>
  %w = "winograd.input_transform"(%q) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
  // expected-remark @below {{its padding is known only at run time}}
  %d = tensor.pad %x low[0, %n, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x14x14x8xf32> to tensor<1x?x16x8xf32>
  %u = "winograd.input_transform"(%d) {decomposition = #f4, groups = 1 : i64,
    padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x?x16x8xf32>) -> tensor<36x?x8xf32>
  return %v, %w, %u : tensor<36x16x8xf32>, tensor<36x16x8xf32>, tensor<36x?x8xf32>
}
