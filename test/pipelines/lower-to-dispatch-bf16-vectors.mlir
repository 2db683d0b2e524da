// RUN: winograd-opt %s --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "znver4", cpu_features = "+avx2,+fma,+avx512f,+avx512vl,+avx512bf16",
    max_stack_allocation_size = 32768 : i64, native_vector_size = 64 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#schedule = {channel_splits = 1 : i64, channel_tiles = 2 : i64, kind = "bf16-vectors", pixel_block = 49 : i64, pixel_tiles = 1 : i64, row_block = 1 : i64, row_tiles = 1 : i64, tile_pixels = 14 : i64}

// Registers hold 14 pixels by two vectors of output channels. A pair of channels of a pixel, in f32's place, is
// multiplied with two vectors of pairs of filters: an integer instruction loads it into all lanes. Sums go on from 32
// channels to the next in registers.
// CHECK: scf.for %chunk{{.*}} iter_args
// CHECK: scf.for %pair{{.*}} iter_args
// CHECK-COUNT-2: llvm.load {{.*}}vector<16xi32>
// CHECK: llvm.inline_asm {{.*}}"vpbroadcastd $1, $0", "=v,*m" {{.*}} -> vector<16xi32>
// CHECK-COUNT-28: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// CHECK-NOT: llvm.x86.avx512bf16.dpbf16ps.512
// CHECK: vector.store
// CHECK-LABEL: func.func @pointwise
func.func @pointwise(%x: tensor<1x7x7x64xf32>) -> tensor<1x7x7x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x32xf32>
  %f = arith.constant dense<1.0> : tensor<1x64x32xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x64xf32>) -> tensor<1x49x64xf32>
  %m = linalg.batch_matmul {winograd.schedule = #schedule} ins(%v, %f : tensor<1x49x64xf32>, tensor<1x64x32xf32>) outs(%zeros : tensor<1x49x32xf32>) -> tensor<1x49x32xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x32xf32>) -> tensor<1x7x7x32xf32>
  return %z : tensor<1x7x7x32xf32>
}
