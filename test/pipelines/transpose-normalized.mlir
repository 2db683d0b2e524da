// RUN: winograd-opt --winograd-transpose-normalized --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "znver4", cpu_features = "+avx2,+fma,+f16c,+avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#image = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#channel = affine_map<(d0, d1, d2, d3) -> (d0, d1)>

// All that reads the argument reads what a kernel made channels last of it, behind the other argument.
// CHECK-LABEL: @normalized
// CHECK: %[[X:.*]] = hal.tensor.import %arg0
// CHECK-NEXT: hal.tensor.import %arg1
// CHECK: %[[L:.*]] = flow.dispatch @winograd_channels_last_64x16::@winograd_channels_last_64x16(%[[X]]) : (tensor<1x16x8x8xf32>) -> tensor<1x8x8x16xf32>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[L]] : tensor<1x8x8x16xf32>) {{.*}} permutation = [0, 3, 1, 2]
// CHECK: linalg.generic {{.*}} ins(%[[T]] : tensor<1x16x8x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[T]], %{{.*}} : tensor<1x16x8x8xf32>, tensor<1x16xf32>)
util.func public @normalized(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> tensor<1x8x6x6xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x16x8x8xf32>
  %w = hal.tensor.import %arg1 : !hal.buffer_view -> tensor<8x16x3x3xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x : tensor<1x16x8x8xf32>) outs(%zeros : tensor<1x16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<1x16xf32>
  %f = tensor.empty() : tensor<1x16x8x8xf32>
  %y = linalg.generic {indexing_maps = [#image, #channel, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %s : tensor<1x16x8x8xf32>, tensor<1x16xf32>) outs(%f : tensor<1x16x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %difference = arith.subf %a, %b : f32
    linalg.yield %difference : f32
  } -> tensor<1x16x8x8xf32>
  %o = tensor.empty() : tensor<1x8x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%o : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%y, %w : tensor<1x16x8x8xf32>, tensor<8x16x3x3xf32>) outs(%init : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  util.return %r : tensor<1x8x6x6xf32>
}

// Kernels read an image channels first of which nothing else is made.
// CHECK-LABEL: @convolved
// CHECK-NOT: flow.dispatch
util.func public @convolved(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view) -> tensor<1x8x6x6xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x16x8x8xf32>
  %w = hal.tensor.import %arg1 : !hal.buffer_view -> tensor<8x16x3x3xf32>
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<1x8x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%o : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x16x8x8xf32>, tensor<8x16x3x3xf32>) outs(%init : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  util.return %r : tensor<1x8x6x6xf32>
}
