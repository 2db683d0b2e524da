// RUN: winograd-opt --winograd-loop-over-images --split-input-file %s 2>&1 | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Images of 112x112x32 lie beyond the caches by the time that a depthwise convolution of eight of them reads the first.
// What pads it, and what it is added to, is made anew for each image; the filter is read by all. What comes after it is
// predicted to be no faster: a matrix is read again, and images are copied out of the loop.
// CHECK: remark: 3 operations compute the 8 images of a batch one after the other
// CHECK-LABEL: @depthwise
// CHECK-SAME: (%[[X:.*]]: tensor<8x112x112x32xf32>, %[[F:.*]]: tensor<3x3x32xf32>, %[[G:.*]]: tensor<112x112x32xf32>)
// CHECK: %[[NONE:.*]] = flow.tensor.transfer %{{.*}} : tensor<8x56x56x32xf32> to #hal.device.affinity<@device>
// CHECK: %[[ALL:.*]] = scf.for %[[I:.*]] = %c0{{.*}} to %c8{{.*}} step %c1{{.*}} iter_args(%[[BEFORE:.*]] = %[[NONE]]) -> (tensor<8x56x56x32xf32>) {
// CHECK: %[[IMAGE:.*]] = tensor.extract_slice %[[X]][%[[I]], 0, 0, 0] [1, 112, 112, 32] [1, 1, 1, 1]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[IMAGE]], %[[G]] : tensor<1x112x112x32xf32>, tensor<112x112x32xf32>)
// CHECK: %[[PADDED:.*]] = tensor.pad %[[SUM]] low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK: linalg.fill {{.*}} -> tensor<1x56x56x32xf32>
// CHECK: %[[Y:.*]] = linalg.depthwise_conv_2d_nhwc_hwc {{.*}} ins(%[[PADDED]], %[[F]] : tensor<1x114x114x32xf32>, tensor<3x3x32xf32>)
// CHECK: %[[NEXT:.*]] = tensor.insert_slice %[[Y]] into %[[BEFORE]][%[[I]], 0, 0, 0] [1, 56, 56, 32] [1, 1, 1, 1]
// CHECK: scf.yield %[[NEXT]]
// CHECK: }
// CHECK: util.return %[[ALL]]
util.func public @depthwise(%x: tensor<8x112x112x32xf32>, %f: tensor<3x3x32xf32>, %g: tensor<112x112x32xf32>) -> tensor<8x56x56x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x112x112x32xf32>
  %s = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %g : tensor<8x112x112x32xf32>, tensor<112x112x32xf32>) outs(%e : tensor<8x112x112x32xf32>) {
  ^bb0(%a: f32, %b: f32, %unused: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x112x112x32xf32>
  %p = tensor.pad %s low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<8x112x112x32xf32> to tensor<8x114x114x32xf32>
  %o = tensor.empty() : tensor<8x56x56x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%o : tensor<8x56x56x32xf32>) -> tensor<8x56x56x32xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc {strides = dense<2> : vector<2xi64>} ins(%p, %f : tensor<8x114x114x32xf32>, tensor<3x3x32xf32>)
    outs(%z : tensor<8x56x56x32xf32>) -> tensor<8x56x56x32xf32>
  util.return %y : tensor<8x56x56x32xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Small images stay near.
// CHECK-LABEL: @small
// CHECK-NOT: scf.for
// CHECK-LABEL: @scalar
// CHECK-NOT: scf.for
// Nor is there a loop where an operation mixes images: here it adds the next one to each.
// CHECK-LABEL: @mixed
// CHECK-NOT: scf.for
util.func public @small(%x: tensor<8x16x16x32xf32>, %f: tensor<3x3x32xf32>, %z: tensor<8x14x14x32xf32>) -> tensor<8x14x14x32xf32> {
  %y = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %f : tensor<8x16x16x32xf32>, tensor<3x3x32xf32>)
    outs(%z : tensor<8x14x14x32xf32>) -> tensor<8x14x14x32xf32>
  util.return %y : tensor<8x14x14x32xf32>
}

