// RUN: winograd-opt --winograd-move-resizing %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#identity = affine_map<(n, h, w, c) -> (n, h, w, c)>

// Of a concatenation each resolution has a convolution of its own; those at the full one are one.
// CHECK-LABEL: func.func @concatenated
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x4x64xf32>, %[[Y:.*]]: tensor<1x8x8x16xf32>, %[[Z:.*]]: tensor<1x8x8x8xf32>)
// CHECK-DAG: %[[F:.*]] = arith.constant dense_resource<f>
// CHECK: %[[G:.*]] = tensor.extract_slice %[[F]][0, 0, 0, 0] [1, 1, 64, 32]
// CHECK: %[[E:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[X]], %[[G]] : {{.*}} -> tensor<1x4x4x32xf32>
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: tensor.extract %[[E]]
// CHECK: %[[C:.*]] = tensor.concat dim(3) %[[Y]], %[[Z]]
// CHECK: %[[H:.*]] = tensor.extract_slice %[[F]][0, 0, 64, 0] [1, 1, 24, 32]
// CHECK: %[[D:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[C]], %[[H]] : {{.*}} -> tensor<1x8x8x32xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[R]], %[[D]] :
// CHECK: arith.addf
// CHECK: return %[[S]]
func.func @concatenated(%x: tensor<1x4x4x64xf32>, %y: tensor<1x8x8x16xf32>, %z: tensor<1x8x8x8xf32>) -> tensor<1x8x8x32xf32> {
  %f = arith.constant dense_resource<f> : tensor<1x1x88x32xf32>
  %zero = arith.constant 0.0 : f32
  %table = arith.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi32>
  %e = tensor.empty() : tensor<1x8x8x64xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x8x8x64xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = tensor.extract %table[%h] : tensor<8xi32>
    %j = tensor.extract %table[%w] : tensor<8xi32>
    %row = arith.index_cast %i : i32 to index
    %column = arith.index_cast %j : i32 to index
    %p = tensor.extract %x[%n, %row, %column, %c] : tensor<1x4x4x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x8x8x64xf32>
  %a = tensor.concat dim(3) %r, %y, %z : (tensor<1x8x8x64xf32>, tensor<1x8x8x16xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x88xf32>
  %e1 = tensor.empty() : tensor<1x8x8x32xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf ins(%a, %f : tensor<1x8x8x88xf32>, tensor<1x1x88x32xf32>) outs(%z1 : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  return %k : tensor<1x8x8x32xf32>
}

// Something else reads the larger image; that of the second one is made smaller.
// CHECK-LABEL: func.func @left
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} -> tensor<1x8x8x32xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} -> tensor<1x2x2x32xf32>
// CHECK-NOT: arith.addf
func.func @left(%x: tensor<1x4x4x64xf32>) -> (tensor<1x8x8x32xf32>, tensor<1x8x8x64xf32>, tensor<1x2x2x32xf32>) {
  %f = arith.constant dense_resource<g> : tensor<1x1x64x32xf32>
  %zero = arith.constant 0.0 : f32
  %table = arith.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi32>
  %fewer = arith.constant dense<[0, 2]> : tensor<2xi32>
  %e = tensor.empty() : tensor<1x8x8x64xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x8x8x64xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = tensor.extract %table[%h] : tensor<8xi32>
    %row = arith.index_cast %i : i32 to index
    %j = tensor.extract %table[%w] : tensor<8xi32>
    %column = arith.index_cast %j : i32 to index
    %p = tensor.extract %x[%n, %row, %column, %c] : tensor<1x4x4x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x8x8x64xf32>
  %e1 = tensor.empty() : tensor<1x8x8x32xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf ins(%r, %f : tensor<1x8x8x64xf32>, tensor<1x1x64x32xf32>) outs(%z1 : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %e2 = tensor.empty() : tensor<1x2x2x64xf32>
  %s = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e2 : tensor<1x2x2x64xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = tensor.extract %fewer[%h] : tensor<2xi32>
    %row = arith.index_cast %i : i32 to index
    %j = tensor.extract %fewer[%w] : tensor<2xi32>
    %column = arith.index_cast %j : i32 to index
    %p = tensor.extract %x[%n, %row, %column, %c] : tensor<1x4x4x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x2x2x64xf32>
  %e3 = tensor.empty() : tensor<1x2x2x32xf32>
  %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<1x2x2x32xf32>) -> tensor<1x2x2x32xf32>
  %l = linalg.conv_2d_nhwc_hwcf ins(%s, %f : tensor<1x2x2x64xf32>, tensor<1x1x64x32xf32>) outs(%z3 : tensor<1x2x2x32xf32>) -> tensor<1x2x2x32xf32>
  return %k, %r, %l : tensor<1x8x8x32xf32>, tensor<1x8x8x64xf32>, tensor<1x2x2x32xf32>
}

