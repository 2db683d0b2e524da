// RUN: winograd-opt --winograd-fold-offsets %s | filecheck %s

// A size isn't negative, so that the smaller one of it and zero is zero.
// CHECK-LABEL: @first
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x?xf32>, %[[HALF:[a-z0-9]+]]: index
// CHECK: tensor.extract_slice %[[X]][0, 0, 0] [1, 16, %[[HALF]]] [1, 1, 2]
// CHECK: tensor.extract_slice %[[X]][0, 0, %{{.*}}] [1, 16, 4] [1, 1, 1]
func.func @first(%x: tensor<1x16x?xf32>, %half: index, %start: index) -> (tensor<1x16x?xf32>, tensor<1x16x4xf32>) {
  %zero = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %size = tensor.dim %x, %c2 : tensor<1x16x?xf32>
  %first = arith.minsi %size, %zero : index
  %r = tensor.extract_slice %x[0, 0, %first] [1, 16, %half] [1, 1, 2] : tensor<1x16x?xf32> to tensor<1x16x?xf32>
  %s = tensor.extract_slice %x[0, 0, %start] [1, 16, 4] [1, 1, 1] : tensor<1x16x?xf32> to tensor<1x16x4xf32>
  return %r, %s : tensor<1x16x?xf32>, tensor<1x16x4xf32>
}
