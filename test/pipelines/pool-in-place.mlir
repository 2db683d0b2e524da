// RUN: winograd-opt --winograd-pool-in-place --split-input-file %s 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

// Elements outside of the image are the nearest ones inside: row and column 0 of the first window.
// CHECK-LABEL: func.func @padded
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x16x8xf32>)
// CHECK-NOT: tensor.pad
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x8x8x8xf32>)
// CHECK-DAG: %[[N:.*]] = linalg.index 0
// CHECK-DAG: %[[H:.*]] = linalg.index 1
// CHECK-DAG: %[[C:.*]] = linalg.index 3
// CHECK: %[[SECOND:.*]] = arith.muli %[[H]], %{{.*}} : index
// CHECK: %[[FIRST:.*]] = arith.addi %[[SECOND]], %{{.*}} : index
// CHECK: %[[ROW:.*]] = arith.maxsi %[[FIRST]], %{{.*}} : index
// CHECK-NOT: arith.minsi
// CHECK: tensor.extract %[[X]][%[[N]], %[[ROW]], %{{.*}}, %[[C]]]
// CHECK-COUNT-8: arith.maximumf
// CHECK-NOT: linalg.pooling
func.func @padded(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %lowest : f32
  } : tensor<1x16x16x8xf32> to tensor<1x18x18x8xf32>
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%p, %window : tensor<1x18x18x8xf32>, tensor<3x3xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// Of channels of a larger image the elements are read where they lie: IREE's code for NVIDIA's GPUs takes the rows of a
// slice for neighbours.
// CHECK-LABEL: func.func @channels
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x16x24xf32>)
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[FIRST:.*]] = arith.constant 8 : index
// CHECK: %[[C:.*]] = arith.addi %{{.*}}, %[[FIRST]] : index
// CHECK: tensor.extract %[[X]][%{{.*}}, %{{.*}}, %{{.*}}, %[[C]]]
func.func @channels(%x: tensor<1x16x16x24xf32>) -> tensor<1x8x8x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %part = tensor.extract_slice %x[0, 0, 0, 8] [1, 16, 16, 8] [1, 1, 1, 1] : tensor<1x16x16x24xf32> to tensor<1x16x16x8xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%part, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// The nearest element inside of the image may not be one of a window with gaps.
// CHECK-LABEL: func.func @dilated
// CHECK: linalg.pooling_nhwc_max
// REMARK: remark: {{.*}}its windows have gaps
func.func @dilated(%x: tensor<1x16x16x8xf32>) -> tensor<1x12x12x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<1x12x12x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x12x12x8xf32>) -> tensor<1x12x12x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<2> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %window : tensor<1x16x16x8xf32>, tensor<3x3xf32>) outs(%init : tensor<1x12x12x8xf32>) -> tensor<1x12x12x8xf32>
  return %r : tensor<1x12x12x8xf32>
}

// Padding with another number counts.
// CHECK-LABEL: func.func @zeros
// CHECK: linalg.pooling_nhwc_max
// REMARK: remark: {{.*}}its padding is not -inf
func.func @zeros(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x16x16x8xf32> to tensor<1x18x18x8xf32>
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%p, %window : tensor<1x18x18x8xf32>, tensor<3x3xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// Sums are a kernel's, with their quotients, to where these are transposed.
// CHECK-LABEL: func.func @average
// CHECK-SAME: (%[[X:.*]]: tensor<?x16x16x8xf32>, %[[N:.*]]: index)
// CHECK-NOT: tensor.pad
// CHECK: %[[R:.*]] = flow.dispatch @winograd_window_sum_3x3_16x16x8::@winograd_window_sum_3x3_16x16x8[%[[SIZE:.*]]](%[[X]], %[[SIZE]])
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[R]]
// CHECK: return %[[T]]
func.func @average(%x: tensor<?x16x16x8xf32>, %n: index) -> tensor<?x8x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<?x16x16x8xf32> to tensor<?x18x18x8xf32>
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty(%n) : tensor<?x16x16x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x16x16x8xf32>) -> tensor<?x16x16x8xf32>
  %s = linalg.pooling_nhwc_sum ins(%p, %window : tensor<?x18x18x8xf32>, tensor<3x3xf32>) outs(%init : tensor<?x16x16x8xf32>) -> tensor<?x16x16x8xf32>
  %result = tensor.empty(%n) : tensor<?x8x16x16xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, h, w)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%s : tensor<?x16x16x8xf32>) outs(%result : tensor<?x8x16x16xf32>) {
  ^bb0(%sum: f32, %out: f32):
    %nine = arith.constant 9.0 : f32
    %mean = arith.divf %sum, %nine : f32
    linalg.yield %mean : f32
  } -> tensor<?x8x16x16xf32>
  return %r : tensor<?x8x16x16xf32>
}

