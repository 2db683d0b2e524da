// RUN: winograd-opt --winograd-chain-kernels='threads=4' --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-chain-kernels --split-input-file %s | filecheck %s --check-prefix=ALONE

// On one thread there is nobody to wait for.
// ALONE-NOT: winograd.chained
// ALONE-NOT: flow.tensor.splat

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// What begins a block stays as it is.
// CHECK-LABEL: stream.executable private @begin {
// CHECK: func.func @begin(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding) {
stream.executable private @begin {
  stream.executable.export public @begin workgroups() -> (index, index, index) {
    %c4 = arith.constant 4 : index
    %c1 = arith.constant 1 : index
    stream.return %c4, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @begin(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}

// A kernel takes a workgroup, waits for those before it, does its work, and says when its share is done. While it
// waits it fetches its part of the filters.
// CHECK-LABEL: stream.executable private @own
// CHECK-SAME: winograd.chained
// CHECK: func.func @own(%[[X:.*]]: !stream.binding, %[[N:.*]]: !stream.binding, %[[KERNEL:.*]]: index, %[[REACH:.*]]: index, %[[Y:.*]]: !stream.binding)
// CHECK: %[[COUNT:.*]] = stream.binding.subspan %[[N]]{{.*}} -> memref<?xi32>{
// The six workgroups are shares of the processors: 1, 2, 1, 2 of them.
// CHECK: %[[PROCESSOR:.*]] = llvm.inline_asm has_side_effects "rdtscp"
// Which share it has is said after the lines of the shares: it claims that of its number, or the next that nobody
// has claimed.
// CHECK: %[[NUMBER:.*]] = arith.remui %{{.*}}, %c256
// CHECK: %[[SLOT:.*]] = arith.addi %[[NUMBER]], %c80
// CHECK: memref.load %[[COUNT]][%[[SLOT]]]
// CHECK: %[[HOME:.*]] = scf.if
// CHECK: %[[CLAIM:.*]]:2 = scf.while (%[[NEXT_SHARE:.*]] = %c0{{.*}}) : (index) -> (index, index)
// CHECK: arith.addi %[[NUMBER]], %[[NEXT_SHARE]]
// CHECK: %[[OWNER:.*]] = arith.addi %{{.*}}, %c336
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%[[OWNER]]]
// CHECK: memref.store %{{.*}}, %[[COUNT]][%{{.*}}]
// CHECK: %[[TAKEN:.*]]:3 = scf.while (%[[TRIED:.*]] = %c0{{.*}}) : (index) -> (index, index, index)
// CHECK: arith.addi %[[HOME]], %[[TRIED]]
// CHECK: %[[BEGIN:.*]] = arith.divui %{{.*}}, %c4
// CHECK: %[[END:.*]] = arith.divui %{{.*}}, %c4
// CHECK: arith.muli %[[KERNEL]], %c64
// CHECK: memref.load %[[COUNT]]
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]]
// CHECK: %[[NONE:.*]] = arith.cmpi sge, %{{.*}}, %[[END]]
// CHECK: scf.condition(%[[NONE]])
// CHECK: %[[PART:.*]] = arith.remui %[[TAKEN]]#1, %c3
// CHECK: arith.divui %[[TAKEN]]#1, %c3
// CHECK: %[[FILTERS:.*]] = stream.binding.subspan %[[X]]{{.*}} -> memref<32xi8>
// CHECK: %[[FIRST:.*]] = arith.muli %[[PART]], %c16
// All of the kernel before are waited for, or those of the one before that: the count of kernels that are done.
// CHECK: %[[SHARES:.*]] = arith.cmpi sge, %[[REACH]], %c0
// CHECK: %[[BEFORE:.*]] = arith.addi %[[KERNEL]], %c-1
// CHECK: %[[DONE:.*]] = arith.select %[[SHARES]], %[[BEFORE]], %[[KERNEL]]
// CHECK: %[[AWAITED:.*]] = arith.index_cast %[[DONE]] : index to i32
// CHECK: scf.while
// CHECK: %[[NOW:.*]] = memref.load %[[COUNT]][%c0
// CHECK: %[[EARLY:.*]] = arith.cmpi slt, %[[NOW]], %[[AWAITED]] : i32
// CHECK: scf.condition(%[[EARLY]])
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[FETCHED:.*]], %c16
// CHECK: scf.if %[[MORE]]
// CHECK: scf.for %[[LINE:.*]] = %c0{{.*}} to %c2048{{.*}} step %c64
// CHECK: %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[FETCHED]]
// CHECK: %[[PLACE:.*]] = arith.addi %[[NEXT]], %[[LINE]]
// CHECK: memref.prefetch %[[FILTERS]][%[[PLACE]]], read, locality<2>
// Who has looked often enough lets others run, by Linux.
// CHECK: %[[PATIENT:.*]] = arith.cmpi sge, %[[FETCHED]], %c524288
// CHECK: scf.if %[[PATIENT]]
// CHECK: llvm.inline_asm has_side_effects "syscall", "={rax},{rax}
// CHECK: llvm.inline_asm has_side_effects "pause", "~{memory}
// Then the shares that the workgroup reads, each by a line of its own.
// CHECK: arith.subi %[[TAKEN]]#2, %[[REACH]]
// CHECK: arith.maxsi
// CHECK: arith.addi %[[TAKEN]]#2, %[[REACH]]
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK: scf.while
// CHECK: memref.load %[[COUNT]]
// CHECK: llvm.inline_asm has_side_effects "", "~{memory}
// CHECK: %[[FROM:.*]] = stream.binding.subspan %[[X]]
// CHECK: stream.binding.subspan %[[Y]]
// CHECK: memref.load %[[FROM]][%[[PART]]]
// The last workgroup of a share counts it, and says so; that of the last share before that says that all are done.
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]]
// CHECK: scf.if
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]]
// CHECK: %[[ALL:.*]] = arith.cmpi eq, %{{.*}}, %c3
// CHECK: scf.if %[[ALL]]
// CHECK: memref.store %{{.*}}, %[[COUNT]][%c0
// CHECK: llvm.inline_asm has_side_effects "", "~{memory}
// CHECK: memref.store %{{.*}}, %[[COUNT]]
stream.executable private @own attributes {
  winograd.filters = array<i64: 0, 32, 16>, winograd.spans = [array<i64: 0, 4, 4, 8>, array<i64: 0, 4, 4, 8>]} {
  stream.executable.export public @own workgroups() -> (index, index, index) {
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c1 = arith.constant 1 : index
    stream.return %c2, %c3, %c1 : index, index, index
  }
  builtin.module {
    func.func @own(%arg0: !stream.binding, %arg1: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = stream.binding.subspan %arg0[%c0] : !stream.binding -> memref<8xf32>
      %y = stream.binding.subspan %arg1[%c0] : !stream.binding -> memref<8xf32>
      %part = stream.dispatch.workgroup.id[1] : index
      %v = memref.load %x[%part] : memref<8xf32>
      memref.store %v, %y[%part] : memref<8xf32>
      return
    }
  }
}

