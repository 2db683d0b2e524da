// RUN: winograd-opt %s --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "sapphirerapids", cpu_features = "+avx2,+fma,+avx512f,+avx512bw,+avx512bf16,+amx-tile,+amx-bf16",
    max_stack_allocation_size = 32768 : i64, native_vector_size = 64 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#schedule = {channel_splits = 1 : i64, channel_tiles = 2 : i64, filter_prefetch = 64 : i64, kind = "bf16-matrix-unit", pixel_block = 8 : i64, pixel_tiles = 1 : i64, row_block = 1 : i64, row_tiles = 1 : i64, tile_pixels = 8 : i64}

// Eight rows are a single register block, which alone reads the filters of its channels: while it multiplies, the lines
// of two tiles are fetched that are 64 tiles, 16384 places of pairs, ahead.
// CHECK: scf.for %register_block
// CHECK: scf.for %chunk
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CHECK: %[[AHEAD:.*]] = arith.addi %{{.*}}, %c16384 : index
// CHECK-NEXT: memref.prefetch %[[FILTERS:.*]][%[[AHEAD]]], read, locality<2>
// CHECK-COUNT-31: memref.prefetch %[[FILTERS]][%{{.*}}], read, locality<2>
// CHECK: scf.for %finished
// CHECK-LABEL: func.func @fully_connected
func.func @fully_connected(%x: tensor<1x1x8x4096xbf16>) -> tensor<1x1x8x64xbf16> {
  %zeros = arith.constant dense<0.0> : tensor<1x8x64xf32>
  %f = arith.constant dense<1.0> : tensor<1x4096x64xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x1x8x4096xbf16>) -> tensor<1x8x4096xf32>
  %m = linalg.batch_matmul {winograd.schedule = #schedule} ins(%v, %f : tensor<1x8x4096xf32>, tensor<1x4096x64xf32>) outs(%zeros : tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %b = arith.truncf %a : f32 to bf16
    vector.yield %b : bf16
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x8x64xf32>) -> tensor<1x1x8x64xbf16>
  return %z : tensor<1x1x8x64xbf16>
}
