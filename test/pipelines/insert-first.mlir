// RUN: winograd-opt --winograd-insert-first --winograd-verify --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Each part is read from the tensor as it is when the convolution that reads it begins.
// CHECK-LABEL: @aggregation
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<1x7x7x20xf32>
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[X]] into %[[EMPTY]][0, 0, 0, 8] [1, 7, 7, 8]
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[FIRST]][0, 0, 0, 8] [1, 7, 7, 8]
// CHECK: "winograd.input_transform"(%[[READ]])
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[SECOND:.*]] = tensor.insert_slice %[[Y]] into %[[FIRST]][0, 0, 0, 0] [1, 7, 7, 8]
// CHECK: %[[READ_Y:.*]] = tensor.extract_slice %[[SECOND]][0, 0, 0, 0] [1, 7, 7, 8]
// CHECK: %[[READ_X:.*]] = tensor.extract_slice %[[SECOND]][0, 0, 0, 8] [1, 7, 7, 8]
// CHECK: "winograd.input_transform"(%[[READ_Y]])
// CHECK: "winograd.input_transform"(%[[READ_X]])
// CHECK: %[[Z:.*]] = "winograd.output_transform"
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[Z]] into %[[SECOND]][0, 0, 0, 16] [1, 7, 7, 4]
// CHECK: util.return %[[ALL]]
util.func public @aggregation(%m: tensor<1x49x8xf32>, %u: tensor<1x8x8xf32>, %w: tensor<1x16x4xf32>, %zeros8: tensor<1x49x8xf32>, %zeros4: tensor<1x49x4xf32>) -> tensor<1x7x7x20xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf32>
  %y_v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %y_m = linalg.batch_matmul ins(%y_v, %u : tensor<1x49x8xf32>, tensor<1x8x8xf32>) outs(%zeros8 : tensor<1x49x8xf32>) -> tensor<1x49x8xf32>
  %y = "winograd.output_transform"(%y_m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf32>
  %y_w = "winograd.input_transform"(%y) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %x_w = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %both = tensor.concat dim(2) %y_w, %x_w : (tensor<1x49x8xf32>, tensor<1x49x8xf32>) -> tensor<1x49x16xf32>
  %n = linalg.batch_matmul ins(%both, %w : tensor<1x49x16xf32>, tensor<1x16x4xf32>) outs(%zeros4 : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%n) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %e = tensor.empty() : tensor<1x7x7x20xf32>
  %0 = tensor.insert_slice %y into %e[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1] : tensor<1x7x7x8xf32> into tensor<1x7x7x20xf32>
  %1 = tensor.insert_slice %x into %0[0, 0, 0, 8] [1, 7, 7, 8] [1, 1, 1, 1] : tensor<1x7x7x8xf32> into tensor<1x7x7x20xf32>
  %2 = tensor.insert_slice %z into %1[0, 0, 0, 16] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x20xf32>
  util.return %2 : tensor<1x7x7x20xf32>
}

