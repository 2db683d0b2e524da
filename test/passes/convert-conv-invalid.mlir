// RUN: winograd-opt --winograd-convert-conv --split-input-file --verify-diagnostics %s

func.func @not_a_dictionary(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<1x14x14x4xf32>) {
  // expected-error @below {{winograd.algorithm: expected a dictionary of output_tile and part_size, got 4 : i64}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = 4} ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @wrong_rank(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<1x14x14x4xf32>) {
  // expected-error @below {{winograd.algorithm has 1 dimensions, but the convolution has 2}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64: 4>, part_size = array<i64: 3>}}
    ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @dynamic_size(%x: tensor<1x?x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<1x?x14x4xf32>) {
  // expected-error @below {{can't be converted: its output isn't known to be as large as its input allows}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}}
    ins(%x, %w : tensor<1x?x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x?x14x4xf32>) -> tensor<1x?x14x4xf32>
  return
}

// -----

func.func @no_sizes(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<1x14x14x4xf32>) {
  // expected-error @below {{winograd.algorithm: output_tile () and part_size () must be sizes of one rank}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64>, part_size = array<i64>}}
    ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  return
}

// -----

func.func @element_type(%x: tensor<1x16x16x8xf16>, %w: tensor<3x3x8x4xf16>, %y: tensor<1x14x14x4xf16>) {
  // expected-error @below {{an annotated convolution can't be converted: its element type is f16, not f32}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}}
    ins(%x, %w : tensor<1x16x16x8xf16>, tensor<3x3x8x4xf16>)
    outs(%y : tensor<1x14x14x4xf16>) -> tensor<1x14x14x4xf16>
  return
}
