// RUN: winograd-opt --winograd-keep-commands --split-input-file %s | filecheck %s

// Numbers that follow from sizes of arguments are computed where commands are recorded, unless others need them.
// What isn't the same memory in each call is bound when they are executed.
// CHECK-DAG: util.global private mutable @__winograd_commands_0 : !hal.command_buffer
// CHECK-DAG: util.global private mutable @__winograd_commands_0_there = false
// CHECK-DAG: util.global private mutable @__winograd_commands_0_size_0 : index
// CHECK-DAG: util.global private mutable @__winograd_commands_0_size_1 : index
// CHECK-LABEL: util.func public @main
// CHECK-DAG: %[[H:.*]] = hal.buffer_view.dim<%{{.*}}>[1] : index
// CHECK-DAG: %[[W:.*]] = hal.buffer_view.dim<%{{.*}}>[2] : index
// CHECK: %[[BYTES:.*]] = arith.muli %[[H]], %[[W]] : index
// CHECK-NOT: hal.executable.lookup.function
// CHECK: %[[RESULT:.*]] = hal.allocator.allocate
// CHECK: %[[THERE:.*]] = util.global.load @__winograd_commands_0_there : i1
// CHECK: %[[SAME:.*]] = scf.if
// CHECK-NEXT: %[[KEPT:.*]] = util.global.load @__winograd_commands_0 : !hal.command_buffer
// CHECK-NEXT: scf.yield %[[KEPT]]
// CHECK-NEXT: } else {
// CHECK: %[[WORKGROUPS:.*]] = arith.divui %[[H]]
// CHECK: %[[CONV:.*]] = hal.executable.lookup.function
// CHECK: %[[NEW:.*]] = hal.command_buffer.create {{.*}} mode("None") {{.*}} bindings(%{{.*}}) : !hal.command_buffer
// CHECK: hal.command_buffer.dispatch<%[[NEW]] : !hal.command_buffer> {{.*}}[%[[CONV]]] workgroups([%[[WORKGROUPS]],
// CHECK-NEXT: (%{{.*}} : index)[%{{.*}}, %[[BYTES]]],
// CHECK-NEXT: (%{{.*}} : !hal.buffer)[
// CHECK-NEXT: (%{{.*}} : index)[%{{.*}}, %[[BYTES]]]
// CHECK: hal.command_buffer.finalize<%[[NEW]]
// CHECK-DAG: util.global.store %[[H]], @__winograd_commands_0_size_{{[01]}}
// CHECK-DAG: util.global.store %[[W]], @__winograd_commands_0_size_{{[01]}}
// CHECK-DAG: util.global.store %[[NEW]], @__winograd_commands_0
// CHECK: scf.yield %[[NEW]]
// CHECK: %[[ARGUMENT_LENGTH:.*]] = hal.buffer.length<%[[ARGUMENT:.*]] : !hal.buffer>
// CHECK: %[[RESULT_LENGTH:.*]] = hal.buffer.length<%[[RESULT]] : !hal.buffer>
// CHECK: hal.device.queue.execute.indirect<{{.*}} commands(%[[SAME]]) bindings([
// CHECK-NEXT: (%[[ARGUMENT]] : !hal.buffer)[%{{.*}}, %[[ARGUMENT_LENGTH]]],
// CHECK-NEXT: (%[[RESULT]] : !hal.buffer)[%{{.*}}, %[[RESULT_LENGTH]]]
module {
  util.global private @device : !hal.device
  util.global private @linked_executable : !hal.executable
  util.global private @weights : !hal.buffer
  hal.executable private @linked {
    hal.executable.binary public @cpu <format = "embedded-elf-x86_64", data = dense<0> : vector<4xi8>>
  }
  util.func public @main(%image: !hal.buffer_view) -> !hal.buffer {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %any = arith.constant -1 : i64
    %type = hal.memory_type<"DeviceLocal"> : i32
    %usage = hal.buffer_usage<"DispatchStorage"> : i32
    %device = util.global.load immutable @device : !hal.device
    %executable = util.global.load immutable @linked_executable : !hal.executable
    %weights = util.global.load immutable @weights : !hal.buffer
    %height = hal.buffer_view.dim<%image : !hal.buffer_view>[1] : index
    %width = hal.buffer_view.dim<%image : !hal.buffer_view>[2] : index
    %bytes = arith.muli %height, %width : index
    %argument = hal.buffer_view.buffer<%image : !hal.buffer_view> : !hal.buffer
    %allocator = hal.device.allocator<%device : !hal.device> : !hal.allocator
    %result = hal.allocator.allocate<%allocator : !hal.allocator> affinity(%any) type(%type) usage(%usage) : !hal.buffer{%bytes}
    %workgroups = arith.divui %height, %c8 : index
    %cmd = hal.command_buffer.create device(%device : !hal.device) mode(OneShot) categories("Transfer|Dispatch") affinity(%any) : !hal.command_buffer
    %conv = hal.executable.lookup.function target(%executable : !hal.executable) function(@linked::@cpu::@conv) : i64
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%workgroups, %c1, %c1]) bindings([
      (%argument : !hal.buffer)[%c0, %bytes],
      (%weights : !hal.buffer)[%c0, %c8],
      (%result : !hal.buffer)[%c0, %bytes]
    ]) flags("None")
    hal.command_buffer.finalize<%cmd : !hal.command_buffer>
    %ready = util.null : !hal.fence
    %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.execute<%device : !hal.device> affinity(%any) wait(%ready) signal(%done) commands(%cmd) flags("None")
    util.return %result : !hal.buffer
  }
}

