// RUN: winograd-opt --winograd-reuse-memory --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// The third tensor lies where the first one was, which is no longer needed, and the second one where it is. Counts
// of kernels that wait for each other are filled in the same memory.
// CHECK-LABEL: util.func public @main
// CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c64
// CHECK: %[[TWO:.*]] = arith.muli %{{.*}}, %c128
// CHECK: %[[BOTTOM:.*]] = arith.addi %[[ROW]], %c4096
// CHECK: %[[SHARED:.*]] = arith.maxui %[[TWO]], %[[ROW]]
// CHECK: %[[SECOND:.*]] = arith.addi %[[BOTTOM]], %[[SHARED]]
// CHECK: %[[TOTAL:.*]] = arith.addi %[[SECOND]], %[[ROW]]
// CHECK: stream.resource.alloca uninitialized : !stream.resource<transient>{%[[TOTAL]]}
// CHECK: %[[FIRST_WORD:.*]] = arith.index_castui %[[BOTTOM]] : index to i32
// CHECK: %[[SECOND_WORD:.*]] = arith.index_castui %[[SECOND]] : index to i32
// CHECK: %[[THIRD_WORD:.*]] = arith.index_castui %[[BOTTOM]] : index to i32
// CHECK: stream.cmd.execute {{.*}}{%[[TOTAL]]}) {
// CHECK: stream.cmd.fill %{{.*}}, %{{.*}}[%c0 for %c64] : i32 -> !stream.resource<transient>{%[[TOTAL]]}
// CHECK: stream.cmd.dispatch @k::@k(%[[FIRST_WORD]], %[[SECOND_WORD]] : i32, i32)
// CHECK: stream.cmd.dispatch @k::@k(%[[SECOND_WORD]], %[[THIRD_WORD]] : i32, i32)
util.func public @main(%image: !hal.buffer_view, %start: !stream.timepoint) -> !stream.timepoint {
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c4096 = arith.constant 4096 : index
  %size = hal.buffer_view.dim<%image : !hal.buffer_view>[1] : index
  %row = arith.muli %size, %c64 : index
  %two = arith.muli %size, %c128 : index
  %first = arith.addi %row, %c4096 : index
  %second = arith.addi %first, %two : index
  %third = arith.addi %second, %row : index
  %total = arith.addi %third, %row : index
  %memory, %ready = stream.resource.alloca uninitialized : !stream.resource<transient>{%total} => !stream.timepoint
  %a = arith.index_castui %first : index to i32
  %b = arith.index_castui %second : index to i32
  %c = arith.index_castui %third : index to i32
  %done = stream.cmd.execute await(%ready) => with(%memory as %m: !stream.resource<transient>{%total}) {
    stream.cmd.fill %zero, %m[%c0 for %c64] : i32 -> !stream.resource<transient>{%total}
    stream.cmd.dispatch @k::@k(%a, %b : i32, i32) {
      rw %m[%c0 for %total] : !stream.resource<transient>{%total}
    }
    stream.cmd.dispatch @k::@k(%b, %c : i32, i32) {
      rw %m[%c0 for %total] : !stream.resource<transient>{%total}
    }
  } => !stream.timepoint
  %free = stream.resource.dealloca await(%done) => %memory : !stream.resource<transient>{%total} => !stream.timepoint
  util.return %free : !stream.timepoint
}

// Kernels that run at the same time use both of them, or an offset is used for something else.
// CHECK-LABEL: util.func public @apart
// CHECK-NOT: arith.maxui
// CHECK: util.return
util.func public @apart(%image: !hal.buffer_view) -> (!stream.timepoint, !stream.timepoint, index) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c4096 = arith.constant 4096 : index
  %size = hal.buffer_view.dim<%image : !hal.buffer_view>[1] : index
  %row = arith.muli %size, %c64 : index
  %two = arith.muli %size, %c128 : index
  %first = arith.addi %row, %c4096 : index
  %second = arith.addi %first, %two : index
  %total = arith.addi %second, %row : index
  %memory, %ready = stream.resource.alloca uninitialized : !stream.resource<transient>{%total} => !stream.timepoint
  %a = arith.index_castui %first : index to i32
  %b = arith.index_castui %second : index to i32
  %done = stream.cmd.execute await(%ready) => with(%memory as %m: !stream.resource<transient>{%total}) {
    stream.cmd.concurrent {
      stream.cmd.dispatch @k::@k(%a, %a : i32, i32) {
        rw %m[%c0 for %total] : !stream.resource<transient>{%total}
      }
      stream.cmd.dispatch @k::@k(%b, %b : i32, i32) {
        rw %m[%c0 for %total] : !stream.resource<transient>{%total}
      }
    }
  } => !stream.timepoint
  %other = arith.addi %row, %c64 : index
  %next = arith.addi %other, %two : index
  %all = arith.addi %next, %row : index
  %more, %now = stream.resource.alloca uninitialized : !stream.resource<transient>{%all} => !stream.timepoint
  %d = arith.index_castui %other : index to i32
  %e = arith.index_castui %next : index to i32
  %then = stream.cmd.execute await(%now) => with(%more as %m: !stream.resource<transient>{%all}) {
    stream.cmd.dispatch @k::@k(%d, %d : i32, i32) {
      rw %m[%c0 for %all] : !stream.resource<transient>{%all}
    }
    stream.cmd.dispatch @k::@k(%e, %e : i32, i32) {
      rw %m[%c0 for %all] : !stream.resource<transient>{%all}
    }
  } => !stream.timepoint
  util.return %done, %then, %next : !stream.timepoint, !stream.timepoint, index
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "", features = "spirv:v1.3,cap:Shader", wgp = <compute = fp32, storage = b32, subgroup = shuffle, subgroup_size_choices = [32], max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128, max_workgroup_memory_bytes = 16384, max_workgroup_counts = [65535, 65535, 65535]>>}>]> : !hal.device

// A GPU's launches are told offsets as they are.
// CHECK-LABEL: util.func public @gpu
// CHECK-NOT: arith.maxui
// CHECK: util.return
util.func public @gpu(%image: !hal.buffer_view, %start: !stream.timepoint) -> !stream.timepoint {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %size = hal.buffer_view.dim<%image : !hal.buffer_view>[1] : index
  %row = arith.muli %size, %c64 : index
  %two = arith.muli %size, %c128 : index
  %first = arith.addi %row, %c128 : index
  %second = arith.addi %first, %two : index
  %total = arith.addi %second, %row : index
  %memory, %ready = stream.resource.alloca uninitialized : !stream.resource<transient>{%total} => !stream.timepoint
  %a = arith.index_castui %first : index to i32
  %b = arith.index_castui %second : index to i32
  %done = stream.cmd.execute await(%ready) => with(%memory as %m: !stream.resource<transient>{%total}) {
    stream.cmd.dispatch @k::@k(%a, %a : i32, i32) {
      rw %m[%c0 for %total] : !stream.resource<transient>{%total}
    }
    stream.cmd.dispatch @k::@k(%b, %b : i32, i32) {
      rw %m[%c0 for %total] : !stream.resource<transient>{%total}
    }
  } => !stream.timepoint
  util.return %done : !stream.timepoint
}
