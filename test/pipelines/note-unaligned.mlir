// RUN: winograd-opt --winograd-note-unaligned --split-input-file %s | filecheck %s

stream.executable private @kernel {
  stream.executable.export public @kernel
}

// Arguments that kernels read, also through a reshape, and beside others that IREE's own code reads.
// CHECK-LABEL: @two_of_three
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func", winograd.unaligned = "0 2"}
util.func public @two_of_three(%a: !hal.buffer_view, %b: !hal.buffer_view, %c: !hal.buffer_view) -> tensor<4x8xf32> attributes {iree.reflection = {iree.abi.declaration = "sync func"}} {
  %x = hal.tensor.import %a : !hal.buffer_view -> tensor<4x8xf32>
  %y = hal.tensor.import %b : !hal.buffer_view -> tensor<4x8xf32>
  %z = hal.tensor.import %c : !hal.buffer_view -> tensor<32xf32>
  %rows = tensor.expand_shape %z [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>
  %sum = arith.addf %y, %y : tensor<4x8xf32>
  %r = flow.dispatch @kernel::@kernel(%x, %rows, %sum) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  util.return %r : tensor<4x8xf32>
}

// An argument that something else reads, too, and one that is returned.
// CHECK-LABEL: @read_elsewhere
// CHECK-NOT: winograd.unaligned
util.func public @read_elsewhere(%a: !hal.buffer_view, %b: !hal.buffer_view) -> (tensor<4xf32>, tensor<4xf32>) {
  %x = hal.tensor.import %a : !hal.buffer_view -> tensor<4xf32>
  %y = hal.tensor.import %b : !hal.buffer_view -> tensor<4xf32>
  %sum = arith.addf %x, %x : tensor<4xf32>
  %r = flow.dispatch @kernel::@kernel(%x, %sum) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  util.return %r, %y : tensor<4xf32>, tensor<4xf32>
}

// -----

stream.executable private @kernel {
  stream.executable.export public @kernel
}
util.global private mutable @state : tensor<4xf32>

// What is kept from call to call may be computed when the argument is the caller's again.
// CHECK-LABEL: @keeps
// CHECK-NOT: winograd.unaligned
util.func public @keeps(%a: !hal.buffer_view) {
  %x = hal.tensor.import %a : !hal.buffer_view -> tensor<4xf32>
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.global.store %r, @state : tensor<4xf32>
  util.return
}
