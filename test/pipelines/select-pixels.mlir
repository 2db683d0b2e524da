// RUN: winograd-opt --winograd-select-pixels --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Rows and columns at once; a workgroup copies a row, 8 channels at a time.
// CHECK: stream.executable private @winograd_selectedxselectedx8
// CHECK: vector.load {{.*}} vector<8xf32>
// CHECK: vector.store
// CHECK-LABEL: func.func @resized
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x?x8xf32>, %[[ROWS:.*]]: tensor<?xi64>, %[[COLUMNS:.*]]: tensor<?xi64>
// CHECK-NOT: tensor.extract
// CHECK: %[[R:.*]] = flow.dispatch @winograd_selectedxselectedx8::@winograd_selectedxselectedx8[%{{.*}}](%[[X]], %[[ROWS]], %[[COLUMNS]], %{{.*}})
// CHECK: return %[[R]]
func.func @resized(%x: tensor<1x?x?x8xf32>, %rows: tensor<?xi64>, %columns: tensor<?xi64>, %h: index, %w: index) -> tensor<1x?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %width = tensor.dim %x, %c2 : tensor<1x?x?x8xf32>
  %e = tensor.empty(%h, %width) : tensor<1x?x?x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x?x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x?x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x?x8xf32>
  %f = tensor.empty(%h, %w) : tensor<1x?x?x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (j)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%columns : tensor<?xi64>) outs(%f : tensor<1x?x?x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %j = arith.index_cast %in : i64 to index
    %i = linalg.index 1 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %a[%c0, %i, %j, %c] : tensor<1x?x?x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x?x8xf32>
  return %r : tensor<1x?x?x8xf32>
}

// What convolutions read beside other channels is written to its place, and these are inserted.
// CHECK-LABEL: func.func @concatenated
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8x8xf32>, %[[ROWS:.*]]: tensor<?xi64>, %[[Y:.*]]: tensor<1x?x8x16xf32>
// CHECK: %[[R:.*]] = flow.dispatch @winograd_selectedxallx8{{.*}}(%[[X]], %[[ROWS]], {{.*}}-> tensor<1x?x8x24xf32>
// CHECK: %[[C:.*]] = tensor.insert_slice %[[Y]] into %[[R]][0, 0, 0, 0] [1, %{{.*}}, 8, 16] [1, 1, 1, 1]
// CHECK: tensor.pad %[[C]]
func.func @concatenated(%x: tensor<1x?x8x8xf32>, %rows: tensor<?xi64>, %y: tensor<1x?x8x16xf32>, %h: index) -> tensor<1x?x10x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%h) : tensor<1x?x8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x8x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x8x8xf32>
  %a = tensor.concat dim(3) %y, %r : (tensor<1x?x8x16xf32>, tensor<1x?x8x8xf32>) -> tensor<1x?x8x24xf32>
  %p = tensor.pad %a low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %i: index, %j: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x?x8x24xf32> to tensor<1x?x10x24xf32>
  return %p : tensor<1x?x10x24xf32>
}

// What is made channels first is written so: of vectors of columns, lines of channels in registers.
// CHECK-LABEL: func.func @returned
// CHECK: %[[R:.*]] = flow.dispatch @winograd_selectedxallx8_channels_first{{.*}} -> tensor<1x8x?x16xf32>
// CHECK-NOT: linalg.transpose
// CHECK: return %[[R]]
func.func @returned(%x: tensor<1x?x16x8xf32>, %rows: tensor<?xi64>, %h: index) -> tensor<1x8x?x16xf32> {
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%h) : tensor<1x?x16x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x16x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x16x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x16x8xf32>
  %f = tensor.empty(%h) : tensor<1x8x?x16xf32>
  %t = linalg.transpose ins(%r : tensor<1x?x16x8xf32>) outs(%f : tensor<1x8x?x16xf32>) permutation = [0, 3, 1, 2]
  return %t : tensor<1x8x?x16xf32>
}

