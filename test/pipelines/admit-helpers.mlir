// RUN: winograd-opt --winograd-admit-helpers='threads=2' --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-admit-helpers='threads=16' --split-input-file %s | filecheck %s --check-prefix=MANY

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device
stream.executable private @kernel {
  stream.executable.export public @kernel
}

// IREE has the kernel read the mailbox, and write something, so that both stay.
// CHECK: stream.executable private @winograd_mailbox
// CHECK: %[[read:.*]] = memref.load %{{.*}} : memref<256xi32>
// CHECK: memref.store %[[read]], %{{.*}} : memref<1xi32>
// CHECK: util.func public @main
// Many threads have IREE's workers.
// MANY: util.func public @main
// MANY-NOT: winograd_mailbox
util.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
// CHECK: util.func public @__winograd_helpers(%[[view:.*]]: !hal.buffer_view) -> !hal.buffer_view
// CHECK: %[[mailbox:.*]] = hal.tensor.import %[[view]] : !hal.buffer_view -> tensor<256xi32>
// CHECK: %[[result:.*]] = flow.dispatch @winograd_mailbox::@winograd_mailbox(%[[mailbox]])
// CHECK: hal.tensor.export %[[result]] : tensor<1xi32> -> !hal.buffer_view

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// A program without kernels of ours stays IREE's.
// CHECK: util.func public @without_kernels
// CHECK-NOT: winograd_mailbox
// MANY: util.func public @without_kernels
util.func public @without_kernels(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64", {
    cpu = "neoverse-n1", cpu_features = "+neon", target_triple = "aarch64-unknown-unknown-eabi-elf"}>
]> : !hal.device
stream.executable private @kernel {
  stream.executable.export public @kernel
}

// How a helper sleeps is written for x86-64.
// CHECK: util.func public @on_arm
// CHECK-NOT: winograd_mailbox
// MANY: util.func public @on_arm
util.func public @on_arm(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
