// RUN: winograd-opt --winograd-merge-projections --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "", wgp = <
    compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>
#matrix = affine_map<(i, j) -> (i, j)>
#vector = affine_map<(i, j) -> (j)>
#image = affine_map<(n, h, w, c) -> (n, h, w, c)>
#spread = affine_map<(n, h, w, c) -> (n, c)>

// Queries, keys and values of the same rows: their matrices and biases are side by side. Attention reads its heads where
// they lie.
// CHECK-LABEL: func.func @attended
// CHECK-SAME: (%[[X:.*]]: tensor<64x32xf32>)
// CHECK: %[[U:.*]] = arith.constant dense_resource<{{.*}}> : tensor<32x96xf32>
// CHECK: %[[P:.*]] = linalg.matmul ins(%[[X]], %[[U]] : tensor<64x32xf32>, tensor<32x96xf32>)
// CHECK: %[[C:.*]] = arith.constant dense_resource<{{.*}}> : tensor<96xf32>
// CHECK-NOT: linalg.matmul
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[C]] : tensor<64x96xf32>, tensor<96xf32>)
// CHECK: %[[R:.*]] = tensor.expand_shape %[[S]] {{\[\[}}0, 1], [2]] output_shape [1, 64, 96]
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[R]][0, 0, 0] [1, 64, 32] [1, 1, 1]
// CHECK: %[[K:.*]] = tensor.extract_slice %[[R]][0, 0, 32] [1, 64, 32] [1, 1, 1]
// CHECK: %[[V:.*]] = tensor.extract_slice %[[R]][0, 0, 64] [1, 64, 32] [1, 1, 1]
// CHECK: iree_linalg_ext.attention {{.*}} ins(%[[Q]], %[[K]], %[[V]],
func.func @attended(%x: tensor<64x32xf32>) -> tensor<1x64x32xf32> {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %wq = arith.constant dense<1.0> : tensor<32x32xf32>
  %wk = arith.constant dense<2.0> : tensor<32x32xf32>
  %wv = arith.constant dense<3.0> : tensor<32x32xf32>
  %bq = arith.constant dense<4.0> : tensor<32xf32>
  %bk = arith.constant dense<5.0> : tensor<32xf32>
  %bv = arith.constant dense<6.0> : tensor<32xf32>
  %e = tensor.empty() : tensor<64x32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<64x32xf32>) -> tensor<64x32xf32>
  %pq = linalg.matmul ins(%x, %wq : tensor<64x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<64x32xf32>) -> tensor<64x32xf32>
  %sq = linalg.generic {indexing_maps = [#matrix, #vector, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%pq, %bq : tensor<64x32xf32>, tensor<32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<64x32xf32>
  %pk = linalg.matmul ins(%x, %wk : tensor<64x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<64x32xf32>) -> tensor<64x32xf32>
  %sk = linalg.generic {indexing_maps = [#matrix, #vector, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%pk, %bk : tensor<64x32xf32>, tensor<32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<64x32xf32>
  %pv = linalg.matmul ins(%x, %wv : tensor<64x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<64x32xf32>) -> tensor<64x32xf32>
  %sv = linalg.generic {indexing_maps = [#matrix, #vector, #matrix], iterator_types = ["parallel", "parallel"]}
    ins(%pv, %bv : tensor<64x32xf32>, tensor<32xf32>) outs(%e : tensor<64x32xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<64x32xf32>
  %q = tensor.expand_shape %sq [[0, 1], [2]] output_shape [1, 64, 32] : tensor<64x32xf32> into tensor<1x64x32xf32>
  %k = tensor.expand_shape %sk [[0, 1], [2]] output_shape [1, 64, 32] : tensor<64x32xf32> into tensor<1x64x32xf32>
  %v = tensor.expand_shape %sv [[0, 1], [2]] output_shape [1, 64, 32] : tensor<64x32xf32> into tensor<1x64x32xf32>
  %o = tensor.empty() : tensor<1x64x32xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<1x64x32xf32>, tensor<1x64x32xf32>, tensor<1x64x32xf32>, f32) outs(%o : tensor<1x64x32xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<1x64x32xf32>
  return %y : tensor<1x64x32xf32>
}

// Left are products of other rows, and those that something else reads.
// CHECK-LABEL: func.func @left
// CHECK-COUNT-3: linalg.matmul
// CHECK-NOT: tensor.extract_slice
func.func @left(%x: tensor<64x32xf32>, %z: tensor<64x32xf32>) -> (tensor<1x64x32xf32>, tensor<1x64x32xf32>) {
  %scale = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %wq = arith.constant dense<1.0> : tensor<32x32xf32>
  %wk = arith.constant dense<2.0> : tensor<32x32xf32>
  %wv = arith.constant dense<3.0> : tensor<32x32xf32>
  %e = tensor.empty() : tensor<64x32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<64x32xf32>) -> tensor<64x32xf32>
  %pq = linalg.matmul ins(%x, %wq : tensor<64x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<64x32xf32>) -> tensor<64x32xf32>
  %pk = linalg.matmul ins(%z, %wk : tensor<64x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<64x32xf32>) -> tensor<64x32xf32>
  %pv = linalg.matmul ins(%x, %wv : tensor<64x32xf32>, tensor<32x32xf32>) outs(%zeros : tensor<64x32xf32>) -> tensor<64x32xf32>
  %q = tensor.expand_shape %pq [[0, 1], [2]] output_shape [1, 64, 32] : tensor<64x32xf32> into tensor<1x64x32xf32>
  %k = tensor.expand_shape %pk [[0, 1], [2]] output_shape [1, 64, 32] : tensor<64x32xf32> into tensor<1x64x32xf32>
  %v = tensor.expand_shape %pv [[0, 1], [2]] output_shape [1, 64, 32] : tensor<64x32xf32> into tensor<1x64x32xf32>
  %o = tensor.empty() : tensor<1x64x32xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<1x64x32xf32>, tensor<1x64x32xf32>, tensor<1x64x32xf32>, f32) outs(%o : tensor<1x64x32xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<1x64x32xf32>
  return %y, %v : tensor<1x64x32xf32>, tensor<1x64x32xf32>
}

// Vectors that are added to images, as a diffusion model's embedding of the time step is in each block.
// CHECK-LABEL: func.func @added
// CHECK-SAME: (%[[X:.*]]: tensor<2x32xf32>
// CHECK: %[[P:.*]] = linalg.matmul ins(%[[X]], %{{.*}} : tensor<2x32xf32>, tensor<32x24xf32>)
// CHECK: %[[V:.*]] = tensor.extract_slice %[[P]][0, 0] [2, 8] [1, 1]
// CHECK: %[[W:.*]] = tensor.extract_slice %[[P]][0, 8] [2, 16] [1, 1]
// CHECK-NOT: linalg.matmul
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[V]] : tensor<2x5x5x8xf32>, tensor<2x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[W]] : tensor<2x5x5x16xf32>, tensor<2x16xf32>)
func.func @added(%x: tensor<2x32xf32>, %y: tensor<2x5x5x8xf32>, %z: tensor<2x5x5x16xf32>) -> (tensor<2x5x5x8xf32>, tensor<2x5x5x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %v = arith.constant dense<1.0> : tensor<32x8xf32>
  %w = arith.constant dense<2.0> : tensor<32x16xf32>
  %ev = tensor.empty() : tensor<2x8xf32>
  %zv = linalg.fill ins(%zero : f32) outs(%ev : tensor<2x8xf32>) -> tensor<2x8xf32>
  %pv = linalg.matmul ins(%x, %v : tensor<2x32xf32>, tensor<32x8xf32>) outs(%zv : tensor<2x8xf32>) -> tensor<2x8xf32>
  %ew = tensor.empty() : tensor<2x16xf32>
  %zw = linalg.fill ins(%zero : f32) outs(%ew : tensor<2x16xf32>) -> tensor<2x16xf32>
  %pw = linalg.matmul ins(%x, %w : tensor<2x32xf32>, tensor<32x16xf32>) outs(%zw : tensor<2x16xf32>) -> tensor<2x16xf32>
  %ey = tensor.empty() : tensor<2x5x5x8xf32>
  %sy = linalg.generic {indexing_maps = [#image, #spread, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %pv : tensor<2x5x5x8xf32>, tensor<2x8xf32>) outs(%ey : tensor<2x5x5x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x5x5x8xf32>
  %ez = tensor.empty() : tensor<2x5x5x16xf32>
  %sz = linalg.generic {indexing_maps = [#image, #spread, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%z, %pw : tensor<2x5x5x16xf32>, tensor<2x16xf32>) outs(%ez : tensor<2x5x5x16xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x5x5x16xf32>
  return %sy, %sz : tensor<2x5x5x8xf32>, tensor<2x5x5x16xf32>
}
