// RUN: winograd-opt --winograd-select-algorithm %s | filecheck %s
// RUN: winograd-opt --winograd-select-algorithm=output-tile=6 %s | filecheck %s --check-prefix=FORCED
// RUN: winograd-opt --winograd-select-algorithm --split-input-file --verify-diagnostics %s

// Large images with many channels get large tiles; of those that cost about the same, the most accurate.
// CHECK-LABEL: @large_image
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK-SAME: winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}
func.func @large_image(%x: tensor<1x58x58x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<1x56x56x64xf32>)
    -> tensor<1x56x56x64xf32> {
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  return %r : tensor<1x56x56x64xf32>
}

// -----

// The tile fits each dimension: 4 rows are one tile of 4, 10 columns are two of 5. Any layout is understood, dilations
// as tensors too.
// CHECK-LABEL: @few_rows
// CHECK: winograd.algorithm = {output_tile = array<i64: 4, 5>, part_size = array<i64: 3, 3>}
// FORCED-LABEL: @few_rows
// FORCED: winograd.algorithm = {output_tile = array<i64: 6, 6>, part_size = array<i64: 3, 3>}
func.func @few_rows(%x: tensor<64x64x6x12xf32>, %w: tensor<64x64x3x3xf32>, %y: tensor<64x64x4x10xf32>)
    -> tensor<64x64x4x10xf32> {
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%x, %w : tensor<64x64x6x12xf32>, tensor<64x64x3x3xf32>)
    outs(%y : tensor<64x64x4x10xf32>) -> tensor<64x64x4x10xf32>
  return %r : tensor<64x64x4x10xf32>
}

// -----

// A generic that is a convolution counts as one.
// CHECK-LABEL: @generic
// CHECK: linalg.generic
// CHECK-SAME: winograd.algorithm
func.func @generic(%x: tensor<1x58x58x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<1x56x56x64xf32>)
    -> tensor<1x56x56x64xf32> {
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, h, w, k, r, s, c) -> (n, h + r, w + s, c)>,
                     affine_map<(n, h, w, k, r, s, c) -> (r, s, c, k)>,
                     affine_map<(n, h, w, k, r, s, c) -> (n, h, w, k)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>) outs(%y : tensor<1x56x56x64xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x56x56x64xf32>
  return %r : tensor<1x56x56x64xf32>
}

// -----

// Strides and large kernels are split into parts: 5 taps at stride 2 are two phases of up to 3 taps, 7 taps a part
// of 7 or two of 4.
// CHECK-LABEL: @strided
// CHECK: winograd.algorithm = {output_tile = array<i64: {{[4-6], [4-6]}}>, part_size = array<i64: 3, 3>}
// CHECK-LABEL: @large_kernel
// CHECK: winograd.algorithm = {output_tile = array<i64: {{[2-5], [2-5]}}>, part_size = array<i64: {{[4-7], [4-7]}}>}
func.func @strided(%x: tensor<8x59x59x128xf32>, %w: tensor<5x5x128x128xf32>, %y: tensor<8x28x28x128xf32>)
    -> tensor<8x28x28x128xf32> {
  %r = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>}
    ins(%x, %w : tensor<8x59x59x128xf32>, tensor<5x5x128x128xf32>)
    outs(%y : tensor<8x28x28x128xf32>) -> tensor<8x28x28x128xf32>
  return %r : tensor<8x28x28x128xf32>
}
func.func @large_kernel(%x: tensor<16x14x14x64xf32>, %w: tensor<7x7x64x64xf32>, %y: tensor<16x8x8x64xf32>)
    -> tensor<16x8x8x64xf32> {
  %r = linalg.conv_2d_nhwc_hwcf
    ins(%x, %w : tensor<16x14x14x64xf32>, tensor<7x7x64x64xf32>)
    outs(%y : tensor<16x8x8x64xf32>) -> tensor<16x8x8x64xf32>
  return %r : tensor<16x8x8x64xf32>
}

// -----

// Where tiles have no gain, or their transforms cost more than they save, a direct convolution it is.
// CHECK-LABEL: @pointwise
// CHECK: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
// FORCED-LABEL: @pointwise
// FORCED: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
// CHECK-LABEL: @few_channels
// CHECK: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
func.func @pointwise(%x: tensor<1x9x9x4xf32>, %w: tensor<1x1x4x4xf32>, %y: tensor<1x9x9x4xf32>)
    -> tensor<1x9x9x4xf32> {
  %r = linalg.conv_2d_nhwc_hwcf
    ins(%x, %w : tensor<1x9x9x4xf32>, tensor<1x1x4x4xf32>) outs(%y : tensor<1x9x9x4xf32>) -> tensor<1x9x9x4xf32>
  return %r : tensor<1x9x9x4xf32>
}
func.func @few_channels(%x: tensor<1x9x9x1xf32>, %w: tensor<3x3x1x1xf32>, %y: tensor<1x7x7x1xf32>)
    -> tensor<1x7x7x1xf32> {
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x9x9x1xf32>, tensor<3x3x1x1xf32>)
    outs(%y : tensor<1x7x7x1xf32>) -> tensor<1x7x7x1xf32>
  return %r : tensor<1x7x7x1xf32>
}

