// RUN: winograd-opt --winograd-lower-softmax --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#row = affine_map<(n, r, c) -> (n, r)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>

// As torch-mlir writes it. The largest elements have a position, too, which nothing reads.
// CHECK-LABEL: func.func @attention
// CHECK-SAME: (%[[X:.*]]: tensor<2x30x30xf32>)
// CHECK-NOT: math.exp
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_softmax_30x30::@winograd_softmax_30x30(%[[X]])
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @attention(%x: tensor<2x30x30xf32>) -> tensor<2x30x30xf32> {
  %c0 = arith.constant 0 : i64
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<2x30xi64>
  %first = linalg.fill ins(%c0 : i64) outs(%ep : tensor<2x30xi64>) -> tensor<2x30xi64>
  %em = tensor.empty() : tensor<2x30xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%em : tensor<2x30xf32>) -> tensor<2x30xf32>
  %m:2 = linalg.generic {indexing_maps = [#whole, #row, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x30xf32>) outs(%init, %first : tensor<2x30xf32>, tensor<2x30xi64>) {
  ^bb0(%in: f32, %out: f32, %at: i64):
    %i = linalg.index 2 : index
    %here = arith.index_cast %i : index to i64
    %larger = arith.maximumf %in, %out : f32
    %is = arith.cmpf ogt, %in, %out : f32
    %position = arith.select %is, %here, %at : i64
    linalg.yield %larger, %position : f32, i64
  } -> (tensor<2x30xf32>, tensor<2x30xi64>)
  %mk = tensor.expand_shape %m#0 [[0], [1, 2]] output_shape [2, 30, 1] : tensor<2x30xf32> into tensor<2x30x1xf32>
  %e = tensor.empty() : tensor<2x30x30xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %mk : tensor<2x30x30xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %r = arith.subf %in, %largest : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %p = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d : tensor<2x30x30xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.exp %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %es = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%es : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %s = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x30x30xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %y = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<2x30x30xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  return %y : tensor<2x30x30xf32>
}

// -----
// RUN: winograd-opt --winograd-lower-softmax --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#row = affine_map<(n, r, c) -> (n, r)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>

