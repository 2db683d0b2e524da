// What an NCHW convolution is added to is broadcast along the batch: channels are outside of pixels.
func.func @main(%x: tensor<2x8x16x16xf32>, %w: tensor<32x8x3x3xf32>, %b: tensor<32x14x14xf32>) -> tensor<2x32x14x14xf32> {
  %e = tensor.empty() : tensor<2x32x14x14xf32>
  %i = linalg.broadcast ins(%b : tensor<32x14x14xf32>) outs(%e : tensor<2x32x14x14xf32>) dimensions = [0]
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<2x8x16x16xf32>, tensor<32x8x3x3xf32>)
    outs(%i : tensor<2x32x14x14xf32>) -> tensor<2x32x14x14xf32>
  return %r : tensor<2x32x14x14xf32>
}
