// RUN: winograd-opt --winograd-skip-empty --split-input-file %s | filecheck %s

// Workgroups of the first kernel are known only at run time: it is launched where there are some.
// CHECK-LABEL: util.func private @record
// CHECK-SAME: i64, %[[X:[a-z0-9]+]]: index, %[[Y:[a-z0-9]+]]: index)
// CHECK: %[[SOME:.*]] = arith.muli %[[X]], %[[Y]] : index
// CHECK: %[[EXISTS:.*]] = arith.cmpi slt, %{{.*}}, %[[SOME]] : index
// CHECK: scf.if %[[EXISTS]] {
// CHECK-NEXT: hal.command_buffer.dispatch{{.*}}[%[[CONV:[a-z0-9]+]]] workgroups([%[[X]], %[[Y]], %{{.*}}]) constants([%{{.*}}])
// CHECK: ]) flags("None")
// CHECK-NEXT: }
// CHECK-NOT: scf.if
// CHECK: hal.command_buffer.dispatch{{.*}}[%[[CONV]]] workgroups([%{{.*}}, %{{.*}}, %{{.*}}]) bindings
module {
  hal.executable private @linked {
    hal.executable.binary public @vulkan_spirv_fb <format = "vulkan-spirv-fb", data = dense<0> : vector<4xi8>>
  }
  util.func private @record(%cmd: !hal.command_buffer, %executable: !hal.executable, %buffer: !hal.buffer, %conv: i64, %x: index, %y: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c7_i32 = arith.constant 7 : i32
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%x, %y, %c1]) constants([%c7_i32]) bindings([
      (%buffer : !hal.buffer)[%c0, %c64]
    ]) flags("None")
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%c1, %c1, %c64]) bindings([
      (%buffer : !hal.buffer)[%c0, %c64]
    ]) flags("None")
    util.return
  }
}

// -----

// CUDA launches no grid without workgroups.
// CHECK-LABEL: util.func private @record
// CHECK: scf.if
module {
  hal.executable private @linked {
    hal.executable.binary public @cuda_nvptx_fb <format = "cuda-nvptx-fb", data = dense<0> : vector<4xi8>>
  }
  util.func private @record(%cmd: !hal.command_buffer, %executable: !hal.executable, %buffer: !hal.buffer, %conv: i64, %x: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%x, %c1, %c1]) bindings([
      (%buffer : !hal.buffer)[%c0, %c64]
    ]) flags("None")
    util.return
  }
}

// -----

// On a CPU loops have no turns.
// CHECK-LABEL: util.func private @record
// CHECK-NOT: scf.if
module {
  hal.executable private @linked {
    hal.executable.binary public @embedded_elf_x86_64 <format = "embedded-elf-x86_64", data = dense<0> : vector<4xi8>>
  }
  util.func private @record(%cmd: !hal.command_buffer, %executable: !hal.executable, %buffer: !hal.buffer, %conv: i64, %x: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%x, %c1, %c1]) bindings([
      (%buffer : !hal.buffer)[%c0, %c64]
    ]) flags("None")
    util.return
  }
}
