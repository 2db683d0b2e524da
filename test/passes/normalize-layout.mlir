// RUN: winograd-opt --winograd-normalize-layout --split-input-file %s | filecheck %s

// Two convolutions and what lies between them: one transposition on the way in, one on the way out.
// CHECK-LABEL: @network
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x16x16xf32>, %[[SHORTCUT:.*]]: tensor<1x4x16x16xf32>,
func.func @network(%x: tensor<1x8x16x16xf32>, %shortcut: tensor<1x4x16x16xf32>, %w: tensor<4x8x3x3xf32>,
    %v: tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  // The padding is added after the transposition, next to the convolution.
  // CHECK: %[[XT:.*]] = linalg.transpose ins(%[[X]] : {{.*}}) {{.*}} permutation = [0, 2, 3, 1]
  // CHECK: %[[P:.*]] = tensor.pad %[[XT]] low[0, 1, 1, 0] high[0, 1, 1, 0]
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x8x16x16xf32> to tensor<1x8x18x18xf32>
  // CHECK: %[[WT:.*]] = linalg.transpose ins(%{{.*}} : tensor<4x8x3x3xf32>) {{.*}} permutation = [2, 3, 1, 0]
  // CHECK: %[[INIT:.*]] = linalg.fill {{.*}} -> tensor<1x16x16x4xf32>
  // CHECK: %[[CONV:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[P]], %[[WT]] : {{.*}}) outs(%[[INIT]] : {{.*}})
  %e = tensor.empty() : tensor<1x4x16x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x16x16xf32>) -> tensor<1x4x16x16xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%p, %w : tensor<1x8x18x18xf32>, tensor<4x8x3x3xf32>)
    outs(%f : tensor<1x4x16x16xf32>) -> tensor<1x4x16x16xf32>
  // CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[CONV]], %{{.*}} : tensor<1x16x16x4xf32>, tensor<1x16x16x4xf32>)
  %s = linalg.generic {
    indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>,
                     affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %shortcut : tensor<1x4x16x16xf32>, tensor<1x4x16x16xf32>) outs(%e : tensor<1x4x16x16xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %sum = arith.addf %l, %r : f32
    linalg.yield %sum : f32
  } -> tensor<1x4x16x16xf32>
  // CHECK: %[[POOL:.*]] = linalg.pooling_nhwc_max {{.*}} ins(%[[SUM]], %{{.*}} : {{.*}}) {{.*}} -> tensor<1x8x8x4xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %pe = tensor.empty() : tensor<1x4x8x8xf32>
  %pf = linalg.fill ins(%zero : f32) outs(%pe : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %pool = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%s, %window : tensor<1x4x16x16xf32>, tensor<2x2xf32>) outs(%pf : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  // CHECK: %[[LAST:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[POOL]],
  %q = linalg.conv_2d_nchw_fchw ins(%pool, %v : tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>)
    outs(%pf : tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  // CHECK: %[[BACK:.*]] = linalg.transpose ins(%[[LAST]] : {{.*}}) {{.*}} permutation = [0, 3, 1, 2]
  // CHECK: return %[[BACK]]
  return %q : tensor<1x4x8x8xf32>
}

// -----

// The annotation of a convolution stays with it, and a bias is broadcast along the last dimension.
// CHECK-LABEL: @annotated
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<4xf32>) outs(%{{.*}} : tensor<1x6x6x4xf32>)
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}winograd.algorithm = "any"
func.func @annotated(%x: tensor<1x8x8x8xf32>, %w: tensor<4x8x3x3xf32>, %bias: tensor<4xf32>) -> tensor<1x4x6x6xf32> {
  %e = tensor.empty() : tensor<1x4x6x6xf32>
  %b = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%e : tensor<1x4x6x6xf32>) dimensions = [0, 2, 3]
  %c = linalg.conv_2d_nchw_fchw {winograd.algorithm = "any"} ins(%x, %w : tensor<1x8x8x8xf32>, tensor<4x8x3x3xf32>)
    outs(%b : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  return %c : tensor<1x4x6x6xf32>
}

// -----

