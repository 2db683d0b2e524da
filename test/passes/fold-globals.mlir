// RUN: winograd-opt --winograd-fold-globals --split-input-file %s | filecheck %s

// Weights as iree-turbine exports them: each use gets the constant, and the global goes.
// CHECK-NOT: util.global
// CHECK-LABEL: @weights
// CHECK: %[[A:.*]] = arith.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK: %[[B:.*]] = arith.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK: %[[C:.*]] = arith.constant dense_resource<bias> : tensor<2xf32>
// CHECK: util.return %[[A]], %[[B]], %[[C]]
util.global private @weight = dense<1.0> : tensor<2xf32>
util.global private mutable @never_stored = dense_resource<bias> : tensor<2xf32>
util.func public @weights() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %a = util.global.load immutable @weight : tensor<2xf32>
  %b = util.global.load @weight : tensor<2xf32>
  %c = util.global.load @never_stored : tensor<2xf32>
  util.return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
{-# dialect_resources: { builtin: { bias: "0x040000000000803F00000040" } } #-}

// -----

// Those that something else may write or hold stay.
// CHECK-LABEL: module
// CHECK: util.global private mutable @state
// CHECK: util.global private @elsewhere
// CHECK: util.global private @computed
// CHECK: util.global private @addressed
// CHECK: util.global public mutable @open
// CHECK: util.global private @kept
// CHECK: util.global private @number
// CHECK-LABEL: @stay
// CHECK-NOT: arith.constant
// CHECK-COUNT-7: util.global.load
util.global private mutable @state = dense<1.0> : tensor<2xf32>
util.global private @elsewhere = #flow.parameter.named<"model"::"weight"> : tensor<2xf32>
util.global private @computed : tensor<2xf32>
util.global private @addressed = dense<1.0> : tensor<2xf32>
util.global public mutable @open = dense<1.0> : tensor<2xf32>
util.global private @kept <inlining_policy = #util.inline.never> = dense<1.0> : tensor<2xf32>
util.global private @number = 4 : i32
util.func public @stay(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, i32) {
  %a = util.global.load @state : tensor<2xf32>
  util.global.store %x, @state : tensor<2xf32>
  %b = util.global.load @elsewhere : tensor<2xf32>
  %c = util.global.load @computed : tensor<2xf32>
  %d = util.global.load @addressed : tensor<2xf32>
  %pointer = util.global.address @addressed : !util.ptr<tensor<2xf32>>
  %e = util.global.load @open : tensor<2xf32>
  %f = util.global.load @kept : tensor<2xf32>
  %g = util.global.load @number : i32
  util.return %a, %b, %c, %d, %e, %f, %g : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, i32
}

// -----

// A public one is known, and stays for others.
// CHECK: util.global public @shared
// CHECK-LABEL: @public
// CHECK: %[[A:.*]] = arith.constant
// CHECK: util.return %[[A]]
util.global public @shared = dense<1.0> : tensor<2xf32>
util.func public @public() -> tensor<2xf32> {
  %a = util.global.load @shared : tensor<2xf32>
  util.return %a : tensor<2xf32>
}