// Positions and weights of a dimension are computed together: IREE would have a dispatch for each.
// CHECK-LABEL: func.func @blended
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8x8xf32>
// CHECK: %[[TABLES:.*]]:4 = linalg.generic {{.*}} outs({{.*}} : tensor<?xi64>, tensor<?xf32>, tensor<?xi64>, tensor<?xf32>)
// CHECK: linalg.index 0
// CHECK: linalg.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : i64, f32, i64, f32
// CHECK: flow.dispatch @winograd_blendedxallx8{{.*}}(%[[X]], %[[TABLES]]#0, %[[TABLES]]#1, %[[TABLES]]#2, %[[TABLES]]#3,
func.func @blended(%x: tensor<1x?x8x8xf32>, %h: index, %last: i64) -> tensor<1x?x8x8xf32> {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i64
  %full = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %i = tensor.empty(%h) : tensor<?xi64>
  %w = tensor.empty(%h) : tensor<?xf32>
  %e = tensor.empty(%h) : tensor<1x?x8x8xf32>
  %places = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%w : tensor<?xf32>) {
  ^bb0(%out: f32):
    %n = linalg.index 0 : index
    %m = arith.index_cast %n : index to i64
    %f = arith.sitofp %m : i64 to f32
    %p = arith.mulf %f, %half : f32
    linalg.yield %p : f32
  } -> tensor<?xf32>
  %first = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%places : tensor<?xf32>) outs(%i : tensor<?xi64>) {
  ^bb0(%in: f32, %out: i64):
    %p = arith.fptosi %in : f32 to i64
    linalg.yield %p : i64
  } -> tensor<?xi64>
  %second = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%first : tensor<?xi64>) outs(%i : tensor<?xi64>) {
  ^bb0(%in: i64, %out: i64):
    %p = arith.addi %in, %one : i64
    %q = arith.minsi %p, %last : i64
    linalg.yield %q : i64
  } -> tensor<?xi64>
  %upper = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%places, %first : tensor<?xf32>, tensor<?xi64>) outs(%w : tensor<?xf32>) {
  ^bb0(%in: f32, %position: i64, %out: f32):
    %f = arith.sitofp %position : i64 to f32
    %d = arith.subf %in, %f : f32
    linalg.yield %d : f32
  } -> tensor<?xf32>
  %lower = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%upper : tensor<?xf32>) outs(%w : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %d = arith.subf %full, %in : f32
    linalg.yield %d : f32
  } -> tensor<?xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%first : tensor<?xi64>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %p = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %p, %j, %c] : tensor<1x?x8x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x8x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%second : tensor<?xi64>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %p = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %p, %j, %c] : tensor<1x?x8x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x8x8xf32>
  %aw = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %lower : tensor<1x?x8x8xf32>, tensor<?xf32>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %p = arith.mulf %in, %weight : f32
    linalg.yield %p : f32
  } -> tensor<1x?x8x8xf32>
  %bw = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%b, %upper : tensor<1x?x8x8xf32>, tensor<?xf32>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %p = arith.mulf %in, %weight : f32
    linalg.yield %p : f32
  } -> tensor<1x?x8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%aw, %bw : tensor<1x?x8x8xf32>, tensor<1x?x8x8xf32>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%one_part: f32, %other: f32, %out: f32):
    %s = arith.addf %one_part, %other : f32
    linalg.yield %s : f32
  } -> tensor<1x?x8x8xf32>
  return %r : tensor<1x?x8x8xf32>
}