// A thread doesn't add all of a large image.
// CHECK-LABEL: func.func @long
// CHECK: linalg.pooling_nhwc_sum
// REMARK: remark: {{.*}}a thread would add 1024 elements
func.func @long(%x: tensor<1x32x32x8xf32>) -> tensor<1x1x1x8xf32> {
  %zero = arith.constant 0.0 : f32
  %window = tensor.empty() : tensor<32x32xf32>
  %empty = tensor.empty() : tensor<1x1x1x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x1x1x8xf32>) -> tensor<1x1x1x8xf32>
  %s = linalg.pooling_nhwc_sum ins(%x, %window : tensor<1x32x32x8xf32>, tensor<32x32xf32>) outs(%init : tensor<1x1x1x8xf32>) -> tensor<1x1x1x8xf32>
  return %s : tensor<1x1x1x8xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">]> : !hal.device

// A target that says nothing of its processor has no kernels.
// CHECK-LABEL: func.func @cpu
// CHECK: linalg.pooling_nhwc_max
func.func @cpu(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// A CPU has a kernel: a workgroup for each row of windows.
// CHECK: stream.executable private @winograd_max_pool_3x3_8x8x8
// CHECK: %[[ROWS:.*]] = arith.constant 8 : index
// CHECK: stream.return %[[ROWS]]
// CHECK-COUNT-9: vector.load {{.*}} vector<8xf32>
// CHECK-COUNT-8: arith.maximumf {{.*}} vector<8xf32>
// CHECK: vector.store
// CHECK-LABEL: func.func @on_cpu
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x16x8xf32>)
// CHECK: flow.dispatch @winograd_max_pool_3x3_8x8x8::@winograd_max_pool_3x3_8x8x8(%[[X]]) : (tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32>
// CHECK-NOT: linalg.pooling
func.func @on_cpu(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %lowest : f32
  } : tensor<1x16x16x8xf32> to tensor<1x18x18x8xf32>
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%p, %window : tensor<1x18x18x8xf32>, tensor<3x3xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// What isn't padded is its own, too.
// CHECK-LABEL: func.func @without_padding
// CHECK: flow.dispatch @winograd_max_pool_2x2_8x8x8::@winograd_max_pool_2x2_8x8x8(%{{.*}})
// CHECK-NOT: linalg.pooling
func.func @without_padding(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// Of images of unknown sizes what isn't padded is a kernel's, too; one not known to have an element isn't.
// CHECK-LABEL: func.func @open
// CHECK: flow.dispatch @winograd_max_pool_2x2_anyxanyx8::@winograd_max_pool_2x2_anyxanyx8[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}](%{{.*}})
// CHECK: linalg.pooling_nhwc_max
// REMARK: remark: {{.*}}a window lies outside of the image
func.func @open(%x: tensor<1x?x?x8xf32>, %h: index, %w: index) -> (tensor<1x?x?x8xf32>, tensor<1x?x?x8xf32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty(%h, %w) : tensor<1x?x?x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  %r = linalg.pooling_nhwc_max {strides = dense<2> : tensor<2xi64>} ins(%x, %window : tensor<1x?x?x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %i: index, %j: index, %c: index):
    tensor.yield %lowest : f32
  } : tensor<1x?x?x8xf32> to tensor<1x?x?x8xf32>
  %s = linalg.pooling_nhwc_max {strides = dense<2> : tensor<2xi64>} ins(%p, %window : tensor<1x?x?x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x?x?x8xf32>) -> tensor<1x?x?x8xf32>
  return %r, %s : tensor<1x?x?x8xf32>, tensor<1x?x?x8xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device

#same = affine_map<(n, h, w, c) -> (n, h, w, c)>

// Maxima of half precision are compared and stored so, for a convolution or as a result.
// CHECK-LABEL: func.func @half
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x16x8xf16>)
// CHECK-NOT: arith.extf
// CHECK: %[[R:.*]] = flow.dispatch @winograd_window_max_2x2_8x8x8::@winograd_window_max_2x2_8x8x8(%[[X]]) : (tensor<1x16x16x8xf16>) -> tensor<1x8x8x8xf16>
// CHECK: return %[[R]]
func.func @half(%x: tensor<1x16x16x8xf16>) -> tensor<1x8x8x8xf16> {
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x16x16x8xf32>
  %w = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x16x16x8xf16>) outs(%e : tensor<1x16x16x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %number = arith.extf %in : f16 to f32
    linalg.yield %number : f32
  } -> tensor<1x16x16x8xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %m = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%w, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %h = tensor.empty() : tensor<1x8x8x8xf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m : tensor<1x8x8x8xf32>) outs(%h : tensor<1x8x8x8xf16>) {
  ^bb0(%in: f32, %out: f16):
    %number = arith.truncf %in : f32 to f16
    linalg.yield %number : f16
  } -> tensor<1x8x8x8xf16>
  return %r : tensor<1x8x8x8xf16>
}