// As torch-mlir writes torch's safe softmax, of attention that may be masked.
// CHECK-LABEL: func.func @safe
// CHECK-SAME: (%[[X:.*]]: tensor<2x30x30xf32>)
// CHECK-NOT: math.exp
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_safe_softmax_30x30::@winograd_safe_softmax_30x30(%[[X]])
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @safe(%x: tensor<2x30x30xf32>) -> tensor<2x30x30xf32> {
  %c0 = arith.constant 0 : i64
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<2x30xi64>
  %first = linalg.fill ins(%c0 : i64) outs(%ep : tensor<2x30xi64>) -> tensor<2x30xi64>
  %em = tensor.empty() : tensor<2x30xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%em : tensor<2x30xf32>) -> tensor<2x30xf32>
  %m:2 = linalg.generic {indexing_maps = [#whole, #row, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x30xf32>) outs(%init, %first : tensor<2x30xf32>, tensor<2x30xi64>) {
  ^bb0(%in: f32, %out: f32, %at: i64):
    %i = linalg.index 2 : index
    %here = arith.index_cast %i : index to i64
    %larger = arith.maximumf %in, %out : f32
    %is = arith.cmpf ogt, %in, %out : f32
    %position = arith.select %is, %here, %at : i64
    linalg.yield %larger, %position : f32, i64
  } -> (tensor<2x30xf32>, tensor<2x30xi64>)
  %mk = tensor.expand_shape %m#0 [[0], [1, 2]] output_shape [2, 30, 1] : tensor<2x30xf32> into tensor<2x30x1xf32>
  %e = tensor.empty() : tensor<2x30x30xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %mk : tensor<2x30x30xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %r = arith.subf %in, %largest : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %p = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d : tensor<2x30x30xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.exp %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %es = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%es : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %s = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x30x30xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %y = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<2x30x30xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %zeroes = arith.constant dense<0.0> : tensor<2x30x30xf32>
  %true = arith.constant true
  %et = tensor.empty() : tensor<2x30x30xi1>
  %is = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x30x30xf32>) outs(%et : tensor<2x30x30xi1>) {
  ^bb0(%in: f32, %out: i1):
    %r = arith.cmpf oeq, %in, %lowest : f32
    linalg.yield %r : i1
  } -> tensor<2x30x30xi1>
  %ea = tensor.empty() : tensor<2x30x1xi1>
  %trues = linalg.fill ins(%true : i1) outs(%ea : tensor<2x30x1xi1>) -> tensor<2x30x1xi1>
  %all = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%is : tensor<2x30x30xi1>) outs(%trues : tensor<2x30x1xi1>) {
  ^bb0(%in: i1, %out: i1):
    %r = arith.andi %in, %out : i1
    linalg.yield %r : i1
  } -> tensor<2x30x1xi1>
  %z = linalg.generic {indexing_maps = [#kept, #whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%all, %zeroes, %y : tensor<2x30x1xi1>, tensor<2x30x30xf32>, tensor<2x30x30xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: i1, %masked: f32, %else: f32, %out: f32):
    %r = arith.select %in, %masked, %else : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  return %z : tensor<2x30x30xf32>
}

// -----
// RUN: winograd-opt --winograd-lower-softmax --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, r, c) -> (n, r, c)>
#row = affine_map<(n, r, c) -> (n, r)>
#kept = affine_map<(n, r, c) -> (n, r, 0)>

// Zeros are where no element is minus infinity: the softmax is one of its own.
// CHECK-LABEL: func.func @masked_by_others
// CHECK: flow.dispatch @winograd_softmax_30x30
// CHECK: arith.cmpf one
// CHECK: arith.select
func.func @masked_by_others(%x: tensor<2x30x30xf32>) -> tensor<2x30x30xf32> {
  %c0 = arith.constant 0 : i64
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : tensor<2x30xi64>
  %first = linalg.fill ins(%c0 : i64) outs(%ep : tensor<2x30xi64>) -> tensor<2x30xi64>
  %em = tensor.empty() : tensor<2x30xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%em : tensor<2x30xf32>) -> tensor<2x30xf32>
  %m:2 = linalg.generic {indexing_maps = [#whole, #row, #row], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<2x30x30xf32>) outs(%init, %first : tensor<2x30xf32>, tensor<2x30xi64>) {
  ^bb0(%in: f32, %out: f32, %at: i64):
    %i = linalg.index 2 : index
    %here = arith.index_cast %i : index to i64
    %larger = arith.maximumf %in, %out : f32
    %is = arith.cmpf ogt, %in, %out : f32
    %position = arith.select %is, %here, %at : i64
    linalg.yield %larger, %position : f32, i64
  } -> (tensor<2x30xf32>, tensor<2x30xi64>)
  %mk = tensor.expand_shape %m#0 [[0], [1, 2]] output_shape [2, 30, 1] : tensor<2x30xf32> into tensor<2x30x1xf32>
  %e = tensor.empty() : tensor<2x30x30xf32>
  %d = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %mk : tensor<2x30x30xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %r = arith.subf %in, %largest : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %p = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%d : tensor<2x30x30xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.exp %in : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %es = tensor.empty() : tensor<2x30x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%es : tensor<2x30x1xf32>) -> tensor<2x30x1xf32>
  %s = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%p : tensor<2x30x30xf32>) outs(%zeros : tensor<2x30x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2x30x1xf32>
  %y = linalg.generic {indexing_maps = [#whole, #kept, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<2x30x30xf32>, tensor<2x30x1xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  %zeroes = arith.constant dense<0.0> : tensor<2x30x30xf32>
  %true = arith.constant true
  %et = tensor.empty() : tensor<2x30x30xi1>
  %is = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<2x30x30xf32>) outs(%et : tensor<2x30x30xi1>) {
  ^bb0(%in: f32, %out: i1):
    %r = arith.cmpf one, %in, %lowest : f32
    linalg.yield %r : i1
  } -> tensor<2x30x30xi1>
  %ea = tensor.empty() : tensor<2x30x1xi1>
  %trues = linalg.fill ins(%true : i1) outs(%ea : tensor<2x30x1xi1>) -> tensor<2x30x1xi1>
  %all = linalg.generic {indexing_maps = [#whole, #kept], iterator_types = ["parallel", "parallel", "reduction"]} ins(%is : tensor<2x30x30xi1>) outs(%trues : tensor<2x30x1xi1>) {
  ^bb0(%in: i1, %out: i1):
    %r = arith.andi %in, %out : i1
    linalg.yield %r : i1
  } -> tensor<2x30x1xi1>
  %z = linalg.generic {indexing_maps = [#kept, #whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%all, %zeroes, %y : tensor<2x30x1xi1>, tensor<2x30x30xf32>, tensor<2x30x30xf32>) outs(%e : tensor<2x30x30xf32>) {
  ^bb0(%in: i1, %masked: f32, %else: f32, %out: f32):
    %r = arith.select %in, %masked, %else : f32
    linalg.yield %r : f32
  } -> tensor<2x30x30xf32>
  return %z : tensor<2x30x30xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>

// The sums are of other exponentials than those that they divide.
// CHECK-LABEL: func.func @other_sums
// CHECK-NOT: flow.dispatch
func.func @other_sums(%x: tensor<2x30xf32>, %z: tensor<2x30xf32>) -> tensor<2x30xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %em = tensor.empty() : tensor<2xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%em : tensor<2xf32>) -> tensor<2xf32>
  %m = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x30xf32>) outs(%init : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.maximumf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2xf32>
  %e = tensor.empty() : tensor<2x30xf32>
  %p = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<2x30xf32>, tensor<2xf32>) outs(%e : tensor<2x30xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %d = arith.subf %in, %largest : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x30xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%em : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%z : tensor<2x30xf32>) outs(%zeros : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<2x30xf32>, tensor<2xf32>) outs(%e : tensor<2x30xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<2x30xf32>
  return %y : tensor<2x30xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(n, c) -> (n, c)>
#row = affine_map<(n, c) -> (n)>

// The largest element is one of these or 0.
// CHECK-LABEL: func.func @other_beginning
// CHECK-NOT: flow.dispatch
func.func @other_beginning(%x: tensor<2x30xf32>) -> tensor<2x30xf32> {
  %zero = arith.constant 0.0 : f32
  %em = tensor.empty() : tensor<2xf32>
  %init = linalg.fill ins(%zero : f32) outs(%em : tensor<2xf32>) -> tensor<2xf32>
  %m = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x30xf32>) outs(%init : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.maximumf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2xf32>
  %e = tensor.empty() : tensor<2x30xf32>
  %p = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<2x30xf32>, tensor<2xf32>) outs(%e : tensor<2x30xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %d = arith.subf %in, %largest : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x30xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%em : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<2x30xf32>) outs(%zeros : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<2x30xf32>, tensor<2xf32>) outs(%e : tensor<2x30xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<2x30xf32>
  return %y : tensor<2x30xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(h, r, c) -> (h, r, c)>
#column = affine_map<(h, r, c) -> (h, c)>

// Keys of three heads, by columns. They are read where they lie between queries and values, and written for all heads in turn.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%[[X:.*]]: tensor<30x63xf32>)
// CHECK-NOT: math.exp
// CHECK: %[[C:.*]] = flow.dispatch @winograd_column_softmax_1x30x21::@winograd_column_softmax_1x30x21(%[[X]]) : (tensor<30x63xf32>) -> tensor<30x3x7xf32>
// CHECK: %[[Y:.*]] = linalg.transpose ins(%[[C]] : tensor<30x3x7xf32>) outs({{.*}}) permutation = [1, 0, 2]
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @columns(%qkv: tensor<30x63xf32>) -> tensor<3x30x7xf32> {
  %split = tensor.expand_shape %qkv [[0], [1, 2, 3]] output_shape [30, 3, 3, 7] : tensor<30x63xf32> into tensor<30x3x3x7xf32>
  %k = tensor.extract_slice %split[0, 1, 0, 0] [30, 1, 3, 7] [1, 1, 1, 1] : tensor<30x3x3x7xf32> to tensor<30x3x7xf32>
  %e = tensor.empty() : tensor<3x30x7xf32>
  %x = linalg.transpose ins(%k : tensor<30x3x7xf32>) outs(%e : tensor<3x30x7xf32>) permutation = [1, 0, 2]
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %em = tensor.empty() : tensor<3x7xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%em : tensor<3x7xf32>) -> tensor<3x7xf32>
  %m = linalg.generic {indexing_maps = [#whole, #column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<3x30x7xf32>) outs(%init : tensor<3x7xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.maximumf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<3x7xf32>
  %p = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<3x30x7xf32>, tensor<3x7xf32>) outs(%e : tensor<3x30x7xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %d = arith.subf %in, %largest : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<3x30x7xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%em : tensor<3x7xf32>) -> tensor<3x7xf32>
  %s = linalg.generic {indexing_maps = [#whole, #column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%p : tensor<3x30x7xf32>) outs(%zeros : tensor<3x7xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<3x7xf32>
  %y = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<3x30x7xf32>, tensor<3x7xf32>) outs(%e : tensor<3x30x7xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<3x30x7xf32>
  return %y : tensor<3x30x7xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#whole = affine_map<(h, r, c) -> (h, r, c)>
#column = affine_map<(h, r, c) -> (h, c)>
#row = affine_map<(h, r, c) -> (r, c)>

// The sums are along another dimension than the largest elements.
// CHECK-LABEL: func.func @sums_along_others
// CHECK-NOT: flow.dispatch
func.func @sums_along_others(%qkv: tensor<30x63xf32>) -> tensor<3x30x7xf32> {
  %split = tensor.expand_shape %qkv [[0], [1, 2, 3]] output_shape [30, 3, 3, 7] : tensor<30x63xf32> into tensor<30x3x3x7xf32>
  %k = tensor.extract_slice %split[0, 1, 0, 0] [30, 1, 3, 7] [1, 1, 1, 1] : tensor<30x3x3x7xf32> to tensor<30x3x7xf32>
  %e = tensor.empty() : tensor<3x30x7xf32>
  %x = linalg.transpose ins(%k : tensor<30x3x7xf32>) outs(%e : tensor<3x30x7xf32>) permutation = [1, 0, 2]
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %em = tensor.empty() : tensor<3x7xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%em : tensor<3x7xf32>) -> tensor<3x7xf32>
  %m = linalg.generic {indexing_maps = [#whole, #column], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<3x30x7xf32>) outs(%init : tensor<3x7xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.maximumf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<3x7xf32>
  %p = linalg.generic {indexing_maps = [#whole, #column, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %m : tensor<3x30x7xf32>, tensor<3x7xf32>) outs(%e : tensor<3x30x7xf32>) {
  ^bb0(%in: f32, %largest: f32, %out: f32):
    %d = arith.subf %in, %largest : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<3x30x7xf32>
  %es = tensor.empty() : tensor<30x7xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%es : tensor<30x7xf32>) -> tensor<30x7xf32>
  %s = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["reduction", "parallel", "parallel"]} ins(%p : tensor<3x30x7xf32>) outs(%zeros : tensor<30x7xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<30x7xf32>
  %y = linalg.generic {indexing_maps = [#whole, #row, #whole], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<3x30x7xf32>, tensor<30x7xf32>) outs(%e : tensor<3x30x7xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %r = arith.divf %in, %sum : f32
    linalg.yield %r : f32
  } -> tensor<3x30x7xf32>
  return %y : tensor<3x30x7xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#read = affine_map<(a, b, c, d) -> (a, b, c, d)>
#kept = affine_map<(a, b, c, d) -> (a, c, d)>
#whole = affine_map<(a, b, c, d) -> (a, b, c, d)>
#spread = affine_map<(a, b, c, d) -> (a, c, d)>

// On a GPU, channels of an image that leaves the program are columns of pixels.
// CHECK-LABEL: func.func @classes
// CHECK-SAME: (%[[X:.*]]: tensor<1x21x4x8xf32>)
// CHECK-NOT: math.exp
// CHECK: %[[C:.*]] = flow.dispatch @winograd_column_softmax_1x21x32::@winograd_column_softmax_1x21x32(%[[X]])
// CHECK-NOT: linalg.generic
func.func @classes(%x: tensor<1x21x4x8xf32>) -> tensor<1x21x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x21x4x8xf32>
  %er = tensor.empty() : tensor<1x4x8xf32>
  %mi = linalg.fill ins(%lowest : f32) outs(%er : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %si = linalg.fill ins(%zero : f32) outs(%er : tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %m = linalg.generic {indexing_maps = [#read, #kept], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<1x21x4x8xf32>) outs(%mi : tensor<1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8xf32>
  %d = linalg.generic {indexing_maps = [#whole, #spread, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %m : tensor<1x21x4x8xf32>, tensor<1x4x8xf32>) outs(%e : tensor<1x21x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x21x4x8xf32>
  %p = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d : tensor<1x21x4x8xf32>) outs(%e : tensor<1x21x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<1x21x4x8xf32>
  %s = linalg.generic {indexing_maps = [#read, #kept], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%p : tensor<1x21x4x8xf32>) outs(%si : tensor<1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8xf32>
  %y = linalg.generic {indexing_maps = [#whole, #spread, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%p, %s : tensor<1x21x4x8xf32>, tensor<1x4x8xf32>) outs(%e : tensor<1x21x4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x21x4x8xf32>
  return %y : tensor<1x21x4x8xf32>
}
