// RUN: winograd-opt --winograd-fold-resampling --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-fold-resampling --split-input-file --verify-diagnostics %s

// A row of 3 elements stretched to 5, its corners aligned: positions, weights and sums in operations of their own.
// CHECK-LABEL: @linear
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x3xf32>)
// CHECK-DAG: %[[I:.*]] = arith.constant dense<[0, 0, 1, 1, 2]> : tensor<5xi32>
// CHECK-DAG: %[[J:.*]] = arith.constant dense<[1, 1, 2, 2, 2]> : tensor<5xi32>
// CHECK-DAG: %[[U:.*]] = arith.constant dense_resource<weights> : tensor<5xf32>
// CHECK-DAG: %[[V:.*]] = arith.constant dense_resource<weights_1> : tensor<5xf32>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[U]], %[[V]] :
// CHECK-NEXT: ^bb0(%[[WU:.*]]: f32, %[[WV:.*]]: f32, %{{.*}}: f32):
// CHECK-DAG: %[[N:.*]] = linalg.index 0
// CHECK-DAG: %[[C:.*]] = linalg.index 1
// CHECK-DAG: %[[O:.*]] = linalg.index 2
// CHECK-DAG: %[[P:.*]] = tensor.extract %[[I]][%[[O]]]
// CHECK-DAG: %[[PI:.*]] = arith.index_cast %[[P]]
// CHECK-DAG: %[[Q:.*]] = tensor.extract %[[J]][%[[O]]]
// CHECK-DAG: %[[QI:.*]] = arith.index_cast %[[Q]]
// CHECK-DAG: %[[A:.*]] = tensor.extract %[[X]][%[[N]], %[[C]], %[[PI]]]
// CHECK-DAG: %[[B:.*]] = tensor.extract %[[X]][%[[N]], %[[C]], %[[QI]]]
// CHECK-DAG: %[[AU:.*]] = arith.mulf %[[A]], %[[WU]]
// CHECK-DAG: %[[BV:.*]] = arith.mulf %[[B]], %[[WV]]
// CHECK: arith.addf %[[AU]], %[[BV]]
// CHECK-NOT: linalg.generic
// CHECK: return %[[R]]
func.func @linear(%x: tensor<1x4x3xf32>) -> tensor<1x4x5xf32> {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1 : i64
  %last = arith.constant 2 : i64
  %ef = tensor.empty() : tensor<5xf32>
  %ei = tensor.empty() : tensor<5xi64>
  %er = tensor.empty() : tensor<1x4x5xf32>
  %position = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    outs(%ef : tensor<5xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %f = arith.sitofp %j : i64 to f32
    %p = arith.mulf %f, %half : f32
    linalg.yield %p : f32
  } -> tensor<5xf32>
  %low = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]} ins(%position : tensor<5xf32>) outs(%ei : tensor<5xi64>) {
  ^bb0(%p: f32, %o: i64):
    %i = arith.fptosi %p : f32 to i64
    linalg.yield %i : i64
  } -> tensor<5xi64>
  %high = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
    iterator_types = ["parallel"]} ins(%low : tensor<5xi64>) outs(%ei : tensor<5xi64>) {
  ^bb0(%i: i64, %o: i64):
    %j = arith.addi %i, %one : i64
    %k = arith.minsi %j, %last : i64
    linalg.yield %k : i64
  } -> tensor<5xi64>
  %weight = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>,
    affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%position, %low : tensor<5xf32>, tensor<5xi64>) outs(%ef : tensor<5xf32>) {
  ^bb0(%p: f32, %i: i64, %o: f32):
    %f = arith.sitofp %i : i64 to f32
    %w = arith.subf %p, %f : f32
    linalg.yield %w : f32
  } -> tensor<5xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%low : tensor<5xi64>) outs(%er : tensor<1x4x5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %p = arith.index_cast %i : i64 to index
    %e = tensor.extract %x[%n, %c, %p] : tensor<1x4x3xf32>
    linalg.yield %e : f32
  } -> tensor<1x4x5xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%high : tensor<5xi64>) outs(%er : tensor<1x4x5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %p = arith.index_cast %i : i64 to index
    %e = tensor.extract %x[%n, %c, %p] : tensor<1x4x3xf32>
    linalg.yield %e : f32
  } -> tensor<1x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%a, %b, %weight : tensor<1x4x5xf32>, tensor<1x4x5xf32>, tensor<5xf32>) outs(%er : tensor<1x4x5xf32>) {
  ^bb0(%p: f32, %q: f32, %w: f32, %o: f32):
    %d = arith.subf %q, %p : f32
    %m = arith.mulf %d, %w : f32
    %s = arith.addf %p, %m : f32
    linalg.yield %s : f32
  } -> tensor<1x4x5xf32>
  return %r : tensor<1x4x5xf32>
}

