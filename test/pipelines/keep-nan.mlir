// RUN: winograd-opt --winograd-keep-nan --split-input-file %s | filecheck %s

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device

// CHECK-LABEL: @clamp
// CHECK: ^bb0(%[[X:[^:]*]]: f32, %[[BOUND:[^:]*]]: f32, %{{[^:]*}}: f32):
// CHECK-NEXT: %[[LARGER:.*]] = arith.cmpf ugt, %[[X]], %[[BOUND]] : f32
// CHECK-NEXT: %[[MAXIMUM:.*]] = arith.select %[[LARGER]], %[[X]], %[[BOUND]] : f32
// CHECK-NEXT: %[[IS_NAN:.*]] = arith.cmpf uno, %[[BOUND]], %[[BOUND]] : f32
// CHECK-NEXT: %[[KEPT:.*]] = arith.select %[[IS_NAN]], %[[BOUND]], %[[MAXIMUM]] : f32
// CHECK-NEXT: arith.cmpf ult, %[[KEPT]], %[[BOUND]] : f32
// CHECK-NOT: arith.m{{ax|in}}imumf
util.func public @clamp(%x: tensor<8xf32>, %bound: tensor<8xf32>) -> tensor<8xf32> {
  %empty = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %bound : tensor<8xf32>, tensor<8xf32>) outs(%empty : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %unused: f32):
    %maximum = arith.maximumf %a, %b : f32
    %minimum = arith.minimumf %maximum, %b : f32
    linalg.yield %minimum : f32
  } -> tensor<8xf32>
  util.return %r : tensor<8xf32>
}

// -----

#ampere = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#ampere]> : !hal.device

// IREE's code for other targets keeps NaN.
// CHECK-LABEL: @relu
// CHECK: arith.maximumf
util.func public @relu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%empty : tensor<8xf32>) {
  ^bb0(%a: f32, %unused: f32):
    %maximum = arith.maximumf %a, %zero : f32
    linalg.yield %maximum : f32
  } -> tensor<8xf32>
  util.return %r : tensor<8xf32>
}