// Products and sums that are rounded are so in the kernel; what is returned channels first is stored so.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[H:.*]] = flow.dispatch @winograd_blendedxallx8_bf16_channels_first{{.*}} -> tensor<1x8x?x16xbf16>
// CHECK-NOT: linalg.transpose
// CHECK: return %[[H]]
func.func @rounded(%x: tensor<1x?x16x8xf32>, %first: tensor<?xi64>, %second: tensor<?xi64>, %low: tensor<?xf32>, %high: tensor<?xf32>, %h: index) -> tensor<1x8x?x16xbf16> {
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%h) : tensor<1x?x16x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%first : tensor<?xi64>) outs(%e : tensor<1x?x16x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x16x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x16x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %low : tensor<1x?x16x8xf32>, tensor<?xf32>) outs(%e : tensor<1x?x16x8xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %p = arith.mulf %in, %weight : f32
    %h1 = arith.truncf %p : f32 to bf16
    %w1 = arith.extf %h1 : bf16 to f32
    linalg.yield %w1 : f32
  } -> tensor<1x?x16x8xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%second : tensor<?xi64>) outs(%e : tensor<1x?x16x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x16x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x16x8xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %high : tensor<1x?x16x8xf32>, tensor<?xf32>) outs(%e : tensor<1x?x16x8xf32>) {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %p = arith.mulf %in, %weight : f32
    %h1 = arith.truncf %p : f32 to bf16
    %w1 = arith.extf %h1 : bf16 to f32
    linalg.yield %w1 : f32
  } -> tensor<1x?x16x8xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%b, %f : tensor<1x?x16x8xf32>, tensor<1x?x16x8xf32>) outs(%e : tensor<1x?x16x8xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    %p = arith.addf %in, %other : f32
    %h1 = arith.truncf %p : f32 to bf16
    %w1 = arith.extf %h1 : bf16 to f32
    linalg.yield %w1 : f32
  } -> tensor<1x?x16x8xf32>
  %k = tensor.empty(%h) : tensor<1x?x16x8xbf16>
  %n = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%g : tensor<1x?x16x8xf32>) outs(%k : tensor<1x?x16x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %h1 = arith.truncf %in : f32 to bf16
    linalg.yield %h1 : bf16
  } -> tensor<1x?x16x8xbf16>
  %l = tensor.empty(%h) : tensor<1x8x?x16xbf16>
  %t = linalg.transpose ins(%n : tensor<1x?x16x8xbf16>) outs(%l : tensor<1x8x?x16xbf16>) permutation = [0, 3, 1, 2]
  return %t : tensor<1x8x?x16xbf16>
}

// Of an image with channels first the last dimension is no channel.
// CHECK-LABEL: func.func @channels_first
// CHECK-NOT: flow.dispatch
func.func @channels_first(%x: tensor<1x3x?x?xf32>, %rows: tensor<?xi64>, %h: index) -> tensor<1x3x?x?xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %width = tensor.dim %x, %c3 : tensor<1x3x?x?xf32>
  %e = tensor.empty(%h, %width) : tensor<1x3x?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (i)>, affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x3x?x?xf32>) {
  ^bb0(%in: i64, %out: f32):
    %c = linalg.index 1 : index
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %c, %i, %j] : tensor<1x3x?x?xf32>
    linalg.yield %v : f32
  } -> tensor<1x3x?x?xf32>
  return %r : tensor<1x3x?x?xf32>
}

// Channels, rows at other positions than those that are read for them, and of known sizes are IREE's.
// CHECK-LABEL: func.func @others
// CHECK-NOT: flow.dispatch
func.func @others(%x: tensor<1x?x4x8xf32>, %y: tensor<1x4x4x8xf32>, %positions: tensor<8xi64>, %rows: tensor<?xi64>, %h: index) -> (tensor<1x?x4x8xf32>, tensor<1x?x4x8xf32>, tensor<1x8x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%h) : tensor<1x?x4x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%positions : tensor<8xi64>) outs(%e : tensor<1x?x4x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.index_cast %in : i64 to index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x4x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x4x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x4x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %p = arith.index_cast %in : i64 to index
    %i = linalg.index 1 : index
    %q = arith.addi %p, %i : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %q, %j, %c] : tensor<1x?x4x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x4x8xf32>
  %g = tensor.empty() : tensor<1x8x4x8xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%positions : tensor<8xi64>) outs(%g : tensor<1x8x4x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %y[%c0, %i, %j, %c] : tensor<1x4x4x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x8x4x8xf32>
  return %a, %b, %d : tensor<1x?x4x8xf32>, tensor<1x?x4x8xf32>, tensor<1x8x4x8xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

// GPUs have kernels of what is selected, but not of what is blended.
// CHECK: stream.executable private @winograd_selectedxselectedx8
// CHECK: vector<4xf32>
// CHECK-LABEL: func.func @resized
// CHECK: flow.dispatch @winograd_selectedxselectedx8
func.func @resized(%x: tensor<1x?x?x8xf32>, %rows: tensor<?xi64>, %columns: tensor<?xi64>, %h: index, %w: index) -> tensor<1x?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %width = tensor.dim %x, %c2 : tensor<1x?x?x8xf32>
  %e = tensor.empty(%h, %width) : tensor<1x?x?x8xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x?x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x?x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x?x8xf32>
  %f = tensor.empty(%h, %w) : tensor<1x?x?x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (j)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%columns : tensor<?xi64>) outs(%f : tensor<1x?x?x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %j = arith.index_cast %in : i64 to index
    %i = linalg.index 1 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %a[%c0, %i, %j, %c] : tensor<1x?x?x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x?x8xf32>
  return %r : tensor<1x?x?x8xf32>
}