// IREE computes maxima with what is computed of them.
// CHECK-LABEL: func.func @computed_with
// CHECK-NOT: flow.dispatch
// CHECK: return
func.func @computed_with(%x: tensor<1x16x16x8xf16>) -> tensor<1x8x8x8xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x16x16x8xf32>
  %w = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x16x16x8xf16>) outs(%e : tensor<1x16x16x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %number = arith.extf %in : f16 to f32
    linalg.yield %number : f32
  } -> tensor<1x16x16x8xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %m = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%w, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%m : tensor<1x8x8x8xf32>) outs(%empty : tensor<1x8x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %number = math.tanh %in : f32
    linalg.yield %number : f32
  } -> tensor<1x8x8x8xf32>
  return %r : tensor<1x8x8x8xf32>
}

// An image that is concatenated with what no convolution computes stays in f32 for what reads both.
// CHECK-LABEL: func.func @concatenated
// CHECK-NOT: flow.dispatch
// CHECK: return
func.func @concatenated(%x: tensor<1x16x16x8xf32>, %y: tensor<1x16x16x8xf32>) -> (tensor<1x8x8x8xf32>, tensor<1x16x16x16xf32>) {
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x16x16x8xf32>
  %w = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x16x16x8xf32>) outs(%e : tensor<1x16x16x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %half = arith.truncf %in : f32 to f16
    %number = arith.extf %half : f16 to f32
    linalg.yield %number : f32
  } -> tensor<1x16x16x8xf32>
  %both = tensor.empty() : tensor<1x16x16x16xf32>
  %first = tensor.insert_slice %w into %both[0, 0, 0, 0] [1, 16, 16, 8] [1, 1, 1, 1] : tensor<1x16x16x8xf32> into tensor<1x16x16x16xf32>
  %second = tensor.insert_slice %y into %first[0, 0, 0, 8] [1, 16, 16, 8] [1, 1, 1, 1] : tensor<1x16x16x8xf32> into tensor<1x16x16x16xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %m = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%w, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %m, %second : tensor<1x8x8x8xf32>, tensor<1x16x16x16xf32>
}

// A sum that is rounded before it is divided, as torch-mlir has means, is divided as it is: the mean is rounded, and
// stored in half precision.
// CHECK-LABEL: func.func @rounded
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x16x8xf32>)
// CHECK: %[[R:.*]] = flow.dispatch @winograd_window_sum_2x2_8x8x8::@winograd_window_sum_2x2_8x8x8(%[[X]]) : (tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf16>
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[R]]
// CHECK: arith.extf
// CHECK: return %[[W]]
func.func @rounded(%x: tensor<1x16x16x8xf32>) -> tensor<1x8x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %four = arith.constant 4.0 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x8x8x8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %s = linalg.pooling_nhwc_sum {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %window : tensor<1x16x16x8xf32>, tensor<2x2xf32>) outs(%init : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %d = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<1x8x8x8xf32>) outs(%empty : tensor<1x8x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %half = arith.truncf %in : f32 to f16
    %number = arith.extf %half : f16 to f32
    linalg.yield %number : f32
  } -> tensor<1x8x8x8xf32>
  %q = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d : tensor<1x8x8x8xf32>) outs(%empty : tensor<1x8x8x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %mean = arith.divf %in, %four : f32
    %half = arith.truncf %mean : f32 to f16
    %number = arith.extf %half : f16 to f32
    linalg.yield %number : f32
  } -> tensor<1x8x8x8xf32>
  return %q : tensor<1x8x8x8xf32>
}
