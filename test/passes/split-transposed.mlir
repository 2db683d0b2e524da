// RUN: winograd-opt --winograd-split-transposed --split-input-file --verify-diagnostics %s
// RUN: winograd-opt --winograd-split-transposed --split-input-file %s 2>%t.err | filecheck %s

// Stride 2, three taps: outputs in even places see one tap, those in odd places two. The bias is added by the phases.
// CHECK-DAG: #[[IN:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2 + d4)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d1, d3, d4)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
// CHECK-LABEL: @stride
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x9xf32>, %[[W:.*]]: tensor<4x8x3xf32>, %[[BIAS:.*]]: tensor<4xf32>,
// CHECK: %[[EMPTY:.*]] = tensor.empty(%{{.*}}) : tensor<?x4x18xf32>
// CHECK: %[[B0:.*]] = linalg.broadcast ins(%[[BIAS]] : tensor<4xf32>) outs(%{{.*}} : tensor<?x4x9xf32>) dimensions = [0, 2]
// CHECK: %[[W0:.*]] = tensor.extract_slice %[[W]][0, 0, 1] [4, 8, 1] [1, 1, 1]
// CHECK: %[[EVEN:.*]] = linalg.generic {indexing_maps = [#[[IN]], #[[FILTER]], #[[OUT]]]
// CHECK-SAME: ins(%[[X]], %[[W0]] : {{.*}}) outs(%[[B0]] : tensor<?x4x9xf32>)
// CHECK: %[[R0:.*]] = tensor.insert_slice %[[EVEN]] into %[[EMPTY]][0, 0, 0] [%{{.*}}, 4, 9] [1, 1, 2]
// CHECK: %[[PADDED:.*]] = tensor.pad %[[X]] low[0, 0, 0] high[0, 0, 1]
// CHECK: %[[W1:.*]] = tensor.extract_slice %[[W]][0, 0, 0] [4, 8, 2] [1, 1, 2]
// CHECK: %[[ODD:.*]] = linalg.generic {{.*}} ins(%[[PADDED]], %[[W1]] : {{.*}})
// CHECK: %[[R1:.*]] = tensor.insert_slice %[[ODD]] into %[[R0]][0, 0, 1] [%{{.*}}, 4, 9] [1, 1, 2]
// CHECK: return %[[R1]]
func.func @stride(%x: tensor<?x8x9xf32>, %w: tensor<4x8x3xf32>, %bias: tensor<4xf32>, %n: index) -> tensor<?x4x18xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x8x20xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8x20xf32>) -> tensor<?x8x20xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 1] [%n, 8, 9] [1, 1, 2] : tensor<?x8x9xf32> into tensor<?x8x20xf32>
  %y = tensor.empty(%n) : tensor<?x4x18xf32>
  %b = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%y : tensor<?x4x18xf32>) dimensions = [0, 2]
  // expected-remark @below {{a transposed convolution became one per phase: 2}}
  %r = linalg.conv_1d_ncw_fcw ins(%z, %w : tensor<?x8x20xf32>, tensor<4x8x3xf32>)
    outs(%b : tensor<?x4x18xf32>) -> tensor<?x4x18xf32>
  return %r : tensor<?x4x18xf32>
}

// -----

// What padding crops is cropped from the image; a phase that meets no tap keeps what the convolution is added to.
// CHECK-LABEL: @cropped
// CHECK-SAME: (%[[X:.*]]: tensor<1x9x8xf32>, %[[W:.*]]: tensor<1x8x4xf32>, %[[Y:.*]]: tensor<1x11x4xf32>)
// CHECK: %[[YC:.*]] = tensor.extract_slice %[[Y]][0, 1, 0] [1, 4, 4] [1, 3, 1]
// CHECK: %[[XC:.*]] = tensor.extract_slice %[[X]][0, 3, 0] [1, 4, 8] [1, 1, 1]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[XC]], %{{.*}} : {{.*}}) outs(%[[YC]] : {{.*}})
// CHECK: %[[R:.*]] = tensor.insert_slice %[[SUM]] into %[[Y]][0, 1, 0] [1, 4, 4] [1, 3, 1]
// CHECK: return %[[R]]
func.func @cropped(%x: tensor<1x9x8xf32>, %w: tensor<1x8x4xf32>, %y: tensor<1x11x4xf32>) -> tensor<1x11x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x25x8xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 0] [1, 9, 8] [1, 3, 1] : tensor<1x9x8xf32> into tensor<1x25x8xf32>
  %c = tensor.extract_slice %z[0, 8, 0] [1, 11, 8] [1, 1, 1] : tensor<1x25x8xf32> to tensor<1x11x8xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 1}}
  %r = linalg.conv_1d_nwc_wcf ins(%c, %w : tensor<1x11x8xf32>, tensor<1x8x4xf32>)
    outs(%y : tensor<1x11x4xf32>) -> tensor<1x11x4xf32>
  return %r : tensor<1x11x4xf32>
}