// Transpositions that a program has already are used up.
// CHECK-LABEL: @transposed_program
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x8x8xf32>,
// CHECK-NOT: permutation = [0, 3, 1, 2]
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[X]],
// CHECK-NOT: permutation = [0, 2, 3, 1]
// CHECK: return
func.func @transposed_program(%x: tensor<1x8x8x8xf32>, %w: tensor<4x8x3x3xf32>, %y: tensor<1x4x6x6xf32>)
    -> tensor<1x6x6x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x8x8x8xf32>
  %t = linalg.transpose ins(%x : tensor<1x8x8x8xf32>) outs(%e : tensor<1x8x8x8xf32>) permutation = [0, 3, 1, 2]
  %g = tensor.empty() : tensor<1x4x6x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%g : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%t, %w : tensor<1x8x8x8xf32>, tensor<4x8x3x3xf32>)
    outs(%f : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %h = tensor.empty() : tensor<1x6x6x4xf32>
  %r = linalg.transpose ins(%c : tensor<1x4x6x6xf32>) outs(%h : tensor<1x6x6x4xf32>) permutation = [0, 2, 3, 1]
  return %r : tensor<1x6x6x4xf32>
}

// -----

// A global average needs no transposition, one that moves only dimensions of size 1 is a reshape, and the number of
// images may be known only at run time.
// CHECK-LABEL: @average
// CHECK: %[[CONV:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: linalg.generic {indexing_maps = [#[[MAP:.*]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction",
// CHECK-SAME: ins(%[[CONV]] : tensor<?x6x6x4xf32>)
func.func @average(%x: tensor<?x8x8x8xf32>, %w: tensor<4x8x3x3xf32>, %n: index) -> tensor<?x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x4x6x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x4x6x6xf32>) -> tensor<?x4x6x6xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<?x8x8x8xf32>, tensor<4x8x3x3xf32>)
    outs(%f : tensor<?x4x6x6xf32>) -> tensor<?x4x6x6xf32>
  %s = tensor.empty(%n) : tensor<?x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%s : tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b)>],
    iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%c : tensor<?x4x6x6xf32>) outs(%z : tensor<?x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %out : f32
    linalg.yield %sum : f32
  } -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}

// -----

