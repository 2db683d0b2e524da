// RUN: winograd-opt --winograd-lower-layer-norm --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>
#column = affine_map<(n, r, c) -> (c)>

// As torch-mlir writes it.
// CHECK-LABEL: func.func @scaled
// CHECK-SAME: (%[[X:.*]]: tensor<2x30x48xf32>, %[[SCALE:.*]]: tensor<48xf32>, %[[SHIFT:.*]]: tensor<48xf32>)
// CHECK-NOT: linalg.generic
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_layer_norm_30x48::@winograd_layer_norm_30x48(%[[X]], %[[SCALE]], %[[SHIFT]])
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @scaled(%x: tensor<2x30x48xf32>, %g: tensor<48xf32>, %b: tensor<48xf32>) -> tensor<2x30x48xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 4.8e1 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x30x48xf32>
  %er = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %m = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %d : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %qs = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qs : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ve = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %epsilon : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %i = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ve : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %n = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %i : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %s = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%n, %g : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %y = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %b : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.addf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  return %y : tensor<2x30x48xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>
#column = affine_map<(n, r, c) -> (c)>

// Without the factors and addends of its elements.
// CHECK-LABEL: func.func @plain
// CHECK-SAME: (%[[X:.*]]: tensor<2x30x48xf32>)
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_layer_norm_30x48::@winograd_layer_norm_30x48(%[[X]])
// CHECK: return %[[Y]]
func.func @plain(%x: tensor<2x30x48xf32>) -> tensor<2x30x48xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 4.8e1 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x30x48xf32>
  %er = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %m = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %d : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %qs = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qs : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ve = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %epsilon : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %i = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ve : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %n = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %i : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  return %n : tensor<2x30x48xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#rows = affine_map<(n, r, c) -> (n, r)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>
#column = affine_map<(n, r, c) -> (c)>

// As ONNX's operator comes: means and roots lose their last dimension, and are spread over the rows.
// CHECK-LABEL: func.func @spread
// CHECK-SAME: (%[[X:.*]]: tensor<2x30x48xf32>)
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_layer_norm_30x48::@winograd_layer_norm_30x48(%[[X]])
// CHECK: return %[[Y]]
func.func @spread(%x: tensor<2x30x48xf32>) -> tensor<2x30x48xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 4.8e1 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x30x48xf32>
  %er = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %m = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %mc = tensor.collapse_shape %m [[0], [1, 2]] : tensor<2x30x1xf32> into tensor<2x30xf32>
  %ms = linalg.generic {indexing_maps = [#rows, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%mc : tensor<2x30xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x30x48xf32>
  %d = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %ms : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %d : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %qs = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qs : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ve = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %epsilon : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %i = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ve : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ic = tensor.collapse_shape %i [[0], [1, 2]] : tensor<2x30x1xf32> into tensor<2x30xf32>
  %is = linalg.generic {indexing_maps = [#rows, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ic : tensor<2x30xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x30x48xf32>
  %n = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %is : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  return %n : tensor<2x30x48xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>
#column = affine_map<(n, r, c) -> (c)>

// What is scaled is read by another, too: scaling stays.
// CHECK-LABEL: func.func @read_twice
// CHECK: %[[N:.*]] = flow.dispatch @winograd_layer_norm_30x48::@winograd_layer_norm_30x48(%{{[^,]*}})
// CHECK: linalg.generic {{.*}} ins(%[[N]], %
// CHECK: return %{{.*}}, %[[N]]
func.func @read_twice(%x: tensor<2x30x48xf32>, %g: tensor<48xf32>, %b: tensor<48xf32>) -> (tensor<2x30x48xf32>, tensor<2x30x48xf32>) {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 4.8e1 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x30x48xf32>
  %er = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %m = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %d : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %qs = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qs : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ve = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %epsilon : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %i = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ve : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %n = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %i : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %s = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%n, %g : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %y = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %b : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.addf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  return %y, %n : tensor<2x30x48xf32>, tensor<2x30x48xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>
#column = affine_map<(n, r, c) -> (c)>

// The variance of a sample is divided by one less.
// CHECK-LABEL: func.func @other_divisor
// CHECK-NOT: flow.dispatch
func.func @other_divisor(%x: tensor<2x30x48xf32>, %g: tensor<48xf32>, %b: tensor<48xf32>) -> tensor<2x30x48xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 4.7e1 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x30x48xf32>
  %er = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %m = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %d : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %qs = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qs : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ve = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %epsilon : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %i = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ve : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %n = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %i : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %s = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%n, %g : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %y = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %b : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.addf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  return %y : tensor<2x30x48xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>
#column = affine_map<(n, r, c) -> (c)>

// The squares are of the elements, not of their differences from the mean.
// CHECK-LABEL: func.func @other_squares
// CHECK-NOT: flow.dispatch
func.func @other_squares(%x: tensor<2x30x48xf32>, %g: tensor<48xf32>, %b: tensor<48xf32>) -> tensor<2x30x48xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 4.8e1 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<2x30x48xf32>
  %er = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %m = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %x : tensor<2x30x48xf32>, tensor<2x30x48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %qs = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%q : tensor<2x30x48xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %v = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%qs : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %ve = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %epsilon : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %i = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%ve : tensor<2x30x1xf32>) outs(%er : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %n = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d, %i : tensor<2x30x48xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %s = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%n, %g : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  %y = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %b : tensor<2x30x48xf32>, tensor<48xf32>) outs(%e : tensor<2x30x48xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.addf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<2x30x48xf32>
  return %y : tensor<2x30x48xf32>
}