// A kernel of fewer workgroups than shares is done as a whole, with all of them.
// CHECK-LABEL: stream.executable private @in_place
// CHECK: func.func @in_place(%[[X:.*]]: !stream.binding, %[[N:.*]]: !stream.binding, %[[KERNEL:.*]]: index, %[[REACH:.*]]: index)
// CHECK: %[[COUNT:.*]] = stream.binding.subspan %[[N]]{{.*}} -> memref<?xi32>
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%{{.*}}]
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%{{.*}}]
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%{{.*}}]
// CHECK: scf.if
// CHECK: memref.store %{{.*}}, %[[COUNT]][%c0
// CHECK: scf.for %{{.*}} to %c4
// CHECK: memref.store %{{.*}}, %[[COUNT]]
stream.executable private @in_place {
  stream.executable.export public @in_place workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @in_place(%arg0: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = stream.binding.subspan %arg0[%c0] : !stream.binding -> memref<8xf32>
      return
    }
  }
}

// The workgroups of this one depend on the call: if there are none one waits, and says so, all the same.
// CHECK-LABEL: stream.executable private @any_batch attributes {winograd.chained}
// CHECK: stream.executable.export public @any_batch workgroups(%[[BATCH:.*]]: index)
// CHECK: %[[ONE:.*]] = arith.maxsi %[[BATCH]]
// CHECK: stream.return %[[ONE]]
// CHECK: func.func @any_batch(%{{.*}}: !stream.binding, %[[TOLD:.*]]: index, %{{.*}}: !stream.binding, %{{.*}}: index, %{{.*}}: index, %[[R:.*]]: !stream.binding) {
// CHECK: arith.maxsi %[[TOLD]]
// CHECK: scf.while
// CHECK: %[[ANY:.*]] = arith.cmpi sge, %[[TOLD]]
// CHECK: scf.if %[[ANY]] {
// CHECK-NEXT: memref.store
// CHECK: }
// CHECK: memref.atomic_rmw
stream.executable private @any_batch {
  stream.executable.export public @any_batch workgroups(%batch: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %batch, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @any_batch(%arg0: !stream.binding, %arg1: index, %arg2: !stream.binding) {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %result = stream.binding.subspan %arg2[%c0] : !stream.binding -> memref<?xf32>{%arg1}
      memref.store %zero, %result[%c0] : memref<?xf32>
      return
    }
  }
}

