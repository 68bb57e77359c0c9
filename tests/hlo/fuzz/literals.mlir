#dims = array<i64: 1>
!row = tensor<3xf32>
module @literals {
  func.func private @twice(%arg0: !row) -> !row {
    %0 = stablehlo.add %arg0, %arg0 : !row
    return %0 : !row
  }
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xi8>, tensor<2xui8>, tensor<2xi4>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf8E4M3FN>, tensor<2xf64>, tensor<2xi64>, tensor<2xcomplex<f32>>, tensor<2xi1>, tensor<1x3xf32>) {
    %0 = stablehlo.constant dense<[1.0, -2.5e-3, 0x7F800000]> : tensor<3xf32>
    %1 = stablehlo.constant dense<[127, -128, 255]> : tensor<3xi8>
    %2 = stablehlo.constant dense<200> : tensor<2xui8>
    %3 = stablehlo.constant dense<[7, -8]> : tensor<2xi4>
    %4 = stablehlo.constant dense<65504.0> : tensor<2xf16>
    %5 = stablehlo.constant dense<[1.00390625, 3.3895313892515355e+38]> : tensor<2xbf16>
    %6 = stablehlo.constant dense<[0.3125, -448.0]> : tensor<2xf8E4M3FN>
    %7 = stablehlo.constant dense<[1.7976931348623157e+308, 4.9406564584124654e-324]> : tensor<2xf64>
    %8 = stablehlo.constant dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>
    %9 = stablehlo.constant dense<[(1.0, -2.0), (0.5, 0x80000000)]> : tensor<2xcomplex<f32>>
    %10 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %11 = func.call @twice(%arg0) : (!row) -> !row
    %12 = stablehlo.add %11, %0 : !row
    %13 = stablehlo.reshape %12 : (tensor<3xf32>) -> tensor<1x3xf32>
    %14 = "stablehlo.reverse"(%13) <{dimensions = #dims}> : (tensor<1x3xf32>) -> tensor<1x3xf32>
    return %12, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %14 : tensor<3xf32>, tensor<3xi8>, tensor<2xui8>, tensor<2xi4>, tensor<2xf16>, tensor<2xbf16>, tensor<2xf8E4M3FN>, tensor<2xf64>, tensor<2xi64>, tensor<2xcomplex<f32>>, tensor<2xi1>, tensor<1x3xf32>
  }
}