// -----

// Groups stay dimensions of the phases, and images have one dimension for groups and channels.
// CHECK-LABEL: @groups
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x9xf32>,
// CHECK: %[[XG:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<1x4x2x9xf32>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[XG]], %{{.*}} : tensor<1x4x2x9xf32>, tensor<4x3x2x1xf32>)
// CHECK: %[[M:.*]] = tensor.collapse_shape %[[R]] {{.*}} into tensor<1x12x9xf32>
// CHECK: tensor.insert_slice %[[M]] into %{{.*}}[0, 0, 0] [1, 12, 9] [1, 1, 2]
func.func @groups(%x: tensor<1x8x9xf32>, %w: tensor<4x3x2x3xf32>) -> tensor<1x12x18xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<1x8x20xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 1] [1, 8, 9] [1, 1, 2] : tensor<1x8x9xf32> into tensor<1x8x20xf32>
  %zg = tensor.expand_shape %z [[0], [1, 2], [3]] output_shape [1, 4, 2, 20]
    : tensor<1x8x20xf32> into tensor<1x4x2x20xf32>
  %e = tensor.empty() : tensor<1x4x3x18xf32>
  %y = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x3x18xf32>) -> tensor<1x4x3x18xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 2}}
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, g, f, o, c, r) -> (n, g, c, o + r)>, affine_map<(n, g, f, o, c, r) -> (g, f, c, r)>,
                     affine_map<(n, g, f, o, c, r) -> (n, g, f, o)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%zg, %w : tensor<1x4x2x20xf32>, tensor<4x3x2x3xf32>) outs(%y : tensor<1x4x3x18xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %product = arith.mulf %in, %weight : f32
    %sum = arith.addf %out, %product : f32
    linalg.yield %sum : f32
  } -> tensor<1x4x3x18xf32>
  %m = tensor.collapse_shape %r [[0], [1, 2], [3]] : tensor<1x4x3x18xf32> into tensor<1x12x18xf32>
  return %m : tensor<1x12x18xf32>
}

// -----

// Unit strides are padding, other elements than zeros between the image's are none of its, and neither are other
// channels.
// CHECK-LABEL: @others
// CHECK-COUNT-3: linalg.conv_1d_nwc_wcf
// CHECK-NOT: linalg.generic
func.func @others(%x: tensor<1x9x8xf32>, %w: tensor<3x8x4xf32>, %y: tensor<1x9x4xf32>, %ones: tensor<1x20x8xf32>,
    %y2: tensor<1x18x4xf32>, %x4: tensor<1x9x4xf32>)
    -> (tensor<1x9x4xf32>, tensor<1x18x4xf32>, tensor<1x18x4xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<1x11x8xf32>
  %zeros2 = arith.constant dense<0.0> : tensor<1x20x8xf32>
  %z = tensor.insert_slice %x into %zeros[0, 1, 0] [1, 9, 8] [1, 1, 1] : tensor<1x9x8xf32> into tensor<1x11x8xf32>
  %r = linalg.conv_1d_nwc_wcf ins(%z, %w : tensor<1x11x8xf32>, tensor<3x8x4xf32>) outs(%y : tensor<1x9x4xf32>)
    -> tensor<1x9x4xf32>
  %z1 = tensor.insert_slice %x into %ones[0, 1, 0] [1, 9, 8] [1, 2, 1] : tensor<1x9x8xf32> into tensor<1x20x8xf32>
  %r1 = linalg.conv_1d_nwc_wcf ins(%z1, %w : tensor<1x20x8xf32>, tensor<3x8x4xf32>) outs(%y2 : tensor<1x18x4xf32>)
    -> tensor<1x18x4xf32>
  // expected-remark @below {{it spreads or crops the batch or channels}}
  %z2 = tensor.insert_slice %x4 into %zeros2[0, 1, 0] [1, 9, 4] [1, 2, 2] : tensor<1x9x4xf32> into tensor<1x20x8xf32>
  %r2 = linalg.conv_1d_nwc_wcf ins(%z2, %w : tensor<1x20x8xf32>, tensor<3x8x4xf32>) outs(%y2 : tensor<1x18x4xf32>)
    -> tensor<1x18x4xf32>
  return %r, %r1, %r2 : tensor<1x9x4xf32>, tensor<1x18x4xf32>, tensor<1x18x4xf32>
}