// A scalar is no image.
util.func public @scalar(%x: tensor<8x16x16x32xf32>, %f: tensor<3x3x32xf32>, %z: tensor<8x14x14x32xf32>, %s: tensor<1xf32>, %t: tensor<f32>, %u: tensor<8xf32>)
    -> (tensor<8x14x14x32xf32>, tensor<f32>, tensor<1xf32>, tensor<8xf32>) {
  %c = tensor.collapse_shape %s [] : tensor<1xf32> into tensor<f32>
  %e = tensor.expand_shape %t [] output_shape [1] : tensor<f32> into tensor<1xf32>
  %i = tensor.insert_slice %t into %u[3] [1] [1] : tensor<f32> into tensor<8xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %f : tensor<8x16x16x32xf32>, tensor<3x3x32xf32>)
    outs(%z : tensor<8x14x14x32xf32>) -> tensor<8x14x14x32xf32>
  util.return %y, %c, %e, %i : tensor<8x14x14x32xf32>, tensor<f32>, tensor<1xf32>, tensor<8xf32>
}

util.func public @mixed(%x: tensor<9x114x114x32xf32>, %two: tensor<2xf32>, %f: tensor<3x3x32xf32>, %z: tensor<8x112x112x32xf32>) -> tensor<8x112x112x32xf32> {
  %e = tensor.empty() : tensor<8x114x114x32xf32>
  %s = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k, m) -> (n + m, h, w, k)>, affine_map<(n, h, w, k, m) -> (m)>, affine_map<(n, h, w, k, m) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %two : tensor<9x114x114x32xf32>, tensor<2xf32>) outs(%e : tensor<8x114x114x32xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %c = arith.addf %a, %sum : f32
    linalg.yield %c : f32
  } -> tensor<8x114x114x32xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc ins(%s, %f : tensor<8x114x114x32xf32>, tensor<3x3x32xf32>)
    outs(%z : tensor<8x112x112x32xf32>) -> tensor<8x112x112x32xf32>
  util.return %y : tensor<8x112x112x32xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "skylake-avx512", cpu_features = "+avx2,+fma,+f16c,+avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Images that were rounded to half precision leave the loop so: what reads them knows their type.
// CHECK-LABEL: @rounded
// CHECK: %[[ALL:.*]] = scf.for {{.*}} -> (tensor<8x56x56x64xbf16>) {
// CHECK: %[[Y:.*]] = linalg.depthwise_conv_2d_nhwc_hwc
// CHECK: %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[Y]] :
// CHECK: %[[HALF:.*]] = linalg.generic {{.*}} ins(%[[ROUNDED]] : tensor<1x56x56x64xf32>) outs(%{{.*}} : tensor<1x56x56x64xbf16>)
// CHECK: %[[NEXT:.*]] = tensor.insert_slice %[[HALF]] into
// CHECK: scf.yield %[[NEXT]]
// CHECK: %[[WIDENED:.*]] = linalg.generic {{.*}} ins(%[[ALL]] : tensor<8x56x56x64xbf16>) outs(%{{.*}} : tensor<8x56x56x64xf32>)
// CHECK: util.return %[[WIDENED]]
util.func public @rounded(%x: tensor<8x112x112x64xf32>, %f: tensor<3x3x64xf32>, %g: tensor<112x112x64xf32>) -> tensor<8x56x56x64xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x112x112x64xf32>
  %s = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %g : tensor<8x112x112x64xf32>, tensor<112x112x64xf32>) outs(%e : tensor<8x112x112x64xf32>) {
  ^bb0(%a: f32, %b: f32, %unused: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x112x112x64xf32>
  %p = tensor.pad %s low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<8x112x112x64xf32> to tensor<8x114x114x64xf32>
  %o = tensor.empty() : tensor<8x56x56x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%o : tensor<8x56x56x64xf32>) -> tensor<8x56x56x64xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc {strides = dense<2> : vector<2xi64>} ins(%p, %f : tensor<8x114x114x64xf32>, tensor<3x3x64xf32>)
    outs(%z : tensor<8x56x56x64xf32>) -> tensor<8x56x56x64xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<8x56x56x64xf32>) outs(%o : tensor<8x56x56x64xf32>) {
  ^bb0(%a: f32, %unused: f32):
    %b = arith.truncf %a : f32 to bf16
    %c = arith.extf %b : bf16 to f32
    linalg.yield %c : f32
  } -> tensor<8x56x56x64xf32>
  util.return %r : tensor<8x56x56x64xf32>
}
