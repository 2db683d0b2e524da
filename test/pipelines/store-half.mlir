// RUN: winograd-opt %s --winograd-assign-schedule --winograd-store-half | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "skylake-avx512", cpu_features = "+avx2,+fma,+f16c,+avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>

// The image is read, and the result between convolutions and the last one are written, in half precision.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[X:.*]]: tensor<1x12x12x8xf16>
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[X]]) {{.*}} : (tensor<1x12x12x8xf16>) -> tensor<16x25x8xf32>
// CHECK: linalg.batch_matmul {{.*}} ins(%[[V]]
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: arith.maximumf
// CHECK: arith.truncf
// CHECK: : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf16>
// CHECK: "winograd.input_transform"(%[[Y]]) {{.*}} : (tensor<1x10x10x8xf16>) -> tensor<16x16x8xf32>
// CHECK: %[[R:.*]] = "winograd.output_transform"
// CHECK: arith.truncf
// CHECK: : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf16>
// CHECK: return %[[R]]
func.func @chain(%x: tensor<1x12x12x8xf16>, %u: tensor<16x8x8xf32>) -> tensor<1x8x8x8xf16> {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16x8xf32>
  %e = tensor.empty() : tensor<1x12x12x8xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x12x12x8xf16>) outs(%e : tensor<1x12x12x8xf32>) {
  ^bb0(%a: f16, %b: f32):
    %c = arith.extf %a : f16 to f32
    linalg.yield %c : f32
  } -> tensor<1x12x12x8xf32>
  %v = "winograd.input_transform"(%w) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %low = arith.constant 0.0 : f32
    %h = arith.truncf %a : f32 to f16
    %s = arith.extf %h : f16 to f32
    %r = arith.maximumf %s, %low : f32
    vector.yield %r : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %v2 = "winograd.input_transform"(%y) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x10x8xf32>) -> tensor<16x16x8xf32>
  %m2 = linalg.batch_matmul ins(%v2, %u : tensor<16x16x8xf32>, tensor<16x8x8xf32>) outs(%zero : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf32>
  %f = tensor.empty() : tensor<1x8x8x8xf16>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%y2 : tensor<1x8x8x8xf32>) outs(%f : tensor<1x8x8x8xf16>) {
  ^bb0(%a: f32, %b: f16):
    %c = arith.truncf %a : f32 to f16
    linalg.yield %c : f16
  } -> tensor<1x8x8x8xf16>
  return %n : tensor<1x8x8x8xf16>
}

// What asks for sizes reads no element.
// CHECK-LABEL: func.func @asked_for_sizes
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf16>
// CHECK: tensor.dim %[[Y]]
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[Y]]) {{.*}} : (tensor<1x10x10x8xf16>) -> tensor<16x16x8xf32>
// CHECK: tensor.dim %[[V]]
func.func @asked_for_sizes(%x: tensor<1x12x12x8xf32>, %u: tensor<16x8x8xf32>) -> (index, index, tensor<1x8x8x8xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16x8xf32>
  %c1 = arith.constant 1 : index
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %s = arith.extf %h : f16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %rows = tensor.dim %y, %c1 : tensor<1x10x10x8xf32>
  %v2 = "winograd.input_transform"(%y) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x10x8xf32>) -> tensor<16x16x8xf32>
  %tiles = tensor.dim %v2, %c1 : tensor<16x16x8xf32>
  %m2 = linalg.batch_matmul ins(%v2, %u : tensor<16x16x8xf32>, tensor<16x8x8xf32>) outs(%zero : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf32>
  return %rows, %tiles, %y2 : index, index, tensor<1x8x8x8xf32>
}

// An image that is transposed first is, too, in half precision.
// CHECK-LABEL: func.func @transposed
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x12x12xf16>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[X]] : tensor<1x8x12x12xf16>)
// CHECK: "winograd.input_transform"(%[[T]]) {{.*}} : (tensor<1x12x12x8xf16>) -> tensor<16x25x8xf32>
func.func @transposed(%x: tensor<1x8x12x12xf16>, %u: tensor<16x8x8xf32>) -> tensor<1x10x10x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %e = tensor.empty() : tensor<1x8x12x12xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x8x12x12xf16>) outs(%e : tensor<1x8x12x12xf32>) {
  ^bb0(%a: f16, %b: f32):
    %c = arith.extf %a : f16 to f32
    linalg.yield %c : f32
  } -> tensor<1x8x12x12xf32>
  %i = tensor.empty() : tensor<1x12x12x8xf32>
  %t = linalg.transpose ins(%w : tensor<1x8x12x12xf32>) outs(%i : tensor<1x12x12x8xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  return %y : tensor<1x10x10x8xf32>
}

// A result that isn't rounded, or that something else reads, stays in f32.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: -> tensor<1x10x10x8xf32>
// CHECK: "winograd.input_transform"(%[[Y]]) {{.*}} : (tensor<1x10x10x8xf32>)
// CHECK: return %[[Y]], %{{.*}} : tensor<1x10x10x8xf32>, tensor<1x8x8x8xf32>
func.func @read_elsewhere(%x: tensor<1x12x12x8xf32>, %u: tensor<16x8x8xf32>) -> (tensor<1x10x10x8xf32>, tensor<1x8x8x8xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16x8xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %s = arith.extf %h : f16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %v2 = "winograd.input_transform"(%y) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x10x8xf32>) -> tensor<16x16x8xf32>
  %m2 = linalg.batch_matmul ins(%v2, %u : tensor<16x16x8xf32>, tensor<16x8x8xf32>) outs(%zero : tensor<16x16x8xf32>) -> tensor<16x16x8xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x16x8xf32>) -> tensor<1x8x8x8xf32>
  return %y, %y2 : tensor<1x10x10x8xf32>, tensor<1x8x8x8xf32>
}

