// RUN: winograd-opt --winograd-check-casts %s | filecheck %s

// Sizes that the program takes for known are checked; those that it leaves open need no check.
// CHECK-LABEL: func.func @casts
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x?xf32>, %{{.*}}: tensor<4x8xf32>)
// CHECK: %[[N:.*]] = tensor.dim %[[X]], %{{.*}} : tensor<?x8x?xf32>
// CHECK: %[[SAME:.*]] = arith.cmpi eq, %[[N]], %c169
// CHECK: cf.assert %[[SAME]], "dimension 2 of a tensor isn't of size 169, which the program takes it for"
// CHECK: tensor.cast %[[X]]
// CHECK-NOT: cf.assert
// CHECK: return
func.func @casts(%x: tensor<?x8x?xf32>, %y: tensor<4x8xf32>) -> (tensor<?x8x169xf32>, tensor<?x8xf32>) {
  %a = tensor.cast %x : tensor<?x8x?xf32> to tensor<?x8x169xf32>
  %open = tensor.cast %y : tensor<4x8xf32> to tensor<?x8xf32>
  return %a, %open : tensor<?x8x169xf32>, tensor<?x8xf32>
}
