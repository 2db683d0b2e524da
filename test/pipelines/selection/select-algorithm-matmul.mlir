// RUN: winograd-opt --winograd-select-algorithm --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-select-algorithm=deny=classifier --split-input-file %s | filecheck %s --check-prefix=DENIED
// RUN: winograd-opt --winograd-select-algorithm --split-input-file --verify-diagnostics %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// A fully connected layer gets an algorithm, a schedule and an origin of its own, also where the matrix is a transposed constant.
// CHECK-LABEL: @fully_connected
// CHECK: linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}
// CHECK-SAME: winograd.origin = {kind = "matmul", number = 0 : i64, pass = "winograd-select-algorithm"}
// CHECK-SAME: winograd.schedule = {{{.*}}kind = "direct"
// DENIED-LABEL: @fully_connected
// DENIED-NOT: winograd.algorithm
// DENIED: return
func.func @fully_connected(%x: tensor<3x512xf32>) -> tensor<3x256xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<256x512xf32>
  %e = tensor.empty() : tensor<512x256xf32>
  %t = linalg.transpose ins(%w : tensor<256x512xf32>) outs(%e : tensor<512x256xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<3x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<3x256xf32>) -> tensor<3x256xf32>
  %r = linalg.matmul ins(%x, %t : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f : tensor<3x256xf32>) -> tensor<3x256xf32> loc("classifier")
  return %r : tensor<3x256xf32>
}

// The pixels of an image: the algorithm is that of the image's convolution, also behind what is computed of the rows.
// CHECK-LABEL: @pixels
// CHECK-COUNT-2: linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}
func.func @pixels(%x: tensor<2x2x2x64xf32>, %bias: tensor<1000xf32>) -> tensor<8x24xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<64x1000xf32>
  %v = arith.constant dense<1.0> : tensor<1000x24xf32>
  %rows = tensor.collapse_shape %x [[0, 1, 2], [3]] : tensor<2x2x2x64xf32> into tensor<8x64xf32>
  %o = tensor.empty() : tensor<8x1000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<8x1000xf32>) -> tensor<8x1000xf32>
  %p = linalg.matmul ins(%rows, %w : tensor<8x64xf32>, tensor<64x1000xf32>) outs(%f : tensor<8x1000xf32>) -> tensor<8x1000xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
    ins(%bias, %p : tensor<1000xf32>, tensor<8x1000xf32>) outs(%o : tensor<8x1000xf32>) {
  ^bb0(%b: f32, %a: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    linalg.yield %t : f32
  } -> tensor<8x1000xf32>
  %o2 = tensor.empty() : tensor<8x24xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%o2 : tensor<8x24xf32>) -> tensor<8x24xf32>
  %r = linalg.matmul ins(%s, %v : tensor<8x1000xf32>, tensor<1000x24xf32>) outs(%f2 : tensor<8x24xf32>) -> tensor<8x24xf32>
  return %r : tensor<8x24xf32>
}

util.global private @parameter = #flow.parameter.named<"model"::"w"> : tensor<512x256xf32>

// CHECK-LABEL: @others
// CHECK-NOT: winograd.algorithm
func.func @others(%y: tensor<3x512xf32>, %w: tensor<512x256xf32>, %init: tensor<3x256xf32>, %z: tensor<512x3xf32>, %d: tensor<?x512xf32>, %e: tensor<?x256xf32>)
    -> (tensor<3x256xf32>, tensor<3x256xf32>, tensor<3x256xf32>, tensor<?x256xf32>, tensor<3x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<1.0> : tensor<512x256xf32>
  %parameter = util.global.load @parameter : tensor<512x256xf32>
  %o1 = tensor.empty() : tensor<3x256xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  // expected-remark @below {{matmul 3 left as it is: its matrix is known only when running it}}
  %1 = linalg.matmul ins(%y, %w : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  // expected-remark @below {{matmul 4 left as it is: its sums don't begin with zero}}
  %2 = linalg.matmul ins(%y, %c : tensor<3x512xf32>, tensor<512x256xf32>) outs(%init : tensor<3x256xf32>) -> tensor<3x256xf32>
  // expected-remark @below {{matmul 5 left as it is: an operand of it is transposed or broadcast}}
  %3 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%z, %c : tensor<512x3xf32>, tensor<512x256xf32>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  // expected-remark @below {{matmul 6 left as it is: its sizes are known only at run time}}
  %4 = linalg.matmul ins(%d, %c : tensor<?x512xf32>, tensor<512x256xf32>) outs(%e : tensor<?x256xf32>) -> tensor<?x256xf32>
  // expected-remark @below {{matmul 7 left as it is: its matrix is known only when loading the program}}
  %5 = linalg.matmul ins(%y, %parameter : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  return %1, %2, %3, %4, %5 : tensor<3x256xf32>, tensor<3x256xf32>, tensor<3x256xf32>, tensor<?x256xf32>, tensor<3x256xf32>
}

// Other types, and no rows at all.
// CHECK-LABEL: @other_types
// CHECK-NOT: winograd.algorithm
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
  // expected-remark @below {{it has elements of type f64, not f32}}
  %0 = linalg.matmul ins(%x, %c : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f0 : tensor<3x256xf64>) -> tensor<3x256xf64>
  // expected-remark @below {{it has elements of type f16, not f32}}
  %1 = linalg.matmul ins(%x, %h : tensor<3x512xf32>, tensor<512x256xf16>) outs(%f1 : tensor<3x256xf32>) -> tensor<3x256xf32>
  // expected-remark @below {{it has no elements}}
  %2 = linalg.matmul ins(%none, %c : tensor<0x512xf32>, tensor<512x256xf32>) outs(%f2 : tensor<0x256xf32>) -> tensor<0x256xf32>
  return %0, %1, %2 : tensor<3x256xf64>, tensor<3x256xf32>, tensor<0x256xf32>
}

// IREE's own code isn't left what it is predicted to be a little faster for.
// CHECK-LABEL: @level
// CHECK: linalg.matmul {winograd.algorithm
func.func @level(%x: tensor<196x768xf32>) -> tensor<196x768xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<768x768xf32>
  %o = tensor.empty() : tensor<196x768xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<196x768xf32>) -> tensor<196x768xf32>
  %r = linalg.matmul ins(%x, %w : tensor<196x768xf32>, tensor<768x768xf32>) outs(%f : tensor<196x768xf32>) -> tensor<196x768xf32>
  return %r : tensor<196x768xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "", wgp = <
    compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device
