// Of the images that were spread apart, all but the last are convolved; how many is known only at run time.
func.func @main(%x: tensor<?x8x6x7xf32>, %w: tensor<4x8x3x3xf32>) -> tensor<?x4x13x16xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : tensor<?x8x6x7xf32>
  %fewer = arith.subi %n, %c1 : index
  %e0 = tensor.empty(%n) : tensor<?x8x16x18xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e0 : tensor<?x8x16x18xf32>) -> tensor<?x8x16x18xf32>
  %spread = tensor.insert_slice %x into %zeros[0, 0, 2, 1] [%n, 8, 6, 7] [1, 1, 2, 2]
    : tensor<?x8x6x7xf32> into tensor<?x8x16x18xf32>
  %cropped = tensor.extract_slice %spread[0, 0, 1, 0] [%fewer, 8, 15, 18] [1, 1, 1, 1]
    : tensor<?x8x16x18xf32> to tensor<?x8x15x18xf32>
  %e1 = tensor.empty(%fewer) : tensor<?x4x13x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?x4x13x16xf32>) -> tensor<?x4x13x16xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%cropped, %w : tensor<?x8x15x18xf32>, tensor<4x8x3x3xf32>)
    outs(%z : tensor<?x4x13x16xf32>) -> tensor<?x4x13x16xf32>
  return %r : tensor<?x4x13x16xf32>
}