// -----

// Depthwise convolutions have no sum over channels that would amortise transforms.
// CHECK-LABEL: @depthwise
// CHECK: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
// FORCED-LABEL: @depthwise
// FORCED: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
func.func @depthwise(%x: tensor<1x58x58x64xf32>, %w: tensor<3x3x64xf32>, %y: tensor<1x56x56x64xf32>)
    -> tensor<1x56x56x64xf32> {
  %r = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %w : tensor<1x58x58x64xf32>, tensor<3x3x64xf32>)
    outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  return %r : tensor<1x56x56x64xf32>
}

// -----

// CHECK-LABEL: @left
// CHECK-NOT: winograd.algorithm
func.func @left(%x: tensor<1x9x9x4xf32>, %w: tensor<3x3x4x4xf32>, %h: tensor<1x9x9x4xf16>,
    %wh: tensor<3x3x4x4xf16>, %d: tensor<1x?x9x4xf32>, %y6: tensor<1x6x7x4xf32>, %y7: tensor<1x7x7x4xf32>,
    %yh: tensor<1x7x7x4xf16>, %yd: tensor<1x?x7x4xf32>, %n: tensor<0x9x9x4xf32>, %yn: tensor<0x7x7x4xf32>,
    %s: tensor<1x2x9x4xf32>, %ys: tensor<1x0x7x4xf32>, %u: tensor<?x9x9x4xf32>) {
  // expected-remark @below {{convolution 0 left as it is: its element types are f16*f16+f32=f16, not f32}}
  %0 = linalg.conv_2d_nhwc_hwcf
    ins(%h, %wh : tensor<1x9x9x4xf16>, tensor<3x3x4x4xf16>) outs(%yh : tensor<1x7x7x4xf16>) -> tensor<1x7x7x4xf16>
  // expected-remark @below {{convolution 1 left as it is: its output isn't known to be as large as its input allows}}
  %1 = linalg.conv_2d_nhwc_hwcf
    ins(%d, %w : tensor<1x?x9x4xf32>, tensor<3x3x4x4xf32>) outs(%yd : tensor<1x?x7x4xf32>) -> tensor<1x?x7x4xf32>
  // expected-remark @below {{its output (6, 7) is smaller than the (7, 7) that its input allows}}
  %2 = linalg.conv_2d_nhwc_hwcf
    ins(%x, %w : tensor<1x9x9x4xf32>, tensor<3x3x4x4xf32>) outs(%y6 : tensor<1x6x7x4xf32>) -> tensor<1x6x7x4xf32>
  // expected-remark @below {{its input has no elements}}
  %3 = linalg.conv_2d_nhwc_hwcf
    ins(%n, %w : tensor<0x9x9x4xf32>, tensor<3x3x4x4xf32>) outs(%yn : tensor<0x7x7x4xf32>) -> tensor<0x7x7x4xf32>
  // expected-remark @below {{its output has no elements}}
  %4 = linalg.conv_2d_nhwc_hwcf
    ins(%s, %w : tensor<1x2x9x4xf32>, tensor<3x3x4x4xf32>) outs(%ys : tensor<1x0x7x4xf32>) -> tensor<1x0x7x4xf32>
  // expected-remark @below {{its batch is known at compile time for one operand only}}
  %5 = linalg.conv_2d_nhwc_hwcf
    ins(%u, %w : tensor<?x9x9x4xf32>, tensor<3x3x4x4xf32>) outs(%y7 : tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32>
  return
}

// -----

// Tiles would spread what isn't finite in an image's padding, whatever size of them is asked for.
// CHECK-LABEL: @padded_with_infinity
// CHECK: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
// FORCED-LABEL: @padded_with_infinity
// FORCED: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
func.func @padded_with_infinity(%x: tensor<1x56x56x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<1x56x56x64xf32>)
    -> tensor<1x56x56x64xf32> {
  %infinity = arith.constant 0x7F800000 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %v: index, %c: index):
    tensor.yield %infinity : f32
  } : tensor<1x56x56x64xf32> to tensor<1x58x58x64xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%p, %w : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  return %r : tensor<1x56x56x64xf32>
}

// -----

// Frames of a signal are multiplied as they are: outputs of a Fourier transform differ in size by orders of magnitude.
// CHECK-LABEL: @frames
// CHECK: winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}
// FORCED-LABEL: @frames
// FORCED: winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}
func.func @frames(%x: tensor<1x16384x1xf32>, %w: tensor<1024x1x1026xf32>, %y: tensor<1x61x1026xf32>)
    -> tensor<1x61x1026xf32> {
  %r = linalg.conv_1d_nwc_wcf {strides = dense<256> : vector<1xi64>}
    ins(%x, %w : tensor<1x16384x1xf32>, tensor<1024x1x1026xf32>)
    outs(%y : tensor<1x61x1026xf32>) -> tensor<1x61x1026xf32>
  return %r : tensor<1x61x1026xf32>
}
