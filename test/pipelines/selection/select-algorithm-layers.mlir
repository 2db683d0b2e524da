// RUN: winograd-opt --winograd-select-algorithm=deny=1 --verify-diagnostics %s
// RUN: winograd-opt --winograd-select-algorithm=allow=conv_a %s 2>%t | filecheck %s

// Layers are named by number, in program order, or by the names in their locations.
// CHECK: %[[A:.*]] = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {{.*}}} ins(%arg0,
// CHECK: linalg.conv_2d_nhwc_hwcf ins(%[[A]],
func.func @two(%x: tensor<1x60x60x16xf32>, %w: tensor<3x3x16x16xf32>, %y: tensor<1x58x58x16xf32>,
    %z: tensor<1x56x56x16xf32>) -> tensor<1x56x56x16xf32> {
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x60x60x16xf32>, tensor<3x3x16x16xf32>)
    outs(%y : tensor<1x58x58x16xf32>) -> tensor<1x58x58x16xf32> loc("conv_a")
  // expected-remark @below {{convolution 1 left as it is: the layer patterns exclude it}}
  %s = linalg.conv_2d_nhwc_hwcf ins(%r, %w : tensor<1x58x58x16xf32>, tensor<3x3x16x16xf32>)
    outs(%z : tensor<1x56x56x16xf32>) -> tensor<1x56x56x16xf32>
  return %s : tensor<1x56x56x16xf32>
}
