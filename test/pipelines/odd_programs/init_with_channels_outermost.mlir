// What is added to is broadcast from a tensor with channels outermost.
func.func @main(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x32xf32>, %b: tensor<32x14x14xf32>) -> tensor<1x14x14x32xf32> {
  %e = tensor.empty() : tensor<1x14x14x32xf32>
  %i = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, k) -> (k, h, w)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b : tensor<32x14x14xf32>) outs(%e : tensor<1x14x14x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<1x14x14x32xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%i : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  return %r : tensor<1x14x14x32xf32>
}
