// RUN: winograd-opt --winograd-compute-at-load --split-input-file %s | filecheck %s

// The first kernel reads a constant alone, the second the image, too.
// CHECK: module attributes {winograd.folds_at_load}
// CHECK-LABEL: func.func @of_a_constant
util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

func.func @of_a_constant(%image: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %time = arith.constant dense<[[0.5, 0.25]]> : tensor<1x2xf32>
  %shape = tensor.collapse_shape %time [[0, 1]] : tensor<1x2xf32> into tensor<2xf32>
  %y = flow.dispatch @k::@k(%shape) : (tensor<2xf32>) -> tensor<1x32xf32>
  %z = flow.dispatch @l::@l(%y, %image) : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x32xf32>
  return %z : tensor<1x32xf32>
}

// -----

// CHECK-NOT: folds_at_load
// CHECK-LABEL: func.func @of_an_image
util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

func.func @of_an_image(%image: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %z = flow.dispatch @l::@l(%image, %image) : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x32xf32>
  return %z : tensor<1x32xf32>
}

// -----

// A processor runs its kernels when programs for it are compiled.
// CHECK-NOT: folds_at_load
// CHECK-LABEL: func.func @on_a_processor
util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

func.func @on_a_processor(%image: tensor<1x32xf32>) -> tensor<1x32xf32> {
  %time = arith.constant dense<[[0.5, 0.25]]> : tensor<1x2xf32>
  %y = flow.dispatch @k::@k(%time) : (tensor<1x2xf32>) -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
}
