// RUN: winograd-opt --winograd-note-threads='threads=16' --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device
stream.executable private @kernel {
  stream.executable.export public @kernel
}

// Whoever loads the program sees its public functions only.
// CHECK: util.func public @main
// CHECK-SAME: iree.reflection = {iree.abi.declaration = "sync func", winograd.threads = "16"}
util.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {iree.reflection = {iree.abi.declaration = "sync func"}} {
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
// CHECK: util.func private @inner
// CHECK-NOT: winograd.threads
util.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Without kernels of ours all numbers of threads are alike.
// CHECK: util.func public @without_kernels
// CHECK-NOT: winograd.threads
util.func public @without_kernels(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device
stream.executable private @kernel {
  stream.executable.export public @kernel
}

// Nor do they matter to a GPU.
// CHECK: util.func public @on_a_gpu
// CHECK-NOT: winograd.threads
util.func public @on_a_gpu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = flow.dispatch @kernel::@kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  util.return %r : tensor<4xf32>
}
