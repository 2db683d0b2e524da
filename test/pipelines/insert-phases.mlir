// RUN: winograd-opt --winograd-insert-phases --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

// Phases are inserted into the channels that all of them are for.
// CHECK-LABEL: @phases
// CHECK-SAME: %[[EVEN:.*]]: tensor<1x4x8x4xf32>, %[[ODD:.*]]: tensor<1x4x8x4xf32>, %[[WHOLE:.*]]: tensor<1x8x8x12xf32>
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[EVEN]] into %[[WHOLE]][0, 0, 0, 8] [1, 4, 8, 4] [1, 2, 1, 1]
// CHECK: %[[BOTH:.*]] = tensor.insert_slice %[[ODD]] into %[[FIRST]][0, 1, 0, 8] [1, 4, 8, 4] [1, 2, 1, 1]
// CHECK: return %[[BOTH]]
func.func @phases(%even: tensor<1x4x8x4xf32>, %odd: tensor<1x4x8x4xf32>, %whole: tensor<1x8x8x12xf32>) -> tensor<1x8x8x12xf32> {
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %0 = tensor.insert_slice %even into %e[0, 0, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1] : tensor<1x4x8x4xf32> into tensor<1x8x8x4xf32>
  %1 = tensor.insert_slice %odd into %0[0, 1, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1] : tensor<1x4x8x4xf32> into tensor<1x8x8x4xf32>
  %r = tensor.insert_slice %1 into %whole[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1] : tensor<1x8x8x4xf32> into tensor<1x8x8x12xf32>
  return %r : tensor<1x8x8x12xf32>
}

// Of images of any size, too.
// CHECK-LABEL: @of_any_size
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 8] [1, %[[ROWS:.*]], %[[COLUMNS:.*]], 4] [1, 2, 1, 1]
// CHECK: tensor.insert_slice %{{.*}} into %[[FIRST]][0, 1, 0, 8] [1, %[[ROWS]], %[[COLUMNS]], 4] [1, 2, 1, 1]
func.func @of_any_size(%even: tensor<1x?x?x4xf32>, %odd: tensor<1x?x?x4xf32>, %h: index, %w: index, %all: index) -> tensor<1x?x?x12xf32> {
  %whole = tensor.empty(%all, %w) : tensor<1x?x?x12xf32>
  %e = tensor.empty(%all, %w) : tensor<1x?x?x4xf32>
  %0 = tensor.insert_slice %even into %e[0, 0, 0, 0] [1, %h, %w, 4] [1, 2, 1, 1] : tensor<1x?x?x4xf32> into tensor<1x?x?x4xf32>
  %1 = tensor.insert_slice %odd into %0[0, 1, 0, 0] [1, %h, %w, 4] [1, 2, 1, 1] : tensor<1x?x?x4xf32> into tensor<1x?x?x4xf32>
  %r = tensor.insert_slice %1 into %whole[0, 0, 0, 8] [1, %all, %w, 4] [1, 1, 1, 1] : tensor<1x?x?x4xf32> into tensor<1x?x?x12xf32>
  return %r : tensor<1x?x?x12xf32>
}

// They are not where something else reads them together, where quads of theirs are none of the tensor's, or
// where there is something before them.
// CHECK-LABEL: @read
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1]
// CHECK-LABEL: @unaligned
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 6] [1, 8, 8, 4] [1, 1, 1, 1]
// CHECK-LABEL: @updated
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1]
func.func @read(%even: tensor<1x4x8x4xf32>, %whole: tensor<1x8x8x12xf32>) -> (tensor<1x8x8x12xf32>, tensor<1x8x8x4xf32>) {
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %0 = tensor.insert_slice %even into %e[0, 0, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1] : tensor<1x4x8x4xf32> into tensor<1x8x8x4xf32>
  %r = tensor.insert_slice %0 into %whole[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1] : tensor<1x8x8x4xf32> into tensor<1x8x8x12xf32>
  return %r, %0 : tensor<1x8x8x12xf32>, tensor<1x8x8x4xf32>
}

func.func @unaligned(%even: tensor<1x4x8x4xf32>, %whole: tensor<1x8x8x12xf32>) -> tensor<1x8x8x12xf32> {
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %0 = tensor.insert_slice %even into %e[0, 0, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1] : tensor<1x4x8x4xf32> into tensor<1x8x8x4xf32>
  %r = tensor.insert_slice %0 into %whole[0, 0, 0, 6] [1, 8, 8, 4] [1, 1, 1, 1] : tensor<1x8x8x4xf32> into tensor<1x8x8x12xf32>
  return %r : tensor<1x8x8x12xf32>
}

func.func @updated(%even: tensor<1x4x8x4xf32>, %y: tensor<1x8x8x4xf32>, %whole: tensor<1x8x8x12xf32>) -> tensor<1x8x8x12xf32> {
  %0 = tensor.insert_slice %even into %y[0, 0, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1] : tensor<1x4x8x4xf32> into tensor<1x8x8x4xf32>
  %r = tensor.insert_slice %0 into %whole[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1] : tensor<1x8x8x4xf32> into tensor<1x8x8x12xf32>
  return %r : tensor<1x8x8x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Kernels for CPUs write no phases.
// CHECK-LABEL: @cpu
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1]
func.func @cpu(%even: tensor<1x4x8x4xf32>, %whole: tensor<1x8x8x12xf32>) -> tensor<1x8x8x12xf32> {
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %0 = tensor.insert_slice %even into %e[0, 0, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1] : tensor<1x4x8x4xf32> into tensor<1x8x8x4xf32>
  %r = tensor.insert_slice %0 into %whole[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1] : tensor<1x8x8x4xf32> into tensor<1x8x8x12xf32>
  return %r : tensor<1x8x8x12xf32>
}