// -----

// Channels that a table names, as `index_select` writes it: a weight of one tells their dimension from the pixels'.
// CHECK: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-LABEL: @select_channels
// CHECK: %[[TABLE:.*]] = arith.constant dense<[3, 0, 3]> : tensor<3xi32>
// CHECK: %[[ONES:.*]] = arith.constant dense_resource<{{.*}}> : tensor<3xf32>
// CHECK: linalg.generic {indexing_maps = [#[[CHANNEL]], {{.*}} ins(%[[ONES]] : tensor<3xf32>)
// CHECK: tensor.extract %[[TABLE]]
// CHECK: arith.mulf
func.func @select_channels(%x: tensor<1x4x5x6xf32>) -> tensor<1x3x5x6xf32> {
  %zero = arith.constant 0 : index
  %table = arith.constant dense<[3, 0, 3]> : tensor<3xi64>
  %e = tensor.empty() : tensor<1x3x5x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1)>,
    affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%table : tensor<3xi64>) outs(%e : tensor<1x3x5x6xf32>) {
  ^bb0(%c: i64, %o: f32):
    %p = arith.index_cast %c : i64 to index
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %s = tensor.extract %x[%zero, %p, %i, %j] : tensor<1x4x5x6xf32>
    linalg.yield %s : f32
  } -> tensor<1x3x5x6xf32>
  return %r : tensor<1x3x5x6xf32>
}

// -----

// What is read at its own place is nothing to read.
// CHECK-LABEL: @identity
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x5xf32>)
// CHECK-NEXT: return %[[X]]
func.func @identity(%x: tensor<1x4x5xf32>) -> tensor<1x4x5xf32> {
  %e = tensor.empty() : tensor<1x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %s = tensor.extract %x[%n, %c, %i] : tensor<1x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5xf32>
  return %r : tensor<1x4x5xf32>
}

// -----

// Positions that are known at run time only, or that depend on each other, and weights that don't add up to 1.
// CHECK-LABEL: @others
// CHECK-COUNT-3: linalg.generic
func.func @others(%x: tensor<1x4x5xf32>, %table: tensor<5xi64>)
    -> (tensor<1x4x5xf32>, tensor<1x4x5xf32>, tensor<1x4x5xf32>) {
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3 : index
  %e = tensor.empty() : tensor<1x4x5xf32>
  // expected-remark @below {{the positions or weights of what it reads aren't known at compile time}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d2)>,
    affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%table : tensor<5xi64>) outs(%e : tensor<1x4x5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %p = arith.index_cast %i : i64 to index
    %s = tensor.extract %x[%n, %c, %p] : tensor<1x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5xf32>
  // expected-remark @below {{positions in one dimension depend on another}}
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %p = arith.minsi %c, %i : index
    %s = tensor.extract %x[%n, %c, %p] : tensor<1x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5xf32>
  // expected-remark @below {{its weights aren't products of one for each dimension that add up to 1}}
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %p = arith.minsi %i, %three : index
    %s = tensor.extract %x[%n, %c, %p] : tensor<1x4x5xf32>
    %d = arith.mulf %s, %two : f32
    linalg.yield %d : f32
  } -> tensor<1x4x5xf32>
  return %0, %1, %2 : tensor<1x4x5xf32>, tensor<1x4x5xf32>, tensor<1x4x5xf32>
}

// -----

// Sizes of a batch that isn't known are operands of what moves elements: nothing is looked at.
// CHECK-LABEL: @dynamic_batch
// CHECK: tensor.expand_shape
func.func @dynamic_batch(%x: tensor<?x8xf32>) -> tensor<?x2x4xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x8xf32>
  %r = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  return %r : tensor<?x2x4xf32>
}

// -----

// Weights of -1 in three dimensions have products of -1, and one dimension's add up to anything; neither is resampling.
// CHECK-LABEL: @scaled
// CHECK: arith.negf
// CHECK: arith.mulf
func.func @scaled(%x: tensor<1x4x5xf32>, %y: tensor<5xf32>) -> (tensor<1x4x5xf32>, tensor<5xf32>) {
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3 : index
  %ex = tensor.empty() : tensor<1x4x5xf32>
  %ey = tensor.empty() : tensor<5xf32>
  // expected-remark @below {{its weights aren't products of one for each dimension that add up to 1}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%ex : tensor<1x4x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %p = arith.minsi %i, %three : index
    %s = tensor.extract %x[%n, %c, %p] : tensor<1x4x5xf32>
    %d = arith.negf %s : f32
    linalg.yield %d : f32
  } -> tensor<1x4x5xf32>
  // expected-remark @below {{its weights aren't products of one for each dimension that add up to 1}}
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    outs(%ey : tensor<5xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %p = arith.minsi %i, %three : index
    %s = tensor.extract %y[%p] : tensor<5xf32>
    %d = arith.mulf %s, %two : f32
    linalg.yield %d : f32
  } -> tensor<5xf32>
  return %0, %1 : tensor<1x4x5xf32>, tensor<5xf32>
}

