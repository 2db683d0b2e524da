// RUN: winograd-opt --winograd-drop-barriers %s | filecheck %s

stream.executable private @first attributes {winograd.chained} {
  stream.executable.export public @first
}
stream.executable private @second attributes {winograd.chained} {
  stream.executable.export public @second
}
stream.executable private @other {
  stream.executable.export public @other
}

// Others, and what they are between, are waited for.
// CHECK-LABEL: util.func public @main
// CHECK: stream.cmd.dispatch @other
// CHECK-NOT: stream.cmd.dispatch
// CHECK: stream.cmd.concurrent {
// CHECK: stream.cmd.dispatch @first
// CHECK: stream.cmd.dispatch @second
// CHECK: stream.cmd.dispatch @first
// CHECK: {{^      [}]$}}
// CHECK: stream.cmd.dispatch @other
// CHECK-NOT: stream.cmd.concurrent
// CHECK: stream.cmd.dispatch @second
// CHECK: util.return
util.func public @main(%x: !stream.resource<external>) -> !stream.timepoint {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %done = stream.cmd.execute with(%x as %a: !stream.resource<external>{%c64}) {
    stream.cmd.dispatch @other::@other {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
    stream.cmd.dispatch @first::@first {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
    stream.cmd.dispatch @second::@second {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
    stream.cmd.dispatch @first::@first {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
    stream.cmd.dispatch @other::@other {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
    stream.cmd.dispatch @second::@second {
      rw %a[%c0 for %c64] : !stream.resource<external>{%c64}
    }
  } => !stream.timepoint
  util.return %done : !stream.timepoint
}