// A depthwise convolution is moved, too; in one and three dimensions likewise.
// CHECK-LABEL: @others
// CHECK: linalg.depthwise_conv_2d_nhwc_hwc
// CHECK: linalg.conv_1d_nwc_wcf
// CHECK: linalg.conv_3d_ndhwc_dhwcf
func.func @others(%x: tensor<1x8x8x8xf32>, %w: tensor<8x3x3xf32>, %y: tensor<1x8x6x6xf32>, %x1: tensor<1x8x8xf32>,
    %w1: tensor<4x8x3xf32>, %y1: tensor<1x4x6xf32>, %x3: tensor<1x2x4x4x4xf32>, %w3: tensor<4x2x3x3x3xf32>,
    %y3: tensor<1x4x2x2x2xf32>) -> (tensor<1x8x6x6xf32>, tensor<1x4x6xf32>, tensor<1x4x2x2x2xf32>) {
  %0 = linalg.depthwise_conv_2d_nchw_chw ins(%x, %w : tensor<1x8x8x8xf32>, tensor<8x3x3xf32>)
    outs(%y : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  %1 = linalg.conv_1d_ncw_fcw ins(%x1, %w1 : tensor<1x8x8xf32>, tensor<4x8x3xf32>)
    outs(%y1 : tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  %2 = linalg.conv_3d_ncdhw_fcdhw ins(%x3, %w3 : tensor<1x2x4x4x4xf32>, tensor<4x2x3x3x3xf32>)
    outs(%y3 : tensor<1x4x2x2x2xf32>) -> tensor<1x4x2x2x2xf32>
  return %0, %1, %2 : tensor<1x8x6x6xf32>, tensor<1x4x6xf32>, tensor<1x4x2x2x2xf32>
}

// -----

// Without a convolution there is nothing to do, and one that is channels last already stays as it is.
// CHECK-LABEL: @nothing
// CHECK-NOT: linalg.transpose
// CHECK: linalg.pooling_nchw_max
// CHECK: linalg.conv_2d_nhwc_hwcf
func.func @nothing(%x: tensor<1x8x8x8xf32>, %y: tensor<1x8x7x7xf32>, %w: tensor<3x3x8x4xf32>, %z: tensor<1x6x6x4xf32>)
    -> (tensor<1x8x7x7xf32>, tensor<1x6x6x4xf32>) {
  %window = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.pooling_nchw_max {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %window : tensor<1x8x8x8xf32>, tensor<2x2xf32>) outs(%y : tensor<1x8x7x7xf32>) -> tensor<1x8x7x7xf32>
  %1 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x8x8x8xf32>, tensor<3x3x8x4xf32>)
    outs(%z : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %0, %1 : tensor<1x8x7x7xf32>, tensor<1x6x6x4xf32>
}

// -----

// A grouped convolution reads channels-last images with groups and channels in one dimension; the reshapes stay next to
// it, so that its neighbours are channels last, too. Other than depthwise ones it has no name and is a generic.
// CHECK-DAG: #[[IN:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 * 2 + d6, d2 + d7 * 2, d3, d5)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d6, d7, d5, d3, d4)>
// CHECK-DAG: #[[OUT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>
// CHECK-LABEL: @grouped
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x9x9xf32>, %[[W:.*]]: tensor<4x3x2x3x3xf32>, %[[BIAS:.*]]: tensor<12xf32>,
// CHECK: %[[XT:.*]] = linalg.transpose ins(%[[X]] : {{.*}}) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[XG:.*]] = tensor.expand_shape %[[XT]] {{.*}} into tensor<?x9x9x4x2xf32>
// CHECK: %[[WT:.*]] = linalg.transpose ins(%[[W]] : {{.*}}) {{.*}} permutation = [3, 4, 2, 0, 1]
// CHECK: %[[INIT:.*]] = linalg.generic {{.*}} ins(%[[BIAS]] : tensor<12xf32>) outs(%{{.*}} : tensor<?x4x5x12xf32>)
// CHECK: %[[INITG:.*]] = tensor.expand_shape %[[INIT]] {{.*}} into tensor<?x4x5x4x3xf32>
// CHECK: %[[CONV:.*]] = linalg.generic {indexing_maps = [#[[IN]], #[[FILTER]], #[[OUT]]]
// CHECK-SAME: ins(%[[XG]], %[[WT]] : {{.*}}) outs(%[[INITG]] : tensor<?x4x5x4x3xf32>)
// CHECK: %[[Y:.*]] = tensor.collapse_shape %[[CONV]] {{.*}} into tensor<?x4x5x12xf32>
// CHECK: %[[TANH:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<?x4x5x12xf32>)
// CHECK: linalg.transpose ins(%[[TANH]] : {{.*}}) {{.*}} permutation = [0, 3, 1, 2]
func.func @grouped(%x: tensor<?x8x9x9xf32>, %w: tensor<4x3x2x3x3xf32>, %bias: tensor<12xf32>, %n: index)
    -> tensor<?x12x4x5xf32> {
  %e = tensor.empty(%n) : tensor<?x12x4x5xf32>
  %b = linalg.broadcast ins(%bias : tensor<12xf32>) outs(%e : tensor<?x12x4x5xf32>) dimensions = [0, 2, 3]
  %xg = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [%n, 4, 2, 9, 9]
    : tensor<?x8x9x9xf32> into tensor<?x4x2x9x9xf32>
  %bg = tensor.expand_shape %b [[0], [1, 2], [3], [4]] output_shape [%n, 4, 3, 4, 5]
    : tensor<?x12x4x5xf32> into tensor<?x4x3x4x5xf32>
  %c = linalg.conv_2d_ngchw_gfchw {dilations = dense<[1, 2]> : vector<2xi64>, strides = dense<[2, 1]> : vector<2xi64>}
    ins(%xg, %w : tensor<?x4x2x9x9xf32>, tensor<4x3x2x3x3xf32>) outs(%bg : tensor<?x4x3x4x5xf32>)
    -> tensor<?x4x3x4x5xf32>
  %y = tensor.collapse_shape %c [[0], [1, 2], [3], [4]] : tensor<?x4x3x4x5xf32> into tensor<?x12x4x5xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<?x12x4x5xf32>) outs(%e : tensor<?x12x4x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = math.tanh %in : f32
    linalg.yield %t : f32
  } -> tensor<?x12x4x5xf32>
  return %r : tensor<?x12x4x5xf32>
}

// -----

// A channel shuffle exchanges groups with the channels of each within the pixels of a channels-last image, of any batch.
// CHECK-LABEL: @shuffle
// CHECK: %[[CONV:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: %[[GROUPS:.*]] = tensor.expand_shape %[[CONV]] {{\[\[}}0], [1], [2], [3, 4]] {{.*}} into tensor<?x5x5x2x3xf32>
// CHECK: %[[EXCHANGED:.*]] = linalg.transpose ins(%[[GROUPS]] : {{.*}}) {{.*}} permutation = [0, 1, 2, 4, 3]
// CHECK: %[[MERGED:.*]] = tensor.collapse_shape %[[EXCHANGED]] {{.*}} into tensor<?x5x5x6xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[MERGED]],
func.func @shuffle(%x: tensor<?x4x7x7xf32>, %w: tensor<6x4x3x3xf32>, %z: tensor<8x6x1x1xf32>, %n: index)
    -> tensor<?x8x5x5xf32> {
  %e = tensor.empty(%n) : tensor<?x6x5x5xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<?x4x7x7xf32>, tensor<6x4x3x3xf32>)
    outs(%e : tensor<?x6x5x5xf32>) -> tensor<?x6x5x5xf32>
  %g = tensor.expand_shape %c [[0], [1, 2], [3], [4]] output_shape [%n, 2, 3, 5, 5]
    : tensor<?x6x5x5xf32> into tensor<?x2x3x5x5xf32>
  %te = tensor.empty(%n) : tensor<?x3x2x5x5xf32>
  %t = linalg.transpose ins(%g : tensor<?x2x3x5x5xf32>) outs(%te : tensor<?x3x2x5x5xf32>) permutation = [0, 2, 1, 3, 4]
  %s = tensor.collapse_shape %t [[0], [1, 2], [3], [4]] : tensor<?x3x2x5x5xf32> into tensor<?x6x5x5xf32>
  %re = tensor.empty(%n) : tensor<?x8x5x5xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%s, %z : tensor<?x6x5x5xf32>, tensor<8x6x1x1xf32>)
    outs(%re : tensor<?x8x5x5xf32>) -> tensor<?x8x5x5xf32>
  return %r : tensor<?x8x5x5xf32>
}

