// RUN: winograd-opt --winograd-lower-attention --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// As iree-turbine exports it.
// CHECK-LABEL: func.func @products
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x30x8xf32>, %[[V:.*]]: tensor<2x30x12xf32>, %[[SCALE:.*]]: f32)
// CHECK: %[[L:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<2x20x8xf32>)
// CHECK: arith.mulf %{{.*}}, %[[SCALE]]
// CHECK: %[[S:.*]] = linalg.batch_matmul {{.*}} ins(%[[L]], %[[K]] : tensor<2x20x8xf32>, tensor<2x30x8xf32>)
// CHECK: %[[P:.*]] = flow.dispatch @winograd_safe_softmax_20x30::@winograd_safe_softmax_20x30(%[[S]])
// CHECK: %[[Y:.*]] = linalg.batch_matmul {{.*}}ins(%[[P]], %[[V]] : tensor<2x20x30xf32>, tensor<2x30x12xf32>)
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: return %[[Y]]
func.func @products(%q: tensor<2x20x8xf32>, %k: tensor<2x30x8xf32>, %v: tensor<2x30x12xf32>, %scale: f32) -> tensor<2x20x12xf32> {
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#scores = affine_map<(b, m, v, k, n) -> (b, m, n)>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// A mask of truth values.
// CHECK-LABEL: func.func @masked
// CHECK: %[[S:.*]] = linalg.batch_matmul
// CHECK: linalg.generic {{.*}} ins(%[[S]], %{{.*}} : tensor<2x20x30xf32>, tensor<2x20x30xi1>)
// CHECK: %[[A:.*]] = arith.select
// CHECK: arith.addf %{{.*}}, %[[A]]
// CHECK: flow.dispatch @winograd_safe_softmax_20x30
// CHECK: linalg.batch_matmul
// CHECK-NOT: iree_linalg_ext.attention
func.func @masked(%q: tensor<2x20x8xf32>, %k: tensor<2x30x8xf32>, %v: tensor<2x30x12xf32>, %m: tensor<2x20x30xi1>, %scale: f32) -> tensor<2x20x12xf32> {
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #scores, #result]> ins(%q, %k, %v, %scale, %m : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32, tensor<2x20x30xi1>) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// The kernel of softmax takes no rows of so few scores.
// CHECK-LABEL: func.func @few_keys
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: linalg.batch_matmul
func.func @few_keys(%q: tensor<2x20x8xf32>, %k: tensor<2x8x8xf32>, %v: tensor<2x8x12xf32>, %scale: f32) -> tensor<2x20x12xf32> {
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf32>, tensor<2x8x8xf32>, tensor<2x8x12xf32>, f32) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// Something is computed of scores before their softmax.
// CHECK-LABEL: func.func @capped
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: linalg.batch_matmul
func.func @capped(%q: tensor<2x20x8xf32>, %k: tensor<2x30x8xf32>, %v: tensor<2x30x12xf32>, %scale: f32) -> tensor<2x20x12xf32> {
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    %cap = math.tanh %score : f32
    iree_linalg_ext.yield %cap : f32
  } -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// Products of f16 are left to IREE.
// CHECK-LABEL: func.func @half
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: linalg.batch_matmul
func.func @half(%q: tensor<2x20x8xf16>, %k: tensor<2x30x8xf16>, %v: tensor<2x30x12xf16>, %scale: f16) -> tensor<2x20x12xf16> {
  %e = tensor.empty() : tensor<2x20x12xf16>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf16>, tensor<2x30x8xf16>, tensor<2x30x12xf16>, f16) outs(%e : tensor<2x20x12xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf16>
  return %y : tensor<2x20x12xf16>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, k, n)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// Keys are columns.
// CHECK-LABEL: func.func @columns
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: linalg.batch_matmul
func.func @columns(%q: tensor<2x20x8xf32>, %k: tensor<2x8x30xf32>, %v: tensor<2x30x12xf32>, %scale: f32) -> tensor<2x20x12xf32> {
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf32>, tensor<2x8x30xf32>, tensor<2x30x12xf32>, f32) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// On GPUs IREE computes attention.
// CHECK-LABEL: func.func @gpu
// CHECK: iree_linalg_ext.attention
// CHECK-NOT: linalg.batch_matmul
func.func @gpu(%q: tensor<2x20x8xf32>, %k: tensor<2x30x8xf32>, %v: tensor<2x30x12xf32>, %scale: f32) -> tensor<2x20x12xf32> {
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [
  #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<
    arch = "", features = "spirv:v1.3,cap:Shader", wgp = <
      compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [64],
      max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128,
      max_workgroup_memory_bytes = 16384, max_workgroup_counts = [65535, 65535, 65535]>>}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

// One kernel on GPUs, whatever the number of tokens; heads of many channels stay.
// CHECK-LABEL: func.func @blocks_of_keys
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x30x8xf32>, %[[V:.*]]: tensor<2x30x12xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_safe_attention_2x20x30_from_8_to_12::@winograd_safe_attention_2x20x30_from_8_to_12(%[[Q]], %[[K]], %[[V]])
// CHECK: iree_linalg_ext.attention
// CHECK: return %[[Y]]
func.func @blocks_of_keys(%q: tensor<2x20x8xf32>, %k: tensor<2x30x8xf32>, %v: tensor<2x30x12xf32>, %w: tensor<2x30x130xf32>) -> (tensor<2x20x12xf32>, tensor<2x20x130xf32>) {
  %scale = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %v, %scale : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  %f = tensor.empty() : tensor<2x20x130xf32>
  %z = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%q, %k, %w, %scale : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x130xf32>, f32) outs(%f : tensor<2x20x130xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x130xf32>
  return %y, %z : tensor<2x20x12xf32>, tensor<2x20x130xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#scores = affine_map<(b, m, v, k, n) -> (b, m, n)>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>

#all = affine_map<(b, m, n) -> (b, m, n)>
#shared = affine_map<(b, m, n) -> (m, n)>

// The kernel reads a bias that batches share where it is; truth values as what is added.
// CHECK-LABEL: func.func @masked_in_one_kernel
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x30x8xf32>, %[[V:.*]]: tensor<2x30x12xf32>, %[[BIAS:.*]]: tensor<20x30xf32>, %[[SEEN:.*]]: tensor<2x20x30xi1>)
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_safe_masked_attention_2x20x30_from_8_to_12::@{{[^(]*}}(%[[Q]], %[[K]], %[[V]], %[[BIAS]])
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[SEEN]] : tensor<2x20x30xi1>)
// CHECK: arith.select
// CHECK: %[[Z:.*]] = flow.dispatch @winograd_safe_masked_attention_2x20x30_from_8_to_12{{[^(]*}}(%[[Q]], %[[K]], %[[V]], %[[M]])
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: return %[[Y]], %[[Z]]
func.func @masked_in_one_kernel(%q: tensor<2x20x8xf32>, %k: tensor<2x30x8xf32>, %v: tensor<2x30x12xf32>, %bias: tensor<20x30xf32>, %seen: tensor<2x20x30xi1>) -> (tensor<2x20x12xf32>, tensor<2x20x12xf32>) {
  %scale = arith.constant 0.5 : f32
  %em = tensor.empty() : tensor<2x20x30xf32>
  %m = linalg.generic {indexing_maps = [#shared, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%bias : tensor<20x30xf32>) outs(%em : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x20x30xf32>
  %e = tensor.empty() : tensor<2x20x12xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #scores, #result]> ins(%q, %k, %v, %scale, %m : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32, tensor<2x20x30xf32>) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  %z = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #scores, #result]> ins(%q, %k, %v, %scale, %seen : tensor<2x20x8xf32>, tensor<2x30x8xf32>, tensor<2x30x12xf32>, f32, tensor<2x20x30xi1>) outs(%e : tensor<2x20x12xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x20x12xf32>
  return %y, %z : tensor<2x20x12xf32>, tensor<2x20x12xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device

#queries = affine_map<(b, m, v, k, n) -> (b, m, k)>
#keys = affine_map<(b, m, v, k, n) -> (b, n, k)>
#values = affine_map<(b, m, v, k, n) -> (b, n, v)>
#number = affine_map<(b, m, v, k, n) -> ()>
#result = affine_map<(b, m, v, k, n) -> (b, m, v)>
#all = affine_map<(b, m, v) -> (b, m, v)>

// What is rounded to f16 behind it is written so, in the order that it is read in.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_safe_attention_8x64x64_from_32_to_32::{{.*}}(%arg0, %arg1, %arg2) {{.*}} -> tensor<64x8x32xf16>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<64x8x32xf16>) outs(%{{.*}} : tensor<64x8x32xf32>)
// CHECK: arith.extf
// CHECK: return %[[W]]
func.func @rounded(%q: tensor<8x64x32xf16>, %k: tensor<8x64x32xf16>, %v: tensor<8x64x32xf16>) -> tensor<64x8x32xf32> {
  %scale = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<8x64x32xf32>
  %wq = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q : tensor<8x64x32xf16>) outs(%e : tensor<8x64x32xf32>) {
  ^bb0(%in: f16, %out: f32):
    %r = arith.extf %in : f16 to f32
    linalg.yield %r : f32
  } -> tensor<8x64x32xf32>
  %wk = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%k : tensor<8x64x32xf16>) outs(%e : tensor<8x64x32xf32>) {
  ^bb0(%in: f16, %out: f32):
    %r = arith.extf %in : f16 to f32
    linalg.yield %r : f32
  } -> tensor<8x64x32xf32>
  %wv = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v : tensor<8x64x32xf16>) outs(%e : tensor<8x64x32xf32>) {
  ^bb0(%in: f16, %out: f32):
    %r = arith.extf %in : f16 to f32
    linalg.yield %r : f32
  } -> tensor<8x64x32xf32>
  %y = iree_linalg_ext.attention <indexing_maps = [#queries, #keys, #values, #number, #result]> ins(%wq, %wk, %wv, %scale : tensor<8x64x32xf32>, tensor<8x64x32xf32>, tensor<8x64x32xf32>, f32) outs(%e : tensor<8x64x32xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<8x64x32xf32>
  %n = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<8x64x32xf32>) outs(%e : tensor<8x64x32xf32>) {
  ^bb0(%in: f32, %out: f32):
    %h = arith.truncf %in : f32 to f16
    %r = arith.extf %h : f16 to f32
    linalg.yield %r : f32
  } -> tensor<8x64x32xf32>
  %f = tensor.empty() : tensor<64x8x32xf32>
  %t = linalg.transpose ins(%n : tensor<8x64x32xf32>) outs(%f : tensor<64x8x32xf32>) permutation = [1, 0, 2]
  return %t : tensor<64x8x32xf32>
}
