// RUN: winograd-opt --winograd-bound-shifts %s | filecheck %s

// CHECK-LABEL: @shifts
// CHECK-SAME: (%[[X:[^:]*]]: i8, %[[BITS:[^:]*]]: i8)
// CHECK-NEXT: %[[LEFT:.*]] = arith.shli %[[X]], %[[BITS]] : i8
// CHECK-NEXT: %[[WIDTH:.*]] = arith.constant 8 : i8
// CHECK-NEXT: %[[IS_INSIDE:.*]] = arith.cmpi ult, %[[BITS]], %[[WIDTH]] : i8
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i8
// CHECK-NEXT: %[[BOUNDED:.*]] = arith.select %[[IS_INSIDE]], %[[LEFT]], %[[ZERO]] : i8
// CHECK-NEXT: %[[RIGHT:.*]] = arith.shrui %[[X]], %[[BITS]] : i8
// CHECK: %[[BOUNDED_RIGHT:.*]] = arith.select %{{.*}}, %[[RIGHT]], %{{.*}} : i8
// CHECK-NEXT: %[[MOST:.*]] = arith.constant 7 : i8
// CHECK-NEXT: %[[LESS:.*]] = arith.minui %[[BITS]], %[[MOST]] : i8
// CHECK-NEXT: %[[SIGNED:.*]] = arith.shrsi %[[X]], %[[LESS]] : i8
// CHECK-NEXT: util.return %[[BOUNDED]], %[[BOUNDED_RIGHT]], %[[SIGNED]]
util.func public @shifts(%x: i8, %bits: i8) -> (i8, i8, i8) {
  %left = arith.shli %x, %bits : i8
  %right = arith.shrui %x, %bits : i8
  %signed = arith.shrsi %x, %bits : i8
  util.return %left, %right, %signed : i8, i8, i8
}

// CHECK-LABEL: @by_a_constant
// CHECK-NOT: arith.select
// CHECK: util.return
util.func public @by_a_constant(%x: i32) -> i32 {
  %bits = arith.constant 16 : i32
  %left = arith.shli %x, %bits : i32
  util.return %left : i32
}
