// RUN: winograd-opt --winograd-place-scratch --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-place-scratch='threads=2' --split-input-file %s | filecheck %s --check-prefix=SEVERAL

// Workers have scratch memory of their own.
// SEVERAL-NOT: tensor<{{.*}}xi8>

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// The kernel counts its workgroups from the sizes that it is told, and does them in a loop.
// CHECK-LABEL: stream.executable private @k {
// CHECK: stream.executable.export public @k workgroups(%{{.*}}: index) -> (index, index, index) {
// CHECK: arith.ceildivui
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1 : index
// CHECK-NEXT: stream.return %[[ONE]], %[[ONE]], %[[ONE]]
// CHECK: func.func @k(%{{.*}}: !stream.binding, %[[N:.*]]: index, %{{.*}}: !stream.binding, %[[SCRATCH:.*]]: !stream.binding)
// CHECK: %[[COUNT:.*]] = arith.ceildivui %[[N]], %{{.*}}
// CHECK: %[[BYTES:.*]] = stream.binding.subspan %[[SCRATCH]][%{{.*}}] : !stream.binding -> memref<40064xi8>
// CHECK: %[[FIRST:.*]] = memref.view %[[BYTES]][%c0{{.*}}][] : memref<40064xi8> to memref<20000xi8>
// CHECK: %[[SECOND:.*]] = memref.view %[[BYTES]][%c20032{{.*}}][] : memref<40064xi8> to memref<20032xi8>
// CHECK-NOT: memref.alloc
// CHECK: scf.for %[[W:.*]] = %{{.*}} to %[[COUNT]]
// CHECK: memref.store %{{.*}}, %[[FIRST]][%[[W]]]
// CHECK: memref.store %{{.*}}, %[[SECOND]][%[[W]]]
stream.executable private @k {
  stream.executable.export public @k workgroups(%n: index) -> (index, index, index) {
    %c64 = arith.constant 64 : index
    %c1 = arith.constant 1 : index
    %count = arith.ceildivui %n, %c64 : index
    stream.return %count, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @k(%x: !stream.binding, %n: index, %y: !stream.binding) {
      %w = stream.dispatch.workgroup.id[0] : index
      %zero = arith.constant 0 : i8
      %a = memref.alloc() : memref<20000xi8, #iree_codegen.workgroup_local>
      %first = memref.memory_space_cast %a : memref<20000xi8, #iree_codegen.workgroup_local> to memref<20000xi8>
      memref.store %zero, %first[%w] : memref<20000xi8>
      %b = memref.alloc() : memref<20032xi8, #iree_codegen.workgroup_local>
      %second = memref.memory_space_cast %b : memref<20032xi8, #iree_codegen.workgroup_local> to memref<20032xi8>
      memref.store %zero, %second[%w] : memref<20032xi8>
      return
    }
  }
}

// A kernel with little of it stays as it is.
// CHECK-LABEL: stream.executable private @little {
// CHECK: func.func @little(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding) {
// CHECK: memref.alloc
stream.executable private @little {
  stream.executable.export public @little workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @little(%x: !stream.binding, %y: !stream.binding) {
      %w = stream.dispatch.workgroup.id[0] : index
      %zero = arith.constant 0 : i8
      %a = memref.alloc() : memref<1000xi8, #iree_codegen.workgroup_local>
      %first = memref.memory_space_cast %a : memref<1000xi8, #iree_codegen.workgroup_local> to memref<1000xi8>
      memref.store %zero, %first[%w] : memref<1000xi8>
      return
    }
  }
}

// CHECK-LABEL: util.func public @main
// CHECK: %[[L:.*]] = flow.dispatch @little::@little(%{{.*}}) : (tensor<?xf32>{%{{.*}}}) -> tensor<?xf32>
// CHECK: %[[Y:.*]]:2 = flow.dispatch @k::@k[%[[SIZE:.*]]](%[[L]], %[[SIZE]]) : (tensor<?xf32>{%[[SIZE]]}, index) -> (tensor<?xf32>{%[[SIZE]]}, tensor<40064xi8>)
// CHECK: util.return %[[Y]]#0
util.func public @main(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %l = flow.dispatch @little::@little(%x) : (tensor<?xf32>{%n}) -> tensor<?xf32>{%n}
  %y = flow.dispatch @k::@k[%n](%l, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
  util.return %y : tensor<?xf32>
}
