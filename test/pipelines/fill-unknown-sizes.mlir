// RUN: winograd-opt --winograd-fill-unknown-sizes %s | filecheck %s

#scalar = affine_map<(d0, d1) -> ()>
#identity = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: @unknown
// CHECK: %[[EMPTY:.*]] = tensor.empty
// CHECK: %[[NUMBER:.*]] = arith.constant -1 : i64
// CHECK: %[[FILLED:.*]] = linalg.fill ins(%[[NUMBER]] : i64) outs(%[[EMPTY]] : tensor<?x512xi64>)
// CHECK: util.return %[[FILLED]]
util.func public @unknown(%size: index) -> tensor<?x512xi64> {
  %number = arith.constant dense<-1> : tensor<i64>
  %empty = tensor.empty(%size) : tensor<?x512xi64>
  %filled = linalg.generic {indexing_maps = [#scalar, #identity], iterator_types = ["parallel", "parallel"]}
      ins(%number : tensor<i64>) outs(%empty : tensor<?x512xi64>) {
    ^bb0(%in: i64, %out: i64):
      linalg.yield %in : i64
  } -> tensor<?x512xi64>
  util.return %filled : tensor<?x512xi64>
}

// What is computed of the number stays, and so do tensors whose sizes are known: IREE makes constants of them.
// CHECK-LABEL: @others
// CHECK-NOT: linalg.fill
// CHECK: util.return
util.func public @others(%size: index) -> (tensor<?x512xi64>, tensor<4x512xi64>) {
  %number = arith.constant dense<-1> : tensor<i64>
  %empty = tensor.empty(%size) : tensor<?x512xi64>
  %sums = linalg.generic {indexing_maps = [#scalar, #identity], iterator_types = ["parallel", "parallel"]}
      ins(%number : tensor<i64>) outs(%empty : tensor<?x512xi64>) {
    ^bb0(%in: i64, %out: i64):
      %sum = arith.addi %in, %in : i64
      linalg.yield %sum : i64
  } -> tensor<?x512xi64>
  %known = tensor.empty() : tensor<4x512xi64>
  %filled = linalg.generic {indexing_maps = [#scalar, #identity], iterator_types = ["parallel", "parallel"]}
      ins(%number : tensor<i64>) outs(%known : tensor<4x512xi64>) {
    ^bb0(%in: i64, %out: i64):
      linalg.yield %in : i64
  } -> tensor<4x512xi64>
  util.return %sums, %filled : tensor<?x512xi64>, tensor<4x512xi64>
}
