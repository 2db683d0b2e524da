// RUN: winograd-opt --winograd-copy-inserted --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#same = affine_map<(n, p, c) -> (n, p, c)>

// What a kernel computed is copied by one, what lies in one piece and what IREE computes isn't.
// CHECK-LABEL: func.func @pixels
// CHECK: %[[X:.*]] = flow.dispatch @other::@other
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[X]]
// CHECK: %[[W:.*]] = flow.dispatch @winograd_inserted_2x6400x16::@winograd_inserted_2x6400x16(%[[C]]) : (tensor<2x6400x16xf32>) -> tensor<2x12800x16xf32>
// CHECK: tensor.insert_slice %{{.*}} into %[[W]][0, 6400, 0] [2, 6400, 16] [1, 1, 1]
// CHECK: tensor.insert_slice %[[C]] into %{{.*}}[1, 0, 0] [2, 6400, 16] [1, 1, 1]
func.func @pixels(%image: tensor<2x80x80x4xf32>, %s: tensor<2x6400x16xf32>, %v: tensor<4x6400x16xf32>) -> (tensor<2x12800x16xf32>, tensor<4x6400x16xf32>) {
  %x = flow.dispatch @other::@other(%image) : (tensor<2x80x80x4xf32>) -> tensor<2x80x80x16xf32>
  %c = tensor.collapse_shape %x [[0], [1, 2], [3]] : tensor<2x80x80x16xf32> into tensor<2x6400x16xf32>
  %e = tensor.empty() : tensor<2x6400x16xf32>
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x6400x16xf32>) outs(%e : tensor<2x6400x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<2x6400x16xf32>
  %r = tensor.concat dim(1) %c, %y : (tensor<2x6400x16xf32>, tensor<2x6400x16xf32>) -> tensor<2x12800x16xf32>
  %i = tensor.insert_slice %c into %v[1, 0, 0] [2, 6400, 16] [1, 1, 1] : tensor<2x6400x16xf32> into tensor<4x6400x16xf32>
  return %r, %i : tensor<2x12800x16xf32>, tensor<4x6400x16xf32>
}
