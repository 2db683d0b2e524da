// RUN: winograd-opt --winograd-split-matmuls %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Products of rows and few columns that no kernel computes are sums of those of parts, which are read where they lie;
// of more columns, or shorter ones, IREE computes them at once.
// CHECK-LABEL: func.func @products
// CHECK: %[[ROWS:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0], [1, 2]] {{.*}} tensor<2x50176xf32> into tensor<2x49x1024xf32>
// CHECK: %[[COLUMNS:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0], [1, 2]] {{.*}} tensor<3x50176xf32> into tensor<3x49x1024xf32>
// CHECK: %[[P:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[ROWS]], %[[COLUMNS]]
// CHECK: -> tensor<49x2x3xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["reduction", "parallel", "parallel"]} ins(%[[P]]
// CHECK: tensor.expand_shape %{{.*}} {{\[}}[0, 1], [2]] {{.*}} tensor<50176x1xf32> into tensor<49x1024x1xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK: -> tensor<49x2x1xf32>
// CHECK-COUNT-2: linalg.matmul
func.func @products(%m: tensor<1x49x64xf32>, %x: tensor<2x50176xf32>, %w: tensor<3x50176xf32>, %v: tensor<50176x1xf32>, %five: tensor<50176x5xf32>, %s: tensor<2x4608xf32>, %short: tensor<4608x3xf32>) -> (tensor<1x7x7x64xf32>, tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x5xf32>, tensor<2x3xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x64xf32>) -> tensor<1x7x7x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  %et = tensor.empty() : tensor<50176x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x50176xf32>) outs(%et : tensor<50176x3xf32>) permutation = [1, 0]
  %0 = linalg.matmul ins(%x, %t : tensor<2x50176xf32>, tensor<50176x3xf32>) outs(%f : tensor<2x3xf32>) -> tensor<2x3xf32>
  %e1 = tensor.empty() : tensor<2x1xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x1xf32>) -> tensor<2x1xf32>
  %1 = linalg.matmul ins(%x, %v : tensor<2x50176xf32>, tensor<50176x1xf32>) outs(%f1 : tensor<2x1xf32>) -> tensor<2x1xf32>
  %e5 = tensor.empty() : tensor<2x5xf32>
  %f5 = linalg.fill ins(%zero : f32) outs(%e5 : tensor<2x5xf32>) -> tensor<2x5xf32>
  %2 = linalg.matmul ins(%x, %five : tensor<2x50176xf32>, tensor<50176x5xf32>) outs(%f5 : tensor<2x5xf32>) -> tensor<2x5xf32>
  %3 = linalg.matmul ins(%s, %short : tensor<2x4608xf32>, tensor<4608x3xf32>) outs(%f : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y, %0, %1, %2, %3 : tensor<1x7x7x64xf32>, tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x5xf32>, tensor<2x3xf32>
}
