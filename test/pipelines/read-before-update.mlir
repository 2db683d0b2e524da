// RUN: winograd-opt --winograd-read-before-update --split-input-file %s | filecheck %s

// The part would be computed in the memory of the whole, before that is read.
// CHECK-LABEL: util.func public @read
// CHECK: %[[WHOLE:.*]] = flow.dispatch @kernels::@whole
// CHECK-NEXT: %[[READ:.*]] = flow.dispatch @kernels::@read(%[[WHOLE]])
// CHECK-NEXT: %[[PART:.*]] = flow.dispatch @kernels::@part
// CHECK-NEXT: %[[RESHAPED:.*]] = flow.tensor.reshape %[[PART]]
// CHECK-NEXT: %[[UPDATED:.*]] = flow.tensor.update %[[RESHAPED]], %[[WHOLE]]
// CHECK-NEXT: util.return %[[READ]], %[[UPDATED]]
util.func public @read(%x: tensor<12xf32>, %y: tensor<5x6xf32>) -> (tensor<5xf32>, tensor<5x6xf32>) {
  %c0 = arith.constant 0 : index
  %part = flow.dispatch @kernels::@part(%x) : (tensor<12xf32>) -> tensor<12xf32>
  %reshaped = flow.tensor.reshape %part : tensor<12xf32> -> tensor<2x6xf32>
  %whole = flow.dispatch @kernels::@whole(%y) : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %read = flow.dispatch @kernels::@read(%whole) : (tensor<5x6xf32>) -> tensor<5xf32>
  %updated = flow.tensor.update %reshaped, %whole[%c0, %c0] : tensor<2x6xf32> -> %whole as tensor<5x6xf32>
  util.return %read, %updated : tensor<5xf32>, tensor<5x6xf32>
}

// -----

// Two concatenations begin with the same part.
// CHECK-LABEL: util.func public @concatenated
// CHECK: %[[BEGUN:.*]] = flow.tensor.update %arg0
// CHECK-NEXT: %[[FIRST:.*]] = flow.tensor.update %arg1, %[[BEGUN]]
// CHECK-NEXT: %[[PART:.*]] = flow.dispatch @kernels::@part
// CHECK-NEXT: %[[SECOND:.*]] = flow.tensor.update %[[PART]], %[[BEGUN]]
// CHECK-NEXT: util.return %[[FIRST]], %[[SECOND]]
util.func public @concatenated(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %part = flow.dispatch @kernels::@part(%y) : (tensor<2xf32>) -> tensor<2xf32>
  %empty = flow.tensor.empty : tensor<4xf32>
  %begun = flow.tensor.update %x, %empty[%c0] : tensor<2xf32> -> %empty as tensor<4xf32>
  %first = flow.tensor.update %y, %begun[%c2] : tensor<2xf32> -> %begun as tensor<4xf32>
  %second = flow.tensor.update %part, %begun[%c2] : tensor<2xf32> -> %begun as tensor<4xf32>
  util.return %first, %second : tensor<4xf32>, tensor<4xf32>
}

// -----

// What others read is the tensor of before another update, which IREE computes in its memory as well.
// CHECK-LABEL: util.func public @before_another
// CHECK: %[[WHOLE:.*]] = flow.dispatch @kernels::@whole
// CHECK: %[[PART:.*]] = flow.dispatch @kernels::@part
// CHECK-NEXT: flow.tensor.update %[[PART]]
util.func public @before_another(%x: tensor<2xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %part = flow.dispatch @kernels::@part(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %whole = flow.dispatch @kernels::@whole(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %read = flow.dispatch @kernels::@read(%whole) : (tensor<4xf32>) -> tensor<4xf32>
  %first = flow.tensor.update %x, %whole[%c0] : tensor<2xf32> -> %whole as tensor<4xf32>
  %second = flow.tensor.update %part, %first[%c2] : tensor<2xf32> -> %first as tensor<4xf32>
  util.return %read, %second : tensor<4xf32>, tensor<4xf32>
}

// -----

// Nothing else is in the memory of a concatenation, however many tensors of its shape there are.
// CHECK-LABEL: util.func public @alone
// CHECK: flow.dispatch @kernels::@part
// CHECK-NEXT: flow.dispatch @kernels::@part
// CHECK-NEXT: flow.tensor.empty
util.func public @alone(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %p = flow.dispatch @kernels::@part(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %q = flow.dispatch @kernels::@part(%y) : (tensor<2xf32>) -> tensor<2xf32>
  %empty = flow.tensor.empty : tensor<4xf32>
  %0 = flow.tensor.update %x, %empty[%c0] : tensor<2xf32> -> %empty as tensor<4xf32>
  %first = flow.tensor.update %q, %0[%c2] : tensor<2xf32> -> %0 as tensor<4xf32>
  %1 = flow.tensor.update %y, %empty[%c0] : tensor<2xf32> -> %empty as tensor<4xf32>
  %second = flow.tensor.update %p, %1[%c2] : tensor<2xf32> -> %1 as tensor<4xf32>
  util.return %first, %second : tensor<4xf32>, tensor<4xf32>
}

// -----

// The whole is computed from another result: IREE can't compute the part in its memory.
// CHECK-LABEL: util.func public @of_another_result
// CHECK: %[[PARTS:.*]]:2 = flow.dispatch @kernels::@parts
// CHECK-NEXT: flow.dispatch @kernels::@whole(%{{.*}}, %[[PARTS]]#1)
util.func public @of_another_result(%x: tensor<2xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %parts:2 = flow.dispatch @kernels::@parts(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %whole = flow.dispatch @kernels::@whole(%y, %parts#1) : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>
  %read = flow.dispatch @kernels::@read(%whole) : (tensor<4xf32>) -> tensor<4xf32>
  %updated = flow.tensor.update %parts#0, %whole[%c0] : tensor<2xf32> -> %whole as tensor<4xf32>
  util.return %read, %updated : tensor<4xf32>, tensor<4xf32>
}

// -----

// What is computed from another result goes along.
// CHECK-LABEL: util.func public @two_results
// CHECK: %[[WHOLE:.*]] = flow.dispatch @kernels::@whole
// CHECK-NEXT: %[[READ:.*]] = flow.dispatch @kernels::@read(%[[WHOLE]])
// CHECK-NEXT: %[[PARTS:.*]]:2 = flow.dispatch @kernels::@parts
// CHECK-NEXT: %[[OTHER:.*]] = flow.dispatch @kernels::@other(%[[PARTS]]#1)
// CHECK-NEXT: %[[UPDATED:.*]] = flow.tensor.update %[[PARTS]]#0, %[[WHOLE]]
// CHECK-NEXT: util.return %[[READ]], %[[UPDATED]], %[[OTHER]]
util.func public @two_results(%x: tensor<2xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) {
  %c0 = arith.constant 0 : index
  %parts:2 = flow.dispatch @kernels::@parts(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %other = flow.dispatch @kernels::@other(%parts#1) : (tensor<2xf32>) -> tensor<2xf32>
  %whole = flow.dispatch @kernels::@whole(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %read = flow.dispatch @kernels::@read(%whole) : (tensor<4xf32>) -> tensor<4xf32>
  %updated = flow.tensor.update %parts#0, %whole[%c0] : tensor<2xf32> -> %whole as tensor<4xf32>
  util.return %read, %updated, %other : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
}