// -----

// Sizes and places that are known at run time only, and elements of other types.
// CHECK-LABEL: @run_time
// CHECK: tensor.extract_slice
// CHECK: tensor.expand_shape
func.func @run_time(%x: tensor<?x20xf32>, %y: tensor<1x4x5xf16>, %n: index, %place: index)
    -> (tensor<?x4x5xf32>, tensor<1x4x5xf16>) {
  %three = arith.constant 3 : index
  %part = tensor.extract_slice %x[%place, 0] [%n, 20] [1, 1] : tensor<?x20xf32> to tensor<?x20xf32>
  %image = tensor.expand_shape %part [[0], [1, 2]] output_shape [%n, 4, 5] : tensor<?x20xf32> into tensor<?x4x5xf32>
  %e = tensor.empty(%n) : tensor<?x4x5xf32>
  %f = tensor.empty() : tensor<1x4x5xf16>
  // expected-remark @below {{its sizes are known only at run time}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<?x4x5xf32>) {
  ^bb0(%o: f32):
    %b = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %p = arith.minsi %i, %three : index
    %s = tensor.extract %image[%b, %c, %p] : tensor<?x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<?x4x5xf32>
  // expected-remark @below {{it has elements of type f16, not f32}}
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%f : tensor<1x4x5xf16>) {
  ^bb0(%o: f16):
    %b = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %p = arith.minsi %i, %three : index
    %s = tensor.extract %y[%b, %c, %p] : tensor<1x4x5xf16>
    linalg.yield %s : f16
  } -> tensor<1x4x5xf16>
  return %0, %1 : tensor<?x4x5xf32>, tensor<1x4x5xf16>
}

// -----

// A table with the same element everywhere, which is read at more places than were computed of it.
// CHECK-LABEL: @uniform_table
// CHECK: arith.constant dense<3> : tensor<5xi32>
func.func @uniform_table(%x: tensor<1x4x5xf32>) -> tensor<1x4x5xf32> {
  %three = arith.constant 3 : i64
  %et = tensor.empty() : tensor<5xi64>
  %e = tensor.empty() : tensor<1x4x5xf32>
  %table = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    outs(%et : tensor<5xi64>) {
  ^bb0(%o: i64):
    linalg.yield %three : i64
  } -> tensor<5xi64>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %t = tensor.extract %table[%i] : tensor<5xi64>
    %p = arith.index_cast %t : i64 to index
    %s = tensor.extract %x[%n, %c, %p] : tensor<1x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5xf32>
  return %0 : tensor<1x4x5xf32>
}

// -----

// True is -1 where its sign is extended: no position is taken for another.
// CHECK-LABEL: @sign_of_true
// CHECK: arith.extsi
func.func @sign_of_true(%x: tensor<1x4x5xf32>) -> tensor<1x4x5xf32> {
  %three = arith.constant 3 : index
  %e = tensor.empty() : tensor<1x4x5xf32>
  // expected-remark @below {{the positions or weights of what it reads aren't known at compile time}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %b = arith.cmpi eq, %i, %three : index
    %d = arith.extsi %b : i1 to i64
    %t = arith.index_cast %d : i64 to index
    %p = arith.addi %i, %t : index
    %s = tensor.extract %x[%n, %c, %p] : tensor<1x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x4x5xf32>
  return %0 : tensor<1x4x5xf32>
}

// -----

// What is resampled may be an image that was resampled itself.
// CHECK-LABEL: @twice
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x5xf32>)
// CHECK: %[[ROWS:.*]] = arith.constant dense<[0, 0, 1, 1, 2, 2, 3, 3]> : tensor<8xi32>
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK: tensor.extract %[[ROWS]][
// CHECK: tensor.extract %[[X]][
// CHECK: %[[COLUMNS:.*]] = arith.constant dense<[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]> : tensor<10xi32>
// CHECK: linalg.generic
// CHECK: tensor.extract %[[COLUMNS]][
// CHECK: tensor.extract %[[Y]][
// CHECK-NOT: arith.divsi
func.func @twice(%x: tensor<1x4x5xf32>) -> tensor<1x8x10xf32> {
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<1x8x5xf32>
  %f = tensor.empty() : tensor<1x8x10xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%e : tensor<1x8x5xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %p = arith.divsi %i, %two : index
    %s = tensor.extract %x[%n, %p, %j] : tensor<1x4x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x8x5xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]} outs(%f : tensor<1x8x10xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %p = arith.divsi %j, %two : index
    %s = tensor.extract %0[%n, %i, %p] : tensor<1x8x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x8x10xf32>
  return %1 : tensor<1x8x10xf32>
}

