// RUN: winograd-opt --winograd-transpose-images --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#stem = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @argument
// CHECK: %[[X:.*]] = hal.tensor.import
// CHECK-NOT: linalg.transpose
// CHECK: %[[T:.*]] = flow.dispatch @winograd_channels_last_1024x3::@winograd_channels_last_1024x3(%[[X]]) : (tensor<1x3x32x32xf32>) -> tensor<1x32x32x3xf32>
// CHECK: "winograd.input_transform"(%[[T]])
util.func public @argument(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// Of half precision as of f32.
// CHECK-LABEL: @half_argument
// CHECK: flow.dispatch @winograd_channels_last_1024x3_{{.*}} : (tensor<1x3x32x32xbf16>) -> tensor<1x32x32x3xbf16>
// CHECK-NOT: linalg.transpose
util.func public @half_argument(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xbf16>
  %e = tensor.empty() : tensor<1x32x32x3xbf16>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xbf16>) outs(%e : tensor<1x32x32x3xbf16>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xbf16>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// IREE would join another user with the transposition.
// CHECK-LABEL: @read_elsewhere
// CHECK: linalg.transpose
util.func public @read_elsewhere(%arg0: !hal.buffer_view) -> (tensor<16x225x3xf32>, tensor<1x32x32x3xf32>) {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  %s = arith.addf %t, %t : tensor<1x32x32x3xf32>
  util.return %v, %s : tensor<16x225x3xf32>, tensor<1x32x32x3xf32>
}

// Few groups of channels are shuffled by whole vectors; of many groups, or short ones, each is a line.
// CHECK-LABEL: @shuffle
// CHECK: %[[I:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0, 1, 2], [3], [4]] : tensor<1x7x5x2x20xf32> into tensor<35x2x20xf32>
// CHECK: %[[S:.*]] = flow.dispatch @winograd_channels_last_20x2::@winograd_channels_last_20x2(%[[I]]) : (tensor<35x2x20xf32>) -> tensor<35x20x2xf32>
// CHECK: tensor.expand_shape %[[S]]
// CHECK-NOT: linalg.transpose
// CHECK-LABEL: @other_shuffles
// CHECK-COUNT-2: linalg.transpose
util.func public @shuffle(%x: tensor<1x7x5x2x20xf32>) -> tensor<1x7x5x20x2xf32> {
  %e = tensor.empty() : tensor<1x7x5x20x2xf32>
  %t = linalg.transpose ins(%x : tensor<1x7x5x2x20xf32>) outs(%e : tensor<1x7x5x20x2xf32>) permutation = [0, 1, 2, 4, 3]
  util.return %t : tensor<1x7x5x20x2xf32>
}

util.func public @other_shuffles(%x: tensor<1x7x5x4x20xf32>, %y: tensor<1x7x5x2x6xf32>) -> (tensor<1x7x5x20x4xf32>, tensor<1x7x5x6x2xf32>) {
  %e = tensor.empty() : tensor<1x7x5x20x4xf32>
  %t = linalg.transpose ins(%x : tensor<1x7x5x4x20xf32>) outs(%e : tensor<1x7x5x20x4xf32>) permutation = [0, 1, 2, 4, 3]
  %f = tensor.empty() : tensor<1x7x5x6x2xf32>
  %u = linalg.transpose ins(%y : tensor<1x7x5x2x6xf32>) outs(%f : tensor<1x7x5x6x2xf32>) permutation = [0, 1, 2, 4, 3]
  util.return %t, %u : tensor<1x7x5x20x4xf32>, tensor<1x7x5x6x2xf32>
}

// Filters of few outputs, whose inputs come last, are known here, also where they are computed of constants.
// CHECK-LABEL: @filter
// CHECK-NOT: flow.dispatch
// CHECK: linalg.transpose
util.func public @filter() -> tensor<1x1x16x2xf32> {
  %w = arith.constant dense<0.5> : tensor<1x1x2x16xf32>
  %factor = arith.constant dense<3.0> : tensor<16xf32>
  %e = tensor.empty() : tensor<1x1x2x16xf32>
  %scaled = linalg.generic {indexing_maps = [affine_map<(h, w, f, c) -> (h, w, f, c)>, affine_map<(h, w, f, c) -> (c)>, affine_map<(h, w, f, c) -> (h, w, f, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%w, %factor : tensor<1x1x2x16xf32>, tensor<16xf32>) outs(%e : tensor<1x1x2x16xf32>) {
  ^bb0(%tap: f32, %of_input: f32, %out: f32):
    %0 = arith.mulf %tap, %of_input : f32
    linalg.yield %0 : f32
  } -> tensor<1x1x2x16xf32>
  %f = tensor.empty() : tensor<1x1x16x2xf32>
  %t = linalg.transpose ins(%scaled : tensor<1x1x2x16xf32>) outs(%f : tensor<1x1x16x2xf32>) permutation = [0, 1, 3, 2]
  util.return %t : tensor<1x1x16x2xf32>
}

// What IREE computed is aligned.
// CHECK-LABEL: @computed
// CHECK: linalg.transpose
util.func public @computed(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %s = arith.addf %x, %x : tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%s : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#pointwise = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#stem = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @gpu
// CHECK: flow.dispatch @winograd_channels_last_1024x3
// CHECK-NOT: linalg.transpose
util.func public @gpu(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// IREE's code is left what isn't f32, of known sizes.
// CHECK-LABEL: @gpu_half
// CHECK: linalg.transpose
util.func public @gpu_half(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf16>
  %e = tensor.empty() : tensor<1x32x32x3xf16>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf16>) outs(%e : tensor<1x32x32x3xf16>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf16>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// Of unknown sizes a kernel moves it, and what is widened before, to be added to results.
// CHECK-LABEL: @gpu_half_of_any_size
// CHECK-NOT: linalg.transpose
// CHECK: %[[X:.*]] = flow.dispatch @winograd_channels_last_anyx3{{.*}} -> tensor<1x?x?x3xf16>
// CHECK: "winograd.input_transform"(%[[X]])
// CHECK: %[[W:.*]] = flow.dispatch @winograd_channels_last_anyx3{{.*}}(tensor<1x3x?x?xf16>{{.*}} -> tensor<1x?x?x3xf32>
// CHECK: "winograd.output_transform"(%{{.*}}, %[[W]])
// CHECK: %[[R:.*]] = flow.dispatch @winograd_channels_first_3xany{{.*}} -> tensor<1x3x?x?xf16>
// CHECK: hal.tensor.export %[[R]]
util.func public @gpu_half_of_any_size(%arg0: !hal.buffer_view, %h: index, %w: index, %m: tensor<?x?x3xf32>) -> (!hal.buffer_view, tensor<16x?x3xf32>) {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x?x?xf16>{%h, %w}
  %e = tensor.empty(%h, %w) : tensor<1x?x?x3xf16>
  %t = linalg.transpose ins(%x : tensor<1x3x?x?xf16>) outs(%e : tensor<1x?x?x3xf16>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x?x?x3xf16>) -> tensor<16x?x3xf32>
  %f = tensor.empty(%h, %w) : tensor<1x3x?x?xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x3x?x?xf16>) outs(%f : tensor<1x3x?x?xf32>) {
  ^bb0(%in: f16, %out: f32):
    %wide = arith.extf %in : f16 to f32
    linalg.yield %wide : f32
  } -> tensor<1x3x?x?xf32>
  %i = tensor.empty(%h, %w) : tensor<1x?x?x3xf32>
  %s = linalg.transpose ins(%g : tensor<1x3x?x?xf32>) outs(%i : tensor<1x?x?x3xf32>) permutation = [0, 2, 3, 1]
  %y = "winograd.output_transform"(%m, %s) ({
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    %half = arith.truncf %sum : f32 to f16
    vector.yield %half : f16
  }) {decomposition = #pointwise, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<?x?x3xf32>, tensor<1x?x?x3xf32>) -> tensor<1x?x?x3xf16>
  %k = tensor.empty(%h, %w) : tensor<1x3x?x?xf16>
  %u = linalg.transpose ins(%y : tensor<1x?x?x3xf16>) outs(%k : tensor<1x3x?x?xf16>) permutation = [0, 3, 1, 2]
  %r = hal.tensor.export %u : tensor<1x3x?x?xf16>{%h, %w} -> !hal.buffer_view
  util.return %r, %v : !hal.buffer_view, tensor<16x?x3xf32>
}

// So are results of known sizes that no kernel writes channels first.
// CHECK-LABEL: @gpu_results
// CHECK: %[[KNOWN:.*]] = linalg.transpose
// CHECK: %[[ANY:.*]] = flow.dispatch @winograd_channels_first_16xany::@winograd_channels_first_16xany
// CHECK: hal.tensor.export %[[ANY]]
util.func public @gpu_results(%m: tensor<1x64x16xf32>, %n: tensor<?x64x16xf32>, %size: index) -> (!hal.buffer_view, !hal.buffer_view) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #pointwise, groups = 1 : i64, indexing_maps = []} : (tensor<1x64x16xf32>) -> tensor<1x8x8x16xf32>
  %e = tensor.empty() : tensor<1x16x8x8xf32>
  %t = linalg.transpose ins(%y : tensor<1x8x8x16xf32>) outs(%e : tensor<1x16x8x8xf32>) permutation = [0, 3, 1, 2]
  %known = hal.tensor.export %t : tensor<1x16x8x8xf32> -> !hal.buffer_view
  %z = "winograd.output_transform"(%n) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #pointwise, groups = 1 : i64, indexing_maps = []} : (tensor<?x64x16xf32>) -> tensor<1x?x?x16xf32>
  %f = tensor.empty(%size, %size) : tensor<1x16x?x?xf32>
  %u = linalg.transpose ins(%z : tensor<1x?x?x16xf32>) outs(%f : tensor<1x16x?x?xf32>) permutation = [0, 3, 1, 2]
  %any = hal.tensor.export %u : tensor<1x16x?x?xf32>{%size, %size} -> !hal.buffer_view
  util.return %known, %any : !hal.buffer_view, !hal.buffer_view
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

// On GPUs the parts of a concatenation are read where they are, and of others those of the image.
// CHECK-LABEL: @interleaved
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<1x7x5x20xf32>, %[[Y:[a-z0-9]+]]: tensor<1x7x5x40xf32>, %[[Z:[a-z0-9]+]]: tensor<1x7x4x3x6xf32>)
// CHECK-NOT: tensor.insert_slice
// CHECK: %[[S:.*]] = flow.dispatch @winograd_interleave_35x2x20::@winograd_interleave_35x2x20(%[[X]], %[[Y]])
// CHECK: %[[T:.*]] = tensor.expand_shape %[[S]] {{.*}} into tensor<1x7x5x20x2xf32>
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[Z]] {{.*}} into tensor<28x18xf32>
// CHECK: flow.dispatch @winograd_interleave_28x3x6::@winograd_interleave_28x3x6(%[[R]])
util.func public @interleaved(%x: tensor<1x7x5x20xf32>, %y: tensor<1x7x5x40xf32>, %z: tensor<1x7x4x3x6xf32>) -> (tensor<1x7x5x20x2xf32>, tensor<1x7x4x6x3xf32>) {
  %part = tensor.extract_slice %y[0, 0, 0, 20] [1, 7, 5, 20] [1, 1, 1, 1] : tensor<1x7x5x40xf32> to tensor<1x7x5x20xf32>
  %empty = tensor.empty() : tensor<1x7x5x40xf32>
  %first = tensor.insert_slice %x into %empty[0, 0, 0, 0] [1, 7, 5, 20] [1, 1, 1, 1] : tensor<1x7x5x20xf32> into tensor<1x7x5x40xf32>
  %both = tensor.insert_slice %part into %first[0, 0, 0, 20] [1, 7, 5, 20] [1, 1, 1, 1] : tensor<1x7x5x20xf32> into tensor<1x7x5x40xf32>
  %groups = tensor.expand_shape %both [[0], [1], [2], [3, 4]] output_shape [1, 7, 5, 2, 20] : tensor<1x7x5x40xf32> into tensor<1x7x5x2x20xf32>
  %e = tensor.empty() : tensor<1x7x5x20x2xf32>
  %s = linalg.transpose ins(%groups : tensor<1x7x5x2x20xf32>) outs(%e : tensor<1x7x5x20x2xf32>) permutation = [0, 1, 2, 4, 3]
  %ez = tensor.empty() : tensor<1x7x4x6x3xf32>
  %t = linalg.transpose ins(%z : tensor<1x7x4x3x6xf32>) outs(%ez : tensor<1x7x4x6x3xf32>) permutation = [0, 1, 2, 4, 3]
  util.return %s, %t : tensor<1x7x5x20x2xf32>, tensor<1x7x4x6x3xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A kernel's results of unknown size that are returned channels first; those of known size are IREE's.
// CHECK-LABEL: @returned
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[R:.*]] = flow.dispatch @winograd_channels_first_anyx4::@winograd_channels_first_anyx4[%[[H:.*]], %[[W:.*]]](%[[Y]], %[[H]], %[[W]]) : (tensor<1x?x?x4xf32>{%[[H]], %[[W]]}, index, index) -> tensor<1x4x?x?xf32>{%[[H]], %[[W]]}
// CHECK: hal.tensor.export %[[R]]
// CHECK: linalg.transpose
util.func public @returned(%m: tensor<1x?x4xf32>, %k: tensor<1x49x4xf32>, %h: index, %w: index) -> (!hal.buffer_view, !hal.buffer_view) {
  %y = "winograd.output_transform"(%m, %h, %w) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 2>} : (tensor<1x?x4xf32>, index, index) -> tensor<1x?x?x4xf32>
  %e = tensor.empty(%h, %w) : tensor<1x4x?x?xf32>
  %t = linalg.transpose ins(%y : tensor<1x?x?x4xf32>) outs(%e : tensor<1x4x?x?xf32>) permutation = [0, 3, 1, 2]
  %r = hal.tensor.export %t : tensor<1x4x?x?xf32>{%h, %w} -> !hal.buffer_view
  %z = "winograd.output_transform"(%k) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %f = tensor.empty() : tensor<1x4x7x7xf32>
  %u = linalg.transpose ins(%z : tensor<1x7x7x4xf32>) outs(%f : tensor<1x4x7x7xf32>) permutation = [0, 3, 1, 2]
  %s = hal.tensor.export %u : tensor<1x4x7x7xf32> -> !hal.buffer_view
  util.return %r, %s : !hal.buffer_view, !hal.buffer_view
}

// Those of half precision of known size as well, unless they have few channels.
// CHECK-LABEL: @returned_half
// CHECK: flow.dispatch @winograd_channels_first_49x8::@winograd_channels_first_49x8(%{{.*}}) : (tensor<1x7x7x8xf16>) -> tensor<1x8x7x7xf16>
// CHECK: linalg.transpose
util.func public @returned_half(%m: tensor<1x49x8xf32>, %k: tensor<1x49x4xf32>) -> (!hal.buffer_view, !hal.buffer_view) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x8xf32>) -> tensor<1x7x7x8xf16>
  %e = tensor.empty() : tensor<1x8x7x7xf16>
  %t = linalg.transpose ins(%y : tensor<1x7x7x8xf16>) outs(%e : tensor<1x8x7x7xf16>) permutation = [0, 3, 1, 2]
  %r = hal.tensor.export %t : tensor<1x8x7x7xf16> -> !hal.buffer_view
  %z = "winograd.output_transform"(%k) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf16>
  %f = tensor.empty() : tensor<1x4x7x7xf16>
  %u = linalg.transpose ins(%z : tensor<1x7x7x4xf16>) outs(%f : tensor<1x4x7x7xf16>) permutation = [0, 3, 1, 2]
  %s = hal.tensor.export %u : tensor<1x4x7x7xf16> -> !hal.buffer_view
  util.return %r, %s : !hal.buffer_view, !hal.buffer_view
}

// Results that IREE would compute are computed and moved by a kernel where lines of more channels than a set of L1 has
// room for are in the same set, as they may be of unknown sizes.
// CHECK-LABEL: @returned_computed
// CHECK-SAME: %[[X:.*]]: tensor<1x128x128x16xf32>, %[[Y:.*]]: tensor<1x?x?x16xf32>, %{{.*}}: tensor<1x?x?x8xf32>
// CHECK: flow.dispatch @winograd_elementwise_128x128x16_first::@winograd_elementwise_128x128x16_first{{.*}}(%[[X]]{{.*}} -> tensor<1x16x128x128xf32>
// CHECK: flow.dispatch @winograd_elementwise_anyxanyx16_first::@winograd_elementwise_anyxanyx16_first{{.*}}(%[[Y]]{{.*}} -> tensor<1x16x?x?xf32>
// CHECK-COUNT-3: linalg.transpose
util.func public @returned_computed(%x: tensor<1x128x128x16xf32>, %y: tensor<1x?x?x16xf32>, %z: tensor<1x?x?x8xf32>, %u: tensor<1x120x129x64xf32>, %v: tensor<1x32x32x16xf32>, %h: index, %w: index) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view) {
  %ex = tensor.empty() : tensor<1x128x128x16xf32>
  %cx = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x128x128x16xf32>) outs(%ex : tensor<1x128x128x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %tanh = math.tanh %in : f32
    linalg.yield %tanh : f32
  } -> tensor<1x128x128x16xf32>
  %fx = tensor.empty() : tensor<1x16x128x128xf32>
  %tx = linalg.transpose ins(%cx : tensor<1x128x128x16xf32>) outs(%fx : tensor<1x16x128x128xf32>) permutation = [0, 3, 1, 2]
  %rx = hal.tensor.export %tx : tensor<1x16x128x128xf32> -> !hal.buffer_view
  %ey = tensor.empty(%h, %w) : tensor<1x?x?x16xf32>
  %cy = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x?x?x16xf32>) outs(%ey : tensor<1x?x?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %tanh = math.tanh %in : f32
    linalg.yield %tanh : f32
  } -> tensor<1x?x?x16xf32>
  %fy = tensor.empty(%h, %w) : tensor<1x16x?x?xf32>
  %ty = linalg.transpose ins(%cy : tensor<1x?x?x16xf32>) outs(%fy : tensor<1x16x?x?xf32>) permutation = [0, 3, 1, 2]
  %ry = hal.tensor.export %ty : tensor<1x16x?x?xf32>{%h, %w} -> !hal.buffer_view
  %ez = tensor.empty(%h, %w) : tensor<1x?x?x8xf32>
  %cz = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%z : tensor<1x?x?x8xf32>) outs(%ez : tensor<1x?x?x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %tanh = math.tanh %in : f32
    linalg.yield %tanh : f32
  } -> tensor<1x?x?x8xf32>
  %fz = tensor.empty(%h, %w) : tensor<1x8x?x?xf32>
  %tz = linalg.transpose ins(%cz : tensor<1x?x?x8xf32>) outs(%fz : tensor<1x8x?x?xf32>) permutation = [0, 3, 1, 2]
  %rz = hal.tensor.export %tz : tensor<1x8x?x?xf32>{%h, %w} -> !hal.buffer_view
  %eu = tensor.empty() : tensor<1x120x129x64xf32>
  %cu = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%u : tensor<1x120x129x64xf32>) outs(%eu : tensor<1x120x129x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %tanh = math.tanh %in : f32
    linalg.yield %tanh : f32
  } -> tensor<1x120x129x64xf32>
  %fu = tensor.empty() : tensor<1x64x120x129xf32>
  %tu = linalg.transpose ins(%cu : tensor<1x120x129x64xf32>) outs(%fu : tensor<1x64x120x129xf32>) permutation = [0, 3, 1, 2]
  %ru = hal.tensor.export %tu : tensor<1x64x120x129xf32> -> !hal.buffer_view
  %ev = tensor.empty() : tensor<1x32x32x16xf32>
  %cv = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<1x32x32x16xf32>) outs(%ev : tensor<1x32x32x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %tanh = math.tanh %in : f32
    linalg.yield %tanh : f32
  } -> tensor<1x32x32x16xf32>
  %fv = tensor.empty() : tensor<1x16x32x32xf32>
  %tv = linalg.transpose ins(%cv : tensor<1x32x32x16xf32>) outs(%fv : tensor<1x16x32x32xf32>) permutation = [0, 3, 1, 2]
  %rv = hal.tensor.export %tv : tensor<1x16x32x32xf32> -> !hal.buffer_view
  util.return %rx, %ry, %rz, %ru, %rv : !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view, !hal.buffer_view
}

