// RUN: winograd-opt %s --winograd-convert-conv --winograd-fuse-pad --winograd-fuse-epilogue --winograd-assign-schedule --winograd-lower-to-dispatch | filecheck %s
// RUN: winograd-opt %s --winograd-convert-conv --winograd-fuse-pad --winograd-fuse-epilogue --winograd-assign-schedule --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix | filecheck %s --check-prefix=NAMED

// The module says what it is compiled for: here a CPU with AVX2 and FMA.
util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// CHECK: #translation = #iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"canonicalize,cse">>

// A kernel names its own codegen pipeline, so that IREE compiles it as it is.
// CHECK: stream.executable private @winograd_f2x2_3x3_12x12x32_from_16
// CHECK: stream.executable.export public @winograd_f2x2_3x3_12x12x32_from_16 workgroups()
// CHECK: func.func @winograd_f2x2_3x3_12x12x32_from_16({{.*}}) attributes {translation_info = #translation}

// Input transform, products and output transform share one kernel; the padding and the bias are part of it.
// CHECK: %[[MEMORY:.*]] = memref.alloc() : memref<{{.*}}xi8, #iree_codegen.workgroup_local>
// The runtime may supply memory that is not aligned: what lies in it begins a cache line.
// CHECK: %[[ALIGNED:.*]] = arith.remui {{.*}}, %c64
// CHECK: memref.view %{{.*}}[%[[ALIGNED]]][] : memref<{{.*}}xi8> to memref<{{.*}}xf32>
// CHECK: vector.maskedload
// CHECK: vector.fma {{.*}} : vector<8xf32>
// CHECK: arith.maximumf {{.*}} : vector<8xf32>

// The locations of values name them.
// NAMED: %transformed_tiles = memref.alloc()
// NAMED: scf.for %row{{.*}} = %c0
// NAMED: %element{{.*}} = vector.load
// NAMED: %transformed{{[_0-9]*}} = arith.subf
// NAMED: %filter{{.*}} = vector.load
// NAMED: %sum{{.*}} = vector.fma
// NAMED: %output{{.*}} = arith.maximumf

// Filters known only at run time are transformed by a kernel of their own, without a filter_block.
// CHECK: stream.executable private @winograd_filter_f2x2_3x3_12x12x32_from_16

// CHECK-LABEL: func.func @conv
// CHECK-SAME: %[[X:.*]]: tensor<1x12x12x16xf32>, %[[W:.*]]: tensor<3x3x16x32xf32>, %[[B:.*]]: tensor<32xf32>
// CHECK: %[[U:.*]] = flow.dispatch @winograd_filter_f2x2_3x3_12x12x32_from_16::@winograd_filter_f2x2_3x3_12x12x32_from_16(%[[W]])
// CHECK-NEXT: %[[Y:.*]] = flow.dispatch @winograd_f2x2_3x3_12x12x32_from_16::@winograd_f2x2_3x3_12x12x32_from_16(%[[X]], %[[U]], %[[B]])
// CHECK-NEXT: return %[[Y]]
func.func @conv(%x: tensor<1x12x12x16xf32>, %w: tensor<3x3x16x32xf32>, %b: tensor<32xf32>)
    -> tensor<1x12x12x32xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x12x12x16xf32> to tensor<1x14x14x16xf32>
  %empty = tensor.empty() : tensor<1x12x12x32xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x12x12x32xf32>) -> tensor<1x12x12x32xf32>
  %sums = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
      output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>},
      winograd.schedule = {kind = "winograd", vector_width = 8, tile_block = 12, register_tiles = 2,
        register_vectors = 2, reduction_block = 16, sum_registers = 2, filter_prefetch = 96, channel_splits = 1}}
    ins(%padded, %w : tensor<1x14x14x16xf32>, tensor<3x3x16x32xf32>)
    outs(%zeros : tensor<1x12x12x32xf32>) -> tensor<1x12x12x32xf32>
  %result = linalg.generic {
      indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (k)>,
                       affine_map<(n, h, w, k) -> (n, h, w, k)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%sums, %b : tensor<1x12x12x32xf32>, tensor<32xf32>) outs(%empty : tensor<1x12x12x32xf32>) {
  ^bb0(%a: f32, %bias: f32, %unused: f32):
    %biased = arith.addf %a, %bias : f32
    %rectified = arith.maximumf %biased, %zero : f32
    linalg.yield %rectified : f32
  } -> tensor<1x12x12x32xf32>
  return %result : tensor<1x12x12x32xf32>
}