// -----

// What follows is applied to each phase, with what it reads that doesn't depend on the place in the image.
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: @epilogue
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x9xf32>, %[[W:.*]]: tensor<4x8x3xf32>, %[[SCALE:.*]]: tensor<4xf32>,
// CHECK: %[[EVEN:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[ODD:.*]] = linalg.generic {{.*}}"reduction"
// CHECK-NOT: tensor<?x4x18xf32>
// CHECK: %[[E1:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[CHANNEL]], #[[ID]]]
// CHECK-SAME: ins(%[[EVEN]], %[[SCALE]] : tensor<?x4x9xf32>, tensor<4xf32>) outs(%{{.*}} : tensor<?x4x9xf32>)
// CHECK: arith.mulf
// CHECK: %[[O1:.*]] = linalg.generic {indexing_maps = [#[[ID]], #[[CHANNEL]], #[[ID]]]
// CHECK-SAME: ins(%[[ODD]], %[[SCALE]] : tensor<?x4x9xf32>, tensor<4xf32>)
// CHECK: %[[EMPTY:.*]] = tensor.empty(%{{.*}}) : tensor<?x4x18xf32>
// CHECK: %[[E2:.*]] = linalg.generic {{.*}} ins(%[[E1]] : tensor<?x4x9xf32>)
// CHECK: arith.maximumf
// CHECK: %[[R1:.*]] = tensor.insert_slice %[[E2]] into %[[EMPTY]][0, 0, 0] [%{{.*}}, 4, 9] [1, 1, 2]
// CHECK: %[[O2:.*]] = linalg.generic {{.*}} ins(%[[O1]] : tensor<?x4x9xf32>)
// CHECK: arith.maximumf
// CHECK: %[[R2:.*]] = tensor.insert_slice %[[O2]] into %[[R1]][0, 0, 1] [%{{.*}}, 4, 9] [1, 1, 2]
// CHECK: return %[[R2]]
func.func @epilogue(%x: tensor<?x8x9xf32>, %w: tensor<4x8x3xf32>, %scale: tensor<4xf32>, %n: index) -> tensor<?x4x18xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x8x20xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8x20xf32>) -> tensor<?x8x20xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 1] [%n, 8, 9] [1, 1, 2] : tensor<?x8x9xf32> into tensor<?x8x20xf32>
  %y = tensor.empty(%n) : tensor<?x4x18xf32>
  %init = linalg.fill ins(%zero : f32) outs(%y : tensor<?x4x18xf32>) -> tensor<?x4x18xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 2}}
  %r = linalg.conv_1d_ncw_fcw ins(%z, %w : tensor<?x8x20xf32>, tensor<4x8x3xf32>)
    outs(%init : tensor<?x4x18xf32>) -> tensor<?x4x18xf32>
  %scaled = linalg.generic {
    indexing_maps = [affine_map<(n, c, w) -> (n, c, w)>, affine_map<(n, c, w) -> (c)>, affine_map<(n, c, w) -> (n, c, w)>],
    iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%r, %scale : tensor<?x4x18xf32>, tensor<4xf32>) outs(%y : tensor<?x4x18xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %product = arith.mulf %a, %b : f32
    linalg.yield %product : f32
  } -> tensor<?x4x18xf32>
  %relu = linalg.generic {
    indexing_maps = [affine_map<(n, c, w) -> (n, c, w)>, affine_map<(n, c, w) -> (n, c, w)>],
    iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%scaled : tensor<?x4x18xf32>) outs(%y : tensor<?x4x18xf32>) {
  ^bb0(%a: f32, %out: f32):
    %larger = arith.maximumf %a, %zero : f32
    linalg.yield %larger : f32
  } -> tensor<?x4x18xf32>
  return %relu : tensor<?x4x18xf32>
}

