// RUN: winograd-opt --winograd-insert-as-computed --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#map = affine_map<(h, w, c) -> (h, w, c)>
#windows = affine_map<(h, w, c, i, j) -> (h * 2 + i, w * 2 + j, c)>

// What is computed for the insertion alone is in its dispatch, and the sum of windows that it begins with.
// CHECK-LABEL: @pooled
// CHECK-SAME: %[[X:.*]]: tensor<14x14x4xf32>, %[[WHOLE:.*]]: tensor<1x7x7x12xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<1x7x7x12xf32>) {
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]],
// CHECK: %[[MEAN:.*]] = linalg.generic {{.*}} ins(%[[SUM]] :
// CHECK: %[[I:.*]] = tensor.insert_slice %[[MEAN]] into %[[WHOLE]][0, 0, 0, 8] [1, 7, 7, 4]
// CHECK: flow.return %[[I]]
// CHECK: return %[[R]]
func.func @pooled(%x: tensor<14x14x4xf32>, %whole: tensor<1x7x7x12xf32>) -> tensor<1x7x7x12xf32> {
  %zero = arith.constant 0.0 : f32
  %quarter = arith.constant 0.25 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %e = tensor.empty() : tensor<7x7x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<7x7x4xf32>) -> tensor<7x7x4xf32>
  %sum = linalg.generic {indexing_maps = [#windows, affine_map<(h, w, c, i, j) -> (i, j)>, affine_map<(h, w, c, i, j) -> (h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %window : tensor<14x14x4xf32>, tensor<2x2xf32>) outs(%zeros : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %t = arith.addf %s, %a : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %mean = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum : tensor<7x7x4xf32>) outs(%e : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.mulf %a, %quarter : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %r = tensor.insert_slice %mean into %whole[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
  return %r : tensor<1x7x7x12xf32>
}

// Others that are done by then read it from where it is.
// CHECK-LABEL: @read_before
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<1x7x7x12xf32>
// CHECK: %[[R:.*]] = flow.dispatch.region -> (tensor<1x7x7x12xf32>) {
// CHECK: %[[EXP:.*]] = linalg.generic
// CHECK: tensor.insert_slice %[[EXP]] into %[[EMPTY]][0, 0, 0, 0] [1, 7, 7, 4]
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[R]][0, 0, 0, 0] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x12xf32> to tensor<7x7x4xf32>
// CHECK: %[[NEG:.*]] = linalg.generic {{.*}} ins(%[[READ]] :
// CHECK: return %[[R]], %[[NEG]]
func.func @read_before(%x: tensor<7x7x4xf32>) -> (tensor<1x7x7x12xf32>, tensor<7x7x4xf32>) {
  %e = tensor.empty() : tensor<7x7x4xf32>
  %exp = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<7x7x4xf32>) outs(%e : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %neg = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%exp : tensor<7x7x4xf32>) outs(%e : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.negf %a : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %whole = tensor.empty() : tensor<1x7x7x12xf32>
  %r = tensor.insert_slice %exp into %whole[0, 0, 0, 0] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
  return %r, %neg : tensor<1x7x7x12xf32>, tensor<7x7x4xf32>
}

// Nothing is where others read it later, where all channels are inserted, or where no operation computes it.
// CHECK-LABEL: @read_later
// CHECK-NOT: flow.dispatch.region
// CHECK-LABEL: @all_channels
// CHECK-NOT: flow.dispatch.region
// CHECK-LABEL: @given
// CHECK-NOT: flow.dispatch.region
func.func @read_later(%x: tensor<7x7x4xf32>, %whole: tensor<1x7x7x12xf32>) -> (tensor<1x7x7x12xf32>, tensor<7x7x4xf32>) {
  %e = tensor.empty() : tensor<7x7x4xf32>
  %exp = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<7x7x4xf32>) outs(%e : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %r = tensor.insert_slice %exp into %whole[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
  return %r, %exp : tensor<1x7x7x12xf32>, tensor<7x7x4xf32>
}

func.func @all_channels(%x: tensor<7x7x4xf32>, %whole: tensor<2x7x7x4xf32>) -> tensor<2x7x7x4xf32> {
  %e = tensor.empty() : tensor<7x7x4xf32>
  %exp = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<7x7x4xf32>) outs(%e : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %r = tensor.insert_slice %exp into %whole[1, 0, 0, 0] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<7x7x4xf32> into tensor<2x7x7x4xf32>
  return %r : tensor<2x7x7x4xf32>
}

func.func @given(%x: tensor<7x7x4xf32>, %whole: tensor<1x7x7x12xf32>) -> tensor<1x7x7x12xf32> {
  %r = tensor.insert_slice %x into %whole[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
  return %r : tensor<1x7x7x12xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#map = affine_map<(h, w, c) -> (h, w, c)>

// CPUs have other ways.
// CHECK-LABEL: @cpu
// CHECK-NOT: flow.dispatch.region
func.func @cpu(%x: tensor<7x7x4xf32>, %whole: tensor<1x7x7x12xf32>) -> tensor<1x7x7x12xf32> {
  %e = tensor.empty() : tensor<7x7x4xf32>
  %exp = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<7x7x4xf32>) outs(%e : tensor<7x7x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = math.exp %a : f32
    linalg.yield %t : f32
  } -> tensor<7x7x4xf32>
  %r = tensor.insert_slice %exp into %whole[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
  return %r : tensor<1x7x7x12xf32>
}
