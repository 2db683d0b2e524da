// RUN: not winograd-opt --winograd-expect-sizes=size-hint=32,48,64 %s 2>&1 | filecheck %s
// RUN: winograd-opt --winograd-expect-sizes=size-hint=48,64 %s | filecheck %s --check-prefix=FITS

// A hint of more numbers than the sizes that an argument has open is the hint of another program.
// CHECK: error: size_hint has 3 numbers, 32, 48, 64, but at most 2 sizes of an argument are open
// FITS: winograd.expected_size = array<i64: 48, 64>
func.func @two_sizes(%x: tensor<1x?x?x8xf32>, %w: tensor<1x1x8x4xf32>) -> tensor<1x?x?x4xf32> {
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %height = tensor.dim %x, %one : tensor<1x?x?x8xf32>
  %width = tensor.dim %x, %two : tensor<1x?x?x8xf32>
  %y = tensor.empty(%height, %width) : tensor<1x?x?x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x?x?x8xf32>, tensor<1x1x8x4xf32>) outs(%y : tensor<1x?x?x4xf32>) -> tensor<1x?x?x4xf32>
  return %r : tensor<1x?x?x4xf32>
}
