// RUN: winograd-opt --winograd-join-slices --split-input-file %s | filecheck %s

// Both halves are the tensor, and neighbours a larger slice of it; in another order they stay.
// CHECK-LABEL: func.func @bottlenecks
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x7x7xf32>, %[[Y:.*]]: tensor<1x4x7x7xf32>, %{{.*}})
// CHECK: tensor.concat dim(1) %[[X]], %[[Y]] : (tensor<1x16x7x7xf32>, tensor<1x4x7x7xf32>) -> tensor<1x20x7x7xf32>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[X]][0, 4, 0, 0] [1, 12, 7, 7] [1, 1, 1, 1]
// CHECK: tensor.concat dim(1) %[[Y]], %[[S]] :
// CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<1x8x7x7xf32>, tensor<1x4x7x7xf32>) -> tensor<1x12x7x7xf32>
func.func @bottlenecks(%x: tensor<1x16x7x7xf32>, %y: tensor<1x4x7x7xf32>, %f: tensor<4x20x1x1xf32>) -> (tensor<1x4x7x7xf32>, tensor<1x16x7x7xf32>, tensor<1x12x7x7xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x7x7xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x7x7xf32>) -> tensor<1x4x7x7xf32>
  %a = tensor.extract_slice %x[0, 0, 0, 0] [1, 8, 7, 7] [1, 1, 1, 1] : tensor<1x16x7x7xf32> to tensor<1x8x7x7xf32>
  %b = tensor.extract_slice %x[0, 8, 0, 0] [1, 8, 7, 7] [1, 1, 1, 1] : tensor<1x16x7x7xf32> to tensor<1x8x7x7xf32>
  %g = tensor.extract_slice %x[0, 4, 0, 0] [1, 4, 7, 7] [1, 1, 1, 1] : tensor<1x16x7x7xf32> to tensor<1x4x7x7xf32>
  %c = tensor.concat dim(1) %a, %b, %y : (tensor<1x8x7x7xf32>, tensor<1x8x7x7xf32>, tensor<1x4x7x7xf32>) -> tensor<1x20x7x7xf32>
  %d = tensor.concat dim(1) %y, %g, %b : (tensor<1x4x7x7xf32>, tensor<1x4x7x7xf32>, tensor<1x8x7x7xf32>) -> tensor<1x16x7x7xf32>
  %h = tensor.concat dim(1) %b, %g : (tensor<1x8x7x7xf32>, tensor<1x4x7x7xf32>) -> tensor<1x12x7x7xf32>
  %v = linalg.conv_2d_nchw_fchw ins(%c, %f : tensor<1x20x7x7xf32>, tensor<4x20x1x1xf32>) outs(%zeros : tensor<1x4x7x7xf32>) -> tensor<1x4x7x7xf32>
  return %v, %d, %h : tensor<1x4x7x7xf32>, tensor<1x16x7x7xf32>, tensor<1x12x7x7xf32>
}

// -----

// A program without a convolution stays as it is.
// CHECK-LABEL: func.func @other
// CHECK: tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
func.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = tensor.extract_slice %x[0] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %b = tensor.extract_slice %x[4] [4] [1] : tensor<8xf32> to tensor<4xf32>
  %c = tensor.concat dim(0) %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}
