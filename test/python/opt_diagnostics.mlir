// RUN: winograd-opt %s --split-input-file --verify-diagnostics

// expected-note@+1 {{prior use here}}
util.func @mixed(%a: i32) -> i32 {
  // expected-error@+1 {{use of value '%a' expects different type than prior uses}}
  %0 = arith.addi %a, %a : f32
  util.return %a : i32
}

// -----

// expected-error-re@below {{Dialect `no' not found for custom op '{{no.+op}}'}}
no.such.op

// -----

// An op of a dialect that isn't registered is fine, as the winograd ops are.
util.func @unregistered(%a: i32) -> i32 {
  %0 = "winograd.unregistered"(%a) : (i32) -> i32
  util.return %0 : i32
}
