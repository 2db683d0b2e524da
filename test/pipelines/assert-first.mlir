// RUN: winograd-opt --winograd-assert-first %s | filecheck %s

// What is checked follows from sizes of arguments.
// CHECK-LABEL: util.func public @sizes
// CHECK: hal.tensor.import
// CHECK-NEXT: %[[HALF:.*]] = arith.divui
// CHECK-NEXT: %[[SAME:.*]] = arith.cmpi eq, %[[HALF]]
// CHECK-NEXT: cf.assert %[[SAME]], "mismatched size for broadcast"
// CHECK-NEXT: flow.dispatch @kernels::@first
// CHECK-NEXT: flow.dispatch @kernels::@second
util.func public @sizes(%image: !hal.buffer_view) -> tensor<?xf32> {
  %c2 = arith.constant 2 : index
  %n = hal.buffer_view.dim<%image : !hal.buffer_view>[0] : index
  %m = hal.buffer_view.dim<%image : !hal.buffer_view>[1] : index
  %x = hal.tensor.import %image : !hal.buffer_view -> tensor<?x?xf32>{%n, %m}
  %a = flow.dispatch @kernels::@first(%x, %n, %m) : (tensor<?x?xf32>{%n, %m}, index, index) -> tensor<?xf32>{%n}
  %half = arith.divui %n, %c2 : index
  %same = arith.cmpi eq, %half, %m : index
  cf.assert %same, "mismatched size for broadcast"
  %b = flow.dispatch @kernels::@second(%a, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
  util.return %b : tensor<?xf32>
}

// What is checked is an element that a kernel computes.
// CHECK-LABEL: util.func public @elements
// CHECK: flow.dispatch
// CHECK-NEXT: flow.tensor.load
// CHECK-NEXT: arith.cmpi
// CHECK-NEXT: cf.assert
util.func public @elements(%x: tensor<4xi32>) -> tensor<4xi32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %a = flow.dispatch @kernels::@first(%x) : (tensor<4xi32>) -> tensor<4xi32>
  %e = flow.tensor.load %a[%c0] : tensor<4xi32>
  %positive = arith.cmpi sgt, %e, %zero : i32
  cf.assert %positive, "no elements"
  util.return %a : tensor<4xi32>
}
