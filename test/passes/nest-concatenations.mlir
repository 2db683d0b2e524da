// RUN: winograd-opt --winograd-nest-concatenations --split-input-file %s | filecheck %s

// Each begins with the longest one before it; along another dimension, or in another order, it isn't the same.
// CHECK-LABEL: func.func @dense
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x8x8xf32>, %[[Y:.*]]: tensor<1x8x8x8xf32>, %[[Z:.*]]: tensor<1x8x8x8xf32>, %{{.*}})
// CHECK: %[[A:.*]] = tensor.concat dim(1) %[[X]], %[[Y]] :
// CHECK: %[[B:.*]] = tensor.concat dim(1) %[[A]], %[[Z]] :
// CHECK: %[[C:.*]] = tensor.concat dim(1) %[[B]], %[[X]], %[[Y]] :
// CHECK: %[[D:.*]] = tensor.concat dim(2) %[[X]], %[[Y]], %[[Z]] :
// CHECK: %[[E:.*]] = tensor.concat dim(1) %[[Y]], %[[X]], %[[Z]] :
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
func.func @dense(%x: tensor<1x8x8x8xf32>, %y: tensor<1x8x8x8xf32>, %z: tensor<1x8x8x8xf32>, %f: tensor<4x8x1x1xf32>) -> (tensor<1x16x8x8xf32>, tensor<1x24x8x8xf32>, tensor<1x40x8x8xf32>, tensor<1x8x24x8xf32>, tensor<1x24x8x8xf32>, tensor<1x4x8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %v = linalg.conv_2d_nchw_fchw ins(%x, %f : tensor<1x8x8x8xf32>, tensor<4x8x1x1xf32>) outs(%zeros : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %a = tensor.concat dim(1) %x, %y : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x16x8x8xf32>
  %b = tensor.concat dim(1) %x, %y, %z : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x24x8x8xf32>
  %c = tensor.concat dim(1) %x, %y, %z, %x, %y : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x40x8x8xf32>
  %d = tensor.concat dim(2) %x, %y, %z : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x24x8xf32>
  %g = tensor.concat dim(1) %y, %x, %z : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x24x8x8xf32>
  return %a, %b, %c, %d, %g, %v : tensor<1x16x8x8xf32>, tensor<1x24x8x8xf32>, tensor<1x40x8x8xf32>, tensor<1x8x24x8xf32>, tensor<1x24x8x8xf32>, tensor<1x4x8x8xf32>
}

// -----

// A program without a convolution stays as it is.
// CHECK-LABEL: func.func @other
// CHECK: tensor.concat dim(0) %{{.*}}, %{{.*}} :
// CHECK: tensor.concat dim(0) %{{.*}}, %{{.*}}, %{{.*}} :
func.func @other(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<16xf32>, tensor<24xf32>) {
  %a = tensor.concat dim(0) %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %b = tensor.concat dim(0) %x, %y, %x : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<24xf32>
  return %a, %b : tensor<16xf32>, tensor<24xf32>
}
