// Zeros between the elements of an image, which is inserted at a place known only at run time.
func.func @main(%x: tensor<1x8x6x7xf32>, %w: tensor<4x8x3x3xf32>, %o: tensor<i32>) -> tensor<1x4x14x16xf32> {
  %zero = arith.constant 0.0 : f32
  %o0 = tensor.extract %o[] : tensor<i32>
  %offset = arith.index_cast %o0 : i32 to index
  %e0 = tensor.empty() : tensor<1x8x16x18xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x8x16x18xf32>) -> tensor<1x8x16x18xf32>
  %spread = tensor.insert_slice %x into %zeros[0, 0, 2, %offset] [1, 8, 6, 7] [1, 1, 2, 2]
    : tensor<1x8x6x7xf32> into tensor<1x8x16x18xf32>
  %e1 = tensor.empty() : tensor<1x4x14x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x4x14x16xf32>) -> tensor<1x4x14x16xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%spread, %w : tensor<1x8x16x18xf32>, tensor<4x8x3x3xf32>)
    outs(%z : tensor<1x4x14x16xf32>) -> tensor<1x4x14x16xf32>
  return %r : tensor<1x4x14x16xf32>
}
