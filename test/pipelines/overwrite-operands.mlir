// RUN: winograd-opt --winograd-overwrite-operands --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-overwrite-operands='threads=2' --split-input-file %s | filecheck %s --check-prefix=SEVERAL

// Several threads would wait for all of a kernel before the one that overwrites.
// SEVERAL-NOT: -> %

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// The copy has no result of its own. IREE links both kernels into one library.
// CHECK-LABEL: stream.executable private @add_over_1 attributes
// CHECK: stream.executable.export public @add_over_1
// CHECK: func.func @add_over_1(%[[X:.*]]: !stream.binding, %[[SHORTCUT:.*]]: !stream.binding) {
// CHECK: stream.binding.subspan %[[X]]
// CHECK: stream.binding.subspan %[[SHORTCUT]]
// CHECK: stream.binding.subspan %[[SHORTCUT]]
// CHECK-LABEL: stream.executable private @add attributes
// CHECK: func.func @add(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding, %{{.*}}: !stream.binding) {
stream.executable private @add attributes {winograd.overwritable = array<i64: 1>} {
  stream.executable.export public @add workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @add(%x: !stream.binding, %shortcut: !stream.binding, %y: !stream.binding) {
      %c0 = arith.constant 0 : index
      %a = stream.binding.subspan %x[%c0] : !stream.binding -> memref<64xf32>
      %b = stream.binding.subspan %shortcut[%c0] : !stream.binding -> memref<64xf32>
      %r = stream.binding.subspan %y[%c0] : !stream.binding -> memref<64xf32>
      return
    }
  }
}

stream.executable private @scale {
  stream.executable.export public @scale workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @scale(%x: !stream.binding, %y: !stream.binding) {
      return
    }
  }
}

// CHECK-LABEL: util.func public @block
// CHECK-SAME: (%[[ARGUMENT:.*]]: tensor<64xf32>)
util.func public @block(%argument: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // What is an argument belongs to the caller.
  // CHECK: %[[A:.*]] = flow.dispatch @scale
  // CHECK: %[[FIRST:.*]] = flow.dispatch @add::@add(%[[A]], %[[ARGUMENT]]) : {{.*}} -> tensor<64xf32>
  %a = flow.dispatch @scale::@scale(%argument) : (tensor<64xf32>) -> tensor<64xf32>
  %first = flow.dispatch @add::@add(%a, %argument) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  // What this one reads has been read by all others, for which it waits.
  // CHECK: %[[B:.*]] = flow.dispatch @scale::@scale(%[[FIRST]])
  // CHECK: %[[SECOND:.*]] = flow.dispatch @add_over_1::@add_over_1(%[[B]], %[[FIRST]]) : {{.*}} -> %[[FIRST]]
  %b = flow.dispatch @scale::@scale(%first) : (tensor<64xf32>) -> tensor<64xf32>
  %second = flow.dispatch @add::@add(%b, %first) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  // Another one is read by something behind it, or for which it doesn't wait.
  // CHECK: %[[C:.*]] = flow.dispatch @scale::@scale(%[[SECOND]])
  // CHECK: %[[THIRD:.*]] = flow.dispatch @add::@add(%[[C]], %[[SECOND]]) : {{.*}} -> tensor<64xf32>
  // CHECK: flow.dispatch @add::@add(%[[SECOND]], %[[C]]) : {{.*}} -> tensor<64xf32>
  %c = flow.dispatch @scale::@scale(%second) : (tensor<64xf32>) -> tensor<64xf32>
  %third = flow.dispatch @add::@add(%c, %second) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %fourth = flow.dispatch @add::@add(%second, %c) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  util.return %third, %fourth : tensor<64xf32>, tensor<64xf32>
}
