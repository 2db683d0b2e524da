// RUN: winograd-opt --winograd-fuse-epilogue --winograd-verify --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-fuse-epilogue --split-input-file %s 2>%t.err | iree-opt --irdl-file=%S/../../dialect/winograd.irdl.mlir --split-input-file -o %t
// RUN: winograd-opt --winograd-fuse-epilogue --split-input-file --verify-diagnostics %s

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A chain: bias, the addition of a residual defined after the convolution, ReLU.
// CHECK-DAG: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-LABEL: @chain
// CHECK-SAME: (%[[M:.*]]: tensor<36x16x4xf32>, %[[BIAS:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<1x14x14x4xf32>)
// CHECK: %[[RESIDUAL:.*]] = linalg.elementwise <exp> ins(%[[X]]
// CHECK: %[[R:.*]] = "winograd.output_transform"(%[[M]], %[[BIAS]], %[[RESIDUAL]]) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32):
// CHECK-NEXT: %[[AB:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: %[[ABC:.*]] = arith.addf %[[AB]], %[[C]] : f32
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT: %[[RELU:.*]] = arith.maximumf %[[ABC]], %[[ZERO]] : f32
// CHECK-NEXT: vector.yield %[[RELU]] : f32
// CHECK-NEXT: })
// CHECK-SAME: indexing_maps = [#[[CHANNEL]], #[[ALL]]]
// CHECK-NEXT: return %[[R]]
func.func @chain(%m: tensor<36x16x4xf32>, %bias: tensor<4xf32>, %x: tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (k)>,
      affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %bias : tensor<1x14x14x4xf32>, tensor<4xf32>) outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x14x14x4xf32>
  %residual = linalg.elementwise <exp> ins(%x : tensor<1x14x14x4xf32>) outs(%e : tensor<1x14x14x4xf32>)
    -> tensor<1x14x14x4xf32>
  %u = linalg.elementwise <add> ins(%s, %residual : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>)
    outs(%e : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%u : tensor<1x14x14x4xf32>) outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %t = arith.maximumf %a, %zero : f32
    linalg.yield %t : f32
  } -> tensor<1x14x14x4xf32>
  return %r : tensor<1x14x14x4xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Tokens: what follows the merged pixels is computed before they are.
// CHECK-LABEL: @tokens
// CHECK-SAME: (%[[M:.*]]: tensor<36x16x4xf32>, %[[BIAS:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<1x196x4xf32>)
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} into tensor<1x14x14x4xf32>
// CHECK: %[[R:.*]] = "winograd.output_transform"(%[[M]], %[[BIAS]], %[[E]]) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32):
// CHECK-NEXT: %[[AB:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: %[[ABC:.*]] = arith.addf %[[AB]], %[[C]] : f32
// CHECK-NEXT: vector.yield %[[ABC]] : f32
// CHECK: %[[T:.*]] = tensor.collapse_shape %[[R]]
// CHECK-NEXT: return %[[T]]
func.func @tokens(%m: tensor<36x16x4xf32>, %bias: tensor<4xf32>, %x: tensor<1x196x4xf32>) -> tensor<1x196x4xf32> {
  %e = tensor.empty() : tensor<1x196x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  %t = tensor.collapse_shape %y [[0], [1, 2], [3]] : tensor<1x14x14x4xf32> into tensor<1x196x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, t, k) -> (n, t, k)>, affine_map<(n, t, k) -> (k)>,
      affine_map<(n, t, k) -> (n, t, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t, %bias : tensor<1x196x4xf32>, tensor<4xf32>) outs(%e : tensor<1x196x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %u = arith.addf %a, %b : f32
    linalg.yield %u : f32
  } -> tensor<1x196x4xf32>
  %r = linalg.elementwise <add> ins(%s, %x : tensor<1x196x4xf32>, tensor<1x196x4xf32>)
    outs(%e : tensor<1x196x4xf32>) -> tensor<1x196x4xf32>
  return %r : tensor<1x196x4xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What follows from constants is computed here; a broadcast, or a reshape to more dimensions, is read at its source; a