// This one is evaluated once.
// CHECK-LABEL: stream.executable private @of_constants {
stream.executable private @of_constants {
  stream.executable.export public @of_constants workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @of_constants(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}

// So many products take each of four threads long.
// CHECK-LABEL: stream.executable private @long
// CHECK-NOT: winograd.chained
// CHECK: func.func @long(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding) {
stream.executable private @long attributes {winograd.products = 400000000 : i64} {
  stream.executable.export public @long workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @long(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}

// Whoever loads the program is told by which versions of the runtime the order is kept.
// CHECK-LABEL: util.func public @main
// CHECK-SAME: winograd.order = "3.13."
// CHECK: %[[A:.*]] = flow.dispatch @begin::@begin(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[ZERO:.*]] = flow.tensor.splat %{{.*}} : tensor<608xi32>
// CHECK: %[[B:.*]]:2 = flow.dispatch @own::@own(%[[A]], %[[ZERO]], %c0{{[_0-9]*}}, %c-1{{[_0-9]*}}) : (tensor<8xf32>, tensor<608xi32>, index, index) -> (tensor<8xf32>, %[[ZERO]])
// CHECK: %[[C:.*]]:2 = flow.dispatch @any_batch::@any_batch[%[[N:.*]]](%[[A]], %[[N]], %[[B]]#1, %c1{{[_0-9]*}}, %c-1{{[_0-9]*}}) : (tensor<8xf32>, index, tensor<608xi32>, index, index) -> (tensor<?xf32>{%[[N]]}, %[[B]]#1)
// CHECK: %[[D:.*]] = flow.dispatch @of_constants
// CHECK: %[[E:.*]]:2 = flow.dispatch @in_place::@in_place(%[[B]]#0, %[[C]]#1, %c2{{[_0-9]*}}, %c-1{{[_0-9]*}}) : (tensor<8xf32>, tensor<608xi32>, index, index) -> (%[[B]]#0, %[[C]]#1)
// CHECK: %[[G:.*]] = flow.dispatch @long::@long(%[[E]]#0) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[F:.*]]:2 = flow.dispatch @own::@own(%[[G]], %[[E]]#1, %c3{{[_0-9]*}}, %c-1{{[_0-9]*}}) : (tensor<8xf32>, tensor<608xi32>, index, index) -> (tensor<8xf32>, %[[E]]#1)
// CHECK: util.return %[[F]]#0, %[[C]]#0, %[[D]]
util.func public @main(%x: tensor<8xf32>, %n: index) -> (tensor<8xf32>, tensor<?xf32>, tensor<8xf32>) {
  %a = flow.dispatch @begin::@begin(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = flow.dispatch @own::@own(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %c = flow.dispatch @any_batch::@any_batch[%n](%a, %n) : (tensor<8xf32>, index) -> tensor<?xf32>{%n}
  %constant = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<8xf32>
  %d = flow.dispatch @of_constants::@of_constants(%constant) : (tensor<8xf32>) -> tensor<8xf32>
  %e = flow.dispatch @in_place::@in_place(%b) : (tensor<8xf32>) -> %b
  %g = flow.dispatch @long::@long(%e) : (tensor<8xf32>) -> tensor<8xf32>
  %f = flow.dispatch @own::@own(%g) : (tensor<8xf32>) -> tensor<8xf32>
  util.return %f, %c, %d : tensor<8xf32>, tensor<?xf32>, tensor<8xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

stream.executable private @kernel {
  stream.executable.export public @kernel workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @kernel(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}

// A kernel alone waits for nobody.
// CHECK-LABEL: util.func public @alone
// CHECK-NEXT: flow.dispatch @kernel::@kernel(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
util.func public @alone(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = flow.dispatch @kernel::@kernel(%x) : (tensor<8xf32>) -> tensor<8xf32>
  util.return %a : tensor<8xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Each of four shares has two of the eight parts of an image that workgroups write. What they read says which shares
// of the kernel before they need: the same one, or its neighbours, too, which would be three of four here, and so are
// all of them; the workgroups of @halves are four for each half. What the kernel before reads is held.
// CHECK-LABEL: stream.executable private @own
// CHECK: func.func @own(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding, %{{.*}}: index, %{{.*}}: index, %{{.*}}: !stream.binding, %{{.*}}: !stream.binding)
stream.executable private @first attributes {
    winograd.spans = [array<i64: 0, 8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48, 48, 56, 56, 64>, array<i64: 0, 8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48, 48, 56, 56, 64>]} {
  stream.executable.export public @first workgroups() -> (index, index, index) {
    %x = arith.constant 8 : index
    %y = arith.constant 1 : index
    %z = arith.constant 1 : index
    stream.return %x, %y, %z : index, index, index
  }
  builtin.module {
    func.func @first(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}
stream.executable private @own attributes {
    winograd.spans = [array<i64: 0, 8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48, 48, 56, 56, 64>, array<i64: 0, 8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48, 48, 56, 56, 64>]} {
  stream.executable.export public @own workgroups() -> (index, index, index) {
    %x = arith.constant 8 : index
    %y = arith.constant 1 : index
    %z = arith.constant 1 : index
    stream.return %x, %y, %z : index, index, index
  }
  builtin.module {
    func.func @own(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}
stream.executable private @neighbours attributes {
    winograd.spans = [array<i64: 0, 8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48, 48, 56, 56, 64>, array<i64: 0, 12, 4, 20, 12, 28, 20, 36, 28, 44, 36, 52, 44, 60, 52, 64>]} {
  stream.executable.export public @neighbours workgroups() -> (index, index, index) {
    %x = arith.constant 8 : index
    %y = arith.constant 1 : index
    %z = arith.constant 1 : index
    stream.return %x, %y, %z : index, index, index
  }
  builtin.module {
    func.func @neighbours(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}
stream.executable private @halves attributes {
    winograd.spans = [array<i64: 0, 32, 32, 64>, array<i64: 0, 32, 32, 64>]} {
  stream.executable.export public @halves workgroups() -> (index, index, index) {
    %x = arith.constant 2 : index
    %y = arith.constant 4 : index
    %z = arith.constant 1 : index
    stream.return %x, %y, %z : index, index, index
  }
  builtin.module {
    func.func @halves(%arg0: !stream.binding, %arg1: !stream.binding) {
      return
    }
  }
}

// CHECK-LABEL: util.func public @shares
// CHECK: %[[A:.*]] = flow.dispatch @first::@first
// CHECK: %[[B:.*]]:2 = flow.dispatch @own::@own(%[[A]], %{{.*}}, %c0{{[_0-9]*}}, %c-1{{[_0-9]*}}, %[[A]])
// CHECK: %[[C:.*]]:2 = flow.dispatch @own::@own(%[[B]]#0, %[[B]]#1, %c1{{[_0-9]*}}, %c0{{[_0-9]*}}, %[[A]])
// CHECK: %[[D:.*]]:2 = flow.dispatch @neighbours::@neighbours(%[[C]]#0, %[[C]]#1, %c2{{[_0-9]*}}, %c-1{{[_0-9]*}})
// CHECK: %[[E:.*]]:2 = flow.dispatch @halves::@halves(%[[D]]#0, %[[D]]#1, %c3{{[_0-9]*}}, %c-1{{[_0-9]*}})
// Through a view a kernel reads what the one before wrote, and one that reads nothing of it needn't wait for it.
// CHECK: %[[V:.*]] = tensor.expand_shape %[[E]]#0
// CHECK: %[[F:.*]]:2 = flow.dispatch @own::@own(%[[A]], %[[E]]#1, %c4{{[_0-9]*}}, %c0{{[_0-9]*}}, %[[D]]#0)
// CHECK: util.return
util.func public @shares(%x: tensor<64xf32>) -> (tensor<8x8xf32>, tensor<64xf32>) {
  %a = flow.dispatch @first::@first(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = flow.dispatch @own::@own(%a) : (tensor<64xf32>) -> tensor<64xf32>
  %c = flow.dispatch @own::@own(%b) : (tensor<64xf32>) -> tensor<64xf32>
  %d = flow.dispatch @neighbours::@neighbours(%c) : (tensor<64xf32>) -> tensor<64xf32>
  %e = flow.dispatch @halves::@halves(%d) : (tensor<64xf32>) -> tensor<64xf32>
  %view = tensor.expand_shape %e [[0, 1]] output_shape [8, 8] : tensor<64xf32> into tensor<8x8xf32>
  %f = flow.dispatch @own::@own(%a) : (tensor<64xf32>) -> tensor<64xf32>
  util.return %view, %f : tensor<8x8xf32>, tensor<64xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// It makes images of one size of such of any: its workgroups are known, the sizes of what it reads aren't.
stream.executable private @to_one_size {
  stream.executable.export public @to_one_size workgroups(%size: index) -> (index, index, index) {
    %c32 = arith.constant 32 : index
    %c1 = arith.constant 1 : index
    stream.return %c32, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @to_one_size(%arg0: !stream.binding, %arg1: index, %arg2: !stream.binding) {
      return
    }
  }
}

// Two of them don't read each other's results, but wait for all of the one before: nothing of open size is held.
// CHECK-LABEL: util.func public @resize
// CHECK: %[[ZERO:.*]] = flow.tensor.splat
// CHECK: %[[A:.*]]:2 = flow.dispatch @to_one_size::@to_one_size[%{{.*}}](%{{.*}}, %{{.*}}, %[[ZERO]], %c0{{[_0-9]*}}, %c-1{{[_0-9]*}}) : (tensor<?xf32>{%{{.*}}}, index, tensor<{{.*}}xi32>, index, index) -> (tensor<32xf32>, %[[ZERO]])
// CHECK: flow.dispatch @to_one_size::@to_one_size[%{{.*}}](%{{.*}}, %{{.*}}, %[[A]]#1, %c1{{[_0-9]*}}, %c-1{{[_0-9]*}}) : (tensor<?xf32>{%{{.*}}}, index, tensor<{{.*}}xi32>, index, index) -> (tensor<32xf32>, %[[A]]#1)
util.func public @resize(%x: tensor<?xf32>, %y: tensor<?xf32>, %n: index) -> (tensor<32xf32>, tensor<32xf32>) {
  %a = flow.dispatch @to_one_size::@to_one_size[%n](%x, %n) : (tensor<?xf32>{%n}, index) -> tensor<32xf32>
  %b = flow.dispatch @to_one_size::@to_one_size[%n](%y, %n) : (tensor<?xf32>{%n}, index) -> tensor<32xf32>
  util.return %a, %b : tensor<32xf32>, tensor<32xf32>
}
