// RUN: winograd-opt %s --winograd-convert-conv --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

// A kernel for each range of tiles, here pixels: for others it has no workgroups. The second one has the result of the
// first, which one of them writes.
// CHECK: stream.executable private @[[LARGE:winograd_direct_[^ ]*]] {
// CHECK: %[[MANY:.*]] = arith.cmpi sge, %{{.*}}, %c100
// CHECK: %[[GRID:.*]] = arith.select %[[MANY]], %{{.*}}, %c0
// CHECK: stream.return %[[GRID]]
// CHECK: stream.executable private @[[SMALL:winograd_direct_[^ ]*]] {
// CHECK: %[[FEW:.*]] = arith.cmpi slt, %{{.*}}, %c100
// CHECK: %[[GRID:.*]] = arith.select %[[FEW]], %{{.*}}, %c0
// CHECK: stream.return %[[GRID]]
// CHECK-LABEL: func.func @ranges
// CHECK-SAME: (%[[IMAGE:.*]]: tensor<1x?x?x16xf32>)
// CHECK: %[[FIRST:.*]] = flow.dispatch @[[SMALL]]::@[[SMALL]][{{.*}}](%[[IMAGE]], {{.*}} -> tensor<1x?x?x8xf32>
// CHECK: %[[SECOND:.*]] = flow.dispatch @[[LARGE]]::@[[LARGE]][{{.*}}](%[[IMAGE]], %{{.*}}, %[[FIRST]], {{.*}} -> %[[FIRST]]{
// CHECK: return %[[SECOND]]
func.func @ranges(%x: tensor<1x?x?x16xf32>) -> tensor<1x?x?x8xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x16xf32>
  %w = tensor.dim %x, %c2 : tensor<1x?x?x16xf32>
  %f = arith.constant dense<1.0> : tensor<1x1x16x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%h, %w) : tensor<1x?x?x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {
    winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>},
    winograd.expected_size = array<i64: 14, 14>,
    winograd.schedule = {block_columns = 32 : i64, block_reduction = 16 : i64, block_rows = 64 : i64, kind = "gemm", thread_columns = 4 : i64, thread_rows = 8 : i64},
    winograd.schedule_ranges = [
      {below_tiles = 100 : i64, schedule = {block_columns = 32 : i64, block_reduction = 16 : i64, block_rows = 32 : i64, kind = "gemm", thread_columns = 4 : i64, thread_rows = 4 : i64}, times = 5.0e-01 : f64},
      {schedule = {block_columns = 32 : i64, block_reduction = 16 : i64, block_rows = 64 : i64, kind = "gemm", thread_columns = 4 : i64, thread_rows = 8 : i64}, times = 1.0 : f64}]
  } ins(%x, %f : tensor<1x?x?x16xf32>, tensor<1x1x16x8xf32>) outs(%z : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  return %r : tensor<1x?x?x8xf32>
}
