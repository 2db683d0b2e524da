// RUN: winograd-opt %s --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "haswell", cpu_features = "+avx2,+fma,+f16c",
    max_stack_allocation_size = 32768 : i64, native_vector_size = 32 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#schedule = {channel_splits = 1 : i64, filter_prefetch = 96 : i64, filter_type = "bf16", kind = "direct", pixel_block = 1 : i64, register_pixels = 1 : i64, register_vectors = 2 : i64, row_block = 1 : i64, vector_width = 8 : i64}

// Two blocks of 64 by 16 filters of two bytes are stored as the bits of bf16, and widened as they are loaded: by a
// shift. A kernel that waits for others fetches these bytes meanwhile.
// CHECK: stream.executable private @[[KERNEL:winograd_f1x1_1x1_1x1x32_from_64]] attributes {{.*}}winograd.filters = array<i64: 1, 4096, 4096>
// CHECK: %[[FILTERS:.*]] = stream.binding.subspan {{.*}} -> memref<2048xbf16>
// CHECK-COUNT-2: vector.load %[[FILTERS]]{{.*}} : memref<2048xbf16>, vector<8xbf16>
// CHECK: arith.shli {{.*}} : vector<8xi32>
// CHECK: vector.fma {{.*}} : vector<8xf32>
// CHECK-LABEL: func.func @pointwise
// CHECK: %[[PACKED:.*]] = arith.constant dense_resource<winograd_packed_filter{{.*}}> : tensor<2x1x64x16xi16>
// CHECK: flow.dispatch @[[KERNEL]]::@[[KERNEL]](%{{.*}}, %[[PACKED]])
func.func @pointwise(%x: tensor<1x1x1x64xf32>) -> tensor<1x1x1x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x1x32xf32>
  %f = arith.constant dense<1.5> : tensor<1x64x32xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x1x1x64xf32>) -> tensor<1x1x64xf32>
  %m = linalg.batch_matmul {winograd.schedule = #schedule} ins(%v, %f : tensor<1x1x64xf32>, tensor<1x64x32xf32>) outs(%zeros : tensor<1x1x32xf32>) -> tensor<1x1x32xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x1x32xf32>) -> tensor<1x1x1x32xf32>
  return %z : tensor<1x1x1x32xf32>
}
