// RUN: winograd-opt --winograd-distribute-rows --mlir-print-local-scope %s | filecheck %s

#pixels = affine_map<(h, w, c) -> (h, w, c)>
#elements = affine_map<(w, c) -> (w, c)>

// A workgroup has 128 pixels of a row, 4096 elements, in place of 64 rows by 64 columns.
// CHECK-LABEL: func.func @rows
// CHECK: lowering_config = #iree_cpu.lowering_config<distribution = [1, 128, 32], vector_common_parallel = [1, 1, 16]>
func.func @rows(%x: memref<?x?x32xf32>, %y: memref<?x?x32xf32, strided<[?, 64, 1], offset: ?>>) {
  linalg.generic {indexing_maps = [#pixels, #pixels], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<?x?x32xf32>) outs(%y : memref<?x?x32xf32, strided<[?, 64, 1], offset: ?>>) attrs = {lowering_config = #iree_cpu.lowering_config<distribution = [64, 64, 16], vector_common_parallel = [1, 1, 16]>} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// Channels that are no whole vectors stay divided as they were.
// CHECK-LABEL: func.func @odd
// CHECK: distribution = [1, 256, 16], vector_common_parallel = [1, 1, 16]
func.func @odd(%x: memref<?x?x21xf32>, %y: memref<?x?x21xf32>) {
  linalg.generic {indexing_maps = [#pixels, #pixels], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<?x?x21xf32>) outs(%y : memref<?x?x21xf32>) attrs = {lowering_config = #iree_cpu.lowering_config<distribution = [64, 64, 16], vector_common_parallel = [1, 1, 16]>} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// What IREE takes no vectors of, whose width it has as 0, is divided by elements.
// CHECK-LABEL: func.func @no_vectors
// CHECK: distribution = [1, 2048, 2], vector_common_parallel = [1, 1, 0]
func.func @no_vectors(%x: memref<?x?x2xf32>, %y: memref<?x?x2xf32>) {
  linalg.generic {indexing_maps = [#pixels, #pixels], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<?x?x2xf32>) outs(%y : memref<?x?x2xf32>) attrs = {lowering_config = #iree_cpu.lowering_config<distribution = [64, 64, 0], vector_common_parallel = [1, 1, 0]>} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// IREE divides by what it knows.
// CHECK-LABEL: func.func @known
// CHECK: distribution = [4, 40, 32]
func.func @known(%x: memref<48x40x32xf32>, %y: memref<48x40x32xf32>) {
  linalg.generic {indexing_maps = [#pixels, #pixels], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<48x40x32xf32>) outs(%y : memref<48x40x32xf32>) attrs = {lowering_config = #iree_cpu.lowering_config<distribution = [4, 40, 32], vector_common_parallel = [1, 1, 16]>} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// One dimension is divided by 256 already.
// CHECK-LABEL: func.func @row
// CHECK: distribution = [256, 16]
func.func @row(%x: memref<?x32xf32>, %y: memref<?x32xf32>) {
  linalg.generic {indexing_maps = [#elements, #elements], iterator_types = ["parallel", "parallel"]} ins(%x : memref<?x32xf32>) outs(%y : memref<?x32xf32>) attrs = {lowering_config = #iree_cpu.lowering_config<distribution = [256, 16], vector_common_parallel = [1, 16]>} {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}