// -----

// A single group is shuffled by nothing, whichever dimensions its reshapes are said to merge.
// CHECK-LABEL: @single_group
// CHECK: %[[CONV:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK-NOT: linalg.transpose ins(%[[CONV]]
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[CONV]],
func.func @single_group(%x: tensor<1x4x7x7xf32>, %w: tensor<6x4x3x3xf32>, %z: tensor<8x6x1x1xf32>) -> tensor<1x8x5x5xf32> {
  %e = tensor.empty() : tensor<1x6x5x5xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x4x7x7xf32>, tensor<6x4x3x3xf32>)
    outs(%e : tensor<1x6x5x5xf32>) -> tensor<1x6x5x5xf32>
  %g = tensor.expand_shape %c [[0], [1, 2], [3], [4]] output_shape [1, 1, 6, 5, 5]
    : tensor<1x6x5x5xf32> into tensor<1x1x6x5x5xf32>
  %te = tensor.empty() : tensor<1x6x1x5x5xf32>
  %t = linalg.transpose ins(%g : tensor<1x1x6x5x5xf32>) outs(%te : tensor<1x6x1x5x5xf32>) permutation = [0, 2, 1, 3, 4]
  %s = tensor.collapse_shape %t [[0], [1], [2, 3], [4]] : tensor<1x6x1x5x5xf32> into tensor<1x6x5x5xf32>
  %re = tensor.empty() : tensor<1x8x5x5xf32>
  %r = linalg.conv_2d_nchw_fchw ins(%s, %z : tensor<1x6x5x5xf32>, tensor<8x6x1x1xf32>)
    outs(%re : tensor<1x8x5x5xf32>) -> tensor<1x8x5x5xf32>
  return %r : tensor<1x8x5x5xf32>
}

