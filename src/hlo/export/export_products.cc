// SPDX-License-Identifier: Apache-2.0
// Products and convolutions.
#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/linalg/conv.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Types;

const char* precision(Precision p) {
  return p == Precision::Highest ? "HIGHEST" : p == Precision::High ? "HIGH" : "DEFAULT";
}

Texts dot_general(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::DotGeneral>(e.attrs);
  auto pair = [](const char* name, const Dims& l, const Dims& r) {
    return str(name, " = [", join(l), "] x [", join(r), "], ");
  };
  std::string batch = p.lhs_batch.empty() ? "" : pair("batching_dims", p.lhs_batch, p.rhs_batch);
  std::string sum = pair("contracting_dims", p.lhs_contracting, p.rhs_contracting);
  const char* word = precision(p.precision);
  return {w.line(str("stablehlo.dot_general ", names_of(in), ", ", batch, sum, "precision = [", word, ", ", word,
                     "] : ", signature(in, out)),
                 out[0])};
}

std::string layout(const Dims& spec, char first, char second) {
  std::vector<std::string> out(spec.size());
  for (std::size_t i = 0; i < spec.size(); ++i) {
    out[static_cast<std::size_t>(spec[i])] = i == 0   ? std::string(1, first)
                                             : i == 1 ? std::string(1, second)
                                                      : std::to_string(i - 2);
  }
  return str("[", join(out), "]");
}
Texts conv(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Conv>(e.attrs);
  std::size_t n = p.lhs_spec.size() - 2;
  auto list = [&](const Dims& d, std::int64_t otherwise) {
    return str("[", join(d.empty() ? Dims(n, otherwise) : d), "]");
  };
  std::vector<std::string> pads;
  for (std::size_t i = 0; i < n; ++i) {
    pads.push_back(p.pad_low.empty() ? "[0, 0]" : str("[", p.pad_low[i], ", ", p.pad_high[i], "]"));
  }
  std::string numbers =
      str(layout(p.lhs_spec, 'b', 'f'), "x", layout(p.rhs_spec, 'o', 'i'), "->", layout(p.out_spec, 'b', 'f'));
  std::string window = str("stride = ", list(p.strides, 1), ", pad = [", join(pads),
                           "], lhs_dilate = ", list(p.lhs_dilation, 1), ", rhs_dilate = ", list(p.rhs_dilation, 1));
  std::string word = str("#stablehlo<precision ", precision(p.precision), ">");
  return {w.line(str("stablehlo.convolution(", names_of(in), ") dim_numbers = ", numbers, ", window = {", window,
                     "} {batch_group_count = ", p.batch_groups, " : i64, feature_group_count = ", p.feature_groups,
                     " : i64, precision_config = [", word, ", ", word, "]} : ", signature(in, out)),
                 out[0])};
}
}  // namespace

void add_product_writers(WriterTable& t) {
  t[&def::dot_general] = dot_general;
  t[&def::conv_general_dilated] = conv;
}

}  // namespace tessera::hlo
