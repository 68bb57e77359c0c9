// SPDX-License-Identifier: Apache-2.0
// Primitives that the public functions reach only through others.
#include "api/trace.h"
#include "ops/attrs.h"
#include "ops/linalg.h"
#include "oracle/table.h"
#include "tessera/error.h"

namespace tessera::oracle {

namespace {

const ir::OpDef& named(const std::string& name) {
  const ir::OpDef* def = ops::find(name);
  if (def == nullptr) throw ValueError("oracle: no op named '" + name + "'");
  return *def;
}

/// An op whose attributes come from the parameters.
Function with_attrs(const std::string& name, std::function<ir::Attrs(const Params&)> attrs) {
  return [def = &named(name), attrs = std::move(attrs)](const Arrays& a, const Params& p) {
    return api::bind(*def, a, attrs(p), Loc::current());
  };
}

ir::Attrs fft_attrs(const Params& p) {
  const std::string type = p.text("fft_type");
  const ops::FftType t = type == "FFT"    ? ops::FftType::Fft
                         : type == "IFFT" ? ops::FftType::Ifft
                         : type == "RFFT" ? ops::FftType::Rfft
                                          : ops::FftType::Irfft;
  return api::attrs(ops::Fft{t, p.dims("fft_lengths")});
}

}  // namespace

void add_ops(Table& t) {
  for (const char* name : {"div", "rem", "shift_left", "shift_right_arithmetic", "shift_right_logical", "igamma_grad_a",
                           "random_gamma_grad", "select_n"}) {
    t[std::string("lax.") + name] = with_attrs(name, [](const Params&) { return ir::Attrs(); });
  }
  for (const char* name : {"sum", "prod", "max", "min", "and", "or", "xor"}) {
    const std::string op = std::string("reduce_") + name;
    t["lax." + op] = with_attrs(op, [](const Params& p) { return api::attrs(ops::Axes{p.dims("axes")}); });
  }
  t["lax.round"] = with_attrs("round", [](const Params& p) {
    using Method = ops::Round::Method;
    const bool even = p.text("rounding_method") == "TO_NEAREST_EVEN";
    return api::attrs(ops::Round{even ? Method::ToNearestEven : Method::AwayFromZero});
  });
  t["lax.fft"] = with_attrs("fft", fft_attrs);
}

}  // namespace tessera::oracle
