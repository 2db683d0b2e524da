// An elementwise consumer's operand has the batch, known only at run time, innermost.
func.func @main(%x: tensor<?x16x16x8xf32>, %w: tensor<3x3x8x32xf32>, %b: tensor<14x?xf32>) -> tensor<?x14x14x32xf32> {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %n = tensor.dim %x, %first : tensor<?x16x16x8xf32>
  %e = tensor.empty(%n) : tensor<?x14x14x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x14x14x32xf32>) -> tensor<?x14x14x32xf32>
  %c = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<?x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<?x14x14x32xf32>) -> tensor<?x14x14x32xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (w, n)>,
                     affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %b : tensor<?x14x14x32xf32>, tensor<14x?xf32>) outs(%e : tensor<?x14x14x32xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x14x14x32xf32>
  return %r : tensor<?x14x14x32xf32>
}