// -----

// What a program reads in a call decides here, which is another number in most calls.
// CHECK-LABEL: util.func public @of_values
// CHECK: hal.command_buffer.create {{.*}} mode(OneShot)
// CHECK: hal.device.queue.execute<
module {
  util.global private @device : !hal.device
  hal.executable private @linked {
    hal.executable.binary public @cpu <format = "embedded-elf-x86_64", data = dense<0> : vector<4xi8>>
  }
  util.func public @of_values(%buffer: !hal.buffer) {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i8
    %any = arith.constant -1 : i64
    %device = util.global.load immutable @device : !hal.device
    %read = hal.buffer.load<%buffer : !hal.buffer>[%c0] : i32
    %bytes = arith.index_cast %read : i32 to index
    %cmd = hal.command_buffer.create device(%device : !hal.device) mode(OneShot) categories("Transfer|Dispatch") affinity(%any) : !hal.command_buffer
    hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%buffer : !hal.buffer)[%c0, %bytes] pattern(%zero : i8) flags("None")
    hal.command_buffer.finalize<%cmd : !hal.command_buffer>
    %ready = util.null : !hal.fence
    %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.execute<%device : !hal.device> affinity(%any) wait(%ready) signal(%done) commands(%cmd) flags("None")
    util.return
  }
}

// -----

// On CUDA a graph is kept for each of the last sizes.
// CHECK-LABEL: util.func public @on_cuda
// CHECK: hal.command_buffer.create {{.*}} mode(OneShot)
module {
  util.global private @device : !hal.device
  hal.executable private @linked {
    hal.executable.binary public @cuda_nvptx_fb <format = "cuda-nvptx-fb", data = dense<0> : vector<4xi8>>
  }
  util.func public @on_cuda(%image: !hal.buffer_view, %buffer: !hal.buffer) {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i8
    %any = arith.constant -1 : i64
    %device = util.global.load immutable @device : !hal.device
    %bytes = hal.buffer_view.dim<%image : !hal.buffer_view>[0] : index
    %cmd = hal.command_buffer.create device(%device : !hal.device) mode(OneShot) categories("Transfer|Dispatch") affinity(%any) : !hal.command_buffer
    hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%buffer : !hal.buffer)[%c0, %bytes] pattern(%zero : i8) flags("None")
    hal.command_buffer.finalize<%cmd : !hal.command_buffer>
    %ready = util.null : !hal.fence
    %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.execute<%device : !hal.device> affinity(%any) wait(%ready) signal(%done) commands(%cmd) flags("None")
    util.return
  }
}

// -----

// A program is initialized once.
// CHECK-LABEL: util.initializer
// CHECK: hal.command_buffer.create {{.*}} mode(OneShot)
// CHECK: hal.device.queue.execute<
module {
  util.global private @device : !hal.device
  util.global private @computed : !hal.buffer
  hal.executable private @linked {
    hal.executable.binary public @cpu <format = "embedded-elf-x86_64", data = dense<0> : vector<4xi8>>
  }
  util.initializer {
    %c0 = arith.constant 0 : index
    %c256 = arith.constant 256 : index
    %zero = arith.constant 0 : i8
    %any = arith.constant -1 : i64
    %type = hal.memory_type<"DeviceLocal"> : i32
    %usage = hal.buffer_usage<"DispatchStorage"> : i32
    %device = util.global.load @device : !hal.device
    %allocator = hal.device.allocator<%device : !hal.device> : !hal.allocator
    %buffer = hal.allocator.allocate<%allocator : !hal.allocator> affinity(%any) type(%type) usage(%usage) : !hal.buffer{%c256}
    %cmd = hal.command_buffer.create device(%device : !hal.device) mode(OneShot) categories("Transfer|Dispatch") affinity(%any) : !hal.command_buffer
    hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%buffer : !hal.buffer)[%c0, %c256] pattern(%zero : i8) flags("None")
    hal.command_buffer.finalize<%cmd : !hal.command_buffer>
    %ready = util.null : !hal.fence
    %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.execute<%device : !hal.device> affinity(%any) wait(%ready) signal(%done) commands(%cmd) flags("None")
    util.global.store %buffer, @computed : !hal.buffer
    util.return
  }
}