#row = affine_map<(n, h, w, c) -> (h)>
#channel = affine_map<(n, h, w, c) -> (c)>

// Rows are resized, and then columns, by operations of their own: both together, behind the convolution.
// CHECK-LABEL: func.func @rows_first
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x4x64xf32>)
// CHECK: %[[E:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[X]], {{.*}} -> tensor<1x4x4x32xf32>
// CHECK: linalg.generic
// CHECK: tensor.extract %[[E]]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @rows_first(%x: tensor<1x4x4x64xf32>) -> tensor<1x8x8x32xf32> {
  %f = arith.constant dense_resource<g> : tensor<1x1x64x32xf32>
  %zero = arith.constant 0.0 : f32
  %table = arith.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi32>
  %e = tensor.empty() : tensor<1x8x4x64xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x8x4x64xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = tensor.extract %table[%h] : tensor<8xi32>
    %row = arith.index_cast %i : i32 to index
    %p = tensor.extract %x[%n, %row, %w, %c] : tensor<1x4x4x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x8x4x64xf32>
  %e1 = tensor.empty() : tensor<1x8x8x64xf32>
  %s = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e1 : tensor<1x8x8x64xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %j = tensor.extract %table[%w] : tensor<8xi32>
    %column = arith.index_cast %j : i32 to index
    %p = tensor.extract %r[%n, %h, %column, %c] : tensor<1x8x4x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x8x8x64xf32>
  %e2 = tensor.empty() : tensor<1x8x8x32xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf ins(%s, %f : tensor<1x8x8x64xf32>, tensor<1x1x64x32xf32>) outs(%z2 : tensor<1x8x8x32xf32>) -> tensor<1x8x8x32xf32>
  return %k : tensor<1x8x8x32xf32>
}

