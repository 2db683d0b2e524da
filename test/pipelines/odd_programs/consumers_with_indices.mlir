// Consumers that add the index of a channel: one that asks for it itself, and one that reads a tensor of indices.
func.func @main(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x32xf32>) -> (tensor<1x14x14x32xf32>, tensor<1x14x14x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %c0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %r0 = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c0 : tensor<1x14x14x32xf32>) outs(%e : tensor<1x14x14x32xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 3 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.addf %a, %k : f32
    linalg.yield %s : f32
  } -> tensor<1x14x14x32xf32>
  %ei = tensor.empty() : tensor<32xf32>
  %indices = linalg.generic {indexing_maps = [affine_map<(k) -> (k)>], iterator_types = ["parallel"]}
    outs(%ei : tensor<32xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    linalg.yield %k : f32
  } -> tensor<32xf32>
  %c1 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x32xf32>)
    outs(%z : tensor<1x14x14x32xf32>) -> tensor<1x14x14x32xf32>
  %r1 = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (k)>,
                     affine_map<(n, h, w, k) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c1, %indices : tensor<1x14x14x32xf32>, tensor<32xf32>) outs(%e : tensor<1x14x14x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1x14x14x32xf32>
  return %r0, %r1 : tensor<1x14x14x32xf32>, tensor<1x14x14x32xf32>
}
