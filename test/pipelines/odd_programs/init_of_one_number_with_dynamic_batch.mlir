// An unknown number of images starts from one number, a tensor without dimensions.
func.func @main(%x: tensor<?x5x8x4xf32>, %w: tensor<3x3x4x16xf32>, %q: tensor<f32>) -> tensor<?x3x6x16xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x5x8x4xf32>
  %e = tensor.empty(%n) : tensor<?x3x6x16xf32>
  %init = linalg.broadcast ins(%q : tensor<f32>) outs(%e : tensor<?x3x6x16xf32>) dimensions = [0, 1, 2, 3]
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<?x5x8x4xf32>, tensor<3x3x4x16xf32>)
    outs(%init : tensor<?x3x6x16xf32>) -> tensor<?x3x6x16xf32>
  return %r : tensor<?x3x6x16xf32>
}
