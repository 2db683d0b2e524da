// RUN: winograd-opt --winograd-note-signature --split-input-file %s | filecheck %s

stream.executable private @kernel {
  stream.executable.export public @kernel
}

// Functions on fences, and those that wait for them, as IREE makes them of torch-mlir's types.
// CHECK-LABEL: util.func public @main$async
// CHECK-NOT: iree.abi.declaration
// CHECK-LABEL: util.func public @main(
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<?x4xf32>, %input1: tensor<2xi1>) -> (%output0: tensor<?x4xf32>)"}
util.func public @main$async(%a: !hal.buffer_view, %b: !hal.buffer_view, %ready: !hal.fence, %done: !hal.fence) -> !hal.buffer_view {
  %n = hal.buffer_view.dim<%a : !hal.buffer_view>[0] : index
  %x = hal.tensor.import wait(%ready) => %a : !hal.buffer_view -> tensor<?x4xf32>{%n}
  %y = hal.tensor.import wait(%ready) => %b : !hal.buffer_view -> tensor<2xi1>
  %r = flow.dispatch @kernel::@kernel(%x, %y) : (tensor<?x4xf32>{%n}, tensor<2xi1>) -> tensor<?x4xf32>{%n}
  %signalled = hal.tensor.barrier join(%r : tensor<?x4xf32>) => %done : !hal.fence
  %v = hal.tensor.export %signalled : tensor<?x4xf32>{%n} -> !hal.buffer_view
  util.return %v : !hal.buffer_view
}
util.func public @main(%a: !hal.buffer_view, %b: !hal.buffer_view) -> !hal.buffer_view {
  %ready = util.null : !hal.fence
  %done = util.null : !hal.fence
  %r = util.call @main$async(%a, %b, %ready, %done) : (!hal.buffer_view, !hal.buffer_view, !hal.fence, !hal.fence) -> !hal.buffer_view
  util.return %r : !hal.buffer_view
}

// What IREE has noted stays.
// CHECK-LABEL: util.func public @noted
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func"}
util.func public @noted(%a: !hal.buffer_view) -> !hal.buffer_view attributes {iree.reflection = {iree.abi.declaration = "sync func"}} {
  %x = hal.tensor.import %a : !hal.buffer_view -> tensor<4xf32>
  %v = hal.tensor.export %x : tensor<4xf32> -> !hal.buffer_view
  util.return %v : !hal.buffer_view
}

// An argument that is returned has no type, and a number isn't an array.
// CHECK-LABEL: util.func public @returned
// CHECK-NOT: iree.abi.declaration
// CHECK-LABEL: util.func public @number
// CHECK-NOT: iree.abi.declaration
util.func public @returned(%a: !hal.buffer_view) -> !hal.buffer_view {
  util.return %a : !hal.buffer_view
}
util.func public @number(%n: i64) -> !hal.buffer_view {
  %x = tensor.from_elements %n : tensor<1xi64>
  %v = hal.tensor.export %x : tensor<1xi64> -> !hal.buffer_view
  util.return %v : !hal.buffer_view
}
// CHECK-LABEL: util.func public @branches
// CHECK-NOT: iree.abi.declaration
util.func public @branches(%a: !hal.buffer_view, %b: !hal.buffer_view) -> !hal.buffer_view {
  %x = hal.tensor.import %a : !hal.buffer_view -> tensor<4xf32>
  %y = hal.tensor.import %b : !hal.buffer_view -> tensor<4xf32>
  %zero = arith.constant 0 : index
  %e = tensor.extract %x[%zero] : tensor<4xf32>
  %n = arith.fptosi %e : f32 to i1
  cf.cond_br %n, ^left, ^right
^left:
  %v = hal.tensor.export %x : tensor<4xf32> -> !hal.buffer_view
  util.return %v : !hal.buffer_view
^right:
  %w = hal.tensor.export %y : tensor<4xf32> -> !hal.buffer_view
  util.return %w : !hal.buffer_view
}

// -----

// Nothing is noted of a program without kernels.
// CHECK-LABEL: util.func public @stock
// CHECK-NOT: iree.abi.declaration
util.func public @stock(%a: !hal.buffer_view) -> !hal.buffer_view {
  %x = hal.tensor.import %a : !hal.buffer_view -> tensor<4xf32>
  %v = hal.tensor.export %x : tensor<4xf32> -> !hal.buffer_view
  util.return %v : !hal.buffer_view
}
