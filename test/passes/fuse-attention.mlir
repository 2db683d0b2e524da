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