// -----

// Not moved: what reads another image, and what isn't the only user.
// CHECK-LABEL: @whole
// CHECK: %[[R:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 0] [1, 9, 4] [1, 2, 1]
// CHECK: %[[SUM:.*]] = linalg.elementwise <add> ins(%[[R]], %{{.*}} : tensor<1x18x4xf32>
// CHECK: %[[R2:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 0] [1, 9, 4] [1, 2, 1]
// CHECK: %[[EXP:.*]] = linalg.elementwise <exp> ins(%[[R2]] : tensor<1x18x4xf32>
// CHECK: return %[[SUM]], %[[EXP]], %[[R2]]
func.func @whole(%x: tensor<1x9x8xf32>, %w: tensor<3x8x4xf32>, %other: tensor<1x18x4xf32>)
    -> (tensor<1x18x4xf32>, tensor<1x18x4xf32>, tensor<1x18x4xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<1x20x8xf32>
  %init = arith.constant dense<0.0> : tensor<1x18x4xf32>
  %e = tensor.empty() : tensor<1x18x4xf32>
  %z = tensor.insert_slice %x into %zeros[0, 1, 0] [1, 9, 8] [1, 2, 1] : tensor<1x9x8xf32> into tensor<1x20x8xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 2}}
  %r = linalg.conv_1d_nwc_wcf ins(%z, %w : tensor<1x20x8xf32>, tensor<3x8x4xf32>) outs(%init : tensor<1x18x4xf32>)
    -> tensor<1x18x4xf32>
  %sum = linalg.elementwise <add> ins(%r, %other : tensor<1x18x4xf32>, tensor<1x18x4xf32>) outs(%e : tensor<1x18x4xf32>)
    -> tensor<1x18x4xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 2}}
  %r2 = linalg.conv_1d_nwc_wcf ins(%z, %w : tensor<1x20x8xf32>, tensor<3x8x4xf32>) outs(%init : tensor<1x18x4xf32>)
    -> tensor<1x18x4xf32>
  %exp = linalg.elementwise <exp> ins(%r2 : tensor<1x18x4xf32>) outs(%e : tensor<1x18x4xf32>) -> tensor<1x18x4xf32>
  return %sum, %exp, %r2 : tensor<1x18x4xf32>, tensor<1x18x4xf32>, tensor<1x18x4xf32>
}

// -----

// Not moved: what applies to places that no phase computes, too.
// CHECK-LABEL: @incomplete
// CHECK: %[[R:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[0, 1, 0] [1, 4, 4] [1, 3, 1]
// CHECK: linalg.elementwise <exp> ins(%[[R]] : tensor<1x11x4xf32>
func.func @incomplete(%x: tensor<1x9x8xf32>, %w: tensor<1x8x4xf32>, %y: tensor<1x11x4xf32>) -> tensor<1x11x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x25x8xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 0] [1, 9, 8] [1, 3, 1] : tensor<1x9x8xf32> into tensor<1x25x8xf32>
  %c = tensor.extract_slice %z[0, 8, 0] [1, 11, 8] [1, 1, 1] : tensor<1x25x8xf32> to tensor<1x11x8xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 1}}
  %r = linalg.conv_1d_nwc_wcf ins(%c, %w : tensor<1x11x8xf32>, tensor<1x8x4xf32>)
    outs(%y : tensor<1x11x4xf32>) -> tensor<1x11x4xf32>
  %exp = linalg.elementwise <exp> ins(%r : tensor<1x11x4xf32>) outs(%r : tensor<1x11x4xf32>) -> tensor<1x11x4xf32>
  return %exp : tensor<1x11x4xf32>
}

// -----