// Rows are at positions that the program computes. A bias is added before: each row is one of the image's.
// CHECK-LABEL: func.func @open
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8x64xf32>, %[[ROWS:.*]]: tensor<?xi64>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<32xf32>) outs(%{{.*}} : tensor<1x?x8x32xf32>)
// CHECK: %[[E:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}}winograd.expected_size = array<i64: 224, 8>{{.*}} ins(%[[X]], {{.*}} outs(%[[B]]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[ROWS]] : tensor<?xi64>) outs(%{{.*}} : tensor<1x?x8x32xf32>)
// CHECK: tensor.extract %[[E]]
// CHECK: return %[[R]]
func.func @open(%x: tensor<1x?x8x64xf32>, %rows: tensor<?xi64>) -> tensor<1x?x8x32xf32> {
  %f = arith.constant dense_resource<h> : tensor<1x1x64x32xf32>
  %bias = arith.constant dense<1.0> : tensor<32xf32>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x8x64xf32>
  %h = arith.muli %n, %c2 : index
  %e = tensor.empty(%h) : tensor<1x?x8x64xf32>
  %r = linalg.generic {indexing_maps = [#row, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x8x64xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = linalg.index 0 : index
    %row = arith.index_cast %in : i64 to index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %p = tensor.extract %x[%i, %row, %w, %c] : tensor<1x?x8x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x?x8x64xf32>
  %e1 = tensor.empty(%h) : tensor<1x?x8x32xf32>
  %init = linalg.generic {indexing_maps = [#channel, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%bias : tensor<32xf32>) outs(%e1 : tensor<1x?x8x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x?x8x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf {winograd.expected_size = array<i64: 448, 8>, dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%r, %f : tensor<1x?x8x64xf32>, tensor<1x1x64x32xf32>) outs(%init : tensor<1x?x8x32xf32>) -> tensor<1x?x8x32xf32>
  return %k : tensor<1x?x8x32xf32>
}

// What rounds outputs to half precision does so before each becomes several pixels.
// CHECK-LABEL: func.func @rounded
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8x64xf32>
// CHECK: %[[E:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[X]],
// CHECK: %[[H:.*]] = linalg.generic {{.*}} ins(%[[E]] :
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: %[[S:.*]] = linalg.generic
// CHECK: tensor.extract %[[H]]
// CHECK-NOT: arith.truncf
// CHECK: return %[[S]]
func.func @rounded(%x: tensor<1x?x8x64xf32>, %rows: tensor<?xi64>) -> tensor<1x?x8x32xf32> {
  %f = arith.constant dense_resource<h> : tensor<1x1x64x32xf32>
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x8x64xf32>
  %h = arith.muli %n, %c2 : index
  %e = tensor.empty(%h) : tensor<1x?x8x64xf32>
  %r = linalg.generic {indexing_maps = [#row, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x8x64xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = linalg.index 0 : index
    %row = arith.index_cast %in : i64 to index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %p = tensor.extract %x[%i, %row, %w, %c] : tensor<1x?x8x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x?x8x64xf32>
  %e1 = tensor.empty(%h) : tensor<1x?x8x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x?x8x32xf32>) -> tensor<1x?x8x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf {winograd.expected_size = array<i64: 448, 8>, dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%r, %f : tensor<1x?x8x64xf32>, tensor<1x1x64x32xf32>) outs(%init : tensor<1x?x8x32xf32>) -> tensor<1x?x8x32xf32>
  %half = linalg.generic {indexing_maps = [#identity, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<1x?x8x32xf32>) outs(%e1 : tensor<1x?x8x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %narrow = arith.truncf %in : f32 to bf16
    %wide = arith.extf %narrow : bf16 to f32
    linalg.yield %wide : f32
  } -> tensor<1x?x8x32xf32>
  return %half : tensor<1x?x8x32xf32>
}

// Nothing says that what is concatenated has as many rows.
// CHECK-LABEL: func.func @other_sizes
// CHECK: tensor.concat
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK-NOT: linalg.conv_2d_nhwc_hwcf
func.func @other_sizes(%x: tensor<1x?x8x64xf32>, %rows: tensor<?xi64>, %y: tensor<1x?x8x16xf32>) -> tensor<1x?x8x32xf32> {
  %f = arith.constant dense_resource<i> : tensor<1x1x80x32xf32>
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x8x64xf32>
  %h = arith.muli %n, %c2 : index
  %e = tensor.empty(%h) : tensor<1x?x8x64xf32>
  %r = linalg.generic {indexing_maps = [#row, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x8x64xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = linalg.index 0 : index
    %row = arith.index_cast %in : i64 to index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %p = tensor.extract %x[%i, %row, %w, %c] : tensor<1x?x8x64xf32>
    linalg.yield %p : f32
  } -> tensor<1x?x8x64xf32>
  %a = tensor.concat dim(3) %r, %y : (tensor<1x?x8x64xf32>, tensor<1x?x8x16xf32>) -> tensor<1x?x8x80xf32>
  %e1 = tensor.empty(%h) : tensor<1x?x8x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x?x8x32xf32>) -> tensor<1x?x8x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf {winograd.expected_size = array<i64: 448, 8>, dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%a, %f : tensor<1x?x8x80xf32>, tensor<1x1x80x32xf32>) outs(%init : tensor<1x?x8x32xf32>) -> tensor<1x?x8x32xf32>
  return %k : tensor<1x?x8x32xf32>
}
