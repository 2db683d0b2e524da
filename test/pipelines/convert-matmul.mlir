// RUN: winograd-opt --winograd-convert-matmul --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// A fully connected layer: rows are elements of a line of inputs, also where the matrix is a transposed constant.
// CHECK-LABEL: @fully_connected
// CHECK-SAME: (%[[X:.*]]: tensor<3x512xf32>)
// CHECK: linalg.transpose
// CHECK-DAG: %[[LINE:.*]] = tensor.expand_shape %[[X]] {{\[}}[0, 1], [2]] output_shape [1, 3, 512]
// CHECK-DAG: %[[TAPS:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0, 1], [2]] output_shape [1, 512, 256]
// CHECK: %[[SUMS:.*]] = linalg.conv_1d_nwc_wcf {{.*}}winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}{{.*}} ins(%[[LINE]], %[[TAPS]]
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[SUMS]] {{\[}}[0, 1], [2]] : tensor<1x3x256xf32> into tensor<3x256xf32>
// CHECK: return %[[R]]
func.func @fully_connected(%x: tensor<3x512xf32>) -> tensor<3x256xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<256x512xf32>
  %e = tensor.empty() : tensor<512x256xf32>
  %t = linalg.transpose ins(%w : tensor<256x512xf32>) outs(%e : tensor<512x256xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<3x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<3x256xf32>) -> tensor<3x256xf32>
  %r = linalg.matmul ins(%x, %t : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f : tensor<3x256xf32>) -> tensor<3x256xf32>
  return %r : tensor<3x256xf32>
}

// Rows that were the pixels of an image stay so; what is computed of the product is computed of the image, and there is
// nothing to reshape.
// CHECK-LABEL: @pixels
// CHECK-SAME: (%[[X:.*]]: tensor<2x5x7x64xf32>, %[[BIAS:.*]]: tensor<32xf32>, %[[Y:.*]]: tensor<70x32xf32>)
// CHECK-DAG: %[[TAPS:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0, 1, 2], [3]] output_shape [1, 1, 64, 32]
// CHECK: %[[SUMS:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[X]], %[[TAPS]]
// CHECK: %[[OTHER:.*]] = tensor.expand_shape %[[Y]] {{\[}}[0, 1, 2], [3]] output_shape [2, 5, 7, 32]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[SUMS]], %[[BIAS]], %[[OTHER]]
// CHECK: return %[[R]] : tensor<2x5x7x32xf32>
func.func @pixels(%x: tensor<2x5x7x64xf32>, %bias: tensor<32xf32>, %y: tensor<70x32xf32>) -> tensor<2x5x7x32xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<64x32xf32>
  %rows = tensor.collapse_shape %x [[0, 1, 2], [3]] : tensor<2x5x7x64xf32> into tensor<70x64xf32>
  %o = tensor.empty() : tensor<70x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<70x32xf32>) -> tensor<70x32xf32>
  %p = linalg.matmul ins(%rows, %w : tensor<70x64xf32>, tensor<64x32xf32>) outs(%f : tensor<70x32xf32>) -> tensor<70x32xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%p, %bias, %y : tensor<70x32xf32>, tensor<32xf32>, tensor<70x32xf32>) outs(%o : tensor<70x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    %u = arith.mulf %t, %c : f32
    linalg.yield %u : f32
  } -> tensor<70x32xf32>
  %r = tensor.expand_shape %s [[0, 1, 2], [3]] output_shape [2, 5, 7, 32] : tensor<70x32xf32> into tensor<2x5x7x32xf32>
  return %r : tensor<2x5x7x32xf32>
}

