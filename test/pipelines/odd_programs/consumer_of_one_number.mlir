// A consumer adds a tensor that a generic without operands makes of one number, captured from outside.
func.func @main(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x32xf32>, %q: tensor<f32>) -> tensor<1x14x14x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %captured = tensor.extract %q[] : tensor<f32>
  %number = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x14x14x32xf32>) {
  ^bb0(%o: f32):
    linalg.yield %captured : f32
  } -> tensor<1x14x14x32xf32>
  %c = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>,
                     affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %number : tensor<1x14x14x32xf32>, tensor<1x14x14x32xf32>) outs(%e : tensor<1x14x14x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1x14x14x32xf32>
  return %r : tensor<1x14x14x32xf32>
}