// -----

// What moves other dimensions is no shuffle, and stays.
// CHECK-LABEL: @no_shuffle
// CHECK: %[[CONV:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: %[[FIRST:.*]] = linalg.transpose ins(%[[CONV]] : {{.*}}) {{.*}} permutation = [0, 3, 1, 2]
// CHECK: %[[GROUPS:.*]] = tensor.expand_shape %[[FIRST]] {{.*}} into tensor<1x2x3x5x5xf32>
// CHECK: linalg.transpose ins(%[[GROUPS]] : {{.*}}) {{.*}} permutation = [0, 2, 1, 4, 3]
func.func @no_shuffle(%x: tensor<1x4x7x7xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x5x5xf32> {
  %e = tensor.empty() : tensor<1x6x5x5xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x4x7x7xf32>, tensor<6x4x3x3xf32>)
    outs(%e : tensor<1x6x5x5xf32>) -> tensor<1x6x5x5xf32>
  %g = tensor.expand_shape %c [[0], [1, 2], [3], [4]] output_shape [1, 2, 3, 5, 5]
    : tensor<1x6x5x5xf32> into tensor<1x2x3x5x5xf32>
  %te = tensor.empty() : tensor<1x3x2x5x5xf32>
  %t = linalg.transpose ins(%g : tensor<1x2x3x5x5xf32>) outs(%te : tensor<1x3x2x5x5xf32>) permutation = [0, 2, 1, 4, 3]
  %s = tensor.collapse_shape %t [[0], [1, 2], [3], [4]] : tensor<1x3x2x5x5xf32> into tensor<1x6x5x5xf32>
  return %s : tensor<1x6x5x5xf32>
}

// -----

// Pooling in three dimensions is a generic that reduces windows: it has channels last, too.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 + d5, d2 * 2 + d6, d3 * 2 + d7, d4)>
// CHECK-DAG: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d5, d6, d7)>
// CHECK-DAG: #[[RESULT:.*]] = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>
// CHECK-LABEL: @pooling_3d
// CHECK: %[[CONV:.*]] = linalg.conv_3d_ndhwc_dhwcf
// CHECK: %[[INIT:.*]] = linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : tensor<?x2x3x3x8xf32>)
// CHECK: %[[POOL:.*]] = linalg.generic {indexing_maps = [#[[READ]], #[[WINDOW]], #[[RESULT]]]
// CHECK-SAME: ins(%[[CONV]], %{{.*}} : tensor<?x2x6x6x8xf32>, tensor<1x2x2xf32>) outs(%[[INIT]] :
// CHECK: linalg.transpose ins(%[[POOL]] : {{.*}}) {{.*}} permutation = [0, 4, 1, 2, 3]
func.func @pooling_3d(%x: tensor<?x4x4x8x8xf32>, %w: tensor<8x4x3x3x3xf32>, %n: index) -> tensor<?x8x2x3x3xf32> {
  %e = tensor.empty(%n) : tensor<?x8x2x6x6xf32>
  %c = linalg.conv_3d_ncdhw_fcdhw ins(%x, %w : tensor<?x4x4x8x8xf32>, tensor<8x4x3x3x3xf32>)
    outs(%e : tensor<?x8x2x6x6xf32>) -> tensor<?x8x2x6x6xf32>
  %lowest = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<1x2x2xf32>
  %pe = tensor.empty(%n) : tensor<?x8x2x3x3xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%pe : tensor<?x8x2x3x3xf32>) -> tensor<?x8x2x3x3xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, c, d, h, w, i, j, k) -> (n, c, d + i, h * 2 + j, w * 2 + k)>,
                     affine_map<(n, c, d, h, w, i, j, k) -> (i, j, k)>,
                     affine_map<(n, c, d, h, w, i, j, k) -> (n, c, d, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel",
                      "reduction", "reduction", "reduction"]}
    ins(%c, %window : tensor<?x8x2x6x6xf32>, tensor<1x2x2xf32>) outs(%init : tensor<?x8x2x3x3xf32>) {
  ^bb0(%in: f32, %w0: f32, %out: f32):
    %m = arith.maximumf %in, %out : f32
    linalg.yield %m : f32
  } -> tensor<?x8x2x3x3xf32>
  return %r : tensor<?x8x2x3x3xf32>
}

