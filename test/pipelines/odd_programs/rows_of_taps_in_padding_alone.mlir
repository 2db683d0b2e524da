// Every tap reads padding: the one row of the image lies between the rows of the filter, and the result is the init.
func.func @main(%x: tensor<2x1x8x6xf32>, %w: tensor<3x3x6x4xf32>, %init: tensor<2x1x6x6x4xf32>) -> tensor<2x1x6x6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 0, 0] high[0, 5, 0, 0] {
  ^bb0(%n: index, %h: index, %v: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<2x1x8x6xf32> to tensor<2x7x8x6xf32>
  %r = linalg.depthwise_conv_2d_nhwc_hwcm {dilations = dense<[3, 1]> : tensor<2xi64>, strides = dense<[3, 1]> : tensor<2xi64>}
    ins(%p, %w : tensor<2x7x8x6xf32>, tensor<3x3x6x4xf32>) outs(%init : tensor<2x1x6x6x4xf32>) -> tensor<2x1x6x6x4xf32>
  return %r : tensor<2x1x6x6x4xf32>
}
