// RUN: winograd-opt --winograd-note-features --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "host", cpu_features = "+avx2,+avx512f,+fma,-avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device
stream.executable private @kernel {
  stream.executable.export public @kernel
}

// Whoever loads the program sees its public functions only. Of what is said of a feature the last holds: IREE lists
// what processors of a model have, and then what the host has.
// CHECK: util.func public @main
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func", winograd.features = "avx2 fma"}
util.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {iree.reflection = {iree.abi.declaration = "sync func"}} {
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
// CHECK: util.func private @inner
// CHECK-NOT: winograd.features
util.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma,-avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Programs without kernels of ours stay as IREE makes them.
// CHECK: util.func public @without_kernels
// CHECK-NOT: winograd.features
util.func public @without_kernels(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
stream.executable private @kernel {
  stream.executable.export public @kernel
}

// Nor does a GPU have features of a processor.
// CHECK: util.func public @on_a_gpu
// CHECK-NOT: winograd.features
util.func public @on_a_gpu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
