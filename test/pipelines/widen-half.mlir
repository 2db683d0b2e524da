// RUN: winograd-opt --winograd-widen-half --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// Sums are rounded where the program rounds them, and so is what an operation on elements gives. What leaves the
// program is of half precision.
// CHECK-LABEL: func.func @layer(
// CHECK-SAME: %[[X:.*]]: tensor<1x10x10x8xf16>, %[[R:.*]]: tensor<1x8x8x4xf16>
// CHECK: %[[WIDE_R:.*]] = linalg.generic {{.*}} ins(%[[R]] : tensor<1x8x8x4xf16>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.extf
// CHECK: %[[WIDE_X:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x10x10x8xf16>)
// CHECK: %[[W:.*]] = arith.constant dense<1.500000e+00> : tensor<3x3x8x4xf32>
// CHECK: %[[Y:.*]] = linalg.conv_2d_nhwc_hwcf ins(%[[WIDE_X]], %[[W]] : tensor<1x10x10x8xf32>, tensor<3x3x8x4xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[Y]] : tensor<1x8x8x4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[HALF:.*]] = arith.truncf %[[IN]] : f32 to f16
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.extf %[[HALF]] : f16 to f32
// CHECK-NEXT: linalg.yield %[[ROUNDED]] : f32
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[WIDE_R]] : tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.maximumf
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: arith.extf
// CHECK-NEXT: linalg.yield
// CHECK: arith.truncf
// CHECK: return %{{.*}} : tensor<1x8x8x4xf16>
func.func @layer(%x: tensor<1x10x10x8xf16>, %r: tensor<1x8x8x4xf16>) -> tensor<1x8x8x4xf16> {
  %w = arith.constant dense<1.5> : tensor<3x3x8x4xf16>
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x10x10x8xf16>, tensor<3x3x8x4xf16>) outs(%zeros : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %h = tensor.empty() : tensor<1x8x8x4xf16>
  %t = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x8x8x4xf32>) outs(%h : tensor<1x8x8x4xf16>) {
  ^bb0(%in: f32, %out: f16):
    %n = arith.truncf %in : f32 to f16
    linalg.yield %n : f16
  } -> tensor<1x8x8x4xf16>
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t, %r : tensor<1x8x8x4xf16>, tensor<1x8x8x4xf16>) outs(%h : tensor<1x8x8x4xf16>) {
  ^bb0(%in: f16, %of: f16, %out: f16):
    %a = arith.addf %in, %of : f16
    %m = arith.maximumf %a, %none : f16
    linalg.yield %m : f16
  } -> tensor<1x8x8x4xf16>
  return %s : tensor<1x8x8x4xf16>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// Functions are computed in f32 and rounded once. What is compared is what half precision would compare.
// CHECK-LABEL: func.func @functions
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK: linalg.generic
// CHECK: arith.negf %{{.*}} : f32
// CHECK-NEXT: math.exp %{{.*}} : f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: %[[QUOTIENT:.*]] = arith.divf %{{.*}}, %[[SUM]] : f32
// CHECK-NEXT: arith.truncf %[[QUOTIENT]] : f32 to f16
// CHECK-NEXT: arith.extf
// CHECK-NEXT: linalg.yield
// CHECK: %[[DOUBLE:.*]] = arith.addf
// CHECK-NEXT: %[[HALF:.*]] = arith.truncf %[[DOUBLE]] : f32 to f16
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.extf %[[HALF]]
// CHECK-NEXT: arith.cmpf ogt, %[[ROUNDED]], %{{.*}} : f32
func.func @functions(%x: tensor<1x10x10x8xf16>, %w: tensor<3x3x8x4xf16>) -> tensor<1x8x8x4xf16> {
  %zero = arith.constant 0.0 : f16
  %one = arith.constant 1.0 : f16
  %h = tensor.empty() : tensor<1x8x8x4xf16>
  %zeros = linalg.fill ins(%zero : f16) outs(%h : tensor<1x8x8x4xf16>) -> tensor<1x8x8x4xf16>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x10x10x8xf16>, tensor<3x3x8x4xf16>) outs(%zeros : tensor<1x8x8x4xf16>) -> tensor<1x8x8x4xf16>
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x8x8x4xf16>) outs(%h : tensor<1x8x8x4xf16>) {
  ^bb0(%in: f16, %out: f16):
    %n = arith.negf %in : f16
    %e = math.exp %n : f16
    %a = arith.addf %e, %one : f16
    %d = arith.divf %one, %a : f16
    linalg.yield %d : f16
  } -> tensor<1x8x8x4xf16>
  %c = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<1x8x8x4xf16>) outs(%h : tensor<1x8x8x4xf16>) {
  ^bb0(%in: f16, %out: f16):
    %d = arith.addf %in, %in : f16
    %g = arith.cmpf ogt, %d, %one : f16
    %r = arith.select %g, %in, %zero : f16
    linalg.yield %r : f16
  } -> tensor<1x8x8x4xf16>
  return %c : tensor<1x8x8x4xf16>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// A sum that the program has in bf16 is rounded once. What isn't known to be the same in f32 stays as it is.