// What else reads a part needs it for itself, and of parts that overlap the last one counts.
// CHECK-LABEL: @others
// CHECK: tensor.empty() : tensor<1x7x7x12xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK-LABEL: @overlapping
// CHECK-NOT: tensor.extract_slice
util.func public @others(%m: tensor<1x49x8xf32>, %u: tensor<1x8x4xf32>, %zeros4: tensor<1x49x4xf32>) -> (tensor<1x7x7x12xf32>, tensor<1x7x7x8xf32>) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf32>
  %y_v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %y_m = linalg.batch_matmul ins(%y_v, %u : tensor<1x49x8xf32>, tensor<1x8x4xf32>) outs(%zeros4 : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %y = "winograd.output_transform"(%y_m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %e = tensor.empty() : tensor<1x7x7x12xf32>
  %0 = tensor.insert_slice %x into %e[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1] : tensor<1x7x7x8xf32> into tensor<1x7x7x12xf32>
  %1 = tensor.insert_slice %y into %0[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x12xf32>
  util.return %1, %x : tensor<1x7x7x12xf32>, tensor<1x7x7x8xf32>
}

util.func public @overlapping(%m: tensor<1x49x8xf32>, %u: tensor<1x8x4xf32>, %zeros4: tensor<1x49x4xf32>) -> tensor<1x7x7x12xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf32>
  %y_v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %y_m = linalg.batch_matmul ins(%y_v, %u : tensor<1x49x8xf32>, tensor<1x8x4xf32>) outs(%zeros4 : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %y = "winograd.output_transform"(%y_m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %e = tensor.empty() : tensor<1x7x7x12xf32>
  %0 = tensor.insert_slice %y into %e[0, 0, 0, 6] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x12xf32>
  %1 = tensor.insert_slice %x into %0[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1] : tensor<1x7x7x8xf32> into tensor<1x7x7x12xf32>
  util.return %1 : tensor<1x7x7x12xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Kernels for GPUs read and write quads of channels in place.
// CHECK-LABEL: @gpu
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[X]] into %{{.*}}[0, 0, 0, 0] [1, 7, 7, 8]
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[FIRST]][0, 0, 0, 0] [1, 7, 7, 8]
// CHECK: "winograd.input_transform"(%[[READ]])
util.func public @gpu(%m: tensor<1x49x8xf32>, %u: tensor<1x8x4xf32>, %zeros4: tensor<1x49x4xf32>) -> tensor<1x7x7x12xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf32>
  %y_v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %y_m = linalg.batch_matmul ins(%y_v, %u : tensor<1x49x8xf32>, tensor<1x8x4xf32>) outs(%zeros4 : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %y = "winograd.output_transform"(%y_m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %e = tensor.empty() : tensor<1x7x7x12xf32>
  %0 = tensor.insert_slice %x into %e[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1] : tensor<1x7x7x8xf32> into tensor<1x7x7x12xf32>
  %1 = tensor.insert_slice %y into %0[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x12xf32>
  util.return %1 : tensor<1x7x7x12xf32>
}

// Of others they would read a copy.
// CHECK-LABEL: @unaligned
// CHECK-NOT: tensor.extract_slice
util.func public @unaligned(%m: tensor<1x49x8xf32>, %u: tensor<1x8x4xf32>, %zeros4: tensor<1x49x4xf32>) -> tensor<1x7x7x13xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf32>
  %y_v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %y_m = linalg.batch_matmul ins(%y_v, %u : tensor<1x49x8xf32>, tensor<1x8x4xf32>) outs(%zeros4 : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %y = "winograd.output_transform"(%y_m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %e = tensor.empty() : tensor<1x7x7x13xf32>
  %0 = tensor.insert_slice %x into %e[0, 0, 0, 1] [1, 7, 7, 8] [1, 1, 1, 1] : tensor<1x7x7x8xf32> into tensor<1x7x7x13xf32>
  %1 = tensor.insert_slice %y into %0[0, 0, 0, 9] [1, 7, 7, 4] [1, 1, 1, 1] : tensor<1x7x7x4xf32> into tensor<1x7x7x13xf32>
  util.return %1 : tensor<1x7x7x13xf32>
}

// Pooling reads them there as well.
// CHECK-LABEL: @pooled
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[X]] into %{{.*}}[0, 0, 0, 0] [1, 8, 8, 8]
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[FIRST]][0, 0, 0, 0] [1, 8, 8, 8]
// CHECK: linalg.pooling_nhwc_max {{.*}}ins(%[[READ]],
util.func public @pooled(%m: tensor<1x64x8xf32>, %y: tensor<1x8x8x4xf32>, %w: tensor<2x2xf32>, %z: tensor<1x4x4x8xf32>) -> (tensor<1x8x8x12xf32>, tensor<1x4x4x8xf32>) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  %p = linalg.pooling_nhwc_max {strides = dense<2> : vector<2xi64>} ins(%x, %w : tensor<1x8x8x8xf32>, tensor<2x2xf32>) outs(%z : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %e = tensor.empty() : tensor<1x8x8x12xf32>
  %0 = tensor.insert_slice %x into %e[0, 0, 0, 0] [1, 8, 8, 8] [1, 1, 1, 1] : tensor<1x8x8x8xf32> into tensor<1x8x8x12xf32>
  %1 = tensor.insert_slice %y into %0[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1] : tensor<1x8x8x4xf32> into tensor<1x8x8x12xf32>
  util.return %1, %p : tensor<1x8x8x12xf32>, tensor<1x4x4x8xf32>
}

// So do epilogues, and sums of what is transposed: one slice for all of them.
// CHECK-LABEL: @normalized
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[FIRST:.*]] = tensor.insert_slice %[[X]] into %{{.*}}[0, 0, 0, 8] [1, 8, 8, 8]
// CHECK: %[[READ:.*]] = tensor.extract_slice %[[FIRST]][0, 0, 0, 8] [1, 8, 8, 8]
// CHECK: linalg.transpose ins(%[[READ]] :
// CHECK: %[[Y:.*]] = "winograd.output_transform"(%{{.*}}, %[[READ]])
// CHECK: tensor.insert_slice %[[Y]] into %[[FIRST]][0, 0, 0, 0] [1, 8, 8, 8]
util.func public @normalized(%m: tensor<1x64x8xf32>, %n: tensor<1x64x8xf32>, %z: tensor<1x8xf32>) -> (tensor<1x8x8x16xf32>, tensor<1x8xf32>) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  %t = tensor.empty() : tensor<1x8x8x8xf32>
  %c = linalg.transpose ins(%x : tensor<1x8x8x8xf32>) outs(%t : tensor<1x8x8x8xf32>) permutation = [0, 3, 1, 2]
  %s = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
    ins(%c : tensor<1x8x8x8xf32>) outs(%z : tensor<1x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<1x8xf32>
  %y = "winograd.output_transform"(%n, %x) ({
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    vector.yield %sum : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %e = tensor.empty() : tensor<1x8x8x16xf32>
  %0 = tensor.insert_slice %y into %e[0, 0, 0, 0] [1, 8, 8, 8] [1, 1, 1, 1] : tensor<1x8x8x8xf32> into tensor<1x8x8x16xf32>
  %1 = tensor.insert_slice %x into %0[0, 0, 0, 8] [1, 8, 8, 8] [1, 1, 1, 1] : tensor<1x8x8x8xf32> into tensor<1x8x8x16xf32>
  util.return %1, %s : tensor<1x8x8x16xf32>, tensor<1x8xf32>
}