// -----

// What is resized between convolutions has channels last; what then leaves the program is transposed while it is small.
// CHECK-LABEL: @resizing
// CHECK: %[[FIRST:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: %[[RESIZED:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x10x10x8xf32>)
// CHECK-DAG: %[[N:.*]] = linalg.index 0
// CHECK-DAG: %[[C:.*]] = linalg.index 3
// CHECK: tensor.extract %[[FIRST]][%[[N]], %{{.*}}, %{{.*}}, %[[C]]]
// CHECK: %[[SECOND:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[RESIZED]],
// CHECK: %[[LAST:.*]] = linalg.transpose ins(%[[SECOND]] : tensor<1x10x10x8xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x20x20xf32>)
// CHECK: tensor.extract %[[LAST]]
func.func @resizing(%x: tensor<1x4x5x5xf32>, %w: tensor<8x4x1x1xf32>, %z: tensor<8x8x1x1xf32>)
    -> tensor<1x8x20x20xf32> {
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<1x8x5x5xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x4x5x5xf32>, tensor<8x4x1x1xf32>)
    outs(%e : tensor<1x8x5x5xf32>) -> tensor<1x8x5x5xf32>
  %re = tensor.empty() : tensor<1x8x10x10xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%re : tensor<1x8x10x10xf32>) {
  ^bb0(%out: f32):
    %n = linalg.index 0 : index
    %k = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w0 = linalg.index 3 : index
    %i = arith.divsi %h, %two : index
    %j = arith.divsi %w0, %two : index
    %s = tensor.extract %c[%n, %k, %i, %j] : tensor<1x8x5x5xf32>
    linalg.yield %s : f32
  } -> tensor<1x8x10x10xf32>
  %d = linalg.conv_2d_nchw_fchw ins(%r, %z : tensor<1x8x10x10xf32>, tensor<8x8x1x1xf32>)
    outs(%re : tensor<1x8x10x10xf32>) -> tensor<1x8x10x10xf32>
  %te = tensor.empty() : tensor<1x8x20x20xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%te : tensor<1x8x20x20xf32>) {
  ^bb0(%out: f32):
    %n = linalg.index 0 : index
    %k = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w0 = linalg.index 3 : index
    %i = arith.divsi %h, %two : index
    %j = arith.divsi %w0, %two : index
    %s = tensor.extract %d[%n, %k, %i, %j] : tensor<1x8x10x10xf32>
    linalg.yield %s : f32
  } -> tensor<1x8x20x20xf32>
  return %t : tensor<1x8x20x20xf32>
}

// -----

// A size of what is replaced that is an operand of something else that is replaced.
// CHECK-LABEL: @size_of_a_replaced_image
// CHECK: %[[BATCH:.*]] = tensor.dim %arg0
// CHECK: %[[CONVOLUTION:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: tensor.extract_slice %[[CONVOLUTION]][0, 0, 0, 0] [%{{.*}}, 14, 14, 2]
// CHECK-NOT: linalg.conv_2d_nchw_fchw
func.func @size_of_a_replaced_image(%x: tensor<?x8x16x16xf32>, %w: tensor<4x8x3x3xf32>, %init: tensor<?x4x14x14xf32>)
    -> tensor<?x2x14x14xf32> {
  %zero = arith.constant 0 : index
  %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<?x8x16x16xf32>, tensor<4x8x3x3xf32>)
    outs(%init : tensor<?x4x14x14xf32>) -> tensor<?x4x14x14xf32>
  %n = tensor.dim %r, %zero : tensor<?x4x14x14xf32>
  %s = tensor.extract_slice %r[0, 0, 0, 0] [%n, 2, 14, 14] [1, 1, 1, 1]
    : tensor<?x4x14x14xf32> to tensor<?x2x14x14xf32>
  return %s : tensor<?x2x14x14xf32>
}

// -----

