// RUN: winograd-opt --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix --split-input-file %s | filecheck %s

// By a schedule with an image_prefetch, for images of which L2 holds a part. While the workgroup multiplies the elements of its tiles, it
// fetches the outputs that it is going to write, what the epilogue reads there and, with the last block of channels, the next block's tiles.
// CHECK: scf.for %channel_block =
// CHECK: scf.for %a =
// CHECK: scf.for %fetched_tile =
// CHECK: memref.prefetch %[[OUTPUT:.*]][%{{.*}}], write, locality<3>
// CHECK: memref.prefetch %[[RESIDUAL:.*]][%{{.*}}], read, locality<3>
// CHECK: scf.if
// CHECK: memref.prefetch %[[IMAGE:.*]][%{{.*}}], read, locality<2>
// CHECK: scf.for %t =

#f4x4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

util.func public @main(%x: tensor<1x112x112x32xf32>, %residual: tensor<1x112x112x32xf32>) -> tensor<1x112x112x32xf32> {
  %u = arith.constant dense<1.0> : tensor<36x32x32xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f4x4, groups = 1 : i64, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>} : (tensor<1x112x112x32xf32>) -> tensor<36x784x32xf32>
  %e = tensor.empty() : tensor<36x784x32xf32>
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<36x784x32xf32>) -> tensor<36x784x32xf32>
  %m = linalg.batch_matmul {winograd.schedule = {
        kind = "winograd", vector_width = 8, tile_block = 12, register_tiles = 6,
        register_vectors = 2, reduction_block = 16, sum_registers = 1, filter_prefetch = 96, channel_splits = 1,
        image_prefetch = 1}}
    ins(%v, %u : tensor<36x784x32xf32>, tensor<36x32x32xf32>) outs(%zeros : tensor<36x784x32xf32>) -> tensor<36x784x32xf32>
  %y = "winograd.output_transform"(%m, %residual) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = #f4x4, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x784x32xf32>, tensor<1x112x112x32xf32>) -> tensor<1x112x112x32xf32>
  util.return %y : tensor<1x112x112x32xf32>
}
