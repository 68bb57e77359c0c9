// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, Cholesky factors, triangular systems, and batch normalisation.
#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/shared_compositions.h"
#include "hlo/text/literals.h"
#include "ops/linalg/linalg_ops.h"

namespace tessera::hlo {

namespace {
Items fft(OpCall& c) {
  c.check_operands(1);
  std::string type = c.find("type") ? c.word("type") : c.word("fft_type");
  Dims lengths = c.find("length") ? c.dims("length") : c.dims("fft_length");
  for (auto [name, kind] : {std::pair{"FFT", ops::FftType::Fft}, std::pair{"IFFT", ops::FftType::Ifft},
                            std::pair{"RFFT", ops::FftType::Rfft}, std::pair{"IRFFT", ops::FftType::Irfft}}) {
    if (type == name) return c.one(ops::fft(c.v(0), kind, lengths));
  }
  c.fail(str("unknown type \"", type, "\""));
}

// With `lower` the factor l of l l^H from the lower triangle; else u of u^H u from the upper one.
Items cholesky(OpCall& c) {
  c.check_operands(1);
  if (c.v(0).rank() < 2) c.fail("the operand is no matrix");
  if (c.flag("lower", false)) return c.one(ops::cholesky(c.v(0)));
  return c.one(ops::conj(swapped(ops::cholesky(ops::conj(swapped(c.v(0)))))));
}

Items triangular_solve(OpCall& c) {
  c.check_operands(2);
  ops::TriangularSolve p;
  p.left = c.flag("left_side", true);
  p.lower = c.flag("lower", true);
  p.unit_diagonal = c.flag("unit_diagonal", false);
  std::string transpose = c.word("transpose_a");
  p.transpose_a = transpose == "TRANSPOSE" || transpose == "ADJOINT";
  p.conjugate_a = transpose == "ADJOINT" && is_complex(c.v(0).dtype());
  return c.one(ops::triangular_solve(c.v(0), c.v(1), p));
}

// --- batch normalisation --------------------------------------------------------------------------------------------

struct Norm {
  Dims axes;  // all but the feature dimension
  std::int64_t feature;
  double count;
  Value epsilon;
};
Norm norm_of(OpCall& c) {
  Norm n;
  n.feature = c.integer("feature_index");
  Value x = c.v(0);
  if (n.feature < 0 || n.feature >= x.rank()) c.fail("feature_index lies outside the shape");
  n.count = 1;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d == n.feature) continue;
    n.axes.push_back(d);
    n.count *= static_cast<double>(x.shape()[static_cast<std::size_t>(d)]);
  }
  n.epsilon = ops::constant(c.b(), to_scalar(c.importer.source(), c.need("epsilon"), elem_of(x.dtype())));
  return n;
}
Value over_features(const Norm& n, Value v, Value like) { return ops::broadcast_in_dim(v, like.shape(), {n.feature}); }
Value mean_of(const Norm& n, Value x) { return ops::reduce_sum(x, n.axes) / n.count; }

Items batch_norm_inference(OpCall& c) {
  c.check_operands(5);
  Norm n = norm_of(c);
  Value x = c.v(0);
  auto wide = [&](Value v) { return over_features(n, v, x); };
  Value scale = wide(c.v(1)) / ops::sqrt(wide(ops::add(c.v(4), n.epsilon)));
  return c.one(ops::sub(x, wide(c.v(3))) * scale + wide(c.v(2)));
}
Items batch_norm_training(OpCall& c) {
  c.check_operands(3);
  Norm n = norm_of(c);
  Value x = c.v(0);
  auto wide = [&](Value v) { return over_features(n, v, x); };
  Value mean = mean_of(n, x);
  Value centred = x - wide(mean);
  Value variance = mean_of(n, centred * centred);
  Value out = centred / ops::sqrt(wide(ops::add(variance, n.epsilon))) * wide(c.v(1)) + wide(c.v(2));
  return {tensor(c.out(0).elem, out), tensor(c.out(1).elem, mean), tensor(c.out(2).elem, variance)};
}
Items batch_norm_grad(OpCall& c) {
  c.check_operands(5);
  Norm n = norm_of(c);
  Value x = c.v(0), dy = c.v(4);
  auto wide = [&](Value v) { return over_features(n, v, x); };
  Value variance = ops::add(c.v(3), n.epsilon);
  Value centred = x - wide(c.v(2));
  Value sum_dy = ops::reduce_sum(dy, n.axes);
  Value sum_dy_x = ops::reduce_sum(dy * centred, n.axes);
  Value i1 = dy * n.count;
  Value i3 = centred * wide(sum_dy_x / variance);
  Value dx = wide(c.v(1) / ops::sqrt(variance)) / n.count * (i1 - wide(sum_dy) - i3);
  Value dscale = sum_dy_x / ops::sqrt(variance);
  return {tensor(c.out(0).elem, dx), tensor(c.out(1).elem, dscale), tensor(c.out(2).elem, sum_dy)};
}
}  // namespace

void add_linalg_rules(RuleTable& t) {
  t["stablehlo.fft"] = fft;
  t["stablehlo.cholesky"] = cholesky;
  t["stablehlo.triangular_solve"] = triangular_solve;
  t["stablehlo.batch_norm_inference"] = batch_norm_inference;
  t["stablehlo.batch_norm_training"] = batch_norm_training;
  t["stablehlo.batch_norm_grad"] = batch_norm_grad;
}

}  // namespace tessera::hlo
