// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

void add_products(Table& t) {
  t["lax.dot_general"] = one([](const Arrays& a, const Params& p) {
    const auto d = p.items("dimension_numbers");
    return dot_general(a[0], a[1], {d[0].as_list(0), d[0].as_list(1), d[1].as_list(0), d[1].as_list(1)},
                       {.preferred_element_type = p.maybe_dtype("preferred_element_type")});
  });
  t["jnp.matmul"] = one([](const Arrays& a, const Params&) { return matmul(a[0], a[1]); });
  t["jnp.einsum"] = one([](const Arrays& a, const Params& p) { return einsum(p.text("subscripts"), a); });
}

}  // namespace tessera::oracle
