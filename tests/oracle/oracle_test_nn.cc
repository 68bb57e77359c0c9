// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/nn.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

void add_nn(Table& t) {
  using namespace nn;
  const std::map<std::string, Array (*)(const Operand&)> plain = {
      {"relu", relu},
      {"relu6", relu6},
      {"sigmoid", sigmoid},
      {"silu", silu},
      {"swish", silu},
      {"softplus", softplus},
      {"log_sigmoid", log_sigmoid},
      {"soft_sign", soft_sign},
      {"hard_tanh", hard_tanh},
      {"hard_sigmoid", hard_sigmoid},
      {"hard_silu", hard_silu},
      {"selu", selu},
      {"mish", mish},
  };
  for (const auto& [name, f] : plain) t["nn." + name] = unary(f);
  const std::map<std::string, Array (*)(const Operand&)> more = {{"identity", identity},
                                                                 {"hard_swish", hard_swish},
                                                                 {"sparse_plus", sparse_plus},
                                                                 {"sparse_sigmoid", sparse_sigmoid},
                                                                 {"log1mexp", log1mexp}};
  for (const auto& [name, f] : more) t["nn." + name] = unary(f);
  t["nn.logmeanexp"] = one([](const Arrays& a, const Params& p) {
    return logmeanexp(a[0], {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")});
  });
  t["nn.dot_product_attention"] = one([](const Arrays& a, const Params& p) {
    AttentionOptions o{.scale = p.maybe_real("scale"), .is_causal = p.flag("is_causal")};
    if (a.size() > 3) o.bias = a[3];
    if (a.size() > 4) o.mask = a[4];
    return dot_product_attention(a[0], a[1], a[2], o);
  });
  t["nn.leaky_relu"] =
      one([](const Arrays& a, const Params& p) { return leaky_relu(a[0], p.real("negative_slope", 0.01)); });
  t["nn.elu"] = one([](const Arrays& a, const Params& p) { return elu(a[0], p.real("alpha", 1)); });
  t["nn.celu"] = one([](const Arrays& a, const Params&) { return celu(a[0]); });
  t["nn.squareplus"] = one([](const Arrays& a, const Params&) { return squareplus(a[0]); });
  t["nn.gelu"] = one([](const Arrays& a, const Params& p) { return gelu(a[0], p.flag("approximate", true)); });
  t["nn.glu"] = one([](const Arrays& a, const Params& p) { return glu(a[0], p.integer("axis", -1)); });
  t["nn.standardize"] = one([](const Arrays& a, const Params& p) { return standardize(a[0], p.integer("axis", -1)); });
}

}  // namespace tessera::oracle
