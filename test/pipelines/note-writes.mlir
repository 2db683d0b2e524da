// RUN: winograd-opt --winograd-note-writes --split-input-file %s | filecheck %s

// IREE has the product computed in the memory of the second argument.
// CHECK-LABEL: util.func public @dispatch
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func", winograd.read_only = "0"}
util.func public @dispatch(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> !hal.buffer_view attributes {iree.reflection = {iree.abi.declaration = "sync func"}} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %x = stream.tensor.import %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %y = stream.tensor.import %arg1 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}, %y as %b: !stream.resource<external>{%c64}) {
    stream.cmd.dispatch @product::@product {
      ro %a[%c0 for %c64] : !stream.resource<external>{%c64},
      rw %b[%c0 for %c64] : !stream.resource<external>{%c64}
    }
  } => !stream.timepoint
  %ready = stream.timepoint.await %done => %y : !stream.resource<external>{%c64}
  %r = stream.tensor.export %ready : tensor<16xf32> in !stream.resource<external>{%c64} -> !hal.buffer_view
  util.return %r : !hal.buffer_view
}

// -----

// Copies and fills write, too, also to what a part of an argument stands for.
// CHECK-LABEL: util.func public @transfers
// CHECK-SAME: winograd.read_only = "0"}
util.func public @transfers(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0 : i32
  %x = stream.tensor.import %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %y = stream.tensor.import %arg1 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %z = stream.tensor.import %arg2 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %half = stream.resource.subview %z[%c32] : !stream.resource<external>{%c64} -> !stream.resource<external>{%c32}
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}, %y as %b: !stream.resource<external>{%c64}, %half as %c: !stream.resource<external>{%c32}) {
    stream.cmd.copy %a[%c0], %b[%c0], %c64 : !stream.resource<external>{%c64} -> !stream.resource<external>{%c64}
    stream.cmd.fill %zero, %c[%c0 for %c32] : i32 -> !stream.resource<external>{%c32}
  } => !stream.timepoint
  stream.timepoint.await %done => %y : !stream.resource<external>{%c64}
  util.return
}

// -----

// Memory that the program declares as that of a result.
// CHECK-LABEL: util.func public @storage
// CHECK-SAME: iree.reflection = {winograd.storage = "0"}
util.func public @storage(%arg0: !hal.buffer_view) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant 0 : i32
  %x = stream.tensor.import consume %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}) {
    stream.cmd.fill %zero, %a[%c0 for %c64] : i32 -> !stream.resource<external>{%c64}
  } => !stream.timepoint
  stream.timepoint.await %done => %x : !stream.resource<external>{%c64}
  util.return
}

// -----

// What a function inside of the program does counts for those that call it; what one elsewhere does isn't known.
// CHECK-LABEL: util.func public @calls
// CHECK-SAME: iree.reflection = {winograd.read_only = "0"}
util.func public @calls(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view {
  %c64 = arith.constant 64 : index
  %x = stream.tensor.import %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %y = stream.tensor.import %arg1 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  util.call @add(%x, %y) : (!stream.resource<external>, !stream.resource<external>) -> ()
  %r = util.call @elsewhere(%arg2) : (!hal.buffer_view) -> !hal.buffer_view
  util.return %arg0 : !hal.buffer_view
}

util.func private @elsewhere(!hal.buffer_view) -> !hal.buffer_view

util.func private @add(%x: !stream.resource<external>, %y: !stream.resource<external>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}, %y as %b: !stream.resource<external>{%c64}) {
    stream.cmd.dispatch @sum::@sum {
      ro %a[%c0 for %c64] : !stream.resource<external>{%c64},
      wo %b[%c0 for %c64] : !stream.resource<external>{%c64}
    }
  } => !stream.timepoint
  stream.timepoint.await %done => %y : !stream.resource<external>{%c64}
  util.return
}

// -----

util.global private mutable @state : !stream.resource<external>

// What is kept may be written to by a later call.
// CHECK-LABEL: util.func public @keeps
// CHECK-NOT: winograd.read_only
util.func public @keeps(%arg0: !hal.buffer_view) {
  %c64 = arith.constant 64 : index
  %x = stream.tensor.import %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  util.global.store %x, @state : !stream.resource<external>
  util.return
}
