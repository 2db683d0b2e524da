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

// A kernel takes a workgroup, waits for the count, does its work, and adds to it. While it waits it fetches its
// part of the filters.
// CHECK-LABEL: stream.executable private @own
// CHECK-SAME: winograd.chained
// CHECK: func.func @own(%[[X:.*]]: !stream.binding, %[[N:.*]]: !stream.binding, %[[DONE:.*]]: index, %[[SHARES:.*]]: index, %[[Y:.*]]: !stream.binding)
// CHECK: %[[SIZE:.*]] = arith.addi %[[SHARES]], %c64
// CHECK: %[[COUNT:.*]] = stream.binding.subspan %[[N]]{{.*}} -> memref<?xi32>{%[[SIZE]]}
// The six workgroups are shares of the processors: 1, 2, 1, 2 of them.
// CHECK: %[[PROCESSOR:.*]] = llvm.inline_asm has_side_effects "rdtscp"
// Which share it has is said after the count: it claims that of its number, or the next that nobody has claimed.
// CHECK: %[[NUMBER:.*]] = arith.remui %{{.*}}, %c256
// CHECK: %[[SLOT:.*]] = arith.addi %[[NUMBER]], %c32
// CHECK: memref.load %[[COUNT]][%[[SLOT]]]
// CHECK: %[[HOME:.*]] = scf.if
// CHECK: %[[CLAIM:.*]]:2 = scf.while (%[[NEXT_SHARE:.*]] = %c0{{.*}}) : (index) -> (index, index)
// CHECK: arith.addi %[[NUMBER]], %[[NEXT_SHARE]]
// CHECK: %[[OWNER:.*]] = arith.addi %{{.*}}, %c288
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%[[OWNER]]]
// CHECK: memref.store %{{.*}}, %[[COUNT]][%{{.*}}]
// CHECK: %[[TAKEN:.*]]:2 = scf.while (%[[TRIED:.*]] = %c0{{.*}}) : (index) -> (index, index)
// CHECK: arith.addi %[[HOME]], %[[TRIED]]
// CHECK: %[[BEGIN:.*]] = arith.divui %{{.*}}, %c4
// CHECK: %[[END:.*]] = arith.divui %{{.*}}, %c4
// CHECK: %[[PLACE:.*]] = arith.addi %[[SHARES]],
// CHECK: memref.load %[[COUNT]][%[[PLACE]]]
// CHECK: memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%[[PLACE]]]
// CHECK: %[[NONE:.*]] = arith.cmpi sge, %{{.*}}, %[[END]]
// CHECK: scf.condition(%[[NONE]])
// CHECK: %[[PART:.*]] = arith.remui %[[TAKEN]]#1, %c3
// CHECK: arith.divui %[[TAKEN]]#1, %c3
// CHECK: %[[FILTERS:.*]] = stream.binding.subspan %[[X]]{{.*}} -> memref<32xi8>
// CHECK: %[[FIRST:.*]] = arith.muli %[[PART]], %c16
// CHECK: %[[AWAITED:.*]] = arith.index_cast %[[DONE]] : index to i32
// CHECK: scf.while
// CHECK: %[[NOW:.*]] = memref.load %[[COUNT]][%c16{{.*}}]
// CHECK: %[[EARLY:.*]] = arith.cmpi slt, %[[NOW]], %[[AWAITED]] : i32
// CHECK: scf.condition(%[[EARLY]])
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[FETCHED:.*]], %c16
// CHECK: scf.if %[[MORE]]
// CHECK: scf.for %[[LINE:.*]] = %c0{{.*}} to %c2048{{.*}} step %c64
// CHECK: %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[FETCHED]]
// CHECK: %[[PLACE:.*]] = arith.addi %[[NEXT]], %[[LINE]]
// CHECK: memref.prefetch %[[FILTERS]][%[[PLACE]]], read, locality<2>
// CHECK: llvm.inline_asm has_side_effects "pause", "~{memory}
// CHECK: llvm.inline_asm has_side_effects "", "~{memory}
// CHECK: %[[FROM:.*]] = stream.binding.subspan %[[X]]
// CHECK: stream.binding.subspan %[[Y]]
// CHECK: memref.load %[[FROM]][%[[PART]]]
// CHECK: %[[BEFORE:.*]] = memref.atomic_rmw addi %{{.*}}, %[[COUNT]][%c0
// CHECK: %[[ARRIVED:.*]] = arith.addi %[[BEFORE]]
// CHECK: arith.addi %[[DONE]], %c6 : index
// CHECK: scf.if
// CHECK: memref.store %[[ARRIVED]], %[[COUNT]][%c16
stream.executable private @own attributes {winograd.filters = array<i64: 0, 32, 16>} {
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

// CHECK-LABEL: stream.executable private @in_place
// CHECK: func.func @in_place(%[[X:.*]]: !stream.binding, %[[N:.*]]: !stream.binding, %[[DONE:.*]]: index, %[[SHARES:.*]]: index)
// CHECK: stream.binding.subspan %[[N]]{{.*}} -> memref<?xi32>
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

// The workgroups of these depend on the call, and those are evaluated once.
// CHECK-LABEL: stream.executable private @any_batch {
// CHECK-LABEL: stream.executable private @of_constants {
stream.executable private @any_batch {
  stream.executable.export public @any_batch workgroups(%batch: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %batch, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @any_batch(%arg0: !stream.binding, %arg1: index, %arg2: !stream.binding) {
      return
    }
  }
}
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

// CHECK-LABEL: util.func public @main
// CHECK: %[[A:.*]] = flow.dispatch @begin::@begin(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[ZERO:.*]] = flow.tensor.splat %{{.*}} : tensor<496xi32>
// CHECK: %[[B:.*]]:2 = flow.dispatch @own::@own(%[[A]], %[[ZERO]], %c0, %c304) : (tensor<8xf32>, tensor<496xi32>, index, index) -> (tensor<8xf32>, %[[ZERO]])
// CHECK: %[[C:.*]] = flow.dispatch @any_batch
// CHECK: %[[D:.*]] = flow.dispatch @of_constants
// CHECK: %[[E:.*]]:2 = flow.dispatch @in_place::@in_place(%[[B]]#0, %[[B]]#1, %c6, %c368) : (tensor<8xf32>, tensor<496xi32>, index, index) -> (%[[B]]#0, %[[B]]#1)
// CHECK: %[[G:.*]] = flow.dispatch @long::@long(%[[E]]#0) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[F:.*]]:2 = flow.dispatch @own::@own(%[[G]], %[[E]]#1, %c7, %c432) : (tensor<8xf32>, tensor<496xi32>, index, index) -> (tensor<8xf32>, %[[E]]#1)
// CHECK: util.return %[[F]]#0, %[[C]], %[[D]]
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
