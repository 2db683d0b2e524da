// RUN: winograd-opt %s --winograd-assign-schedule --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The kernel reads a slice of channels where it lies, and writes its result to its place in the same tensor.
// CHECK-LABEL: func.func @layer
// CHECK-SAME: (%[[X:.*]]: tensor<1x7x7x16xf32>)
// CHECK: %[[FIRST:.*]] = arith.constant 12 : index
// CHECK: %[[Y:.*]] = flow.dispatch @{{.*}}(%[[X]], %{{.*}}, %[[X]], %[[FIRST]]) : (tensor<1x7x7x16xf32>, {{.*}}, tensor<1x7x7x16xf32>, index) -> %[[X]]
// CHECK-NOT: tensor.
// CHECK: return %[[Y]]
func.func @layer(%x: tensor<1x7x7x16xf32>) -> tensor<1x7x7x16xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x4xf32>
  %c = tensor.extract_slice %x[0, 0, 0, 0] [1, 7, 7, 12] [1, 1, 1, 1] : tensor<1x7x7x16xf32> to tensor<1x7x7x12xf32>
  %f = arith.constant dense<1.0> : tensor<1x12x4xf32>
  %v = "winograd.input_transform"(%c) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x12xf32>) -> tensor<1x49x12xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x49x12xf32>, tensor<1x12x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %d = tensor.insert_slice %z into %x[0, 0, 0, 12] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x16xf32>
  return %d : tensor<1x7x7x16xf32>
}

// What the convolution reads is written after it: channels that overlap, and what the epilogue adds.
// CHECK-LABEL: func.func @overwritten
// CHECK: flow.dispatch @{{.*}} -> tensor<1x7x7x4xf32>
// CHECK: tensor.insert_slice
// CHECK: flow.dispatch @{{.*}} -> tensor<1x7x7x4xf32>
// CHECK: tensor.insert_slice
func.func @overwritten(%x: tensor<1x7x7x16xf32>, %y: tensor<1x7x7x4xf32>) -> (tensor<1x7x7x16xf32>, tensor<1x7x7x4xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<1x49x4xf32>
  %c = tensor.extract_slice %x[0, 0, 0, 0] [1, 7, 7, 12] [1, 1, 1, 1] : tensor<1x7x7x16xf32> to tensor<1x7x7x12xf32>
  %f = arith.constant dense<1.0> : tensor<1x12x4xf32>
  %v = "winograd.input_transform"(%c) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x12xf32>) -> tensor<1x49x12xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x49x12xf32>, tensor<1x12x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %d = tensor.insert_slice %z into %x[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x16xf32>
  %s = "winograd.output_transform"(%m, %y) ({
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    vector.yield %t : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32>
  %e = tensor.insert_slice %s into %y[0, 0, 0, 0] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x4xf32>
  return %d, %e : tensor<1x7x7x16xf32>, tensor<1x7x7x4xf32>
}

// What is computed once, and inserted in every iteration of a loop, stays outside of the loop.
// CHECK-LABEL: func.func @in_loop
// CHECK: %[[Z:.*]] = flow.dispatch
// CHECK: scf.for
// CHECK-NOT: flow.dispatch
// CHECK: tensor.insert_slice %[[Z]]
func.func @in_loop(%x: tensor<1x7x7x12xf32>, %y: tensor<1x7x7x16xf32>, %n: index) -> tensor<1x7x7x16xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %f = arith.constant dense<1.0> : tensor<1x12x4xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x12xf32>) -> tensor<1x49x12xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x49x12xf32>, tensor<1x12x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %y) -> tensor<1x7x7x16xf32> {
    %d = tensor.insert_slice %z into %a[0, 0, 0, 12] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x16xf32>
    scf.yield %d : tensor<1x7x7x16xf32>
  }
  return %r : tensor<1x7x7x16xf32>
}
