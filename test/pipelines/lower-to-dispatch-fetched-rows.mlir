// RUN: winograd-opt %s --winograd-convert-conv --winograd-fold-filter --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "haswell", cpu_features = "+avx2,+fma",
    max_stack_allocation_size = 32768 : i64, native_vector_size = 32 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// By a schedule with an image_prefetch, a depthwise layer fetches a part of the next block of pixels for each vector of channels: of the one
// row of the image that no row of outputs has read yet, and of the outputs. 6 pixels of 16 channels are 6 lines, 3 for each of two vectors.
// CHECK: func.func @winograd_f1x1_3x3_18x18x16_from_16
// CHECK: scf.for %pixel_block =
// CHECK: scf.for %vector =
// CHECK-COUNT-3: memref.prefetch %{{.*}}[%{{.*}}], read, locality<3>
// CHECK-NOT: read, locality
// CHECK-COUNT-3: memref.prefetch %{{.*}}[%{{.*}}], write, locality<3>
// CHECK-NOT: memref.prefetch
// CHECK: vector.store
util.func public @main(%x: tensor<1x20x20x16xf32>) -> tensor<1x18x18x16xf32> {
  %f = arith.constant dense<1.0> : tensor<3x3x16xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x18x18x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x18x18x16xf32>) -> tensor<1x18x18x16xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc {
    winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>},
    winograd.schedule = {kind = "depthwise", register_pixels = 6 : i64, row_block = 18 : i64, vector_width = 8 : i64,
      vectors_per_pass = 2 : i64, channel_splits = 1 : i64, image_prefetch = 1 : i64}
  } ins(%x, %f : tensor<1x20x20x16xf32>, tensor<3x3x16xf32>) outs(%z : tensor<1x18x18x16xf32>) -> tensor<1x18x18x16xf32>
  util.return %y : tensor<1x18x18x16xf32>
}
