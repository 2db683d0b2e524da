// RUN: winograd-opt --winograd-reduce-by-lanes --mlir-print-local-scope %s | filecheck %s

#image = affine_map<(n, g, p, c) -> (n, p, g, c)>
#group = affine_map<(n, g, p, c) -> (n, g)>
#row = affine_map<(r, c) -> (r, c)>
#total = affine_map<(r, c) -> (r)>
#shared = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [640, 1, 1] subgroup_size = 32>
#of_rows = #iree_codegen.translation_info<pipeline = #iree_gpu.pipeline<VectorDistribute> workgroup_size = [256, 1, 1] subgroup_size = 32>

// Two lanes can't read the sums of five subgroups: one subgroup takes all, and its lanes 16 pixels at a time.
// CHECK-LABEL: func.func @groups
// CHECK-SAME: workgroup_size = [32, 1, 1]
// CHECK: lane_basis = {{\[}}[1, 1, 16, 2], [0, 1, 2, 3]], partial_reduction = [0, 0, 16, 40], subgroup_basis = {{\[}}[1, 1, 1, 1], [0, 1, 2, 3]], thread = [0, 0, 1, 4], workgroup = [1, 1, 0, 0]
func.func @groups(%x: tensor<2x64x32x40xf32>, %zeros: tensor<2x32xf32>) -> tensor<2x32xf32> attributes {translation_info = #shared} {
  %s = linalg.generic {indexing_maps = [#image, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x : tensor<2x64x32x40xf32>) outs(%zeros : tensor<2x32xf32>) attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 1, 2], [0, 1, 2, 3]], partial_reduction = [0, 0, 1, 40], subgroup_basis = [[1, 1, 1, 5], [0, 1, 2, 3]], thread = [0, 0, 1, 4], workgroup = [1, 1, 0, 0]}>} {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2x32xf32>
  return %s : tensor<2x32xf32>
}

// A thread holds a part of 125 vectors at a time, and rows of pixels whose number is odd have no lanes.
// CHECK-LABEL: func.func @long
// CHECK: lane_basis = {{\[}}[1, 1, 1, 4], [0, 1, 2, 3]], partial_reduction = [0, 0, 1, 80], subgroup_basis = {{\[}}[1, 1, 1, 1], [0, 1, 2, 3]], thread = [0, 0, 1, 4]
func.func @long(%x: tensor<2x7x32x2000xf32>, %zeros: tensor<2x32xf32>) -> tensor<2x32xf32> attributes {translation_info = #shared} {
  %s = linalg.generic {indexing_maps = [#image, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x : tensor<2x7x32x2000xf32>) outs(%zeros : tensor<2x32xf32>) attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 1, 1, 4], [0, 1, 2, 3]], partial_reduction = [0, 0, 1, 2000], subgroup_basis = [[1, 1, 1, 125], [0, 1, 2, 3]], thread = [0, 0, 1, 4], workgroup = [1, 1, 0, 0]}>} {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2x32xf32>
  return %s : tensor<2x32xf32>
}

// As many lanes as subgroups: nothing is lost.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: workgroup_size = [256, 1, 1]
// CHECK: lane_basis = {{\[}}[1, 32], [0, 1]], partial_reduction = [0, 1024], subgroup_basis = {{\[}}[1, 8], [0, 1]], thread = [0, 4]
func.func @rows(%x: tensor<2x5120xf32>, %zeros: tensor<2xf32>) -> tensor<2xf32> attributes {translation_info = #of_rows} {
  %s = linalg.generic {indexing_maps = [#row, #total], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x5120xf32>) outs(%zeros : tensor<2xf32>) attrs = {lowering_config = #iree_gpu.lowering_config<{lane_basis = [[1, 32], [0, 1]], partial_reduction = [0, 1024], subgroup_basis = [[1, 8], [0, 1]], thread = [0, 4], workgroup = [1, 0]}>} {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2xf32>
  return %s : tensor<2xf32>
}

// Other configurations aren't of lanes.
// CHECK-LABEL: func.func @others
// CHECK: lowering_config = #iree_codegen.lowering_config<tile_sizes = {{\[}}[1], [0, 2048]]>
func.func @others(%x: tensor<2x5120xf32>, %zeros: tensor<2xf32>) -> tensor<2xf32> {
  %s = linalg.generic {indexing_maps = [#row, #total], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x5120xf32>) outs(%zeros : tensor<2xf32>) attrs = {lowering_config = #iree_codegen.lowering_config<tile_sizes = [[1], [0, 2048]]>} {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2xf32>
  return %s : tensor<2xf32>
}