// All operations in a row are one kernel, which reads what there is of each channel. Of an image that something else
// reads, too, IREE's loops are moved by one.
// CHECK-LABEL: @returned_scaled
// CHECK-SAME: %[[X:.*]]: tensor<1x?x?x16xf32>, %[[F:.*]]: tensor<1x16xf32>
// CHECK-NOT: linalg.generic
// CHECK: %[[R:.*]] = flow.dispatch @winograd_elementwise_anyxanyx16_first{{.*}}(%[[X]], %[[F]], {{.*}} -> tensor<1x16x?x?xf32>
// CHECK: hal.tensor.export %[[R]]
// CHECK: %[[T:.*]] = linalg.generic
// CHECK: flow.dispatch @winograd_channels_first_anyx16{{.*}}(%[[T]]
util.func public @returned_scaled(%x: tensor<1x?x?x16xf32>, %f: tensor<1x16xf32>, %h: index, %w: index) -> (!hal.buffer_view, !hal.buffer_view, !hal.buffer_view) {
  %e = tensor.empty(%h, %w) : tensor<1x?x?x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %f : tensor<1x?x?x16xf32>, tensor<1x16xf32>) outs(%e : tensor<1x?x?x16xf32>) {
  ^bb0(%in: f32, %factor: f32, %out: f32):
    %product = arith.mulf %in, %factor : f32
    linalg.yield %product : f32
  } -> tensor<1x?x?x16xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<1x?x?x16xf32>) outs(%e : tensor<1x?x?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %tanh = math.tanh %in : f32
    linalg.yield %tanh : f32
  } -> tensor<1x?x?x16xf32>
  %first = tensor.empty(%h, %w) : tensor<1x16x?x?xf32>
  %y = linalg.transpose ins(%t : tensor<1x?x?x16xf32>) outs(%first : tensor<1x16x?x?xf32>) permutation = [0, 3, 1, 2]
  %r = hal.tensor.export %y : tensor<1x16x?x?xf32>{%h, %w} -> !hal.buffer_view
  %u = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x?x?x16xf32>) outs(%e : tensor<1x?x?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %exp = math.exp %in : f32
    linalg.yield %exp : f32
  } -> tensor<1x?x?x16xf32>
  %z = linalg.transpose ins(%u : tensor<1x?x?x16xf32>) outs(%first : tensor<1x16x?x?xf32>) permutation = [0, 3, 1, 2]
  %v = hal.tensor.export %z : tensor<1x16x?x?xf32>{%h, %w} -> !hal.buffer_view
  %l = hal.tensor.export %u : tensor<1x?x?x16xf32>{%h, %w} -> !hal.buffer_view
  util.return %r, %v, %l : !hal.buffer_view, !hal.buffer_view, !hal.buffer_view
}