util.global private @parameter = #flow.parameter.named<"model"::"w"> : tensor<256x512xf32>
util.global private mutable @state = #flow.parameter.named<"model"::"s"> : tensor<512x256xf32>

// GPUs take matrices that are parameters, too.
// CHECK-LABEL: @parameter_on_gpu
// CHECK: linalg.matmul {winograd.algorithm
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

// A global that the program may change isn't packed. A single row is multiplied by a kernel.
// CHECK-LABEL: @others_on_gpu
// CHECK: linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<32x512xf32>, tensor<512x256xf32>)
// CHECK: linalg.matmul {winograd.algorithm = {{.*}}ins(%{{.*}}, %{{.*}} : tensor<1x512xf32>, tensor<512x256xf32>)
func.func @others_on_gpu(%x: tensor<32x512xf32>, %y: tensor<1x512xf32>) -> (tensor<32x256xf32>, tensor<1x256xf32>) {
  %zero = arith.constant 0.0 : f32
  %w = util.global.load @state : tensor<512x256xf32>
  %c = arith.constant dense<1.0> : tensor<512x256xf32>
  %o0 = tensor.empty() : tensor<32x256xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<32x256xf32>) -> tensor<32x256xf32>
  %o1 = tensor.empty() : tensor<1x256xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%o1 : tensor<1x256xf32>) -> tensor<1x256xf32>
  // expected-remark @below {{matmul 1 left as it is: its matrix is known only when running it}}
  %0 = linalg.matmul ins(%x, %w : tensor<32x512xf32>, tensor<512x256xf32>) outs(%f0 : tensor<32x256xf32>) -> tensor<32x256xf32>
  %1 = linalg.matmul ins(%y, %c : tensor<1x512xf32>, tensor<512x256xf32>) outs(%f1 : tensor<1x256xf32>) -> tensor<1x256xf32>
  return %0, %1 : tensor<32x256xf32>, tensor<1x256xf32>
}

// -----

// A target without kernels is no error for products.
util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"vmvx", "vmvx-bytecode-fb">
]> : !hal.device

// CHECK-LABEL: @on_other_targets
// CHECK-NOT: winograd.algorithm
func.func @on_other_targets(%x: tensor<3x512xf32>) -> tensor<3x256xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<1.0> : tensor<512x256xf32>
  %o = tensor.empty() : tensor<3x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<3x256xf32>) -> tensor<3x256xf32>
  %r = linalg.matmul ins(%x, %c : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f : tensor<3x256xf32>) -> tensor<3x256xf32>
  return %r : tensor<3x256xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "", wgp = <
    compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

// Each step of IREE's loop takes as long whether there are many rows and columns or few.
// CHECK-LABEL: @small_on_gpu
// CHECK: linalg.matmul {winograd.algorithm
func.func @small_on_gpu(%x: tensor<64x192xf32>) -> tensor<64x96xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<1.0> : tensor<192x96xf32>
  %o = tensor.empty() : tensor<64x96xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64x96xf32>) -> tensor<64x96xf32>
  %r = linalg.matmul ins(%x, %c : tensor<64x192xf32>, tensor<192x96xf32>) outs(%f : tensor<64x96xf32>) -> tensor<64x96xf32>
  return %r : tensor<64x96xf32>
}