// The gradient of a depthwise filter: torch-mlir pads an image whose channels it has split into groups. The
// whole image is padded, next to what reads it.
// CHECK-LABEL: @padded_groups
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x6x6xf32>
// CHECK: %[[XT:.*]] = linalg.transpose ins(%[[X]] : {{.*}}) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[P:.*]] = tensor.pad %[[XT]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK: tensor.expand_shape %[[P]] {{.*}} into tensor<?x8x8x8x1xf32>
// CHECK-NOT: tensor.pad
func.func @padded_groups(%x: tensor<?x8x6x6xf32>, %y: tensor<?x8x1x6x6xf32>) -> tensor<8x1x1x3x3xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8x6x6xf32>
  %s = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [%n, 8, 1, 6, 6]
    : tensor<?x8x6x6xf32> into tensor<?x8x1x6x6xf32>
  %p = tensor.pad %s low[0, 0, 0, 1, 1] high[0, 0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index, %e: index):
    tensor.yield %zero : f32
  } : tensor<?x8x1x6x6xf32> to tensor<?x8x1x8x8xf32>
  %e = tensor.empty() : tensor<8x1x1x3x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x1x1x3x3xf32>) -> tensor<8x1x1x3x3xf32>
  %r = linalg.generic {indexing_maps = [
      affine_map<(g, k, c, r, s, n, o, p) -> (n, g, c, o + r, p + s)>,
      affine_map<(g, k, c, r, s, n, o, p) -> (n, g, k, o, p)>,
      affine_map<(g, k, c, r, s, n, o, p) -> (g, k, c, r, s)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %y : tensor<?x8x1x8x8xf32>, tensor<?x8x1x6x6xf32>) outs(%f : tensor<8x1x1x3x3xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %product = arith.mulf %a, %b : f32
    %total = arith.addf %sum, %product : f32
    linalg.yield %total : f32
  } -> tensor<8x1x1x3x3xf32>
  return %r : tensor<8x1x1x3x3xf32>
}

// -----

// What is one number everywhere is concatenated channels last, too; an argument beside it would be transposed.
// CHECK-LABEL: @concatenated
// CHECK: %[[CONV:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: %[[ZEROS:.*]] = arith.constant dense<0.000000e+00> : tensor<1x6x6x2xf32>
// CHECK: %[[BOTH:.*]] = tensor.concat dim(3) %[[CONV]], %[[ZEROS]]
// CHECK: linalg.transpose ins(%[[BOTH]]
// CHECK: tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<1x4x6x6xf32>, tensor<1x2x6x6xf32>)
func.func @concatenated(%x: tensor<1x8x8x8xf32>, %w: tensor<4x8x3x3xf32>, %state: tensor<1x2x6x6xf32>)
    -> (tensor<1x6x6x6xf32>, tensor<1x6x6x6xf32>) {
  %e = tensor.empty() : tensor<1x4x6x6xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x8x8xf32>, tensor<4x8x3x3xf32>)
    outs(%e : tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %zeros = arith.constant dense<0.0> : tensor<1x2x6x6xf32>
  %first = tensor.concat dim(1) %c, %zeros : (tensor<1x4x6x6xf32>, tensor<1x2x6x6xf32>) -> tensor<1x6x6x6xf32>
  %next = tensor.concat dim(1) %c, %state : (tensor<1x4x6x6xf32>, tensor<1x2x6x6xf32>) -> tensor<1x6x6x6xf32>
  return %first, %next : tensor<1x6x6x6xf32>, tensor<1x6x6x6xf32>
}

// -----

