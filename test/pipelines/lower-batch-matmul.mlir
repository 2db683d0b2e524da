// RUN: winograd-opt --winograd-lower-batch-matmul --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#element = affine_map<(b, h, t, c) -> (b, h, t, c)>
#number = affine_map<(b, h, t, c) -> ()>

// As torch-mlir writes attention of two heads: queries, scaled, and keys are read where they are. Those are scaled, too,
// by a tensor, as in ONNX models.
// CHECK-LABEL: func.func @scores
// CHECK-SAME: (%[[QKV:.*]]: tensor<1x50x192xf32>)
// CHECK-NOT: linalg.
// CHECK: %[[S:.*]] = flow.dispatch @winograd_batch_matmul_2x50x50_from_32::@winograd_batch_matmul_2x50x50_from_32(%[[QKV]], %[[QKV]])
// CHECK-SAME: -> tensor<2x50x50xf32>
// CHECK-NEXT: return %[[S]]
func.func @scores(%qkv: tensor<1x50x192xf32>) -> tensor<2x50x50xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %split = tensor.expand_shape %qkv [[0], [1], [2, 3, 4]] output_shape [1, 50, 3, 2, 32] : tensor<1x50x192xf32> into tensor<1x50x3x2x32xf32>
  %et = tensor.empty() : tensor<3x1x2x50x32xf32>
  %t = linalg.transpose ins(%split : tensor<1x50x3x2x32xf32>) outs(%et : tensor<3x1x2x50x32xf32>) permutation = [2, 0, 3, 1, 4]
  %q = tensor.extract_slice %t[0, 0, 0, 0, 0] [1, 1, 2, 50, 32] [1, 1, 1, 1, 1] : tensor<3x1x2x50x32xf32> to tensor<1x2x50x32xf32>
  %k = tensor.extract_slice %t[1, 0, 0, 0, 0] [1, 1, 2, 50, 32] [1, 1, 1, 1, 1] : tensor<3x1x2x50x32xf32> to tensor<1x2x50x32xf32>
  %eq = tensor.empty() : tensor<1x2x50x32xf32>
  %scaled = linalg.generic {indexing_maps = [#element, #element], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%q : tensor<1x2x50x32xf32>) outs(%eq : tensor<1x2x50x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %p = arith.mulf %in, %scale : f32
    linalg.yield %p : f32
  } -> tensor<1x2x50x32xf32>
  %ek = tensor.empty() : tensor<1x2x32x50xf32>
  %kt = linalg.transpose ins(%k : tensor<1x2x50x32xf32>) outs(%ek : tensor<1x2x32x50xf32>) permutation = [0, 1, 3, 2]
  %half = arith.constant dense<0.5> : tensor<f32>
  %ks = linalg.generic {indexing_maps = [#element, #number, #element], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%kt, %half : tensor<1x2x32x50xf32>, tensor<f32>) outs(%ek : tensor<1x2x32x50xf32>) {
  ^bb0(%in: f32, %factor: f32, %out: f32):
    %p = arith.mulf %in, %factor : f32
    linalg.yield %p : f32
  } -> tensor<1x2x32x50xf32>
  %l = tensor.collapse_shape %scaled [[0, 1], [2], [3]] : tensor<1x2x50x32xf32> into tensor<2x50x32xf32>
  %r = tensor.collapse_shape %ks [[0, 1], [2], [3]] : tensor<1x2x32x50xf32> into tensor<2x32x50xf32>
  %e = tensor.empty() : tensor<2x50x50xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x50x50xf32>) -> tensor<2x50x50xf32>
  %s = linalg.batch_matmul ins(%l, %r : tensor<2x50x32xf32>, tensor<2x32x50xf32>) outs(%zeros : tensor<2x50x50xf32>) -> tensor<2x50x50xf32>
  return %s : tensor<2x50x50xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// What heads give is written as their channels side by side.
// CHECK-LABEL: func.func @heads_side_by_side
// CHECK-SAME: (%[[P:.*]]: tensor<2x50x50xf32>, %[[V:.*]]: tensor<2x50x32xf32>)
// CHECK-NOT: linalg.
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_batch_matmul_2x50x32_from_50::@winograd_batch_matmul_2x50x32_from_50(%[[P]], %[[V]])
// CHECK-SAME: -> tensor<1x50x2x32xf32>
// CHECK-NEXT: return %[[Y]]
func.func @heads_side_by_side(%p: tensor<2x50x50xf32>, %v: tensor<2x50x32xf32>) -> tensor<1x50x2x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x50x32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x50x32xf32>) -> tensor<2x50x32xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x50x50xf32>, tensor<2x50x32xf32>) outs(%zeros : tensor<2x50x32xf32>) -> tensor<2x50x32xf32>
  %heads = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [1, 2, 50, 32] : tensor<2x50x32xf32> into tensor<1x2x50x32xf32>
  %et = tensor.empty() : tensor<1x50x2x32xf32>
  %t = linalg.transpose ins(%heads : tensor<1x2x50x32xf32>) outs(%et : tensor<1x50x2x32xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<1x50x2x32xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Rows of windows: those of a window lie behind each other only as the transposition wrote them.
// CHECK-LABEL: func.func @windows
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: flow.dispatch @winograd_batch_matmul_4x49x49_from_32::@{{[^(]*}}(%[[T]], %[[T]])
func.func @windows(%x: tensor<2x7x2x7x32xf32>) -> tensor<4x49x49xf32> {
  %zero = arith.constant 0.0 : f32
  %et = tensor.empty() : tensor<2x2x7x7x32xf32>
  %t = linalg.transpose ins(%x : tensor<2x7x2x7x32xf32>) outs(%et : tensor<2x2x7x7x32xf32>) permutation = [0, 2, 1, 3, 4]
  %l = tensor.collapse_shape %t [[0, 1], [2, 3], [4]] : tensor<2x2x7x7x32xf32> into tensor<4x49x32xf32>
  %er = tensor.empty() : tensor<4x32x49xf32>
  %r = linalg.transpose ins(%l : tensor<4x49x32xf32>) outs(%er : tensor<4x32x49xf32>) permutation = [0, 2, 1]
  %e = tensor.empty() : tensor<4x49x49xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<4x49x49xf32>) -> tensor<4x49x49xf32>
  %y = linalg.batch_matmul ins(%l, %r : tensor<4x49x32xf32>, tensor<4x32x49xf32>) outs(%zeros : tensor<4x49x49xf32>) -> tensor<4x49x49xf32>
  return %y : tensor<4x49x49xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// IREE multiplies few rows, and whole tiles that lie in order, as fast.
// CHECK-LABEL: func.func @left
// CHECK-NOT: flow.dispatch
// CHECK: return
func.func @left(%a: tensor<2x4x50xf32>, %b: tensor<2x50x50xf32>, %c: tensor<2x64x32xf32>, %d: tensor<2x32x64xf32>) -> (tensor<2x4x50xf32>, tensor<2x64x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x50xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x50xf32>) -> tensor<2x4x50xf32>
  %few = linalg.batch_matmul ins(%a, %b : tensor<2x4x50xf32>, tensor<2x50x50xf32>) outs(%zeros : tensor<2x4x50xf32>) -> tensor<2x4x50xf32>
  %et = tensor.empty() : tensor<2x64x64xf32>
  %zt = linalg.fill ins(%zero : f32) outs(%et : tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
  %tiles = linalg.batch_matmul ins(%c, %d : tensor<2x64x32xf32>, tensor<2x32x64xf32>) outs(%zt : tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
  return %few, %tiles : tensor<2x4x50xf32>, tensor<2x64x64xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// What is computed before a loop is not computed in it because a transposition is there.
// CHECK-LABEL: func.func @transposed_in_a_loop
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_batch_matmul_2x33x19_from_20
// CHECK: scf.for
// CHECK-NOT: flow.dispatch
// CHECK: linalg.transpose ins(%[[Y]] : tensor<2x33x19xf32>)
func.func @transposed_in_a_loop(%x: tensor<2x33x20xf32>, %w: tensor<2x20x19xf32>, %b: tensor<33x2x19xf32>) -> tensor<33x2x19xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x33x19xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x33x19xf32>) -> tensor<2x33x19xf32>
  %y = linalg.batch_matmul ins(%x, %w : tensor<2x33x20xf32>, tensor<2x20x19xf32>) outs(%zeros : tensor<2x33x19xf32>) -> tensor<2x33x19xf32>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%sum = %b) -> (tensor<33x2x19xf32>) {
    %et = tensor.empty() : tensor<33x2x19xf32>
    %t = linalg.transpose ins(%y : tensor<2x33x19xf32>) outs(%et : tensor<33x2x19xf32>) permutation = [1, 0, 2]
    %next = arith.addf %sum, %t : tensor<33x2x19xf32>
    scf.yield %next : tensor<33x2x19xf32>
  }
  return %r : tensor<33x2x19xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

// GPUs have IREE's code where its tiles divide all sizes, and a kernel otherwise.
// CHECK-LABEL: func.func @on_a_gpu
// CHECK-SAME: (%[[A:.*]]: tensor<2x50x50xf32>, %[[B:.*]]: tensor<2x50x50xf32>, %[[C:.*]]: tensor<2x64x64xf32>)
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_batch_matmul_2x50x50_from_50::@winograd_batch_matmul_2x50x50_from_50(%[[A]], %[[B]])
// CHECK: %[[Z:.*]] = linalg.batch_matmul ins(%[[C]], %[[C]]
// CHECK: return %[[Y]], %[[Z]]
func.func @on_a_gpu(%a: tensor<2x50x50xf32>, %b: tensor<2x50x50xf32>, %c: tensor<2x64x64xf32>) -> (tensor<2x50x50xf32>, tensor<2x64x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x50x50xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x50x50xf32>) -> tensor<2x50x50xf32>
  %y = linalg.batch_matmul ins(%a, %b : tensor<2x50x50xf32>, tensor<2x50x50xf32>) outs(%zeros : tensor<2x50x50xf32>) -> tensor<2x50x50xf32>
  %ec = tensor.empty() : tensor<2x64x64xf32>
  %zeros_c = linalg.fill ins(%zero : f32) outs(%ec : tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
  %z = linalg.batch_matmul ins(%c, %c : tensor<2x64x64xf32>, tensor<2x64x64xf32>) outs(%zeros_c : tensor<2x64x64xf32>) -> tensor<2x64x64xf32>
  return %y, %z : tensor<2x50x50xf32>, tensor<2x64x64xf32>
}
