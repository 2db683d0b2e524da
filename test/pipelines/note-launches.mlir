// RUN: winograd-opt --winograd-note-launches --split-input-file %s | filecheck %s

// A function as IREE leaves it after its phase `hal`: it allocates a result and executes what was recorded. The note
// holds the kernels in stages, and where results lie. Constants are returned by a function of their own.
// CHECK-LABEL: util.func public @network
// CHECK-SAME: winograd.launches = "{\22stages\22:
// CHECK-SAME: \22copy\22,[\22constant\22,0,0],[\22allocation\22,0,0],64
// CHECK-SAME: \22launch\22,\22conv\22,[8,2,1],
// CHECK-SAME: \22argument\22,0,0],[\22constant\22,0,128],[\22allocation\22,0,64
// CHECK-SAME: [7]],[\22fill\22,[\22allocation\22,0,0],64,255,1
// CHECK-SAME: \22copy\22,[\22allocation\22,0,64],[\22allocation\22,0,0],32
// CHECK-SAME: \22allocations\22:[192],\22results\22:
// CHECK-SAME: \22allocation\22,0,64,\22f32\22,[2,16]
// CHECK: util.func public @__winograd_constants() -> !hal.buffer_view
// CHECK: %[[WEIGHTS:.*]] = util.global.load immutable @weights : !hal.buffer
// CHECK: %[[LENGTH:.*]] = hal.buffer.length<%[[WEIGHTS]] : !hal.buffer>
// CHECK: hal.buffer_view.create buffer(%[[WEIGHTS]] : !hal.buffer)[%{{.*}}, %[[LENGTH]]] shape([%[[LENGTH]]])
module {
  hal.executable private @linked {
    hal.executable.binary public @cuda_nvptx_fb <format = "cuda-nvptx-fb", data = dense<0> : vector<4xi8>>
  }
  util.global private @device : !hal.device
  util.global private @executable : !hal.executable
  util.global private @weights : !hal.buffer
  util.global private @recorded : !hal.command_buffer
  util.func private @record() -> !hal.command_buffer {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c-1_i64 = arith.constant -1 : i64
    %c7_i32 = arith.constant 7 : i32
    %c-1_i8 = arith.constant -1 : i8
    %device = util.global.load immutable @device : !hal.device
    %executable = util.global.load immutable @executable : !hal.executable
    %weights = util.global.load immutable @weights : !hal.buffer
    %cmd = hal.command_buffer.create device(%device : !hal.device) mode("None") categories("Transfer|Dispatch") affinity(%c-1_i64) bindings(%c2) : !hal.command_buffer
    %conv = hal.executable.lookup.function target(%executable : !hal.executable) function(@linked::@cuda_nvptx_fb::@conv) : i64
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%c8, %c2, %c1]) constants([%c7_i32]) bindings([
      (%c0 : index)[%c0, %c64],
      (%weights : !hal.buffer)[%c128, %c64],
      (%c1 : index)[%c64, %c128]
    ]) flags("None")
    hal.command_buffer.fill_buffer<%cmd : !hal.command_buffer> target(%c1 : index)[%c0, %c64] pattern(%c-1_i8 : i8) flags("None")
    hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Dispatch|Transfer|CommandRetire") target("CommandIssue|Dispatch|Transfer") flags("None")
    hal.command_buffer.copy_buffer<%cmd : !hal.command_buffer> source(%c1 : index)[%c64] target(%c1 : index)[%c0] length(%c32) flags("None")
    hal.command_buffer.finalize<%cmd : !hal.command_buffer>
    util.return %cmd : !hal.command_buffer
  }
  util.initializer {
    %recorded = util.call @record() : () -> !hal.command_buffer
    util.global.store %recorded, @recorded : !hal.command_buffer
    util.return
  }
  util.func public @network(%arg0: !hal.buffer_view) -> !hal.buffer_view {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c192 = arith.constant 192 : index
    %c-1_i64 = arith.constant -1 : i64
    %c0_i64 = arith.constant 0 : i64
    %c-1_i32 = arith.constant -1 : i32
    %memory_type = hal.memory_type<"DeviceVisible|DeviceLocal"> : i32
    %usage = hal.buffer_usage<"DispatchStorage"> : i32
    %type = hal.element_type<f32> : i32
    %encoding = hal.encoding_type<dense_row_major> : i32
    %device = util.global.load immutable @device : !hal.device
    %recorded = util.global.load immutable @recorded : !hal.command_buffer
    %weights = util.global.load immutable @weights : !hal.buffer
    %none = util.null : !hal.fence
    %buffer = hal.buffer_view.buffer<%arg0 : !hal.buffer_view> : !hal.buffer
    %fence = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    %result = hal.device.queue.alloca<%device : !hal.device> affinity(%c-1_i64) wait(%none) signal(%fence) pool(%c0_i64) type(%memory_type) usage(%usage) flags("None") : !hal.buffer{%c192}
    %copied = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.copy<%device : !hal.device> affinity(%c-1_i64) wait(%fence) signal(%copied) source(%weights : !hal.buffer)[%c0] target(%result : !hal.buffer)[%c0] length(%c64) flags("None")
    %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.execute.indirect<%device : !hal.device> affinity(%c-1_i64) wait(%copied) signal(%done) commands(%recorded) bindings([
      (%buffer : !hal.buffer)[%c0, %c64],
      (%result : !hal.buffer)[%c0, %c192]
    ]) flags("None")
    %status = hal.fence.await until([%done]) timeout_millis(%c-1_i32) flags("None") : i32
    util.status.check_ok %status, "failed to wait on timepoint"
    %view = hal.buffer_view.create buffer(%result : !hal.buffer)[%c64, %c128] shape([%c2, %c16]) type(%type) encoding(%encoding) : !hal.buffer_view
    util.return %view : !hal.buffer_view
  }
}