// Pixels become tokens, and pixels again: all are channels last, so that nothing is transposed in between.
// CHECK-LABEL: func.func @tokens
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x4x6xf32>, %[[E:.*]]: tensor<?x24x8xf32>
// CHECK: %[[C:.*]] = linalg.conv_2d_nhwc_hwcf
// CHECK: %[[P:.*]] = tensor.collapse_shape %[[C]] {{\[\[}}0], [1, 2], [3]] : tensor<?x4x6x8xf32> into tensor<?x24x8xf32>
// CHECK-NOT: linalg.transpose
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[P]], %[[E]]
// CHECK-NOT: linalg.transpose
// CHECK: tensor.expand_shape %[[S]] {{\[\[}}0], [1, 2], [3]] {{.*}} : tensor<?x24x8xf32> into tensor<?x4x6x8xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf
#tokens = affine_map<(n, t, c) -> (n, t, c)>
func.func @tokens(%x: tensor<?x8x4x6xf32>, %e: tensor<?x24x8xf32>, %w: tensor<8x8x1x1xf32>) -> tensor<?x8x4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8x4x6xf32>
  %ei = tensor.empty(%n) : tensor<?x8x4x6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%ei : tensor<?x8x4x6xf32>) -> tensor<?x8x4x6xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<?x8x4x6xf32>, tensor<8x8x1x1xf32>) outs(%zeros : tensor<?x8x4x6xf32>) -> tensor<?x8x4x6xf32>
  %merged = tensor.collapse_shape %c [[0], [1], [2, 3]] : tensor<?x8x4x6xf32> into tensor<?x8x24xf32>
  %et = tensor.empty(%n) : tensor<?x24x8xf32>
  %t = linalg.transpose ins(%merged : tensor<?x8x24xf32>) outs(%et : tensor<?x24x8xf32>) permutation = [0, 2, 1]
  %s = linalg.generic {indexing_maps = [#tokens, #tokens, #tokens], iterator_types = ["parallel", "parallel", "parallel"]} ins(%t, %e : tensor<?x24x8xf32>, tensor<?x24x8xf32>) outs(%et : tensor<?x24x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<?x24x8xf32>
  %em = tensor.empty(%n) : tensor<?x8x24xf32>
  %back = linalg.transpose ins(%s : tensor<?x24x8xf32>) outs(%em : tensor<?x8x24xf32>) permutation = [0, 2, 1]
  %split = tensor.expand_shape %back [[0], [1], [2, 3]] output_shape [%n, 8, 4, 6] : tensor<?x8x24xf32> into tensor<?x8x4x6xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%split, %w : tensor<?x8x4x6xf32>, tensor<8x8x1x1xf32>) outs(%zeros : tensor<?x8x4x6xf32>) -> tensor<?x8x4x6xf32>
  return %y : tensor<?x8x4x6xf32>
}

// -----

// Quantized images are convolved where they lie channels last; what isn't narrower than its sums is left as it is.
// CHECK-LABEL: @quantized
// CHECK: %[[X:.*]] = linalg.transpose ins(%{{.*}} : tensor<1x8x6x6xi8>) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[W:.*]] = linalg.transpose ins(%{{.*}} : tensor<4x8x3x3xi8>) {{.*}} permutation = [2, 3, 1, 0]
// CHECK: %[[Y:.*]] = linalg.conv_2d_nhwc_hwcf_q {{.*}} ins(%[[X]], %[[W]], %[[A:.*]], %[[B:.*]] : tensor<1x6x6x8xi8>, tensor<3x3x8x4xi8>, i32, i32)
// CHECK: linalg.transpose ins(%[[Y]] : tensor<1x4x4x4xi32>) {{.*}} permutation = [0, 3, 1, 2]
func.func @quantized(%x: tensor<1x8x6x6xi8>, %w: tensor<4x8x3x3xi8>, %a: i32, %b: i32, %i: tensor<1x4x4x4xi32>) -> tensor<1x4x4x4xi32> {
  %y = linalg.conv_2d_nchw_fchw_q ins(%x, %w, %a, %b : tensor<1x8x6x6xi8>, tensor<4x8x3x3xi8>, i32, i32) outs(%i : tensor<1x4x4x4xi32>) -> tensor<1x4x4x4xi32>
  return %y : tensor<1x4x4x4xi32>
}

// CHECK-LABEL: @integers
// CHECK-NOT: linalg.transpose
// CHECK: linalg.conv_2d_nchw_fchw ins
func.func @integers(%x: tensor<1x8x6x6xi32>, %w: tensor<4x8x3x3xi32>, %i: tensor<1x4x4x4xi32>) -> tensor<1x4x4x4xi32> {
  %y = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x6x6xi32>, tensor<4x8x3x3xi32>) outs(%i : tensor<1x4x4x4xi32>) -> tensor<1x4x4x4xi32>
  return %y : tensor<1x4x4x4xi32>
}
