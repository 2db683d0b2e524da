// RUN: winograd-opt --winograd-share-workgroups --split-input-file %s | filecheck %s

#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>
#layout = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>]>

// CHECK-LABEL: hal.executable private @kernel
hal.executable private @kernel {
  hal.executable.variant public @embedded target(#target) {
    hal.executable.export public @kernel ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }
    builtin.module {
      // CHECK: llvm.func internal @kernel.workgroup
      // CHECK-SAME: no_inline
      llvm.func @kernel(%environment: !llvm.ptr, %dispatch: !llvm.ptr, %state: !llvm.ptr) -> i32 {
        %0 = llvm.call @inner() : () -> i32
        llvm.return %0 : i32
      }
      // What a kernel calls stays as it is.
      // CHECK: llvm.func @inner() -> i32
      llvm.func @inner() -> i32 {
        %0 = llvm.mlir.constant(0 : i32) : i32
        llvm.return %0 : i32
      }
      // Each kernel has the same, of which a linked program keeps one.
      // CHECK: llvm.mlir.global internal @winograd.mailbox(0 : i64)
      // CHECK: llvm.mlir.global internal @winograd.join.address(0 : i64)
      // CHECK: llvm.func @kernel(
      // CHECK: %[[place:.*]] = llvm.mlir.addressof @winograd.join.address
      // CHECK: %[[workgroup:.*]] = llvm.mlir.addressof @kernel.workgroup
      // CHECK: %[[join:.*]] = llvm.load %[[place]]
      // CHECK: llvm.call %[[join]](%[[workgroup]],
      // CHECK: llvm.call @kernel.workgroup(
    }
  }
}
// What a workgroup has of its own is the program's, not the runtime's.
// CHECK-LABEL: hal.executable private @with_memory
hal.executable private @with_memory {
  hal.executable.variant public @embedded target(#target) {
    // CHECK: hal.executable.export public @with_memory
    // CHECK-NOT: workgroup_local_memory
    hal.executable.export public @with_memory ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    } <workgroup_local_memory = 4000>
    builtin.module {
      // CHECK: llvm.mlir.global internal @winograd.memories(dense<0> : tensor<64512xi8>)
      // CHECK: llvm.atomicrmw xchg
      // CHECK: llvm.call @with_memory.workgroup(
      llvm.func @with_memory(%environment: !llvm.ptr, %dispatch: !llvm.ptr, %state: !llvm.ptr) -> i32 {
        %0 = llvm.mlir.constant(0 : i32) : i32
        llvm.return %0 : i32
      }
    }
  }
}
// CHECK-LABEL: hal.executable private @winograd_mailbox
hal.executable private @winograd_mailbox {
  hal.executable.variant public @embedded target(#target) {
    hal.executable.export public @winograd_mailbox ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }
    builtin.module {
      // CHECK: llvm.func @winograd_mailbox(
      // CHECK: llvm.store %{{.*}}, %{{.*}} : !llvm.ptr, !llvm.ptr
      // CHECK: llvm.func internal @winograd.join
      // CHECK: llvm.func internal @winograd.help
      llvm.func @winograd_mailbox(%environment: !llvm.ptr, %dispatch: !llvm.ptr, %state: !llvm.ptr) -> i32 {
        %0 = llvm.mlir.constant(0 : i32) : i32
        llvm.return %0 : i32
      }
    }
  }
}

// -----

#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}>
#layout = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>

// A program that isn't given a mailbox stays as it is.
// CHECK-LABEL: hal.executable private @alone
// CHECK-NOT: winograd.join
hal.executable private @alone {
  hal.executable.variant public @embedded target(#target) {
    hal.executable.export public @alone ordinal(0) layout(#layout) count(%device: !hal.device) -> (index, index, index) {
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }
    builtin.module {
      llvm.func @alone(%environment: !llvm.ptr, %dispatch: !llvm.ptr, %state: !llvm.ptr) -> i32 {
        %0 = llvm.mlir.constant(0 : i32) : i32
        llvm.return %0 : i32
      }
    }
  }
}
