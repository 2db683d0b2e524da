// RUN: winograd-opt --winograd-own-results --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// What fits stays in the pool, between kernels; a result may be waited for, or what its memory had to wait for.
// CHECK-LABEL: util.func public @main
// CHECK: %[[FIRST:.*]] = stream.resource.alloc uninitialized on(#hal.device.affinity<@device>) : !stream.resource<external>{%[[SIZE:.*]]}
// CHECK: %[[READY:.*]] = stream.timepoint.immediate
// CHECK: stream.resource.alloca uninitialized {{.*}} : !stream.resource<transient>
// CHECK: stream.cmd.execute {{.*}}await(%[[READY]]) => with(%[[FIRST]]
// CHECK: %[[SECOND:.*]] = stream.resource.alloc uninitialized {{.*}} : !stream.resource<external>
// CHECK: stream.timepoint.await %{{.*}} => %[[FIRST]], %[[SECOND]]
util.func public @main(%size: index) -> (!stream.resource<external>, !stream.resource<external>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %c64 = arith.constant 64 : index
  %first, %ready = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) : !stream.resource<external>{%size} => !stream.timepoint
  %between, %free = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) : !stream.resource<transient>{%c64} => !stream.timepoint
  %done = stream.cmd.execute on(#hal.device.affinity<@device>) await(%ready) => with(%first as %a: !stream.resource<external>{%size}) {
    stream.cmd.fill %zero, %a[%c0 for %size] : i32 -> !stream.resource<external>{%size}
  } => !stream.timepoint
  %second, %later = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) await(%done) => !stream.resource<external>{%size} => !stream.timepoint
  %all = stream.timepoint.join max(%later, %free) => !stream.timepoint
  %r:2 = stream.timepoint.await %all => %first, %second : !stream.resource<external>{%size}, !stream.resource<external>{%size}
  util.return %r#0, %r#1 : !stream.resource<external>, !stream.resource<external>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>]> : !hal.device

// A GPU's memory would be waited for.
// CHECK-LABEL: util.func public @gpu
// CHECK: stream.resource.alloca
util.func public @gpu(%size: index) -> (!stream.resource<external>, !stream.timepoint) {
  %first, %ready = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) : !stream.resource<external>{%size} => !stream.timepoint
  util.return %first, %ready : !stream.resource<external>, !stream.timepoint
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// What the pool has no room for isn't asked of it either, and is freed with the last commands that use it.
// CHECK-LABEL: util.func public @large
// CHECK: %[[LARGE:.*]] = stream.resource.alloc uninitialized on(#hal.device.affinity<@device>) : !stream.resource<transient>{%{{.*}}}
// CHECK: %[[READY:.*]] = stream.timepoint.immediate
// CHECK: stream.resource.alloca uninitialized {{.*}} : !stream.resource<transient>
// CHECK: %[[DONE:.*]] = stream.cmd.execute {{.*}}await(%[[READY]]) => with(%[[LARGE]]
// CHECK-NOT: stream.resource.dealloca
// CHECK: util.return %[[DONE]]
util.func public @large() -> (!stream.timepoint, !stream.resource<transient>, !stream.timepoint) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %pool = arith.constant 67108864 : index
  %size = arith.constant 67108868 : index
  %large, %ready = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) : !stream.resource<transient>{%size} => !stream.timepoint
  %fits, %free = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) : !stream.resource<transient>{%pool} => !stream.timepoint
  %done = stream.cmd.execute on(#hal.device.affinity<@device>) await(%ready) => with(%large as %a: !stream.resource<transient>{%size}) {
    stream.cmd.fill %zero, %a[%c0 for %size] : i32 -> !stream.resource<transient>{%size}
  } => !stream.timepoint
  %freed = stream.resource.dealloca on(#hal.device.affinity<@device>) await(%done) => %large : !stream.resource<transient>{%size} => !stream.timepoint
  util.return %freed, %fits, %free : !stream.timepoint, !stream.resource<transient>, !stream.timepoint
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>]> : !hal.device

// Whether the pool has room for what lives between kernels, a call knows.
// CHECK-LABEL: util.func public @of_any_size
// CHECK-SAME: (%[[SIZE:.*]]: index)
// CHECK: %[[POOL:.*]] = arith.constant 67108864 : index
// CHECK: %[[LARGE:.*]] = arith.cmpi ugt, %[[SIZE]], %[[POOL]] : index
// CHECK: %[[MEMORY:.*]]:2 = scf.if %[[LARGE]] -> (!stream.resource<transient>, !stream.timepoint)
// CHECK: %[[ONE:.*]] = arith.constant 1 : i64
// CHECK: %[[BITS:.*]] = arith.constant 64 : i64
// CHECK: %[[BYTES:.*]] = arith.index_castui %[[SIZE]] : index to i64
// CHECK: %[[LAST:.*]] = arith.subi %[[BYTES]], %[[ONE]] : i64
// CHECK: %[[ZEROS:.*]] = math.ctlz %[[LAST]] : i64
// CHECK: %[[DIGITS:.*]] = arith.subi %[[BITS]], %[[ZEROS]] : i64
// CHECK: %[[POWER:.*]] = arith.shli %[[ONE]], %[[DIGITS]] : i64
// CHECK: %[[TAKEN:.*]] = arith.index_castui %[[POWER]] : i64 to index
// CHECK: stream.resource.alloc uninitialized on(#hal.device.affinity<@device>) : !stream.resource<transient>{%[[TAKEN]]}
// CHECK: stream.timepoint.immediate
// CHECK: } else {
// CHECK: stream.resource.alloca uninitialized {{.*}} : !stream.resource<transient>{%[[SIZE]]}
// CHECK: %[[DONE:.*]] = stream.cmd.execute {{.*}}await(%[[MEMORY]]#1) => with(%[[MEMORY]]#0
// CHECK: %[[FREED:.*]] = scf.if %[[LARGE]] -> (!stream.timepoint) {
// CHECK-NEXT: scf.yield %[[DONE]]
// CHECK-NEXT: } else {
// CHECK-NEXT: %[[IN_POOL:.*]] = stream.resource.dealloca {{.*}}await(%[[DONE]]) => %[[MEMORY]]#0
// CHECK-NEXT: scf.yield %[[IN_POOL]]
// CHECK: util.return %[[FREED]]
util.func public @of_any_size(%size: index) -> !stream.timepoint {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %between, %ready = stream.resource.alloca uninitialized on(#hal.device.affinity<@device>) : !stream.resource<transient>{%size} => !stream.timepoint
  %done = stream.cmd.execute on(#hal.device.affinity<@device>) await(%ready) => with(%between as %a: !stream.resource<transient>{%size}) {
    stream.cmd.fill %zero, %a[%c0 for %size] : i32 -> !stream.resource<transient>{%size}
  } => !stream.timepoint
  %freed = stream.resource.dealloca on(#hal.device.affinity<@device>) await(%done) => %between : !stream.resource<transient>{%size} => !stream.timepoint
  util.return %freed : !stream.timepoint
}
