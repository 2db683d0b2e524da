// RUN: winograd-opt %s --winograd-convert-conv --winograd-fuse-epilogue --winograd-fold-filter --winograd-assign-schedule --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Layers of one shape with equal epilogues have one kernel, in whatever order values come in the program. A
// predicate of an epilogue's makes another one.
// CHECK: stream.executable private @[[OTHER:winograd_f1x1_1x1_4x4x16_from_16_1]]
// CHECK: stream.executable private @[[KERNEL:winograd_f1x1_1x1_4x4x16_from_16]]
// CHECK-NOT: stream.executable private
// CHECK: flow.dispatch @[[KERNEL]]::@[[KERNEL]]
// CHECK: flow.dispatch @[[KERNEL]]::@[[KERNEL]]
// CHECK: flow.dispatch @[[OTHER]]::@[[OTHER]]
func.func @layers(%x: tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> {
  %w = arith.constant dense<0.5> : tensor<1x1x16x16xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x4x4x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %a = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}}
    ins(%x, %w : tensor<1x4x4x16xf32>, tensor<1x1x16x16xf32>)
    outs(%zeros : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %b = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%a : tensor<1x4x4x16xf32>) outs(%empty : tensor<1x4x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %is_positive = arith.cmpf ugt, %in, %zero : f32
    %rectified = arith.select %is_positive, %in, %zero : f32
    linalg.yield %rectified : f32
  } -> tensor<1x4x4x16xf32>
  %c = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}}
    ins(%b, %w : tensor<1x4x4x16xf32>, tensor<1x1x16x16xf32>)
    outs(%zeros : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %d = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c : tensor<1x4x4x16xf32>) outs(%empty : tensor<1x4x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %is_positive = arith.cmpf ugt, %in, %zero : f32
    %rectified = arith.select %is_positive, %in, %zero : f32
    linalg.yield %rectified : f32
  } -> tensor<1x4x4x16xf32>
  %e = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}}
    ins(%d, %w : tensor<1x4x4x16xf32>, tensor<1x1x16x16xf32>)
    outs(%zeros : tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %f = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%e : tensor<1x4x4x16xf32>) outs(%empty : tensor<1x4x4x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %is_positive = arith.cmpf ult, %in, %zero : f32
    %rectified = arith.select %is_positive, %in, %zero : f32
    linalg.yield %rectified : f32
  } -> tensor<1x4x4x16xf32>
  return %f : tensor<1x4x4x16xf32>
}
