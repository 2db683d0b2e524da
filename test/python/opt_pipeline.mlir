// RUN: winograd-opt %s --pass-pipeline='builtin.module(util.func(canonicalize), cse)' | filecheck %s
// RUN: winograd-opt --canonicalize --cse < %s | filecheck %s
// RUN: winograd-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC

// CHECK-LABEL: @twice
// CHECK-NEXT: [[S:%.+]] = arith.addi %arg0, %arg0
// CHECK-NEXT: util.return [[S]], [[S]]
// GENERIC: "util.func"
util.func @twice(%a: i32) -> (i32, i32) {
  %zero = arith.constant 0 : i32
  %b = arith.addi %a, %zero : i32
  %c = arith.addi %a, %b : i32
  %d = arith.addi %a, %a : i32
  util.return %c, %d : i32, i32
}
