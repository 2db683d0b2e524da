// The first result is read with its dimensions collapsed, the second by a kernel, as it is returned: IREE 3.13 drops the size
// of the first, which both share.
#map = affine_map<(n, c, h, w) -> (n, c, h, w)>
func.func private @two(%x: tensor<1x16x8x9xf32>, %e: tensor<16x16x3x3xf32>) -> (tensor<1x16x6x7xf32>, tensor<1x16x6x7xf32>) attributes {noinline} {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x16x6x7xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x6x7xf32>) -> tensor<1x16x6x7xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%x, %e : tensor<1x16x8x9xf32>, tensor<16x16x3x3xf32>) outs(%init : tensor<1x16x6x7xf32>) -> tensor<1x16x6x7xf32>
  %z = linalg.conv_2d_nchw_fchw ins(%x, %e : tensor<1x16x8x9xf32>, tensor<16x16x3x3xf32>) outs(%y : tensor<1x16x6x7xf32>) -> tensor<1x16x6x7xf32>
  return %y, %z : tensor<1x16x6x7xf32>, tensor<1x16x6x7xf32>
}

func.func @main(%x: tensor<1x16x8x9xf32>, %e: tensor<16x16x3x3xf32>, %f: tensor<16x16x3x3xf32>) -> (tensor<1x16x6x7xf32>, tensor<1x16x4x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x16x6x7xf32>
  %r:2 = call @two(%x, %e) : (tensor<1x16x8x9xf32>, tensor<16x16x3x3xf32>) -> (tensor<1x16x6x7xf32>, tensor<1x16x6x7xf32>)
  %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r#0 : tensor<1x16x6x7xf32>) outs(%empty : tensor<1x16x6x7xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = math.absf %in : f32
    linalg.yield %s : f32
  } -> tensor<1x16x6x7xf32>
  %empty_1 = tensor.empty() : tensor<1x16x4x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty_1 : tensor<1x16x4x5xf32>) -> tensor<1x16x4x5xf32>
  %z = linalg.conv_2d_nchw_fchw ins(%r#1, %f : tensor<1x16x6x7xf32>, tensor<16x16x3x3xf32>) outs(%init : tensor<1x16x4x5xf32>) -> tensor<1x16x4x5xf32>
  return %y, %z : tensor<1x16x6x7xf32>, tensor<1x16x4x5xf32>
}
