// SPDX-License-Identifier: Apache-2.0
// What Tessera's types promote to, as in JAX.
#include <tessera/dtype.h>

#include <iostream>

namespace ts = tessera;

int main() {
  std::cout << "bf16 with f16: " << ts::dtype_name(ts::promote_types(ts::DType::BF16, ts::DType::F16)) << '\n';
  return 0;
}
