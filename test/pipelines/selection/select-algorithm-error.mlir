// RUN: winograd-opt --winograd-select-algorithm %s | filecheck %s --check-prefix=DEFAULT
// RUN: winograd-opt --winograd-select-algorithm=max-relative-error=2.5e-7 %s | filecheck %s --check-prefix=TIGHT
// RUN: winograd-opt --winograd-select-algorithm=max-relative-error=8e-8 %s | filecheck %s --check-prefix=TIGHTER
// RUN: winograd-opt --winograd-select-algorithm=output-tile=6 %s | filecheck %s --check-prefix=TILE
// RUN: winograd-opt --pass-pipeline="builtin.module(winograd-select-algorithm{output-tile=6 max-relative-error=2e-7})" %s 2>&1 | filecheck %s --check-prefix=BOTH

// Of 64 channels small tiles are more accurate than the direct convolution; of 2 channels the direct one is more
// accurate than all tiles. A limit that an algorithm exceeds excludes it, also if its tile is asked for; where all
// exceed it, those that are more accurate than the direct convolution are left, which IREE's own code is.
// DEFAULT: linalg.conv_2d_nhwc_hwcf
// DEFAULT-SAME: winograd.algorithm = {output_tile = array<i64: {{[4-6], [4-6]}}>, part_size = array<i64: 3, 3>}
// TIGHT: winograd.algorithm = {output_tile = array<i64: {{[23], [23]}}>, part_size = array<i64: {{[23], [23]}}>}
// TIGHTER: linalg.conv_2d_nhwc_hwcf
// TIGHTER-SAME: winograd.algorithm = {output_tile = array<i64: {{[2-4], [2-4]}}>, part_size = array<i64: {{[23], [23]}}>}
// TIGHTER: linalg.conv_2d_nhwc_hwcf
// TIGHTER-SAME: winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
// TILE-COUNT-2: winograd.algorithm = {output_tile = array<i64: 6, 6>, part_size = array<i64: 3, 3>}
// BOTH: convolution 0 left as it is: of all algorithms F(6x6,
// BOTH-SAME: which exceeds 4.0e-07, a direct convolution's
func.func @layers(%x: tensor<1x58x58x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<1x56x56x64xf32>,
    %u: tensor<1x58x58x2xf32>, %v: tensor<3x3x2x64xf32>) -> (tensor<1x56x56x64xf32>, tensor<1x56x56x64xf32>) {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  %1 = linalg.conv_2d_nhwc_hwcf ins(%u, %v : tensor<1x58x58x2xf32>, tensor<3x3x2x64xf32>)
    outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  return %0, %1 : tensor<1x56x56x64xf32>, tensor<1x56x56x64xf32>
}
