// RUN: winograd-opt --winograd-merge-elementwise --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-merge-elementwise --split-input-file --verify-diagnostics %s

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (k)>

// Swish after a bias: what is multiplied has one source.
// CHECK-LABEL: @swish
// CHECK-SAME: (%[[M:.*]]: tensor<1x36x4xf32>, %[[BIAS:.*]]: tensor<4xf32>)
// CHECK: %[[Y:.*]] = "winograd.output_transform"(%[[M]])
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[Y]], %[[BIAS]]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[B]] : tensor<1x6x6x4xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[NEGATIVE:.*]] = arith.negf %[[X]]
// CHECK-NEXT: %[[EXP:.*]] = math.exp %[[NEGATIVE]]
// CHECK: %[[SUM:.*]] = arith.addf %[[EXP]]
// CHECK-NEXT: %[[SIGMOID:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK-NEXT: %[[SWISH:.*]] = arith.mulf %[[X]], %[[SIGMOID]]
// CHECK-NEXT: linalg.yield %[[SWISH]]
// CHECK: return %[[R]]
func.func @swish(%m: tensor<1x36x4xf32>, %bias: tensor<4xf32>) -> tensor<1x6x6x4xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32>
  %b = linalg.generic {indexing_maps = [#all, #channel, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %bias : tensor<1x6x6x4xf32>, tensor<4xf32>) outs(%e : tensor<1x6x6x4xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %t = arith.addf %a, %c : f32
    linalg.yield %t : f32
  } -> tensor<1x6x6x4xf32>
  %s = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b : tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %n = arith.negf %a : f32
    %x = math.exp %n : f32
    %t = arith.addf %x, %one : f32
    %u = arith.divf %one, %t : f32
    linalg.yield %u : f32
  } -> tensor<1x6x6x4xf32>
  %r = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b, %s : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %t = arith.mulf %a, %c : f32
    linalg.yield %t : f32
  } -> tensor<1x6x6x4xf32>
  return %r : tensor<1x6x6x4xf32>
}

