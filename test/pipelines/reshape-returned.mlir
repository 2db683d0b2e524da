// RUN: winograd-opt --winograd-reshape-returned --split-input-file %s | filecheck %s

// Both images are passed on with one size, which nobody uses in the shape that they are returned in.
// CHECK-LABEL: util.func private @two
// CHECK-SAME: -> (tensor<1x1x8x9x1x1xf32>, i32, tensor<1x1x8x9x1x1xf32>)
// CHECK: %[[A:.*]] = flow.tensor.reshape %{{.*}} : tensor<8x9xf32> -> tensor<1x1x8x9x1x1xf32>
// CHECK: %[[B:.*]] = flow.tensor.reshape %{{.*}} : tensor<8x9xf32> -> tensor<1x1x8x9x1x1xf32>
// CHECK: util.return %[[A]], %{{.*}}, %[[B]]
util.func private @two(%x: tensor<8x9xf32>, %n: i32) -> (tensor<8x9xf32>, i32, tensor<8x9xf32>) attributes {inlining_policy = #util.inline.never} {
  %y = math.exp %x : tensor<8x9xf32>
  util.return %x, %n, %y : tensor<8x9xf32>, i32, tensor<8x9xf32>
}

// CHECK-LABEL: util.func public @caller
// CHECK: %[[R:.*]]:3 = util.call @two({{.*}}) : (tensor<8x9xf32>, i32) -> (tensor<1x1x8x9x1x1xf32>, i32, tensor<1x1x8x9x1x1xf32>)
// CHECK-DAG: %[[Y:.*]] = flow.tensor.reshape %[[R]]#2 : tensor<1x1x8x9x1x1xf32> -> tensor<8x9xf32>
// CHECK: util.return %[[R]]#1, %[[Y]], %[[Y]]
util.func public @caller(%x: tensor<8x9xf32>, %n: i32) -> (i32, tensor<8x9xf32>, tensor<8x9xf32>) {
  %r:3 = util.call @two(%x, %n) : (tensor<8x9xf32>, i32) -> (tensor<8x9xf32>, i32, tensor<8x9xf32>)
  util.return %r#1, %r#2, %r#2 : i32, tensor<8x9xf32>, tensor<8x9xf32>
}

// -----

// No other result has the type of the first two; the others' sizes are known at run time.
// CHECK-LABEL: util.func private @unlike
// CHECK-SAME: -> (tensor<8x9xf32>, tensor<9x8xf32>, tensor<?xf32>, tensor<?xf32>)
// CHECK-NOT: flow.tensor.reshape
util.func private @unlike(%x: tensor<8x9xf32>, %y: tensor<9x8xf32>, %z: tensor<?xf32>) -> (tensor<8x9xf32>, tensor<9x8xf32>, tensor<?xf32>, tensor<?xf32>) attributes {inlining_policy = #util.inline.never} {
  util.return %x, %y, %z, %z : tensor<8x9xf32>, tensor<9x8xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

// IREE inlines it.
// CHECK-LABEL: util.func private @inlined
// CHECK-NOT: flow.tensor.reshape
util.func private @inlined(%x: tensor<8x9xf32>, %y: tensor<8x9xf32>) -> (tensor<8x9xf32>, tensor<8x9xf32>) {
  util.return %x, %y : tensor<8x9xf32>, tensor<8x9xf32>
}

// CHECK-LABEL: util.func public @public
// CHECK-NOT: flow.tensor.reshape
util.func public @public(%x: tensor<8x9xf32>, %y: tensor<8x9xf32>) -> (tensor<8x9xf32>, tensor<8x9xf32>) attributes {inlining_policy = #util.inline.never} {
  util.return %x, %y : tensor<8x9xf32>, tensor<8x9xf32>
}
