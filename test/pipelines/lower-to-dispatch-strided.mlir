// RUN: winograd-opt --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix --split-input-file %s | filecheck %s

// Of a tile on the edge a column that isn't in the image is zeros, and what is asked of an element of another one is its row: of the first
// and the last one, since others are in the image.
// CHECK: scf.for %line = %c0 to %c5
// CHECK: %[[COLUMN_EXISTS:.*]] = arith.cmpi ult, %{{.*}}, %c56
// CHECK: scf.if %[[COLUMN_EXISTS]] {
// CHECK: %[[FIRST_EXISTS:.*]] = arith.cmpi ult, %[[ROW:.*]], %c56
// CHECK-NEXT: arith.select %[[FIRST_EXISTS]], %[[ROW]], %c0
// CHECK: vector.broadcast %[[FIRST_EXISTS]]
// CHECK-NEXT: vector.maskedload
// CHECK-COUNT-3: vector.load
// CHECK: vector.maskedload
// CHECK-NOT: vector.maskedload
// CHECK: } else {
// CHECK-COUNT-5: vector.store %element, %partly_transformed_tile
// CHECK-NEXT: }

// A stride of 2 splits a filter of three taps into parts of two and of one. That of one tap is zero at the point at infinity, the last of
// five elements along each dimension: 16 elements sum the products of all four views of 64 channels, 8 those of two, one those of one.
// CHECK: scf.for %a = %c0 to %c25
// CHECK: %[[COLUMN:.*]] = arith.remui %a, %c5
// CHECK: %[[ROWS:.*]] = arith.select %{{.*}}, %c2, %c1
// CHECK: %[[COLUMNS:.*]] = arith.select %{{.*}}, %c2, %c1

// Views are side by side in the reduction: both of a row with those of the next row in one run, or one of each row in a run of its own.
// CHECK: %[[WHOLE:.*]] = arith.cmpi eq, %[[COLUMNS]], %c2
// CHECK: %[[ALL:.*]] = arith.muli %[[ROWS]], %c128
// CHECK: %[[ONE:.*]] = arith.muli %[[COLUMNS]], %c64
// CHECK: %[[LENGTH:.*]] = arith.select %[[WHOLE]], %[[ALL]], %[[ONE]]
// CHECK: %[[RUNS:.*]] = arith.select %[[WHOLE]], %c1, %[[ROWS]]

// The first block of 32, and all others of each run.
// CHECK: scf.for %c{{.*}} = %c0 to %c32
// CHECK: %[[BLOCKS:.*]] = arith.divui %[[LENGTH]], %c32
// CHECK: scf.for %reduction_block = %c0
// CHECK: scf.for %run = %c0
// CHECK: scf.for %reduction_block = %c0

#strided = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 2, 2>, spacing = array<i64: 2, 2>, step = array<i64: 2, 2>, views = [array<i64: 0, 0>, array<i64: 0, 1>, array<i64: 1, 0>, array<i64: 1, 1>]}

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

util.func public @main(%x: tensor<1x56x56x64xf32>) -> tensor<1x28x28x64xf32> {
  %u = arith.constant dense<1.0> : tensor<25x256x64xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #strided, groups = 1 : i64, padding_high = array<i64: 1, 1>, padding_low = array<i64: 1, 1>} : (tensor<1x56x56x64xf32>) -> tensor<25x49x256xf32>
  %e = tensor.empty() : tensor<25x49x64xf32>
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<25x49x64xf32>) -> tensor<25x49x64xf32>
  %m = linalg.batch_matmul {winograd.schedule = {
        kind = "winograd", vector_width = 8, tile_block = 6, register_tiles = 6,
        register_vectors = 2, reduction_block = 32, sum_registers = 1, filter_prefetch = 96, channel_splits = 1}}
    ins(%v, %u : tensor<25x49x256xf32>, tensor<25x256x64xf32>) outs(%zeros : tensor<25x49x64xf32>) -> tensor<25x49x64xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #strided, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<25x49x64xf32>) -> tensor<1x28x28x64xf32>
  util.return %y : tensor<1x28x28x64xf32>
}