// tensor that is one number is no operand. Both uses of the convolution's output by one operation count as one.
// CHECK-LABEL: @operands
// CHECK-SAME: %[[SCALE:[a-z0-9]*]]: tensor<4xf32>)
// CHECK-NOT: math.rsqrt
// CHECK-NOT: linalg.broadcast
// CHECK: %[[DEVIATION:.*]] = arith.constant dense_resource<epilogue> : tensor<4xf32>
// CHECK: "winograd.output_transform"(%{{.*}}, %[[SCALE]], %[[DEVIATION]])
// CHECK: arith.mulf
// CHECK: %[[THREE:.*]] = arith.constant 3.0
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK: arith.minimumf %{{.*}}, %[[THREE]]
// CHECK: indexing_maps = [#[[CHANNEL:.*]], #[[CHANNEL]]]
// CHECK: dialect_resources
// CHECK: epilogue: "0x040000000000003F0000003F0000003F0000003F"
func.func @operands(%m: tensor<36x16x4xf32>, %scale: tensor<4xf32>) -> tensor<1x14x14x4xf32> {
  %variance = arith.constant dense<4.0> : tensor<4xf32>
  %three = arith.constant dense<3.0> : tensor<f32>
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %v = tensor.empty() : tensor<4xf32>
  %deviation = linalg.elementwise <rsqrt> ins(%variance : tensor<4xf32>) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %wide = linalg.broadcast ins(%scale : tensor<4xf32>) outs(%e : tensor<1x14x14x4xf32>) dimensions = [0, 1, 2]
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  %s = linalg.elementwise <mul> ins(%y, %wide : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>)
    outs(%e : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  %column = tensor.expand_shape %deviation [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>,
      affine_map<(n, h, w, k) -> (0, k)>, affine_map<(n, h, w, k) -> ()>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %s, %column, %three : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>, tensor<1x4xf32>, tensor<f32>)
    outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    %u = arith.mulf %t, %c : f32
    %z = arith.minimumf %u, %d : f32
    linalg.yield %z : f32
  } -> tensor<1x14x14x4xf32>
  return %r : tensor<1x14x14x4xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Several users, several results, or a transposed read end the chain.
// CHECK-LABEL: @left
// CHECK: "winograd.output_transform"(%{{.*}}) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32):
// CHECK-NEXT: vector.yield %[[A]] : f32
// CHECK: linalg.elementwise <exp>
// CHECK: "winograd.output_transform"(%{{.*}}) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32):
// CHECK-NEXT: vector.yield %[[A]] : f32
// CHECK: linalg.generic
// CHECK: "winograd.output_transform"(%{{.*}}) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32):
// CHECK-NEXT: vector.yield %[[A]] : f32
// CHECK: linalg.generic
func.func @left(%m: tensor<36x16x4xf32>) -> (tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>,
    tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>) {
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  %r = linalg.elementwise <exp> ins(%y : tensor<1x14x14x4xf32>) outs(%e : tensor<1x14x14x4xf32>)
    -> tensor<1x14x14x4xf32>
  %y2 = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  // expected-remark @below {{it has 2 results}}
  %two:2 = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>,
      affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y2 : tensor<1x14x14x4xf32>) outs(%e, %e : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %out: f32, %out2: f32):
    linalg.yield %a, %a : f32, f32
  } -> (tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>)
  %y3 = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  // expected-remark @below {{it reads the convolution's output at (d0, d1, d2, d3) -> (d0, d2, d1, d3)}}
  %t = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, w, h, k)>,
      affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y3 : tensor<1x14x14x4xf32>) outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<1x14x14x4xf32>
  return %y, %r, %two#0, %two#1, %t : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>,
    tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Dimensions of size 1 of an operand known only at run time are dropped, so that its channels are innermost.
// CHECK-DAG: #[[IMAGE_CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
// CHECK-LABEL: @excitation
// CHECK-SAME: %[[SCALE:[a-z0-9]*]]: tensor<1x4x1x1xf32>)
// CHECK: %[[COLLAPSED:.*]] = tensor.collapse_shape %[[SCALE]] {{.*}}, [1, 2, 3]]
// CHECK: "winograd.output_transform"(%{{.*}}, %[[COLLAPSED]])
// CHECK: indexing_maps = [#[[IMAGE_CHANNEL]]]
func.func @excitation(%m: tensor<36x16x4xf32>, %scale: tensor<1x4x1x1xf32>) -> tensor<1x14x14x4xf32> {
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>,
      affine_map<(n, h, w, k) -> (n, k, 0, 0)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %scale : tensor<1x14x14x4xf32>, tensor<1x4x1x1xf32>) outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %t = arith.mulf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x14x14x4xf32>
  return %r : tensor<1x14x14x4xf32>
}

// -----

#f4 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Operands with channels outside of other dimensions, or of another type, aren't read by an epilogue.
// CHECK-LABEL: @unreadable
// CHECK-COUNT-2: linalg.generic
func.func @unreadable(%m: tensor<36x16x4xf32>, %z: tensor<1x4x14x14xf32>, %mask: tensor<4xi1>)
    -> (tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  // expected-remark @below {{an operand tensor<1x4x14x14xf32> must have channels innermost, but is read at (d0, d1, d2, d3) -> (d0, d3, d1, d2)}}
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>,
      affine_map<(n, h, w, k) -> (n, k, h, w)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %z : tensor<1x14x14x4xf32>, tensor<1x4x14x14xf32>) outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %t = arith.mulf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<1x14x14x4xf32>
  %y2 = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f4, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
  // expected-remark @below {{it reads tensor<4xi1>, but results are f32}}
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>,
      affine_map<(n, h, w, k) -> (k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y2, %mask : tensor<1x14x14x4xf32>, tensor<4xi1>) outs(%e : tensor<1x14x14x4xf32>) {
  ^bb0(%a: f32, %b: i1, %out: f32):
    %t = arith.select %b, %a, %zero : f32
    linalg.yield %t : f32
  } -> tensor<1x14x14x4xf32>
  return %r, %s : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>
}
