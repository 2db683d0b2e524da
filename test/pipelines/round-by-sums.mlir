// RUN: winograd-opt --winograd-round-by-sums %s | filecheck %s

// CHECK-LABEL: @bytes
// CHECK-SAME: (%[[X:.*]]: f32
// CHECK: %[[DISTANCE:.*]] = arith.constant 0x4B400000 : f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[X]], %[[DISTANCE]]
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.subf %[[SUM]], %[[DISTANCE]]
// CHECK-NEXT: %[[MOVED:.*]] = arith.addf %[[ROUNDED]],
// CHECK-NEXT: arith.maximumf %[[MOVED]],
util.func public @bytes(%x: f32) -> f32 {
  %zero = arith.constant 3.0 : f32
  %least = arith.constant -128.0 : f32
  %most = arith.constant 127.0 : f32
  %a = math.roundeven %x : f32
  %b = arith.addf %a, %zero : f32
  %c = arith.maximumf %b, %least : f32
  %d = arith.minimumf %c, %most : f32
  util.return %d : f32
}

// What nothing bounds, or on one side only, may be beyond 2^22; so may what is moved far before.
// CHECK-LABEL: @others
// CHECK-COUNT-4: math.roundeven
util.func public @others(%x: f32, %h: f16) -> (f32, f32, f32, f16) {
  %far = arith.constant 4194304.0 : f32
  %least = arith.constant -128.0 : f32
  %most = arith.constant 127.0 : f32
  %unbounded = math.roundeven %x : f32
  %a = math.roundeven %x : f32
  %below = arith.minimumf %a, %most : f32
  %b = math.roundeven %x : f32
  %moved = arith.addf %b, %far : f32
  %c = arith.maximumf %moved, %least : f32
  %d = arith.minimumf %c, %most : f32
  %half = math.roundeven %h : f16
  util.return %unbounded, %below, %d, %half : f32, f32, f32, f16
}
