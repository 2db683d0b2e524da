// RUN: winograd-opt --winograd-select-algorithm --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-select-algorithm --split-input-file --verify-diagnostics %s

// The gradient of a filter is a layer of a kind of its own, with tiles and a schedule of its kernel.
// CHECK-LABEL: @chosen
// CHECK: winograd.algorithm = {output_tile = array<i64: {{[2-6]}}>, part_size = array<i64: 3>}
// CHECK-SAME: winograd.origin = {kind = "weight gradient", number = 0 : i64, pass = "winograd-select-algorithm"}
// CHECK-SAME: winograd.schedule = {{{.*}}kind = "weight-gradient"
#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @chosen(%x: tensor<8x66x32xf32>, %y: tensor<8x64x48xf32>) -> tensor<3x32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x32x48xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<3x32x48xf32>) -> tensor<3x32x48xf32>
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<8x66x32xf32>, tensor<8x64x48xf32>) outs(%w : tensor<3x32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x32x48xf32>
  return %r : tensor<3x32x48xf32>
}

// -----

// CHECK-LABEL: @dynamic_batch
// CHECK: linalg.generic
// CHECK-SAME: winograd.schedule = {{{.*}}kind = "weight-gradient"{{.*}}tile_slices = {{[0-9]+}}
#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @dynamic_batch(%x: tensor<?x66x32xf32>, %y: tensor<?x64x48xf32>) -> tensor<3x32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x32x48xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<3x32x48xf32>) -> tensor<3x32x48xf32>
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<?x66x32xf32>, tensor<?x64x48xf32>) outs(%w : tensor<3x32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x32x48xf32>
  return %r : tensor<3x32x48xf32>
}

// -----

// CHECK-LABEL: @dynamic_taps
// CHECK-NOT: winograd
#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @dynamic_taps(%x: tensor<8x?x32xf32>, %y: tensor<8x64x48xf32>, %w: tensor<?x32x48xf32>)
    -> tensor<?x32x48xf32> {
  // expected-remark @below {{weight gradient 0 left as it is: its filter has a dynamic dimension other than the batch and those of images}}
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<8x?x32xf32>, tensor<8x64x48xf32>) outs(%w : tensor<?x32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<?x32x48xf32>
  return %r : tensor<?x32x48xf32>
}

// -----

// A vector has channels of several groups, so that nothing is multiplied as matrices.
// CHECK-LABEL: @depthwise
// CHECK: linalg.generic
// CHECK-SAME: winograd.schedule = {{{.*}}kind = "depthwise-weight-gradient"
func.func @depthwise(%x: tensor<8x66x32x1xf32>, %y: tensor<8x64x32x1xf32>) -> tensor<3x1x32x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x1x32x1xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<3x1x32x1xf32>) -> tensor<3x1x32x1xf32>
  %r = linalg.generic {indexing_maps = [
      affine_map<(g, k, c, r, n, o) -> (n, o + r, g, c)>, affine_map<(g, k, c, r, n, o) -> (n, o, g, k)>,
      affine_map<(g, k, c, r, n, o) -> (r, c, g, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<8x66x32x1xf32>, tensor<8x64x32x1xf32>) outs(%w : tensor<3x1x32x1xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x1x32x1xf32>
  return %r : tensor<3x1x32x1xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [
  #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "", features = "spirv:v1.6,cap:Shader",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [8],
      max_workgroup_sizes = [256, 256, 256], max_thread_count_per_workgroup = 256, max_workgroup_memory_bytes = 32768,
      max_workgroup_counts = [65535, 65535, 65535]>>}>
]> : !hal.device

// CHECK-LABEL: @on_a_gpu
// CHECK: winograd.algorithm
// CHECK-SAME: winograd.schedule = {{{.*}}kind = "multiply-add-weight-gradient"{{.*}}tile_block = {{[0-9]+}}
#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @on_a_gpu(%x: tensor<8x66x32xf32>, %y: tensor<8x64x48xf32>) -> tensor<3x32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x32x48xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<3x32x48xf32>) -> tensor<3x32x48xf32>
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<8x66x32xf32>, tensor<8x64x48xf32>) outs(%w : tensor<3x32x48xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x32x48xf32>
  return %r : tensor<3x32x48xf32>
}
