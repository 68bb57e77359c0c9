// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

void add_ops(Table& t) {
  const std::map<std::string, Array (*)(const Operand&, const Operand&)> plain = {
      {"div", lax::div},
      {"rem", lax::rem},
      {"shift_left", lax::shift_left},
      {"shift_right_arithmetic", lax::shift_right_arithmetic},
      {"shift_right_logical", lax::shift_right_logical},
      {"igamma_grad_a", lax::igamma_grad_a},
      {"random_gamma_grad", lax::random_gamma_grad},
      {"batch_matmul", lax::batch_matmul}};
  for (const auto& [name, f] : plain) t["lax." + name] = binary(f);
  t["lax.select_n"] =
      one([](const Arrays& a, const Params&) { return lax::select_n(a[0], Arrays(a.begin() + 1, a.end())); });
  t["lax.select"] = ternary(lax::select);
  const std::map<std::string, Array (*)(const Operand&, const Dims&)> reduces = {
      {"sum", lax::reduce_sum}, {"prod", lax::reduce_prod}, {"max", lax::reduce_max}, {"min", lax::reduce_min},
      {"and", lax::reduce_and}, {"or", lax::reduce_or},     {"xor", lax::reduce_xor}};
  for (const auto& [name, f] : reduces) {
    t["lax.reduce_" + name] = one([f = f](const Arrays& a, const Params& p) { return f(a[0], p.dims("axes")); });
  }
  t["lax.round"] = one([](const Arrays& a, const Params& p) {
    return lax::round(a[0], p.text("rounding_method") == "TO_NEAREST_EVEN");
  });
  t["lax.fft"] = one([](const Arrays& a, const Params& p) {
    const std::string type = p.text("fft_type");
    const auto t = type == "FFT"    ? lax::FftType::Fft
                   : type == "IFFT" ? lax::FftType::Ifft
                   : type == "RFFT" ? lax::FftType::Rfft
                                    : lax::FftType::Irfft;
    return lax::fft(a[0], t, p.dims("fft_lengths"));
  });
  t["lax.collapse"] = one([](const Arrays& a, const Params& p) {
    return lax::collapse(a[0], p.integer("start_dimension"), p.integer("stop_dimension"));
  });
  t["program.reduce_pairs"] = [](const Arrays& a, const Params&) {
    // The largest element and where it first stands.
    return lax::reduce({a[0], iota(int32, a[0].shape(), 1)}, {Array(-1e30), Array(0)},
                       [](const Arrays& x, const Arrays& y) {
                         const Array better = (y[0] > x[0]) | ((y[0] == x[0]) & (y[1] < x[1]));
                         return Arrays{where(better, y[0], x[0]), where(better, y[1], x[1])};
                       },
                       {1});
  };
  t["program.reduce_window_product"] = one([](const Arrays& a, const Params&) {
    return lax::reduce_window({a[0]}, {Array(1.0)},
                              [](const Arrays& x, const Arrays& y) { return Arrays{x[0] * y[0]}; }, {2, 2})[0];
  });
}

}  // namespace tessera::oracle