// A matrix known only at run time, sums that begin with something else, transposed rows.
// CHECK-LABEL: @others
// CHECK-COUNT-3: linalg.matmul
// CHECK-NOT: linalg.conv_1d_nwc_wcf
func.func @others(%y: tensor<3x512xf32>, %w: tensor<512x256xf32>, %init: tensor<3x256xf32>, %z: tensor<512x3xf32>)
    -> (tensor<3x256xf32>, tensor<3x256xf32>, tensor<3x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<1.0> : tensor<512x256xf32>
  %o1 = tensor.empty() : tensor<3x256xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  %1 = linalg.matmul ins(%y, %w : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  %2 = linalg.matmul ins(%y, %c : tensor<3x512xf32>, tensor<512x256xf32>) outs(%init : tensor<3x256xf32>) -> tensor<3x256xf32>
  %3 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%z, %c : tensor<512x3xf32>, tensor<512x256xf32>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  return %1, %2, %3 : tensor<3x256xf32>, tensor<3x256xf32>, tensor<3x256xf32>
}

// Other types, and no rows at all.
// CHECK-LABEL: @other_types
// CHECK-COUNT-3: linalg.matmul
// CHECK-NOT: linalg.conv_1d_nwc_wcf
func.func @other_types(%x: tensor<3x512xf32>, %none: tensor<0x512xf32>) -> (tensor<3x256xf64>, tensor<3x256xf32>, tensor<0x256xf32>) {
  %zero64 = arith.constant 0.0 : f64
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<1.0> : tensor<512x256xf32>
  %h = arith.constant dense<1.0> : tensor<512x256xf16>
  %o0 = tensor.empty() : tensor<3x256xf64>
  %f0 = linalg.fill ins(%zero64 : f64) outs(%o0 : tensor<3x256xf64>) -> tensor<3x256xf64>
  %o1 = tensor.empty() : tensor<3x256xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  %o2 = tensor.empty() : tensor<0x256xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%o2 : tensor<0x256xf32>) -> tensor<0x256xf32>
  %0 = linalg.matmul ins(%x, %c : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f0 : tensor<3x256xf64>) -> tensor<3x256xf64>
  %1 = linalg.matmul ins(%x, %h : tensor<3x512xf32>, tensor<512x256xf16>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  %2 = linalg.matmul ins(%none, %c : tensor<0x512xf32>, tensor<512x256xf32>) outs(%f2 : tensor<0x256xf32>) -> tensor<0x256xf32>
  return %0, %1, %2 : tensor<3x256xf64>, tensor<3x256xf32>, tensor<0x256xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "", wgp = <
    compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device
util.global private @parameter = #flow.parameter.named<"model"::"w"> : tensor<256x512xf32>
util.global private @half = #flow.parameter.named<"model"::"h"> : tensor<512x256xf16>
util.global private mutable @state = #flow.parameter.named<"model"::"s"> : tensor<512x256xf32>

// GPUs take matrices that are parameters, too.
// CHECK-LABEL: @parameter_on_gpu
// CHECK: linalg.conv_1d_nwc_wcf
// CHECK-NOT: linalg.matmul
func.func @parameter_on_gpu(%x: tensor<32x512xf32>) -> tensor<32x256xf32> {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load @parameter : tensor<256x512xf32>
  %e = tensor.empty() : tensor<512x256xf32>
  %t = linalg.transpose ins(%w : tensor<256x512xf32>) outs(%e : tensor<512x256xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<32x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<32x256xf32>) -> tensor<32x256xf32>
  %r = linalg.matmul ins(%x, %t : tensor<32x512xf32>, tensor<512x256xf32>) outs(%f : tensor<32x256xf32>) -> tensor<32x256xf32>
  return %r : tensor<32x256xf32>
}

// A global that the program may change, a matrix known only at run time, or of another type. IREE reads a matrix once for
// a single row, as fast as can be.
// CHECK-LABEL: @others_on_gpu
// CHECK-COUNT-4: linalg.matmul
// CHECK-NOT: linalg.conv_1d_nwc_wcf
func.func @others_on_gpu(%x: tensor<32x512xf32>, %y: tensor<1x512xf32>, %v: tensor<512x256xf32>)
    -> (tensor<32x256xf32>, tensor<1x256xf32>, tensor<32x256xf32>, tensor<32x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load @state : tensor<512x256xf32>
  %c = arith.constant dense<1.0> : tensor<512x256xf32>
  %o0 = tensor.empty() : tensor<32x256xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<32x256xf32>) -> tensor<32x256xf32>
  %o1 = tensor.empty() : tensor<1x256xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<1x256xf32>) -> tensor<1x256xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<32x512xf32>, tensor<512x256xf32>) outs(%f0 : tensor<32x256xf32>) -> tensor<32x256xf32>
  %1 = linalg.matmul ins(%y, %c : tensor<1x512xf32>, tensor<512x256xf32>) outs(%f1 : tensor<1x256xf32>) -> tensor<1x256xf32>
  %2 = linalg.matmul ins(%x, %v : tensor<32x512xf32>, tensor<512x256xf32>) outs(%f0 : tensor<32x256xf32>) -> tensor<32x256xf32>
  %h = util.global.load @half : tensor<512x256xf16>
  %3 = linalg.matmul ins(%x, %h : tensor<32x512xf32>, tensor<512x256xf16>) outs(%f0 : tensor<32x256xf32>) -> tensor<32x256xf32>
  return %0, %1, %2, %3 : tensor<32x256xf32>, tensor<1x256xf32>, tensor<32x256xf32>, tensor<32x256xf32>
}
