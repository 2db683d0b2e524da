// Tiles would spread what images are padded with: outputs that aren't finite are told by 100.
#same = affine_map<(n, k, h, w) -> (n, k, h, w)>

func.func @main(%x: tensor<1x16x24x24xf32>, %w: tensor<16x16x3x3xf32>)
    -> (tensor<1x16x25x24xf32>, tensor<1x16x25x24xf32>) {
  %zero = arith.constant 0.0 : f32
  %infinity = arith.constant 0x7F800000 : f32
  %nan = arith.constant 0x7FC00000 : f32
  %padded = tensor.pad %x low[0, 0, 2, 0] high[0, 0, 0, 0] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %infinity : f32
  } : tensor<1x16x24x24xf32> to tensor<1x16x26x24xf32>
  %further = tensor.pad %padded low[0, 0, 0, 1] high[0, 0, 1, 1] {
  ^bb0(%n: index, %c: index, %h: index, %v: index):
    tensor.yield %zero : f32
  } : tensor<1x16x26x24xf32> to tensor<1x16x27x26xf32>
  %empty = tensor.empty() : tensor<1x16x27x26xf32>
  %filled = linalg.fill ins(%nan : f32) outs(%empty : tensor<1x16x27x26xf32>) -> tensor<1x16x27x26xf32>
  %inserted = tensor.insert_slice %x into %filled[0, 0, 3, 1] [1, 16, 24, 24] [1, 1, 1, 1]
    : tensor<1x16x24x24xf32> into tensor<1x16x27x26xf32>
  %e = tensor.empty() : tensor<1x16x25x24xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16x25x24xf32>) -> tensor<1x16x25x24xf32>
  %first = linalg.conv_2d_nchw_fchw ins(%further, %w : tensor<1x16x27x26xf32>, tensor<16x16x3x3xf32>)
    outs(%init : tensor<1x16x25x24xf32>) -> tensor<1x16x25x24xf32>
  %second = linalg.conv_2d_nchw_fchw ins(%inserted, %w : tensor<1x16x27x26xf32>, tensor<16x16x3x3xf32>)
    outs(%init : tensor<1x16x25x24xf32>) -> tensor<1x16x25x24xf32>
  %told_first = func.call @told(%first) : (tensor<1x16x25x24xf32>) -> tensor<1x16x25x24xf32>
  %told_second = func.call @told(%second) : (tensor<1x16x25x24xf32>) -> tensor<1x16x25x24xf32>
  return %told_first, %told_second : tensor<1x16x25x24xf32>, tensor<1x16x25x24xf32>
}

func.func private @told(%y: tensor<1x16x25x24xf32>) -> tensor<1x16x25x24xf32> {
  %largest = arith.constant 1.0e+30 : f32
  %hundred = arith.constant 100.0 : f32
  %e = tensor.empty() : tensor<1x16x25x24xf32>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<1x16x25x24xf32>) outs(%e : tensor<1x16x25x24xf32>) {
  ^bb0(%a: f32, %b: f32):
    %size = math.absf %a : f32
    %finite = arith.cmpf olt, %size, %largest : f32
    %s = arith.select %finite, %a, %hundred : f32
    linalg.yield %s : f32
  } -> tensor<1x16x25x24xf32>
  return %r : tensor<1x16x25x24xf32>
}
