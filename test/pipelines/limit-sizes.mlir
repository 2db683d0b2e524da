// RUN: winograd-opt --winograd-limit-sizes --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device
stream.executable private @first {}
stream.executable private @second {}

// Each size and each number of pixels once, of channels last and first; of IREE's own kernels none.
// CHECK-LABEL: util.func public @sizes
// CHECK-DAG: %[[SIZE:.*]] = arith.constant 2147483647 : index
// CHECK: arith.cmpi ule, %[[N:.*]], %{{.*}} : index
// CHECK: arith.cmpi ule, %[[M:.*]], %{{.*}} : index
// CHECK: cf.assert %{{.*}}, "a size of more than 2147483647, which kernels for GPUs can't be told"
// CHECK: %[[IMAGES:.*]] = arith.constant 2 : index
// CHECK: arith.muli %{{.*}}, %[[N]]
// CHECK: arith.minui
// CHECK: arith.muli %{{.*}}, %[[M]]
// CHECK: arith.minui
// CHECK: cf.assert %{{.*}}, "more than 4294901760 pixels, which kernels for GPUs can't number"
// CHECK-NEXT: flow.dispatch @first::@first
// CHECK-NEXT: flow.dispatch @second::@second
// CHECK-NEXT: flow.dispatch @others::@third
// CHECK-NEXT: util.return
util.func public @sizes(%x: tensor<2x8x?x?xf32>, %n: index, %m: index, %k: index) -> tensor<?xf32> {
  %a = flow.dispatch @first::@first[%n, %m](%x, %n, %m) : (tensor<2x8x?x?xf32>{%n, %m}, index, index) -> tensor<2x?x?x16xf32>{%n, %m}
  %b = flow.dispatch @second::@second[%n, %m](%a, %n, %m) : (tensor<2x?x?x16xf32>{%n, %m}, index, index) -> tensor<2x?x?x4xf32>{%n, %m}
  %c = flow.dispatch @others::@third[%k](%b, %k) : (tensor<2x?x?x4xf32>{%n, %m}, index) -> tensor<?xf32>{%k}
  util.return %c : tensor<?xf32>
}

// -----

// CPUs number by 64 bits.
util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device
stream.executable private @first {}
// CHECK-LABEL: util.func public @cpu
// CHECK-NOT: cf.assert
util.func public @cpu(%x: tensor<1x?x?x8xf32>, %n: index, %m: index) -> tensor<1x?x?x8xf32> {
  %a = flow.dispatch @first::@first[%n, %m](%x, %n, %m) : (tensor<1x?x?x8xf32>{%n, %m}, index, index) -> tensor<1x?x?x8xf32>{%n, %m}
  util.return %a : tensor<1x?x?x8xf32>
}

// -----

// A tensor of one number has no dimensions.
util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device
stream.executable private @first {}
// CHECK-LABEL: util.func public @scalar
// CHECK: cf.assert
// CHECK-NEXT: flow.dispatch @first::@first
util.func public @scalar(%x: tensor<1x?x8xf32>, %s: tensor<f32>, %n: index) -> tensor<1x?x8xf32> {
  %a = flow.dispatch @first::@first[%n](%x, %s, %n) : (tensor<1x?x8xf32>{%n}, tensor<f32>, index) -> tensor<1x?x8xf32>{%n}
  util.return %a : tensor<1x?x8xf32>
}
