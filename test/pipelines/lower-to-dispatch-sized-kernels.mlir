// RUN: winograd-opt %s --winograd-select-algorithm --winograd-convert-conv --winograd-fold-filter --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "haswell", cpu_features = "+avx2,+fma",
    max_stack_allocation_size = 32768 : i64, native_vector_size = 32 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// One dispatch has a kernel for each range of tiles, here of four rows and columns, and as many workgroups as that one
// has. The filters of another algorithm are an operand more; nothing transforms them in a call.
// CHECK: stream.executable private @[[KERNEL:winograd_f4x4_3x3_anyxanyx8_from_16]]
// CHECK: %[[FEW:.*]] = arith.cmpi slt, %{{.*}}, %c9
// CHECK: %[[GRID:.*]] = arith.select %[[FEW]]
// CHECK: stream.return %[[GRID]]
// CHECK: func.func @[[KERNEL]](%{{.*}}: !stream.binding, %[[USUAL:.*]]: !stream.binding, %[[OTHER:.*]]: !stream.binding, %{{.*}}: index
// CHECK-DAG: %[[TILES:.*]] = stream.binding.subspan %[[USUAL]]{{.*}} -> memref<4608xf32>
// CHECK-DAG: %[[TAPS:.*]] = stream.binding.subspan %[[OTHER]]{{.*}} -> memref<1152xf32>
// CHECK: scf.if %{{.*}} {
// CHECK: vector.load %[[TAPS]]
// CHECK-NOT: vector.load %[[TILES]]
// CHECK: } else {
// CHECK: vector.load %[[TILES]]
// CHECK-LABEL: func.func @sized
// CHECK-SAME: (%[[IMAGE:.*]]: tensor<1x?x?x16xf32>)
// CHECK-DAG: %[[OF_TILES:.*]] = arith.constant dense_resource<{{.*}}> : tensor<1x36x16x8xf32>
// CHECK-DAG: %[[OF_TAPS:.*]] = arith.constant dense_resource<{{.*}}> : tensor<1x1x144x8xf32>
// CHECK-NOT: winograd.filter_transform
// CHECK: %[[RESULT:.*]] = flow.dispatch @[[KERNEL]]::@[[KERNEL]][{{.*}}](%[[IMAGE]], %[[OF_TILES]], %[[OF_TAPS]], {{.*}} -> tensor<1x?x?x8xf32>
// CHECK-NEXT: return %[[RESULT]]
func.func @sized(%x: tensor<1x?x?x16xf32>) -> tensor<1x?x?x8xf32> {
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
    winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>},
    winograd.expected_size = array<i64: 30, 30>,
    winograd.schedule = {channel_splits = 1 : i64, filter_prefetch = 96 : i64, kind = "winograd", reduction_block = 16 : i64, register_tiles = 6 : i64, register_vectors = 1 : i64, sum_registers = 1 : i64, tile_block = 12 : i64, vector_width = 8 : i64},
    winograd.schedule_ranges = [
      {algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}, below_tiles = 9 : i64, schedule = {kind = "depthwise", register_pixels = 6 : i64, row_block = 4 : i64, vector_width = 8 : i64, vectors_per_pass = 1 : i64, channel_splits = 1 : i64}, times = 5.0e-01 : f64},
      {schedule = {channel_splits = 1 : i64, filter_prefetch = 96 : i64, kind = "winograd", reduction_block = 16 : i64, register_tiles = 6 : i64, register_vectors = 1 : i64, sum_registers = 1 : i64, tile_block = 12 : i64, vector_width = 8 : i64}, times = 1.0 : f64}]
  } ins(%x, %f : tensor<1x?x?x16xf32>, tensor<3x3x16x8xf32>) outs(%z : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  return %r : tensor<1x?x?x8xf32>
}
