// RUN: winograd-opt --winograd-convert-matmul --split-input-file --verify-diagnostics %s

func.func @not_zero(%x: tensor<3x8xf32>, %w: tensor<8x4xf32>, %y: tensor<3x4xf32>) {
  // expected-error @below {{an annotated product can't be converted: its sums don't begin with zero}}
  %r = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}}
    ins(%x, %w : tensor<3x8xf32>, tensor<8x4xf32>) outs(%y : tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @dynamic(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>, %y: tensor<?x4xf32>) {
  // expected-error @below {{an annotated product can't be converted: its sizes are known only at run time}}
  %r = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}}
    ins(%x, %w : tensor<?x8xf32>, tensor<8x4xf32>) outs(%y : tensor<?x4xf32>) -> tensor<?x4xf32>
  return
}
