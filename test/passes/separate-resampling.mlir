// RUN: winograd-opt --winograd-separate-resampling --split-input-file %s | filecheck %s

// 3 channels fill no vector: columns are read first, as the image grows, then rows of all that lies behind them.
// CHECK-LABEL: @few_channels
// CHECK-SAME: (%[[X:.*]]: tensor<1x2x3x3xf32>)
// CHECK: %[[COLUMNS:.*]] = arith.constant dense<[0, 0, 1, 1, 2]> : tensor<5xi32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x5x3xf32>)
// CHECK: tensor.extract %[[COLUMNS]]
// CHECK: %[[WHOLE:.*]] = tensor.expand_shape {{.*}} into tensor<1x2x15xf32>
// CHECK: %[[ROWS:.*]] = arith.constant dense<[0, 0, 1, 1]> : tensor<4xi32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x4x15xf32>)
// CHECK-DAG: tensor.extract %[[ROWS]]
// CHECK-DAG: tensor.extract %[[WHOLE]]
// CHECK: tensor.expand_shape {{.*}} into tensor<1x4x5x3xf32>
func.func @few_channels(%x: tensor<1x2x3x3xf32>) -> tensor<1x4x5x3xf32> {
  %e = tensor.empty() : tensor<1x4x5x3xf32>
  %two = arith.constant 2 : index
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5x3xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = arith.divsi %h, %two : index
    %j = arith.divsi %w, %two : index
    %s = tensor.extract %x[%n, %i, %j, %c] : tensor<1x2x3x3xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5x3xf32>
  return %r : tensor<1x4x5x3xf32>
}

// -----

// Whole vectors of channels are read at once for both dimensions.
// CHECK-LABEL: @vectors
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
func.func @vectors(%x: tensor<1x2x3x32xf32>) -> tensor<1x4x5x32xf32> {
  %e = tensor.empty() : tensor<1x4x5x32xf32>
  %two = arith.constant 2 : index
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5x32xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = arith.divsi %h, %two : index
    %j = arith.divsi %w, %two : index
    %s = tensor.extract %x[%n, %i, %j, %c] : tensor<1x2x3x32xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5x32xf32>
  return %r : tensor<1x4x5x32xf32>
}

// -----

// Pixels that are repeated are looked up nowhere: there are loops over the repetitions.
// CHECK: #[[PIXELS:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d3, d5)>
// CHECK-LABEL: @repeated
// CHECK-SAME: (%[[X:.*]]: tensor<1x2x3x3xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[PIXELS]], {{.*}} ins(%[[X]] : tensor<1x2x3x3xf32>)
// CHECK-SAME: outs(%{{.*}} : tensor<1x2x2x3x4x3xf32>)
// CHECK-NOT: tensor.extract
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2], [3, 4], [5]] : {{.*}} into tensor<1x4x12x3xf32>
func.func @repeated(%x: tensor<1x2x3x3xf32>) -> tensor<1x4x12x3xf32> {
  %e = tensor.empty() : tensor<1x4x12x3xf32>
  %two = arith.constant 2 : index
  %four = arith.constant 4 : index
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x12x3xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %i = arith.divsi %h, %two : index
    %j = arith.divsi %w, %four : index
    %s = tensor.extract %x[%n, %i, %j, %c] : tensor<1x2x3x3xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x12x3xf32>
  return %r : tensor<1x4x12x3xf32>
}

// -----

// An image that shrinks has its rows selected while there are many; one dimension alone is nothing to separate, but
// for what lies behind it.
// CHECK-LABEL: @channels_first
// CHECK: outs(%{{.*}} : tensor<4x2x6xf32>)
// CHECK: outs(%{{.*}} : tensor<8x3x1xf32>)
func.func @channels_first(%x: tensor<1x4x4x6xf32>) -> tensor<1x4x2x3xf32> {
  %e = tensor.empty() : tensor<1x4x2x3xf32>
  %two = arith.constant 2 : index
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x2x3xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w = linalg.index 3 : index
    %i = arith.muli %h, %two : index
    %j = arith.muli %w, %two : index
    %s = tensor.extract %x[%n, %c, %i, %j] : tensor<1x4x4x6xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x2x3xf32>
  return %r : tensor<1x4x2x3xf32>
}
