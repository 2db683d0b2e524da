// RUN: winograd-opt --winograd-fuse-attention --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#all = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (b, m)>

// Keys come as columns, scores are scaled between: both are the operation's.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x8x30xf32>, %[[V:.*]]: tensor<2x30x12xf32>)
// CHECK-DAG: %[[T:.*]] = linalg.transpose ins(%[[K]] : tensor<2x8x30xf32>) {{.*}} permutation = [0, 2, 1]
// CHECK: %[[Y:.*]] = iree_linalg_ext.attention {{.*}} {winograd.safe = false} ins(%[[Q]], %[[T]], %[[V]], %{{.*}} : {{.*}}, f32)
// CHECK-NOT: linalg.batch_matmul
// CHECK: return %[[Y]]
func.func @attention(%q: tensor<2x20x8xf32>, %k: tensor<2x8x30xf32>, %v: tensor<2x30x12xf32>) -> tensor<2x20x12xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty() : tensor<2x20x30xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x20x8xf32>, tensor<2x8x30xf32>) outs(%zs : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.mulf %a, %half : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %er = tensor.empty() : tensor<2x20xf32>
  %il = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x20x30xf32>) outs(%il : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %iz = linalg.fill ins(%zero : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x20x30xf32>) outs(%iz : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %ey = tensor.empty() : tensor<2x20x12xf32>
  %zy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x20x30xf32>, tensor<2x30x12xf32>) outs(%zy : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#all = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (b, m)>

// No kernel has rows of eight scores, as those of attention between channels are, of which IREE's code for attention
// would take seconds.
// CHECK-LABEL: func.func @between_channels
// CHECK-NOT: iree_linalg_ext.attention
// CHECK: linalg.batch_matmul
// CHECK: linalg.batch_matmul
func.func @between_channels(%q: tensor<2x20x64xf32>, %k: tensor<2x64x8xf32>, %v: tensor<2x8x64xf32>) -> tensor<2x20x64xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty() : tensor<2x20x8xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x20x8xf32>) -> tensor<2x20x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x20x64xf32>, tensor<2x64x8xf32>) outs(%zs : tensor<2x20x8xf32>) -> tensor<2x20x8xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x20x8xf32>) outs(%es : tensor<2x20x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.mulf %a, %half : f32
    linalg.yield %r : f32
  } -> tensor<2x20x8xf32>
  %er = tensor.empty() : tensor<2x20xf32>
  %il = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x20x8xf32>) outs(%il : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x20x8xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x20x8xf32>
  %iz = linalg.fill ins(%zero : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x20x8xf32>) outs(%iz : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x20x8xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x8xf32>
  %ey = tensor.empty() : tensor<2x20x64xf32>
  %zy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x20x64xf32>) -> tensor<2x20x64xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x20x8xf32>, tensor<2x8x64xf32>) outs(%zy : tensor<2x20x64xf32>) -> tensor<2x20x64xf32>
  return %y : tensor<2x20x64xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#all = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (b, m)>
#shared = affine_map<(b, m, n) -> (m, n)>