// -----

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What else uses the tanh, or the convolution's output, needs it in memory.
// CHECK-LABEL: @other_users
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[S:.*]] = linalg.elementwise <tanh> ins(%[[Y]]
// CHECK: %[[R:.*]] = linalg.elementwise <add> ins(%[[Y]], %[[S]]
// CHECK: return %[[R]], %[[S]]
func.func @other_users(%m: tensor<1x36x4xf32>) -> (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) {
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  // expected-remark @below {{the 2 elementwise operations that use it don't come together, and alone, in one}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32>
  %s = linalg.elementwise <tanh> ins(%y : tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %r = linalg.elementwise <add> ins(%y, %s : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %r, %s : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>
}

// -----

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#turned = affine_map<(n, h, w, k) -> (n, w, h, k)>

// A transposition isn't arithmetic on each element where it is.
// CHECK-LABEL: @transposed
// CHECK: linalg.elementwise <tanh>
// CHECK: linalg.generic
func.func @transposed(%m: tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32> {
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  // expected-remark @below {{the 2 elementwise operations that use it don't come together, and alone, in one}}
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32>
  %s = linalg.elementwise <tanh> ins(%y : tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %r = linalg.generic {indexing_maps = [#all, #turned, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y, %s : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %t = arith.mulf %a, %c : f32
    linalg.yield %t : f32
  } -> tensor<1x6x6x4xf32>
  return %r : tensor<1x6x6x4xf32>
}

// -----

// What uses a concatenation is merged, too, so that it can be computed on the parts.
// CHECK-LABEL: @concatenation
// CHECK: %[[C:.*]] = tensor.concat
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[C]] : tensor<1x6x6x8xf32>)
// CHECK: math.tanh
// CHECK-NEXT: arith.mulf
// CHECK: return %[[R]]
func.func @concatenation(%x: tensor<1x6x6x4xf32>, %y: tensor<1x6x6x4xf32>) -> tensor<1x6x6x8xf32> {
  %e = tensor.empty() : tensor<1x6x6x8xf32>
  %c = tensor.concat dim(3) %x, %y : (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) -> tensor<1x6x6x8xf32>
  %s = linalg.elementwise <tanh> ins(%c : tensor<1x6x6x8xf32>) outs(%e : tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  %r = linalg.elementwise <mul> ins(%c, %s : tensor<1x6x6x8xf32>, tensor<1x6x6x8xf32>)
    outs(%e : tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  return %r : tensor<1x6x6x8xf32>
}

// -----

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// So is what uses a convolution's pixels as tokens, behind what is computed of them before.
// CHECK-LABEL: @tokens
// CHECK: %[[B:.*]] = linalg.elementwise <exp>
// CHECK: %[[T:.*]] = tensor.collapse_shape %[[B]] {{.*}} into tensor<1x36x4xf32>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[T]] : tensor<1x36x4xf32>)
// CHECK: math.tanh
// CHECK-NEXT: arith.mulf
// CHECK: return %[[R]]
func.func @tokens(%m: tensor<1x36x4xf32>) -> tensor<1x36x4xf32> {
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  %i = tensor.empty() : tensor<1x36x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32>
  %b = linalg.elementwise <exp> ins(%y : tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %t = tensor.collapse_shape %b [[0], [1, 2], [3]] : tensor<1x6x6x4xf32> into tensor<1x36x4xf32>
  %s = linalg.elementwise <tanh> ins(%t : tensor<1x36x4xf32>) outs(%i : tensor<1x36x4xf32>) -> tensor<1x36x4xf32>
  %r = linalg.elementwise <mul> ins(%t, %s : tensor<1x36x4xf32>, tensor<1x36x4xf32>)
    outs(%i : tensor<1x36x4xf32>) -> tensor<1x36x4xf32>
  return %r : tensor<1x36x4xf32>
}

// -----

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#none = affine_map<(n, h, w, k) -> ()>

// A gated sum: the gate is read for the first product, so that the second reads only the state beside it.
// CHECK-LABEL: @gated
// CHECK-SAME: (%[[M:.*]]: tensor<1x36x4xf32>, %[[GATE:.*]]: tensor<1x6x6x4xf32>, %[[STATE:.*]]: tensor<1x6x6x4xf32>)
// CHECK: %[[Y:.*]] = "winograd.output_transform"(%[[M]])
// CHECK: %[[P:.*]] = linalg.elementwise <mul> ins(%[[GATE]], %[[Y]]
// CHECK-NEXT: %[[R:.*]] = linalg.generic {{.*}} ins(%[[STATE]], %[[GATE]], %[[P]] :
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[G:.*]]: f32, %[[X:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[INTEGER:.*]] = arith.constant 1 : i64
// CHECK: %[[ONE:.*]] = arith.sitofp %[[INTEGER]] : i64 to f32
// CHECK-NEXT: %[[REST:.*]] = arith.subf %[[ONE]], %[[G]]
// CHECK-NEXT: %[[KEPT:.*]] = arith.mulf %[[REST]], %[[S]]
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[KEPT]], %[[X]]
// CHECK-NEXT: linalg.yield %[[SUM]]
// CHECK: return %[[R]]
func.func @gated(%m: tensor<1x36x4xf32>, %gate: tensor<1x6x6x4xf32>, %state: tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32> {
  %one = arith.constant dense<1> : tensor<i64>
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32>
  %rest = linalg.generic {indexing_maps = [#none, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%one, %gate : tensor<i64>, tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) {
  ^bb0(%i: i64, %g: f32, %out: f32):
    %f = arith.sitofp %i : i64 to f32
    %t = arith.subf %f, %g : f32
    linalg.yield %t : f32
  } -> tensor<1x6x6x4xf32>
  %kept = linalg.elementwise <mul> ins(%rest, %state : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %p = linalg.elementwise <mul> ins(%gate, %y : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %r = linalg.elementwise <add> ins(%kept, %p : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %r : tensor<1x6x6x4xf32>
}

// -----

#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What is computed of two other tensors is read as it is, it is one: so is what has another user.
// CHECK-LABEL: @other_tensors
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[Q:.*]] = linalg.elementwise <mul>
// CHECK: %[[P:.*]] = linalg.elementwise <add> ins(%[[Y]], %[[Q]]
// CHECK: %[[S:.*]] = linalg.elementwise <tanh>
// CHECK: %[[R:.*]] = linalg.elementwise <add> ins(%[[P]], %[[S]]
// CHECK: return %[[R]], %[[S]]
func.func @other_tensors(%m: tensor<1x36x4xf32>, %a: tensor<1x6x6x4xf32>, %b: tensor<1x6x6x4xf32>)
    -> (tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>) {
  %e = tensor.empty() : tensor<1x6x6x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%x: f32):
    vector.yield %x : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x36x4xf32>) -> tensor<1x6x6x4xf32>
  %q = linalg.elementwise <mul> ins(%a, %b : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %p = linalg.elementwise <add> ins(%y, %q : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %s = linalg.elementwise <tanh> ins(%a : tensor<1x6x6x4xf32>) outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %r = linalg.elementwise <add> ins(%p, %s : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>)
    outs(%e : tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  return %r, %s : tensor<1x6x6x4xf32>, tensor<1x6x6x4xf32>
}
