// RUN: winograd-opt %s --winograd-select-algorithm --winograd-convert-conv --winograd-fold-filter --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

// Kernels of a range may be of another algorithm, whose filters are packed beside those of the convolution's own: nothing
// transforms them in a call. Tiles are counted that are the convolution's, of two rows and columns.
// CHECK-LABEL: func.func @ranges
// CHECK-SAME: (%[[IMAGE:.*]]: tensor<1x?x?x16xf32>)
// CHECK-NOT: winograd.filter_transform
// CHECK: %[[OF_TAPS:.*]] = arith.constant dense_resource<{{.*}}> : tensor<1x144x32xf32>
// CHECK: %[[FEW:.*]] = flow.dispatch @[[DIRECT:winograd_direct_f1x1_3x3_anyxanyx8_from_16]]::@[[DIRECT]][{{.*}}](%[[IMAGE]], %[[OF_TAPS]], {{.*}} -> tensor<1x?x?x8xf32>
// CHECK: %[[TILES:.*]] = flow.dispatch @winograd_input_f2x2_3x3_{{.*}}](%[[IMAGE]],
// CHECK: %[[OF_TILES:.*]] = arith.constant dense_resource<{{.*}}> : tensor<16x16x32xf32>
// CHECK: %[[PRODUCTS:.*]] = flow.dispatch @winograd_products_f2x2_3x3_{{.*}}](%[[TILES]], %[[OF_TILES]],
// CHECK: %[[MANY:.*]] = flow.dispatch @winograd_output_f2x2_3x3_{{.*}}](%[[PRODUCTS]], %[[FEW]], {{.*}} -> %[[FEW]]{
// CHECK-NEXT: return %[[MANY]]
func.func @ranges(%x: tensor<1x?x?x16xf32>) -> tensor<1x?x?x8xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x16xf32>
  %w = tensor.dim %x, %c2 : tensor<1x?x?x16xf32>
  %less_h = arith.subi %h, %c2 : index
  %less_w = arith.subi %w, %c2 : index
  %f = arith.constant dense<1.0> : tensor<3x3x16x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%less_h, %less_w) : tensor<1x?x?x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {
    winograd.algorithm = {output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>},
    winograd.expected_size = array<i64: 30, 30>,
    winograd.schedule = {block_columns = 32 : i64, block_reduction = 16 : i64, block_rows = 64 : i64, kind = "gemm", thread_columns = 4 : i64, thread_rows = 8 : i64},
    winograd.schedule_ranges = [
      {algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}, below_tiles = 49 : i64, schedule = {block_columns = 32 : i64, block_reduction = 16 : i64, block_rows = 32 : i64, kind = "gemm", thread_columns = 4 : i64, thread_rows = 4 : i64}, times = 5.0e-01 : f64},
      {schedule = {block_columns = 32 : i64, block_reduction = 16 : i64, block_rows = 64 : i64, kind = "gemm", thread_columns = 4 : i64, thread_rows = 8 : i64}, times = 1.0 : f64}]
  } ins(%x, %f : tensor<1x?x?x16xf32>, tensor<3x3x16x8xf32>) outs(%z : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  return %r : tensor<1x?x?x8xf32>
}
