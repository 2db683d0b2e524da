// RUN: winograd-opt --winograd-split-products --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// The Gram matrix of an image of 256x256 pixels: 64 products of 1024 pixels each, which are added.
// CHECK-LABEL: func.func @gram
// CHECK-SAME: (%[[X:.*]]: tensor<1x65536x16xf32>)
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[X]] : tensor<1x65536x16xf32>)
// CHECK: %[[LP:.*]] = tensor.expand_shape %[[T]] {{.*}} into tensor<1x16x64x1024xf32>
// CHECK: %[[LT:.*]] = linalg.transpose ins(%[[LP]] {{.*}} permutation = [0, 2, 1, 3]
// CHECK: %[[L:.*]] = tensor.collapse_shape %[[LT]] {{.*}} into tensor<64x16x1024xf32>
// CHECK: %[[RP:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<1x64x1024x16xf32>
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[RP]] {{.*}} into tensor<64x1024x16xf32>
// CHECK: %[[P:.*]] = linalg.batch_matmul ins(%[[L]], %[[R]] : tensor<64x16x1024xf32>, tensor<64x1024x16xf32>)
// CHECK: %[[PP:.*]] = tensor.expand_shape %[[P]] {{.*}} into tensor<1x64x16x16xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%[[PP]]
// CHECK: arith.addf
// CHECK: return %[[S]]
func.func @gram(%x: tensor<1x65536x16xf32>) -> tensor<1x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16x65536xf32>
  %t = linalg.transpose ins(%x : tensor<1x65536x16xf32>) outs(%e : tensor<1x16x65536xf32>) permutation = [0, 2, 1]
  %i = tensor.empty() : tensor<1x16x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%i : tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
  %g = linalg.batch_matmul ins(%t, %x : tensor<1x16x65536xf32>, tensor<1x65536x16xf32>) outs(%z : tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
  return %g : tensor<1x16x16xf32>
}

// Sums as long as our kernels add in a row stay, and those of a prime number of pixels.
// CHECK-LABEL: func.func @as_it_is
// CHECK-COUNT-2: linalg.batch_matmul
// CHECK-NOT: linalg.generic
func.func @as_it_is(%x: tensor<1x4608x16xf32>, %y: tensor<1x16x4608xf32>, %p: tensor<1x65537x16xf32>, %q: tensor<1x16x65537xf32>) -> (tensor<1x16x16xf32>, tensor<1x16x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<1x16x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%i : tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
  %g = linalg.batch_matmul ins(%y, %x : tensor<1x16x4608xf32>, tensor<1x4608x16xf32>) outs(%z : tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
  %h = linalg.batch_matmul ins(%q, %p : tensor<1x16x65537xf32>, tensor<1x65537x16xf32>) outs(%z : tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
  return %g, %h : tensor<1x16x16xf32>, tensor<1x16x16xf32>
}
