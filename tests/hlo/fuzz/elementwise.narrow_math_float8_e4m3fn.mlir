module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32>) -> (tensor<8xf8E4M3FN> {jax.result_info = "result[0]"}, tensor<8xf8E4M3FN> {jax.result_info = "result[1]"}, tensor<8xi1> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
    %1 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
    %2 = stablehlo.add %0, %1 : tensor<8xf8E4M3FN>
    %3 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
    %4 = stablehlo.sine %3 : tensor<8xf8E4M3FN>
    %5 = stablehlo.convert %arg0 : (tensor<8xf32>) -> tensor<8xf8E4M3FN>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f8E4M3FN>
    %6 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f8E4M3FN>) -> tensor<8xf8E4M3FN>
    %7 = stablehlo.compare LT, %5, %6, FLOAT : (tensor<8xf8E4M3FN>, tensor<8xf8E4M3FN>) -> tensor<8xi1>
    return %2, %4, %7 : tensor<8xf8E4M3FN>, tensor<8xf8E4M3FN>, tensor<8xi1>
  }
}
