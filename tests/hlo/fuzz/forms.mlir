#map = array<i64: 0, 1>
module @forms attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  sdy.mesh @empty = <[]>
  func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2, ?}p1, {"y"}]>}, %t: !stablehlo.token) -> tensor<4x4xf32> {
    %c = stablehlo.constant dense<"0x0000803F000000400000404000008040"> : tensor<4xf32>
    %r = stablehlo.constant dense_resource<blob> : tensor<2xf32>
    %b = "stablehlo.broadcast_in_dim"(%c) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<4x4xf32>
    %0 = sdy.sharding_constraint %a <@mesh, [{"y"}, {}], replicated={"x"}> : tensor<4x4xf32>
    %1 = "stablehlo.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("here")
    %2:2 = stablehlo.reduce(%1 init: %z), (%b init: %z) across dimensions = [0] : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
     reducer(%x: tensor<f32>, %p: tensor<f32>) (%y: tensor<f32>, %q: tensor<f32>) {
      stablehlo.return %x, %y : tensor<f32>, tensor<f32>
    }
    return %1 : tensor<4x4xf32>
  }
}
{-# dialect_resources: { builtin: { blob: "0x040000000000803F00000040" } } #-}