// -----

// Rows are blended, and then columns: both at once, where nothing else reads what is between.
// CHECK-LABEL: @in_turn
// CHECK-SAME: (%[[X:.*]]: tensor<1x2x2xf32>)
// CHECK: %[[R:.*]] = linalg.generic
// CHECK-COUNT-4: tensor.extract %[[X]][
// CHECK-NOT: linalg.generic
// CHECK: return %[[R]] : tensor<1x3x3xf32>
#h = affine_map<(d0, d1, d2) -> (d1)>
#w = affine_map<(d0, d1, d2) -> (d2)>
#a = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @in_turn(%x: tensor<1x2x2xf32>) -> tensor<1x3x3xf32> {
  %first = arith.constant dense<[1.0, 0.5, 0.0]> : tensor<3xf32>
  %second = arith.constant dense<[0.0, 0.5, 1.0]> : tensor<3xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %e = tensor.empty() : tensor<1x3x2xf32>
  %f = tensor.empty() : tensor<1x3x3xf32>
  %0 = linalg.generic {indexing_maps = [#h, #h, #a], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%first, %second : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<1x3x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %n = linalg.index 0 : index
    %j = linalg.index 2 : index
    %s = tensor.extract %x[%n, %zero, %j] : tensor<1x2x2xf32>
    %t = tensor.extract %x[%n, %one, %j] : tensor<1x2x2xf32>
    %u = arith.mulf %s, %p : f32
    %v = arith.mulf %t, %q : f32
    %r = arith.addf %u, %v : f32
    linalg.yield %r : f32
  } -> tensor<1x3x2xf32>
  %1 = linalg.generic {indexing_maps = [#w, #w, #a], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%first, %second : tensor<3xf32>, tensor<3xf32>) outs(%f : tensor<1x3x3xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %s = tensor.extract %0[%n, %i, %zero] : tensor<1x3x2xf32>
    %t = tensor.extract %0[%n, %i, %one] : tensor<1x3x2xf32>
    %u = arith.mulf %s, %p : f32
    %v = arith.mulf %t, %q : f32
    %r = arith.addf %u, %v : f32
    linalg.yield %r : f32
  } -> tensor<1x3x3xf32>
  return %1 : tensor<1x3x3xf32>
}

// -----

// Selected numbers of half precision are such: they aren't rounded again. Others are.
// CHECK-LABEL: @selected_halves
// CHECK: arith.truncf
// CHECK: tensor.extract
// CHECK-NOT: arith.truncf
// CHECK-LABEL: @selected_others
// CHECK: tensor.extract
// CHECK: arith.truncf
func.func @selected_halves(%x: tensor<2x4x4x5xf32>) -> tensor<2x6x4x5xf32> {
  %channels = arith.constant dense<[3, 0, 0, 2, 1, 3]> : tensor<6xi64>
  %ex = tensor.empty() : tensor<2x4x4x5xf32>
  %e = tensor.empty() : tensor<2x6x4x5xf32>
  %h = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x4x4x5xf32>) outs(%ex : tensor<2x4x4x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.truncf %a : f32 to f16
    %w = arith.extf %n : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x4x4x5xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (b)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%channels : tensor<6xi64>) outs(%e : tensor<2x6x4x5xf32>) {
  ^bb0(%c: i64, %o: f32):
    %n = linalg.index 0 : index
    %k = arith.index_cast %c : i64 to index
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %y = tensor.extract %h[%n, %k, %i, %j] : tensor<2x4x4x5xf32>
    linalg.yield %y : f32
  } -> tensor<2x6x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x4x5xf32>) outs(%e : tensor<2x6x4x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.truncf %a : f32 to f16
    %w = arith.extf %n : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x6x4x5xf32>
  return %r : tensor<2x6x4x5xf32>
}
func.func @selected_others(%x: tensor<2x4x4x5xf32>) -> tensor<2x6x4x5xf32> {
  %channels = arith.constant dense<[3, 0, 0, 2, 1, 3]> : tensor<6xi64>
  %e = tensor.empty() : tensor<2x6x4x5xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (b)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%channels : tensor<6xi64>) outs(%e : tensor<2x6x4x5xf32>) {
  ^bb0(%c: i64, %o: f32):
    %n = linalg.index 0 : index
    %k = arith.index_cast %c : i64 to index
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %y = tensor.extract %x[%n, %k, %i, %j] : tensor<2x4x4x5xf32>
    linalg.yield %y : f32
  } -> tensor<2x6x4x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x6x4x5xf32>) outs(%e : tensor<2x6x4x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.truncf %a : f32 to f16
    %w = arith.extf %n : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x6x4x5xf32>
  return %r : tensor<2x6x4x5xf32>
}
