// RUN: winograd-opt --winograd-separate-calls --split-input-file %s | filecheck %s

// Every call has a function of its own, under a name that nothing has.
// CHECK-LABEL: util.func private @difference_1
util.func private @difference_1(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}

// CHECK: util.func private @difference_2(
// CHECK: arith.subf
// CHECK: util.func private @difference_3(
// CHECK: arith.subf
// CHECK: util.func private @difference(
// CHECK: arith.subf
util.func private @difference(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {inlining_policy = #util.inline.never} {
  %0 = arith.subf %x, %y : tensor<4xf32>
  util.return %0 : tensor<4xf32>
}

// CHECK-LABEL: util.func public @caller
// CHECK: util.call @difference(
// CHECK: util.call @difference_1(
// CHECK: util.call @difference_2(
// CHECK: util.call @difference_3(
util.func public @caller(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @difference(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = util.call @difference_1(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = util.call @difference(%1, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = util.call @difference(%2, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  util.return %3 : tensor<4xf32>
}

// -----

// So do the calls of a function that is called twice itself, wherever it is.
// CHECK-LABEL: util.func private @inner_1
// CHECK: util.func private @inner(
// CHECK: util.func private @outer_1
// CHECK: util.call @inner_1(
// CHECK: util.func private @outer(
// CHECK: util.call @inner(
util.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}
util.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %0 : tensor<4xf32>
}

// CHECK-LABEL: util.func public @caller_of_callers
// CHECK: util.call @outer(
// CHECK: util.call @outer_1(
util.func public @caller_of_callers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = util.call @outer(%0) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %1 : tensor<4xf32>
}

// -----

// Public functions stay as they are, and those of elsewhere.
// CHECK-NOT: _1
util.func private @elsewhere(%x: tensor<4xf32>) -> tensor<4xf32>
util.func public @public(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = util.call @elsewhere(%0) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %1 : tensor<4xf32>
}
util.func public @caller_of_public(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @public(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = util.call @public(%0) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %1 : tensor<4xf32>
}

// -----

// One that calls itself would have copies without end.
// CHECK-NOT: _1
util.func private @endless(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @endless(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %0 : tensor<4xf32>
}
util.func public @caller_of_endless(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = util.call @endless(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %0 : tensor<4xf32>
}
