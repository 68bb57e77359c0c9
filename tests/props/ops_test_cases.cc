// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>

#include "base/strings.h"
#include "ops/transform/interpret.h"
#include "tests/props/op_cases.h"

namespace tessera::ops {

std::string label(const OpDef& op, const AnySample& s, unsigned seed) {
  std::string out = str(op.name(), "[", s.attrs ? s.attrs->text() : "", "]");
  for (const auto& t : s.in) out += str(" ", t);
  return str(out, " seed ", seed);
}

HostArray operand(const OpDef& op, const Type& type, unsigned seed) {
  static constexpr double low[] = {0.1, -0.95, 1.1};
  static constexpr double high[] = {0.9, 0.95, 3.0};
  HostArray out(type.dtype, type.shape);
  View v = view_of(out);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(low[seed % 3], high[seed % 3]);
  int shift = op.traits().elementwise && is_signed_int(type.dtype) ? 4 : 0;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    switch (wide_kind(type.dtype)) {
      case Wide::Bool:
        store_bool(v, i, random() % 2 == 0);
        break;
      case Wide::Float:
        store_float(v, i, real(random));
        break;
      case Wide::Complex: {
        double re = real(random);
        store_complex(v, i, complexd(re, real(random)));
        break;
      }
      default:
        store_int(v, i, static_cast<std::int64_t>(random() % (shift ? 9 : 3)) - shift);
    }
  }
  return out;
}
std::vector<HostArray> operands(const OpDef& op, const Types& types, unsigned seed) {
  std::vector<HostArray> out;
  for (std::size_t i = 0; i < types.size(); ++i) {
    out.push_back(operand(op, types[i], seed + 3 * static_cast<unsigned>(i + 1)));
    if (seed != 3 || i > 0 || types.size() == 1 || !op.traits().elementwise || !is_float(types[i].dtype)) continue;
    View v = view_of(out[i]);  // whole numbers, for functions that want one (polygamma)
    for (std::int64_t k = 0; k < v.size(); ++k) store_float(v, k, std::ceil(load_float(v, k)));
  }
  return out;
}

double tolerance(const std::vector<HostArray>& results) {
  double worst = 1e-10;
  for (const auto& r : results) {
    switch (r.dtype()) {
      case DType::BF16:
        worst = std::max(worst, 4e-2);
        break;
      case DType::F16:
        worst = std::max(worst, 1e-2);
        break;
      case DType::F32:
      case DType::C64:
        worst = std::max(worst, 2e-5);
        break;
      default:
        break;
    }
  }
  return worst;
}

std::vector<const OpDef*> comparable(const char* rule) {
  std::vector<const OpDef*> out;
  for (const OpDef* op : all()) {
    const bool has = op->never(rule) == nullptr || (std::string_view(rule) == "jvp" && op->has_dual());
    if (op->has_reference() && has) out.push_back(op);
  }
  return out;
}
std::string test_name(const testing::TestParamInfo<const OpDef*>& info) {
  std::string name(info.param->name());
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '_'; }, '_');
  return name;
}

}  // namespace tessera::ops