// Other channels are there when the kernel writes to its own: those that are computed early are inserted early.
// CHECK-LABEL: func.func @concatenated
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8x8xf32>, %[[ROWS:.*]]: tensor<?xi64>, %[[Y:.*]]: tensor<1x?x8x16xf32>
// CHECK: %[[C:.*]] = tensor.insert_slice %[[Y]] into %{{.*}}[0, 0, 0, 0] [1, %{{.*}}, 8, 16] [1, 1, 1, 1]
// CHECK: %[[R:.*]] = flow.dispatch @winograd_selectedxallx8{{.*}}, %[[C]], {{.*}} -> %[[C]]{{.*}}
// CHECK: tensor.pad %[[R]]
func.func @concatenated(%x: tensor<1x?x8x8xf32>, %rows: tensor<?xi64>, %y: tensor<1x?x8x16xf32>, %h: index) -> tensor<1x?x10x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%h) : tensor<1x?x8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %x[%c0, %i, %j, %c] : tensor<1x?x8x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x8x8xf32>
  %a = tensor.concat dim(3) %y, %r : (tensor<1x?x8x16xf32>, tensor<1x?x8x8xf32>) -> tensor<1x?x8x24xf32>
  %p = tensor.pad %a low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %i: index, %j: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x?x8x24xf32> to tensor<1x?x10x24xf32>
  return %p : tensor<1x?x10x24xf32>
}

// What is stored in half precision is read, and selected, as such.
// CHECK-LABEL: func.func @half
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x8x8xf16>
// CHECK: %[[H:.*]] = flow.dispatch @winograd_selectedxallx8{{.*}}(%[[X]], {{.*}} -> tensor<1x?x8x8xf16>
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[H]] : tensor<1x?x8x8xf16>)
// CHECK: arith.extf
// CHECK: return %[[R]]
func.func @half(%x: tensor<1x?x8x8xf16>, %rows: tensor<?xi64>, %h: index) -> tensor<1x?x8x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %height = tensor.dim %x, %c1 : tensor<1x?x8x8xf16>
  %i = tensor.empty(%height) : tensor<1x?x8x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (n, i, j, c)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<1x?x8x8xf16>) outs(%i : tensor<1x?x8x8xf32>) {
  ^bb0(%in: f16, %out: f32):
    %wide = arith.extf %in : f16 to f32
    linalg.yield %wide : f32
  } -> tensor<1x?x8x8xf32>
  %e = tensor.empty(%h) : tensor<1x?x8x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, i, j, c) -> (i)>, affine_map<(n, i, j, c) -> (n, i, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%rows : tensor<?xi64>) outs(%e : tensor<1x?x8x8xf32>) {
  ^bb0(%in: i64, %out: f32):
    %i2 = arith.index_cast %in : i64 to index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %v = tensor.extract %w[%c0, %i2, %j, %c] : tensor<1x?x8x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x?x8x8xf32>
  return %r : tensor<1x?x8x8xf32>
}
