// Rows of an elementwise consumer's operand are split in two: of images and of lines, both known only at run time.
func.func @main(%x: tensor<?x3x16x8xf32>, %w: tensor<3x3x8x32xf32>, %b: tensor<?x32xf32>) -> tensor<?x1x14x32xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x3x16x8xf32>
  %rows = tensor.dim %b, %c0 : tensor<?x32xf32>
  %lines = arith.divui %rows, %n : index
  %e = tensor.empty(%n) : tensor<?x1x14x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x1x14x32xf32>) -> tensor<?x1x14x32xf32>
  %c = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<?x3x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%init : tensor<?x1x14x32xf32>) -> tensor<?x1x14x32xf32>
  %s = tensor.expand_shape %b [[0, 1], [2]] output_shape [%n, %lines, 32] : tensor<?x32xf32> into tensor<?x?x32xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, k)>,
                       affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%c, %s : tensor<?x1x14x32xf32>, tensor<?x?x32xf32>) outs(%e : tensor<?x1x14x32xf32>) {
  ^bb0(%a: f32, %o: f32, %out: f32):
    %1 = arith.addf %a, %o : f32
    linalg.yield %1 : f32
  } -> tensor<?x1x14x32xf32>
  return %r : tensor<?x1x14x32xf32>
}
