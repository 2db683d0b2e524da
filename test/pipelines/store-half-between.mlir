// RUN: winograd-opt %s --winograd-assign-schedule --winograd-store-half | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {
    iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76", wgp = <
      compute = fp32, storage = b16, subgroup = shuffle, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
      max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>

// On CUDA a part of a result that an operation on elements reads, and what this one rounds, are in half precision.
// CHECK-LABEL: func.func @gated
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: : (tensor<16x25x16xf32>) -> tensor<1x10x10x16xf16>
// CHECK: %[[LEFT:.*]] = tensor.extract_slice %[[Y]]{{.*}} : tensor<1x10x10x16xf16> to tensor<1x10x10x8xf16>
// CHECK: %[[RIGHT:.*]] = tensor.extract_slice %[[Y]]{{.*}} : tensor<1x10x10x16xf16> to tensor<1x10x10x8xf16>
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%[[LEFT]], %[[RIGHT]], %[[LEFT]] : tensor<1x10x10x8xf16>, tensor<1x10x10x8xf16>, tensor<1x10x10x8xf16>) outs(%{{.*}} : tensor<1x10x10x8xf16>)
// CHECK-COUNT-3: arith.extf
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: linalg.yield %{{.*}} : f16
// CHECK: "winograd.input_transform"(%[[P]]) {{.*}} : (tensor<1x10x10x8xf16>) -> tensor<16x16x8xf32>
func.func @gated(%x: tensor<1x12x12x8xf32>, %u: tensor<16x8x16xf32>, %u2: tensor<16x8x8xf32>) -> tensor<1x8x8x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x25x16xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16x8xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x16xf32>) outs(%zeros : tensor<16x25x16xf32>) -> tensor<16x25x16xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %s = arith.extf %h : f16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x16xf32>) -> tensor<1x10x10x16xf32>
  %left = tensor.extract_slice %y[0, 0, 0, 0] [1, 10, 10, 8] [1, 1, 1, 1] : tensor<1x10x10x16xf32> to tensor<1x10x10x8xf32>
  %right = tensor.extract_slice %y[0, 0, 0, 8] [1, 10, 10, 8] [1, 1, 1, 1] : tensor<1x10x10x16xf32> to tensor<1x10x10x8xf32>
  %e = tensor.empty() : tensor<1x10x10x8xf32>
  %p = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%left, %right, %left : tensor<1x10x10x8xf32>, tensor<1x10x10x8xf32>, tensor<1x10x10x8xf32>) outs(%e : tensor<1x10x10x8xf32>) {
  ^bb0(%a: f32, %b: f32, %twice: f32, %o: f32):
    %c = arith.mulf %a, %b : f32
    %d = arith.addf %c, %twice : f32
    %h = arith.truncf %d : f32 to f16
    %s = arith.extf %h : f16 to f32
    linalg.yield %s : f32
  } -> tensor<1x10x10x8xf32>
  %v2 = "winograd.input_transform"(%p) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x10x8xf32>) -> tensor<16x16x8xf32>
  %m2 = linalg.batch_matmul ins(%v2, %u2 : tensor<16x16x8xf32>, tensor<16x8x8xf32>) outs(%zero : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf32>
  return %y2 : tensor<1x8x8x8xf32>
}

// So are channels that convolutions insert into one tensor, and read.
// CHECK-LABEL: func.func @concatenated
// CHECK: %[[E:.*]] = tensor.empty() : tensor<1x10x10x16xf16>
// CHECK: %[[X:.*]] = tensor.insert_slice %{{.*}} into %[[E]][0, 0, 0, 0] {{.*}} : tensor<1x10x10x8xf16> into tensor<1x10x10x16xf16>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[X]]{{.*}} : tensor<1x10x10x16xf16> to tensor<1x10x10x8xf16>
// CHECK: "winograd.input_transform"(%[[S]]) {{.*}} : (tensor<1x10x10x8xf16>) -> tensor<16x16x8xf32>
// CHECK: %[[Y:.*]] = tensor.insert_slice %{{.*}} into %[[X]][0, 0, 0, 8] {{.*}} : tensor<1x10x10x8xf16> into tensor<1x10x10x16xf16>
// CHECK: "winograd.input_transform"(%[[Y]]) {{.*}} : (tensor<1x10x10x16xf16>) -> tensor<16x16x16xf32>
// CHECK-NOT: tensor<1x10x10x16xf32>
func.func @concatenated(%x: tensor<1x12x12x8xf32>, %u: tensor<16x8x8xf32>, %u2: tensor<16x16x8xf32>) -> (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16x8xf32>
  %e = tensor.empty() : tensor<1x10x10x16xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %s = arith.extf %h : f16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %first = tensor.insert_slice %y into %e[0, 0, 0, 0] [1, 10, 10, 8] [1, 1, 1, 1] : tensor<1x10x10x8xf32> into tensor<1x10x10x16xf32>
  %read = tensor.extract_slice %first[0, 0, 0, 0] [1, 10, 10, 8] [1, 1, 1, 1] : tensor<1x10x10x16xf32> to tensor<1x10x10x8xf32>
  %v2 = "winograd.input_transform"(%read) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x10x8xf32>) -> tensor<16x16x8xf32>
  %m2 = linalg.batch_matmul ins(%v2, %u : tensor<16x16x8xf32>, tensor<16x8x8xf32>) outs(%zero : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf32>
  %v3 = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m3 = linalg.batch_matmul ins(%v3, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y3 = "winograd.output_transform"(%m3) ({
  ^bb0(%a: f32):
    %n = arith.negf %a : f32
    %h = arith.truncf %n : f32 to f16
    %s = arith.extf %h : f16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %both = tensor.insert_slice %y3 into %first[0, 0, 0, 8] [1, 10, 10, 8] [1, 1, 1, 1] : tensor<1x10x10x8xf32> into tensor<1x10x10x16xf32>
  %v4 = "winograd.input_transform"(%both) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x10x16xf32>) -> tensor<16x16x16xf32>
  %m4 = linalg.batch_matmul ins(%v4, %u2 : tensor<16x16x16xf32>, tensor<16x16x8xf32>) outs(%zero : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %y4 = "winograd.output_transform"(%m4) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf32>
  return %y2, %y4 : tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>
}