// Max pooling that reads the image in place gives numbers of it: both are stored in half precision.
// CHECK-LABEL: func.func @pooled
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf16>
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<1x5x10x8xf16>)
// CHECK-COUNT-2: tensor.extract %[[Y]]{{.*}} : tensor<1x10x10x8xf16>
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : f32
// CHECK: arith.truncf
// CHECK: "winograd.input_transform"(%[[P]]) {{.*}} : (tensor<1x5x10x8xf16>) -> tensor<16x8x8xf32>
func.func @pooled(%x: tensor<1x12x12x8xf32>, %u: tensor<16x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %zero = arith.constant dense<0.0> : tensor<16x8x8xf32>
  %two = arith.constant 2 : index
  %one = arith.constant 1 : index
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %s = arith.extf %h : f16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %e = tensor.empty() : tensor<1x5x10x8xf32>
  %p = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      outs(%e : tensor<1x5x10x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %h = linalg.index 1 : index
    %w = linalg.index 2 : index
    %c = linalg.index 3 : index
    %first = arith.muli %h, %two : index
    %second = arith.addi %first, %one : index
    %a = tensor.extract %y[%n, %first, %w, %c] : tensor<1x10x10x8xf32>
    %b = tensor.extract %y[%n, %second, %w, %c] : tensor<1x10x10x8xf32>
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x5x10x8xf32>
  %v2 = "winograd.input_transform"(%p) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x5x10x8xf32>) -> tensor<16x8x8xf32>
  %m2 = linalg.batch_matmul ins(%v2, %u : tensor<16x8x8xf32>, tensor<16x8x8xf32>) outs(%zero : tensor<16x8x8xf32>) -> tensor<16x8x8xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x8x8xf32>) -> tensor<1x3x8x8xf32>
  return %y2 : tensor<1x3x8x8xf32>
}

// What an epilogue reads is widened there, not in memory.
// CHECK-LABEL: func.func @read_by_an_epilogue
// CHECK-SAME: (%[[X:.*]]: tensor<1x12x12x8xf32>, %[[R:.*]]: tensor<1x10x10x8xbf16>
// CHECK-NOT: linalg.generic
// CHECK: "winograd.output_transform"(%{{.*}}, %[[R]]) ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: bf16):
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[B]] : bf16 to f32
// CHECK-NEXT: arith.addf %[[A]], %[[W]]
func.func @read_by_an_epilogue(%x: tensor<1x12x12x8xf32>, %r: tensor<1x10x10x8xbf16>, %u: tensor<16x8x8xf32>) -> tensor<1x10x10x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %e = tensor.empty() : tensor<1x10x10x8xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%r : tensor<1x10x10x8xbf16>) outs(%e : tensor<1x10x10x8xf32>) {
  ^bb0(%a: bf16, %b: f32):
    %c = arith.extf %a : bf16 to f32
    linalg.yield %c : f32
  } -> tensor<1x10x10x8xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m, %w) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [#id], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>, tensor<1x10x10x8xf32>) -> tensor<1x10x10x8xf32>
  return %y : tensor<1x10x10x8xf32>
}

// Pixels that kernels copy are of half precision, as the image is.
// CHECK-LABEL: func.func @copied
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: -> tensor<1x10x10x8xbf16>
// CHECK: %[[P:.*]] = tensor.extract_slice %[[Y]][0, 0, 0, 0] [1, 5, 5, 8] [1, 2, 2, 1] : tensor<1x10x10x8xbf16> to tensor<1x5x5x8xbf16>
// CHECK: "winograd.input_transform"(%[[P]])
func.func @copied(%x: tensor<1x12x12x8xf32>, %u: tensor<16x8x8xf32>) -> tensor<1x3x3x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x25x8xf32>
  %few = arith.constant dense<0.0> : tensor<16x4x8xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x12x12x8xf32>) -> tensor<16x25x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x25x8xf32>, tensor<16x8x8xf32>) outs(%zeros : tensor<16x25x8xf32>) -> tensor<16x25x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to bf16
    %s = arith.extf %h : bf16 to f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x25x8xf32>) -> tensor<1x10x10x8xf32>
  %p = tensor.extract_slice %y[0, 0, 0, 0] [1, 5, 5, 8] [1, 2, 2, 1] : tensor<1x10x10x8xf32> to tensor<1x5x5x8xf32>
  %w = "winograd.input_transform"(%p) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x5x5x8xf32>) -> tensor<16x4x8xf32>
  %n = linalg.batch_matmul ins(%w, %u : tensor<16x4x8xf32>, tensor<16x8x8xf32>) outs(%few : tensor<16x4x8xf32>) -> tensor<16x4x8xf32>
  %z = "winograd.output_transform"(%n) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x4x8xf32>) -> tensor<1x3x3x8xf32>
  return %z : tensor<1x3x3x8xf32>
}
