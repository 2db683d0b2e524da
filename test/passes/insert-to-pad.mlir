// RUN: winograd-opt --winograd-insert-to-pad %s | filecheck %s

// The program's arithmetic says that there is a row behind, and none of the batch.
// CHECK-LABEL: @padding
// CHECK-SAME: (%[[X:.*]]: tensor<?x?x16xf32>)
// CHECK: tensor.pad %[[X]] low[0, 1, 0] high[0, 2, 0]
// CHECK: tensor.yield %{{.*}} : f32
// CHECK: tensor<?x?x16xf32> to tensor<?x?x16xf32>
// CHECK-NOT: tensor.insert_slice
func.func @padding(%x: tensor<?x?x16xf32>) -> tensor<?x?x16xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %batch = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %size = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %rows = arith.addi %size, %c3 : index
  %empty = tensor.empty(%batch, %rows) : tensor<?x?x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
  %r = tensor.insert_slice %x into %zeros[0, 1, 0] [%batch, %size, 16] [1, 1, 1]
    : tensor<?x?x16xf32> into tensor<?x?x16xf32>
  return %r : tensor<?x?x16xf32>
}

// What isn't zeros stays, and so does a place that depends on sizes.
// CHECK-LABEL: @others
// CHECK-COUNT-2: tensor.insert_slice
// CHECK-NOT: tensor.pad
func.func @others(%x: tensor<1x?x16xf32>, %y: tensor<1x?x16xf32>, %rows: index) -> (tensor<1x?x16xf32>, tensor<1x?x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %size = tensor.dim %x, %c1 : tensor<1x?x16xf32>
  %empty = tensor.empty(%rows) : tensor<1x?x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x?x16xf32>) -> tensor<1x?x16xf32>
  %r = tensor.insert_slice %x into %zeros[0, 1, 0] [1, %size, 16] [1, 1, 1]
    : tensor<1x?x16xf32> into tensor<1x?x16xf32>
  %s = tensor.insert_slice %x into %y[0, 1, 0] [1, %size, 16] [1, 1, 1]
    : tensor<1x?x16xf32> into tensor<1x?x16xf32>
  return %r, %s : tensor<1x?x16xf32>, tensor<1x?x16xf32>
}
