// RUN: winograd-opt --winograd-wrap-conversions %s | filecheck %s

// CHECK-LABEL: @bytes
// CHECK: ^bb0(%[[X:[^:]*]]: f32, %{{.*}}
// CHECK-NEXT: %[[WORD:.*]] = arith.fptosi %[[X]] : f32 to i32
// CHECK-NEXT: %[[BYTE:.*]] = arith.trunci %[[WORD]] : i32 to i8
// CHECK-NEXT: %[[OTHER:.*]] = arith.fptosi %[[X]] : f32 to i32
// CHECK-NEXT: %[[SHORT:.*]] = arith.trunci %[[OTHER]] : i32 to i16
// CHECK-NEXT: linalg.yield %[[BYTE]], %[[SHORT]]
util.func public @bytes(%x: tensor<8xf32>) -> (tensor<8xi8>, tensor<8xi16>) {
  %bytes = tensor.empty() : tensor<8xi8>
  %shorts = tensor.empty() : tensor<8xi16>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%bytes, %shorts : tensor<8xi8>, tensor<8xi16>) {
  ^bb0(%a: f32, %unused: i8, %unused_too: i16):
    %byte = arith.fptosi %a : f32 to i8
    %short = arith.fptosi %a : f32 to i16
    linalg.yield %byte, %short : i8, i16
  } -> (tensor<8xi8>, tensor<8xi16>)
  util.return %r#0, %r#1 : tensor<8xi8>, tensor<8xi16>
}

// What is converted without a sign stays, and so do words.
// CHECK-LABEL: @others
// CHECK: arith.fptoui %{{.*}} : f32 to i8
// CHECK-NEXT: arith.fptosi %{{.*}} : f32 to i32
// CHECK-NEXT: arith.fptosi %{{.*}} : f32 to i64
// CHECK-NEXT: util.return
util.func public @others(%x: f32) -> (i8, i32, i64) {
  %byte = arith.fptoui %x : f32 to i8
  %word = arith.fptosi %x : f32 to i32
  %long = arith.fptosi %x : f32 to i64
  util.return %byte, %word, %long : i8, i32, i64
}
