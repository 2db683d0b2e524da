// Filters that a generic without operands makes of one number: known to it, or captured from outside.
func.func @main(%x: tensor<1x16x16x8xf32>, %q: tensor<f32>) -> (tensor<1x14x14x32xf32>, tensor<1x14x14x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %captured = tensor.extract %q[] : tensor<f32>
  %ew = tensor.empty() : tensor<3x3x8x32xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(r, s, c, k) -> (r, s, c, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%ew : tensor<3x3x8x32xf32>) {
  ^bb0(%o: f32):
    %one = arith.constant 1.25 : f32
    linalg.yield %one : f32
  } -> tensor<3x3x8x32xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(r, s, c, k) -> (r, s, c, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%ew : tensor<3x3x8x32xf32>) {
  ^bb0(%o: f32):
    linalg.yield %captured : f32
  } -> tensor<3x3x8x32xf32>
  %r0 = linalg.conv_2d_nhwc_hwcf ins(%x, %v : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %r1 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  return %r0, %r1 : tensor<1x14x14x32xf32>, tensor<1x14x14x32xf32>
}
