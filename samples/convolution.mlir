// Two 3x3 convolutions with bias and ReLU between, for the shell:
//
//   iree-compile --iree-enable-winograd --iree-winograd-remarks \
//     --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu \
//     --iree-llvmcpu-target-cpu=host samples/convolution.mlir -o convolution.vmfb
//   iree-run-module --module=convolution.vmfb --device=local-task --input=1x28x28x32xf32=1
//   python samples/run_program.py convolution.vmfb

#element = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (k)>

func.func @convolutions(%image: tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32> {
  %first = call @layer(%image) : (tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  %second = call @layer(%first) : (tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  return %second : tensor<1x28x28x32xf32>
}

func.func private @layer(%image: tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32> {
  %zero = arith.constant 0.0 : f32
  %kernel = arith.constant dense<0.01> : tensor<3x3x32x32xf32>
  %bias = arith.constant dense<0.5> : tensor<32xf32>
  %padded = tensor.pad %image low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x28x28x32xf32> to tensor<1x30x30x32xf32>
  %empty = tensor.empty() : tensor<1x28x28x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  %convolved = linalg.conv_2d_nhwc_hwcf
      ins(%padded, %kernel : tensor<1x30x30x32xf32>, tensor<3x3x32x32xf32>)
      outs(%init : tensor<1x28x28x32xf32>) -> tensor<1x28x28x32xf32>
  %result = linalg.generic {
      indexing_maps = [#element, #channel, #element],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%convolved, %bias : tensor<1x28x28x32xf32>, tensor<32xf32>)
      outs(%empty : tensor<1x28x28x32xf32>) {
  ^bb0(%sum: f32, %addend: f32, %unused: f32):
    %biased = arith.addf %sum, %addend : f32
    %positive = arith.maximumf %biased, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<1x28x28x32xf32>
  return %result : tensor<1x28x28x32xf32>
}