// -----

// A function that decides something in a call has no note.
// CHECK-LABEL: util.func public @decides
// CHECK-NOT: winograd.launches
// CHECK-NOT: @__winograd_constants
module {
  hal.executable private @linked {
    hal.executable.binary public @cuda_nvptx_fb <format = "cuda-nvptx-fb", data = dense<0> : vector<4xi8>>
  }
  util.func public @decides(%arg0: !hal.buffer_view) -> !hal.buffer_view {
    %rank = hal.buffer_view.rank<%arg0 : !hal.buffer_view> : index
    %c0 = arith.constant 0 : index
    %is_number = arith.cmpi eq, %rank, %c0 : index
    cf.cond_br %is_number, ^bb1, ^bb1
  ^bb1:
    util.return %arg0 : !hal.buffer_view
  }
}

// -----

// A function of open sizes records what it does in each call. The note has the arithmetic, the numbers of the list are
// steps of it: the fifth counts workgroups, and the eighth is what the kernel is told of the width. What is asserted is
// a step, too.
// CHECK-LABEL: util.func public @open
// CHECK-SAME: winograd.open_launches = "{\22steps\22:
// CHECK-SAME: [\22size\22,64,0,1],[\22constant\22,64,8],[\22arith.muli\22,64,1,2],
// CHECK-SAME: [\22constant\22,64,4],[\22arith.divui\22,64,3,4],[\22constant\22,64,1],
// CHECK-SAME: [\22arith.index_castui\22,64,1],[\22arith.trunci\22,32,7],
// CHECK-SAME: [\22arith.cmpi:ule\22,1,1,3]
// CHECK-SAME: \22asserted\22:[9]
// CHECK-SAME: \22launch\22,\22conv\22,[5,6,6],
// CHECK-SAME: \22argument\22,0,0],[\22allocation\22,0,0
// CHECK-SAME: [8]
// CHECK-SAME: \22allocations\22:[3]
// CHECK-NOT: winograd.launches
module {
  hal.executable private @linked {
    hal.executable.binary public @cuda_nvptx_fb <format = "cuda-nvptx-fb", data = dense<0> : vector<4xi8>>
  }
  util.global private @device : !hal.device
  util.global private @executable : !hal.executable
  util.func public @open(%arg0: !hal.buffer_view) -> !hal.buffer_view {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c-1_i64 = arith.constant -1 : i64
    %c0_i64 = arith.constant 0 : i64
    %c-1_i32 = arith.constant -1 : i32
    %memory_type = hal.memory_type<"DeviceVisible|DeviceLocal"> : i32
    %usage = hal.buffer_usage<"DispatchStorage"> : i32
    %type = hal.element_type<f32> : i32
    %encoding = hal.encoding_type<dense_row_major> : i32
    %device = util.global.load immutable @device : !hal.device
    %executable = util.global.load immutable @executable : !hal.executable
    %none = util.null : !hal.fence
    %width = hal.buffer_view.dim<%arg0 : !hal.buffer_view>[1] : index
    %bytes = arith.muli %width, %c8 : index
    %count = arith.divui %bytes, %c4 : index
    %wide = arith.index_castui %width : index to i64
    %number = arith.trunci %wide : i64 to i32
    %buffer = hal.buffer_view.buffer<%arg0 : !hal.buffer_view> : !hal.buffer
    %fence = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    %result = hal.device.queue.alloca<%device : !hal.device> affinity(%c-1_i64) wait(%none) signal(%fence) pool(%c0_i64) type(%memory_type) usage(%usage) flags("None") : !hal.buffer{%bytes}
    %cmd = hal.command_buffer.create device(%device : !hal.device) mode("OneShot") categories("Transfer|Dispatch") affinity(%c-1_i64) : !hal.command_buffer
    %conv = hal.executable.lookup.function target(%executable : !hal.executable) function(@linked::@cuda_nvptx_fb::@conv) : i64
    hal.command_buffer.dispatch<%cmd : !hal.command_buffer> target(%executable : !hal.executable)[%conv] workgroups([%count, %c1, %c1]) constants([%number]) bindings([
      (%buffer : !hal.buffer)[%c0, %bytes],
      (%result : !hal.buffer)[%c0, %bytes]
    ]) flags("None")
    hal.command_buffer.execution_barrier<%cmd : !hal.command_buffer> source("Dispatch|Transfer|CommandRetire") target("CommandIssue|Dispatch|Transfer") flags("None")
    hal.command_buffer.finalize<%cmd : !hal.command_buffer>
    %done = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    hal.device.queue.execute<%device : !hal.device> affinity(%c-1_i64) wait(%fence) signal(%done) commands(%cmd) flags("None")
    %status = hal.fence.await until([%done]) timeout_millis(%c-1_i32) flags("None") : i32
    util.status.check_ok %status, "failed to wait on timepoint"
    %is_taken = arith.cmpi ule, %width, %bytes : index
    cf.assert %is_taken, "a size is refused"
    %view = hal.buffer_view.create buffer(%result : !hal.buffer)[%c0, %bytes] shape([%c2, %width]) type(%type) encoding(%encoding) : !hal.buffer_view
    util.return %view : !hal.buffer_view
  }
}
