// A convolution's result is inserted over its own input: neighbouring outputs still read what was there before.
func.func @main(%x: tensor<1x28x28x64xf32>, %w: tensor<3x3x32x32xf32>) -> tensor<1x28x28x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<1x28x28x64xf32>
  %t = linalg.elementwise <tanh> ins(%x : tensor<1x28x28x64xf32>) outs(%e0 : tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32>
  %s = tensor.extract_slice %t[0, 0, 0, 0] [1, 28, 28, 32] [1, 1, 1, 1] : tensor<1x28x28x64xf32> to tensor<1x28x28x32xf32>
  %p = tensor.pad %s low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x28x28x32xf32> to tensor<1x30x30x32xf32>
  %e = tensor.empty() : tensor<1x28x28x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  %c = linalg.conv_2d_nhwc_hwcf ins(%p, %w : tensor<1x30x30x32xf32>, tensor<3x3x32x32xf32>)
    outs(%z : tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  %r = tensor.insert_slice %c into %t[0, 0, 0, 16] [1, 28, 28, 32] [1, 1, 1, 1]
    : tensor<1x28x28x32xf32> into tensor<1x28x28x64xf32>
  return %r : tensor<1x28x28x64xf32>
}
