// Convolutions of no images, to no channels, and to no outputs, beside one of the usual sort.
func.func @main(%n: tensor<0x16x16x8xf32>, %w: tensor<3x3x8x32xf32>, %x: tensor<1x16x16x8xf32>, %k: tensor<3x3x8x0xf32>,
                %s: tensor<1x2x16x8xf32>)
    -> (tensor<0x14x14x32xf32>, tensor<1x14x14x0xf32>, tensor<1x0x14x32xf32>, tensor<1x14x14x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %en = tensor.empty() : tensor<0x14x14x32xf32>
  %ek = tensor.empty() : tensor<1x14x14x0xf32>
  %es = tensor.empty() : tensor<1x0x14x32xf32>
  %e = tensor.empty() : tensor<1x14x14x32xf32>
  %zn = linalg.fill ins(%zero : f32) outs(%en : tensor<0x14x14x32xf32>) -> tensor<0x14x14x32xf32>
  %zk = linalg.fill ins(%zero : f32) outs(%ek : tensor<1x14x14x0xf32>) -> tensor<1x14x14x0xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<1x0x14x32xf32>) -> tensor<1x0x14x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %rn = linalg.conv_2d_nhwc_hwcf ins(%n, %w : tensor<0x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%zn : tensor<0x14x14x32xf32>) -> tensor<0x14x14x32xf32>
  %rk = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<1x16x16x8xf32>, tensor<3x3x8x0xf32>)
    outs(%zk : tensor<1x14x14x0xf32>) -> tensor<1x14x14x0xf32>
  %rs = linalg.conv_2d_nhwc_hwcf ins(%s, %w : tensor<1x2x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%zs : tensor<1x0x14x32xf32>) -> tensor<1x0x14x32xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  return %rn, %rk, %rs, %r : tensor<0x14x14x32xf32>, tensor<1x14x14x0xf32>, tensor<1x0x14x32xf32>, tensor<1x14x14x32xf32>
}
