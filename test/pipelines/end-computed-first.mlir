// RUN: winograd-opt --winograd-end-computed-first %s | filecheck %s

// Dispatches are formed: what reads the sum may be submitted with what computes it.
// CHECK-LABEL: util.func public @squeeze_and_excitation
// CHECK: %[[SUM:.*]] = flow.dispatch @kernels::@sum
// CHECK-NEXT: %[[SCALED:.*]] = flow.dispatch @kernels::@scale(%{{.*}}, %[[SUM]])
// CHECK-NEXT: util.return %[[SCALED]]
util.func public @squeeze_and_excitation(%image: tensor<1x8x64xf32>) -> tensor<1x8x64xf32> {
  %sum = flow.dispatch @kernels::@sum(%image) : (tensor<1x8x64xf32>) -> tensor<1x64xf32>
  %read = util.optimization_barrier {winograd.computed_first} %sum : tensor<1x64xf32>
  %scaled = flow.dispatch @kernels::@scale(%image, %read) : (tensor<1x8x64xf32>, tensor<1x64xf32>) -> tensor<1x8x64xf32>
  util.return %scaled : tensor<1x8x64xf32>
}

// A barrier of the program's own stays.
// CHECK-LABEL: util.func public @own
// CHECK: util.optimization_barrier
util.func public @own(%image: tensor<1x8x64xf32>) -> tensor<1x64xf32> {
  %sum = flow.dispatch @kernels::@sum(%image) : (tensor<1x8x64xf32>) -> tensor<1x64xf32>
  %read = util.optimization_barrier %sum : tensor<1x64xf32>
  util.return %read : tensor<1x64xf32>
}
