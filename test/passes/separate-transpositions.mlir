// RUN: winograd-opt --winograd-separate-transpositions --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// What a convolution that is left reads is transposed before, also where padding lies between.
// CHECK-LABEL: func.func @image_and_filter
// CHECK: %[[XT:.*]] = linalg.transpose ins(%{{.*}} : tensor<1x8x6x6xi8>)
// CHECK: %[[X:.*]] = util.optimization_barrier {winograd.computed_first} %[[XT]] : tensor<1x6x6x8xi8>
// CHECK: %[[P:.*]] = tensor.pad %[[X]]
// CHECK: %[[WT:.*]] = linalg.transpose ins(%{{.*}} : tensor<4x8x3x3xi8>)
// CHECK: %[[W:.*]] = util.optimization_barrier {winograd.computed_first} %[[WT]] : tensor<3x3x8x4xi8>
// CHECK: linalg.conv_2d_nhwc_hwcf ins(%[[P]], %[[W]]
func.func @image_and_filter(%x: tensor<1x8x6x6xi8>, %w: tensor<4x8x3x3xi8>, %i: tensor<1x6x6x4xi32>) -> tensor<1x6x6x4xi32> {
  %zero = arith.constant 0 : i8
  %ex = tensor.empty() : tensor<1x6x6x8xi8>
  %xt = linalg.transpose ins(%x : tensor<1x8x6x6xi8>) outs(%ex : tensor<1x6x6x8xi8>) permutation = [0, 2, 3, 1]
  %p = tensor.pad %xt low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %v: index, %c: index):
    tensor.yield %zero : i8
  } : tensor<1x6x6x8xi8> to tensor<1x8x8x8xi8>
  %ew = tensor.empty() : tensor<3x3x8x4xi8>
  %wt = linalg.transpose ins(%w : tensor<4x8x3x3xi8>) outs(%ew : tensor<3x3x8x4xi8>) permutation = [2, 3, 1, 0]
  %y = linalg.conv_2d_nhwc_hwcf ins(%p, %wt : tensor<1x8x8x8xi8>, tensor<3x3x8x4xi8>) outs(%i : tensor<1x6x6x4xi32>) -> tensor<1x6x6x4xi32>
  return %y : tensor<1x6x6x4xi32>
}

// CHECK-LABEL: func.func @nothing_else
// CHECK-NOT: util.optimization_barrier
func.func @nothing_else(%x: tensor<8x6xf32>, %e: tensor<6x8xf32>, %w: tensor<8x4xf32>, %i: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %t = linalg.transpose ins(%x : tensor<8x6xf32>) outs(%e : tensor<6x8xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%t, %w : tensor<6x8xf32>, tensor<8x4xf32>) outs(%i : tensor<6x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @unknown_batch
// CHECK-NOT: util.optimization_barrier
func.func @unknown_batch(%x: tensor<?x8x6x6xi8>, %e: tensor<?x6x6x8xi8>, %w: tensor<3x3x8x4xi8>, %i: tensor<?x4x4x4xi32>) -> tensor<?x4x4x4xi32> {
  %t = linalg.transpose ins(%x : tensor<?x8x6x6xi8>) outs(%e : tensor<?x6x6x8xi8>) permutation = [0, 2, 3, 1]
  %y = linalg.conv_2d_nhwc_hwcf ins(%t, %w : tensor<?x6x6x8xi8>, tensor<3x3x8x4xi8>) outs(%i : tensor<?x4x4x4xi32>) -> tensor<?x4x4x4xi32>
  return %y : tensor<?x4x4x4xi32>
}
