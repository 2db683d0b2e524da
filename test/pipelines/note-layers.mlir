// RUN: winograd-opt --winograd-note-layers --split-input-file %s | filecheck %s

// CHECK-LABEL: util.func public @network
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func", winograd.layers = "{\22conv\22:[\22layer1.conv1\22,\22layer1.conv2\22],\22main_dispatch_0_softmax\22:[\22softmax\22]}"}
util.func public @network(%arg0: !hal.buffer_view) attributes {iree.reflection = {iree.abi.declaration = "sync func"}} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %x = stream.tensor.import %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}) {
    stream.cmd.dispatch @conv::@conv {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    } loc("layer1.conv1")
    stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_softmax {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    } loc(callsite("softmax" at "graph:main"))
    stream.cmd.dispatch @conv::@conv {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    } loc(fused["layer1.conv2", "layer1.relu"])
  } => !stream.timepoint
  stream.timepoint.await %done => %x : !stream.resource<external>{%c64}
  util.return
}

// -----

// Without names there is nothing to note.
// CHECK-LABEL: util.func public @nameless
// CHECK-NOT: winograd.layers
util.func public @nameless(%arg0: !hal.buffer_view) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %x = stream.tensor.import %arg0 : !hal.buffer_view -> tensor<16xf32> in !stream.resource<external>{%c64}
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}) {
    stream.cmd.dispatch @conv::@conv {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
  } => !stream.timepoint
  stream.timepoint.await %done => %x : !stream.resource<external>{%c64}
  util.return
}