// CHECK-LABEL: func.func @sums
// CHECK: %[[Y:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}} -> tensor<1x8x8x4xf32>
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic {{.*}} ins(%[[Y]] : tensor<1x8x8x4xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: arith.extf %{{.*}} : bf16 to f32
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: flow.tensor.bitcast %{{.*}} : tensor<1x8x8x4xbf16> -> tensor<1x8x8x4xi16>
func.func @sums(%x: tensor<1x10x10x8xbf16>, %w: tensor<3x3x8x4xbf16>, %i: tensor<1x8x8x4xbf16>) -> tensor<1x8x8x4xi16> {
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x10x10x8xbf16>, tensor<3x3x8x4xbf16>) outs(%i : tensor<1x8x8x4xbf16>) -> tensor<1x8x8x4xbf16>
  %b = flow.tensor.bitcast %y : tensor<1x8x8x4xbf16> -> tensor<1x8x8x4xi16>
  return %b : tensor<1x8x8x4xi16>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// Without a convolution of half precision nothing changes.
// CHECK-LABEL: func.func @none
// CHECK: arith.addf %{{.*}}, %{{.*}} : f16
func.func @none(%x: tensor<8xf16>, %y: tensor<8xf16>) -> tensor<8xf16> {
  %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf16>) outs(%y : tensor<8xf16>) {
  ^bb0(%in: f16, %out: f16):
    %a = arith.addf %in, %out : f16
    linalg.yield %a : f16
  } -> tensor<8xf16>
  return %s : tensor<8xf16>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// What the program converts to f32 itself is in f32 already: its conversion is gone, so that filters stay constants.
// CHECK-LABEL: func.func @converted
// CHECK: %[[W:.*]] = arith.constant dense<1.500000e+00> : tensor<3x3x8x4xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf ins(%[[X:.*]], %[[W]] : tensor<1x10x10x8xf32>, tensor<3x3x8x4xf32>)
// CHECK: linalg.conv_2d_nhwc_hwcf ins(%[[X]], %[[W]] : tensor<1x10x10x8xf32>, tensor<3x3x8x4xf32>)
func.func @converted(%x: tensor<1x10x10x8xf16>) -> (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) {
  %w = arith.constant dense<1.5> : tensor<3x3x8x4xf16>
  %zero = arith.constant 0.0 : f32
  %we = tensor.empty() : tensor<3x3x8x4xf32>
  %single = linalg.generic {indexing_maps = [affine_map<(h, w, c, k) -> (h, w, c, k)>, affine_map<(h, w, c, k) -> (h, w, c, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%w : tensor<3x3x8x4xf16>) outs(%we : tensor<3x3x8x4xf32>) {
  ^bb0(%in: f16, %out: f32):
    %s = arith.extf %in : f16 to f32
    linalg.yield %s : f32
  } -> tensor<3x3x8x4xf32>
  %xe = tensor.empty() : tensor<1x10x10x8xf32>
  %image = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x10x10x8xf16>) outs(%xe : tensor<1x10x10x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %s = arith.extf %in : f16 to f32
    linalg.yield %s : f32
  } -> tensor<1x10x10x8xf32>
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%image, %single : tensor<1x10x10x8xf32>, tensor<3x3x8x4xf32>) outs(%zeros : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %half = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x10x10x8xf16>, tensor<3x3x8x4xf16>) outs(%zeros : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  return %y, %half : tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

#id = affine_map<(n, h, w, c) -> (n, h, w, c)>

// A number that the program rounds to half precision is rounded when compiling.
// CHECK-LABEL: func.func @rounded_constant
// CHECK: %[[TENTH:.*]] = arith.constant 0.0999755859 : f32
// CHECK-NEXT: arith.mulf %{{.*}}, %[[TENTH]] : f32
func.func @rounded_constant(%x: tensor<1x10x10x8xf16>) -> tensor<1x8x8x4xf32> {
  %w = arith.constant dense<1.5> : tensor<3x3x8x4xf16>
  %zero = arith.constant 0.0 : f32
  %tenth = arith.constant 0.1 : f32
  %h = tensor.empty() : tensor<1x10x10x8xf16>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x10x10x8xf16>) outs(%h : tensor<1x10x10x8xf16>) {
  ^bb0(%in: f16, %out: f16):
    %t = arith.truncf %tenth : f32 to f16
    %m = arith.mulf %in, %t : f16
    linalg.yield %m : f16
  } -> tensor<1x10x10x8xf16>
  %e = tensor.empty() : tensor<1x8x8x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%s, %w : tensor<1x10x10x8xf16>, tensor<3x3x8x4xf16>) outs(%zeros : tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
  return %y : tensor<1x8x8x4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// Linear layers alone: products of rows and a matrix that is known when the program is loaded.
// CHECK-LABEL: func.func @linear(
// CHECK: %[[T:.*]] = linalg.transpose ins(%{{.*}} : tensor<4x8xf32>)
// CHECK: linalg.matmul ins(%{{.*}}, %[[T]] : tensor<3x8xf32>, tensor<8x4xf32>)
func.func @linear(%x: tensor<3x8xbf16>) -> tensor<3x4xf32> {
  %w = arith.constant dense<1.5> : tensor<4x8xbf16>
  %zero = arith.constant 0.0 : f32
  %te = tensor.empty() : tensor<8x4xbf16>
  %t = linalg.transpose ins(%w : tensor<4x8xbf16>) outs(%te : tensor<8x4xbf16>) permutation = [1, 0]
  %e = tensor.empty() : tensor<3x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %y = linalg.matmul ins(%x, %t : tensor<3x8xbf16>, tensor<8x4xbf16>) outs(%zeros : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// A matrix or a number of rows that is known only when the program runs is IREE's.
// CHECK-LABEL: func.func @unknown(
// CHECK: linalg.matmul ins(%{{.*}} : tensor<3x8xf16>, tensor<8x4xf16>)
// CHECK: linalg.matmul ins(%{{.*}} : tensor<?x8xf16>, tensor<8x4xf16>)
func.func @unknown(%x: tensor<3x8xf16>, %m: tensor<8x4xf16>, %rows: tensor<?x8xf16>, %sums: tensor<3x4xf32>, %others: tensor<?x4xf32>) -> (tensor<3x4xf32>, tensor<?x4xf32>) {
  %w = arith.constant dense<1.5> : tensor<8x4xf16>
  %y = linalg.matmul ins(%x, %m : tensor<3x8xf16>, tensor<8x4xf16>) outs(%sums : tensor<3x4xf32>) -> tensor<3x4xf32>
  %z = linalg.matmul ins(%rows, %w : tensor<?x8xf16>, tensor<8x4xf16>) outs(%others : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y, %z : tensor<3x4xf32>, tensor<?x4xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// A sum that is only divided isn't rounded: that of 49 pixels may be beyond 65504 where their mean isn't.
// CHECK-LABEL: func.func @average(
// CHECK: %[[SUMS:.*]] = linalg.pooling_nhwc_sum {{.*}} -> tensor<1x1x1x4xf32>
// CHECK-NOT: arith.truncf
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]] : tensor<1x1x1x4xf32>)
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[MEAN:.*]] = arith.divf %[[SUM]], %{{.*}} : f32
// CHECK-NEXT: arith.truncf %[[MEAN]] : f32 to f16
func.func @average(%x: tensor<1x7x7x8xf16>) -> tensor<1x1x1x4xf16> {
  %w = arith.constant dense<1.5> : tensor<1x1x8x4xf16>
  %zero = arith.constant 0.0 : f16
  %pixels = arith.constant 49.0 : f16
  %ye = tensor.empty() : tensor<1x7x7x4xf16>
  %yz = linalg.fill ins(%zero : f16) outs(%ye : tensor<1x7x7x4xf16>) -> tensor<1x7x7x4xf16>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x7x7x8xf16>, tensor<1x1x8x4xf16>) outs(%yz : tensor<1x7x7x4xf16>) -> tensor<1x7x7x4xf16>
  %window = tensor.empty() : tensor<7x7xf16>
  %e = tensor.empty() : tensor<1x1x1x4xf16>
  %zeros = linalg.fill ins(%zero : f16) outs(%e : tensor<1x1x1x4xf16>) -> tensor<1x1x1x4xf16>
  %s = linalg.pooling_nhwc_sum ins(%y, %window : tensor<1x7x7x4xf16>, tensor<7x7xf16>) outs(%zeros : tensor<1x1x1x4xf16>) -> tensor<1x1x1x4xf16>
  %m = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<1x1x1x4xf16>) outs(%e : tensor<1x1x1x4xf16>) {
  ^bb0(%in: f16, %out: f16):
    %d = arith.divf %in, %pixels : f16
    linalg.yield %d : f16
  } -> tensor<1x1x1x4xf16>
  return %m : tensor<1x1x1x4xf16>
}