// A bias that is added to the scores of all batches is read where it is.
// CHECK-LABEL: func.func @biased
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x8x30xf32>, %[[V:.*]]: tensor<2x30x12xf32>, %[[BIAS:.*]]: tensor<20x30xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[BIAS]] : tensor<20x30xf32>) outs(%{{.*}} : tensor<2x20x30xf32>)
// CHECK: %[[Y:.*]] = iree_linalg_ext.attention {{.*}} ins(%[[Q]], %{{.*}}, %[[V]], %{{.*}}, %[[B]] : {{.*}}, f32, tensor<2x20x30xf32>)
// CHECK-NOT: linalg.batch_matmul
// CHECK: return %[[Y]]
func.func @biased(%q: tensor<2x20x8xf32>, %k: tensor<2x8x30xf32>, %v: tensor<2x30x12xf32>, %bias: tensor<20x30xf32>) -> tensor<2x20x12xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty() : tensor<2x20x30xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x20x8xf32>, tensor<2x8x30xf32>) outs(%zs : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %x = linalg.generic {indexing_maps = [#all, #shared, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias : tensor<2x20x30xf32>, tensor<20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %er = tensor.empty() : tensor<2x20xf32>
  %il = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x20x30xf32>) outs(%il : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %iz = linalg.fill ins(%zero : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x20x30xf32>) outs(%iz : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %ey = tensor.empty() : tensor<2x20x12xf32>
  %zy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x20x30xf32>, tensor<2x30x12xf32>) outs(%zy : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  return %y : tensor<2x20x12xf32>
}

// The operation's truth values are False where a score is hidden.
// CHECK-LABEL: func.func @hidden
// CHECK-SAME: (%{{.*}}, %[[HIDDEN:[a-z0-9]+]]: tensor<20x30xi1>)
// CHECK: %[[SEEN:.*]] = linalg.generic {{.*}} ins(%[[HIDDEN]] : tensor<20x30xi1>)
// CHECK: arith.xori
// CHECK: %[[M:.*]] = linalg.generic {{.*}} ins(%[[SEEN]] : tensor<20x30xi1>) outs(%{{.*}} : tensor<2x20x30xi1>)
// CHECK: iree_linalg_ext.attention {{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[M]] : {{.*}}, f32, tensor<2x20x30xi1>)
// CHECK-NOT: linalg.batch_matmul
func.func @hidden(%q: tensor<2x20x8xf32>, %k: tensor<2x8x30xf32>, %v: tensor<2x30x12xf32>, %hidden: tensor<20x30xi1>) -> tensor<2x20x12xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty() : tensor<2x20x30xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x20x8xf32>, tensor<2x8x30xf32>) outs(%zs : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %x = linalg.generic {indexing_maps = [#shared, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%hidden, %s : tensor<20x30xi1>, tensor<2x20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%c: i1, %a: f32, %o: f32):
    %r = arith.select %c, %lowest, %a : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %er = tensor.empty() : tensor<2x20xf32>
  %il = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x20x30xf32>) outs(%il : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %iz = linalg.fill ins(%zero : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x20x30xf32>) outs(%iz : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %ey = tensor.empty() : tensor<2x20x12xf32>
  %zy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x20x30xf32>, tensor<2x30x12xf32>) outs(%zy : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
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

#all = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (b, m)>
#shared = affine_map<(b, m, n) -> (m, n)>

// Kernels for GPUs mask scores, too.
// CHECK-LABEL: func.func @on_gpus
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x8x30xf32>, %[[V:.*]]: tensor<2x30x12xf32>, %[[BIAS:.*]]: tensor<20x30xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[BIAS]] : tensor<20x30xf32>) outs(%{{.*}} : tensor<2x20x30xf32>)
// CHECK: %[[Y:.*]] = iree_linalg_ext.attention {{.*}} ins(%[[Q]], %{{.*}}, %[[V]], %{{.*}}, %[[B]] : {{.*}}, f32, tensor<2x20x30xf32>)
// CHECK-NOT: linalg.batch_matmul
// CHECK: return %[[Y]]
func.func @on_gpus(%q: tensor<2x20x8xf32>, %k: tensor<2x8x30xf32>, %v: tensor<2x30x12xf32>, %bias: tensor<20x30xf32>) -> tensor<2x20x12xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty() : tensor<2x20x30xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x20x8xf32>, tensor<2x8x30xf32>) outs(%zs : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %x = linalg.generic {indexing_maps = [#all, #shared, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %bias : tensor<2x20x30xf32>, tensor<20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %er = tensor.empty() : tensor<2x20xf32>
  %il = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x20x30xf32>) outs(%il : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %iz = linalg.fill ins(%zero : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x20x30xf32>) outs(%iz : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %ey = tensor.empty() : tensor<2x20x12xf32>
  %zy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  %y = linalg.batch_matmul ins(%p, %v : tensor<2x20x30xf32>, tensor<2x30x12xf32>) outs(%zy : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
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

#all = affine_map<(b, m, n) -> (b, m, n)>
#row = affine_map<(b, m, n) -> (b, m)>
#shared = affine_map<(b, m, n) -> (m, n)>

// Scores and weights that a program of half precision rounds stay as they are in the kernel; its result is rounded.
// CHECK-LABEL: func.func @rounded
// CHECK-SAME: (%[[Q:.*]]: tensor<2x20x8xf32>, %[[K:.*]]: tensor<2x8x30xf32>, %[[V:.*]]: tensor<2x30x12xf32>, %[[BIAS:.*]]: tensor<20x30xf32>)
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[BIAS]] : tensor<20x30xf32>) outs(%{{.*}} : tensor<2x20x30xf32>)
// CHECK: %[[Y:.*]] = iree_linalg_ext.attention {{.*}} ins(%[[Q]], %{{.*}}, %[[V]], %{{.*}}, %[[B]] : {{.*}}, f32, tensor<2x20x30xf32>)
// CHECK-NOT: linalg.batch_matmul
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<2x20x12xf32>)
// CHECK: return %[[R]]
func.func @rounded(%q: tensor<2x20x8xf32>, %k: tensor<2x8x30xf32>, %v: tensor<2x30x12xf32>, %bias: tensor<20x30xf32>) -> tensor<2x20x12xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %es = tensor.empty() : tensor<2x20x30xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x20x8xf32>, tensor<2x8x30xf32>) outs(%zs : tensor<2x20x30xf32>) -> tensor<2x20x30xf32>
  %sr = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<2x20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.truncf %a : f32 to f16
    %w = arith.extf %h : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x20x30xf32>
  %x = linalg.generic {indexing_maps = [#all, #shared, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sr, %bias : tensor<2x20x30xf32>, tensor<20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    %h = arith.truncf %r : f32 to f16
    %w = arith.extf %h : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x20x30xf32>
  %er = tensor.empty() : tensor<2x20xf32>
  %il = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x20x30xf32>) outs(%il : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %e = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %iz = linalg.fill ins(%zero : f32) outs(%er : tensor<2x20xf32>) -> tensor<2x20xf32>
  %t = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%e : tensor<2x20x30xf32>) outs(%iz : tensor<2x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<2x20xf32>
  %p = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%e, %t : tensor<2x20x30xf32>, tensor<2x20xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x20x30xf32>
  %pr = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<2x20x30xf32>) outs(%es : tensor<2x20x30xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.truncf %a : f32 to f16
    %w = arith.extf %h : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x20x30xf32>
  %ey = tensor.empty() : tensor<2x20x12xf32>
  %zy = linalg.fill ins(%zero : f32) outs(%ey : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  %y = linalg.batch_matmul ins(%pr, %v : tensor<2x20x30xf32>, tensor<2x30x12xf32>) outs(%zy : tensor<2x20x12xf32>) -> tensor<2x20x12xf32>
  %yr = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : tensor<2x20x12xf32>) outs(%ey : tensor<2x20x12xf32>) {
  ^bb0(%a: f32, %o: f32):
    %h = arith.truncf %a : f32 to f16
    %w = arith.extf %h : f16 to f32
    linalg.yield %w : f32
  } -> tensor<2x20x12xf32>
  return %yr : tensor<2x20x12xf32>
}