// A constant is added at the end, where a phase meets no tap.
// CHECK-LABEL: @biased
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8xf32>,
// CHECK: %[[BIAS:.*]] = linalg.broadcast ins(%{{.*}} : tensor<4xf32>) outs(%{{.*}} : tensor<1x12x4xf32>) dimensions = [0, 1]
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} outs(%{{.*}} : tensor<1x12x4xf32>)
// CHECK: %[[R:.*]] = tensor.insert_slice %{{.*}} into %[[ZEROS]][0, 0, 0] [1, 4, 4] [1, 3, 1]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[R]], %[[BIAS]] : {{.*}})
// CHECK: return %[[SUM]]
func.func @biased(%x: tensor<1x4x8xf32>, %w: tensor<1x8x4xf32>) -> tensor<1x12x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x12x8xf32>
  %bias = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %e = tensor.empty() : tensor<1x12x4xf32>
  %y = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%e : tensor<1x12x4xf32>) dimensions = [0, 1]
  %z = tensor.insert_slice %x into %zeros[0, 0, 0] [1, 4, 8] [1, 3, 1] : tensor<1x4x8xf32> into tensor<1x12x8xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 1}}
  %r = linalg.conv_1d_nwc_wcf ins(%z, %w : tensor<1x12x8xf32>, tensor<1x8x4xf32>) outs(%y : tensor<1x12x4xf32>)
    -> tensor<1x12x4xf32>
  return %r : tensor<1x12x4xf32>
}

// -----

// Of an image of unknown size phases have as many outputs as it has elements, and a number more.
// CHECK-LABEL: @open
// CHECK-SAME: %[[X:.*]]: tensor<1x8x?xf32>
// CHECK: %[[EVEN:.*]] = linalg.generic
// CHECK-SAME: winograd.expected_size = array<i64: 20>
// CHECK: tensor.insert_slice %[[EVEN]] into %{{.*}}[0, 0, 0] [1, 4, %{{.*}}] [1, 1, 2]
// CHECK: tensor.pad %[[X]] low[0, 0, 0] high[0, 0, 1]
// CHECK: %[[ODD:.*]] = linalg.generic
// CHECK-SAME: winograd.expected_size = array<i64: 21>
// CHECK: tensor.insert_slice %[[ODD]] into %{{.*}}[0, 0, 1] [1, 4, %{{.*}}] [1, 1, 2]
func.func @open(%x: tensor<1x8x?xf32>, %w: tensor<4x8x3xf32>) -> tensor<1x4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c2 = arith.constant 2 : index
  %size = tensor.dim %x, %c2 : tensor<1x8x?xf32>
  %outputs = arith.muli %size, %c2 : index
  %inputs = arith.addi %outputs, %c2 : index
  %e = tensor.empty(%inputs) : tensor<1x8x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 1] [1, 8, %size] [1, 1, 2] : tensor<1x8x?xf32> into tensor<1x8x?xf32>
  %f = tensor.empty(%outputs) : tensor<1x4x?xf32>
  %y = linalg.fill ins(%zero : f32) outs(%f : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  // expected-remark @below {{a transposed convolution became one per phase: 2}}
  %r = linalg.conv_1d_ncw_fcw {winograd.expected_size = array<i64: 42>} ins(%z, %w : tensor<1x8x?xf32>, tensor<4x8x3xf32>) outs(%y : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  return %r : tensor<1x4x?xf32>
}

// What is inserted into may have any size.
// CHECK-LABEL: @unrelated
// CHECK: linalg.conv_1d_ncw_fcw
func.func @unrelated(%x: tensor<1x8x?xf32>, %w: tensor<4x8x3xf32>, %inputs: index, %outputs: index) -> tensor<1x4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c2 = arith.constant 2 : index
  %size = tensor.dim %x, %c2 : tensor<1x8x?xf32>
  %e = tensor.empty(%inputs) : tensor<1x8x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  // expected-remark @below {{its sizes aren't known to be a multiple of those of its image and more}}
  %z = tensor.insert_slice %x into %zeros[0, 0, 1] [1, 8, %size] [1, 1, 2] : tensor<1x8x?xf32> into tensor<1x8x?xf32>
  %f = tensor.empty(%outputs) : tensor<1x4x?xf32>
  %y = linalg.fill ins(%zero : f32) outs(%f : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  %r = linalg.conv_1d_ncw_fcw {winograd.expected_size = array<i64: 42>} ins(%z, %w : tensor<1x8x?xf32>, tensor<4x8x3xf32>) outs(%y : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  return %r : tensor<1x4x?xf32>
}
