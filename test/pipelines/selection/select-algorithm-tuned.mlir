// RUN: rm -f %t.db %t.damaged
// RUN: %{python} %S/record_measurement.py %t.db \
// RUN:   "1x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32" \
// RUN:   "x86-64 generic, 32 registers of 16, fma, L2 524288, threads 1" \
// RUN:   '{"output_tile": [2, 2], "part_size": [3, 3], "schedule": {"kind": "winograd", "vector_width": 16, "tile_block": 28, "register_tiles": 4, "register_vectors": 2, "reduction_block": 64}}' 1e-3 \
// RUN:   "3x58x58x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32" \
// RUN:   "x86-64 generic, 32 registers of 16, fma, L2 524288, threads 1" \
// RUN:   '{"output_tile": [1, 1], "part_size": [1, 1], "schedule": {"kind": "iree"}}' 1e-3 \
// RUN:   "3x58x58x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32" \
// RUN:   "x86-64 generic, 32 registers of 16, fma, L2 524288, threads 1" \
// RUN:   '{"output_tile": [1, 1], "part_size": [1, 1], "schedule": {"kind": "direct", "vector_width": 16, "register_pixels": 3, "register_vectors": 3, "row_block": 2, "pixel_block": 12}}' 2e-3
// RUN: winograd-opt --winograd-select-algorithm=tuning-database=%t.db %s | filecheck %s
// RUN: winograd-opt --winograd-select-algorithm=tuning-database=%t.db %s 2>&1 | filecheck %s --check-prefix=LEFT
// RUN: winograd-opt --pass-pipeline='builtin.module(winograd-select-algorithm{tuning-database=%t.db threads=2})' %s 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: not winograd-opt --winograd-select-algorithm=tuning-database=%t.none %s 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: head -c 1000 %t.db > %t.damaged
// RUN: winograd-opt --winograd-select-algorithm=tuning-database=%t.damaged %s 2>&1 | filecheck %s --check-prefix=DAMAGED

// What was measured has the schedule that was fastest, padding in front of the convolution included in the problem.
// CHECK-LABEL: @measured
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK-SAME: winograd.algorithm = {output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>}
// CHECK-SAME: winograd.schedule = {{{.*}}kind = "winograd"{{.*}}register_tiles = 4{{.*}}tile_block = 28

// OTHER: remark: convolution 0: of {{.*}}.db ignored 1 measurement of other versions, targets or machines
// OTHER-LABEL: @measured
// OTHER-NOT: register_tiles = 4 

// MISSING: error: the tuning database can't be read: {{.*}}No such file or directory

// DAMAGED: remark: ignored {{.*}}.damaged, which is damaged: database disk image is malformed
// DAMAGED: winograd.algorithm
func.func @measured(%x: tensor<1x56x56x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<1x56x56x64xf32>)
    -> tensor<1x56x56x64xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%n: index, %h: index, %v: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x56x56x64xf32> to tensor<1x58x58x64xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%padded, %w : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  return %r : tensor<1x56x56x64xf32>
}

// What was not measured is chosen by prediction, its schedule as well.
// CHECK-LABEL: @not_measured
// CHECK: winograd.algorithm
// CHECK-SAME: winograd.schedule = {{.*}}kind = "winograd"
func.func @not_measured(%x: tensor<2x58x58x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<2x56x56x64xf32>)
    -> tensor<2x56x56x64xf32> {
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<2x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%y : tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
  return %r : tensor<2x56x56x64xf32>
}

// Where IREE's own code was the fastest measured, the convolution stays as it is.
// LEFT: remark: convolution 2 left as it is: IREE's own code is the fastest of those measured
// CHECK-LABEL: @iree_is_fastest
// CHECK-NOT: winograd.
func.func @iree_is_fastest(%x: tensor<3x58x58x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<3x56x56x64xf32>)
    -> tensor<3x56x56x64xf32> {
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<3x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%y : tensor<3x56x56x64xf32>) -> tensor<3x56x56x64xf32>
  return %r : tensor<3x56x56x64xf32>
}
