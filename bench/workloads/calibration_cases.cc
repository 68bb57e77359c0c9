// SPDX-License-Identifier: Apache-2.0
// Programs of the benchmark and the examples, each under several plans.
#include <cmath>
#include <utility>

#include "calibration.h"
#include "gpt.h"
#include "inputs.h"
#include "rowwise.h"

namespace tessera::bench {

namespace {

using Arrays = std::vector<Array>;
using Cases = std::vector<CalibrationCase>;
using Plan = std::pair<std::string, std::vector<P>>;

const SpecEntry kAll(std::vector<std::string>{"x", "y"});

// A function of arguments that are placed.
template <class F, class... Args>
PlannedProgram planned(const F& f, const Args&... args) {
  auto compiled = jit(f);
  return {[=](const ClusterModel& c) { return compiled.lower(args...).simulate(c); },
          [run = call(compiled, args...)] { run(); }};
}

// A program whose plans differ in where the arguments are: on a mesh of axes x and y, the latter of two.
template <class F>
void add(Cases& list, std::int64_t devices, const std::string& program, const std::vector<Shape>& shapes,
         const std::vector<Plan>& plans, const F& f) {
  for (const auto& [plan, specs] : plans) {
    list.push_back({program, plan, [=, specs = specs] {
                      const std::int64_t y = devices > 1 ? 2 : 1;
                      const Mesh mesh = make_mesh({devices / y, y}, {"x", "y"});
                      Arrays args;
                      for (std::size_t i = 0; i < shapes.size(); ++i) {
                        args.push_back(device_put(fill(shapes[i], i, 0.1F), NamedSharding(mesh, specs[i])));
                      }
                      return planned(f, args);
                    }});
  }
}

void add_products(Cases& list, std::int64_t n) {
  add(list, n, "matmul 1024", {{1024, 1024}, {1024, 1024}},
      {{"rows x columns", {P("x", none), P(none, "y")}},
       {"rows", {P(kAll), P()}},
       {"columns", {P(), P(none, kAll)}},
       {"contracted", {P(none, kAll), P(kAll)}},
       {"rows, contracted", {P("x", "y"), P("y")}}},
      [](const Arrays& a) { return matmul(a[0], a[1]); });
}

// A training step of three layers.
Arrays mlp_step(const Arrays& a) {
  auto loss = [x = a[3], y = a[4]](const Arrays& w) {
    Array h = tanh(matmul(tanh(matmul(x, w[0])), w[1]));
    return mean(square(matmul(h, w[2]) - y));
  };
  const Arrays w(a.begin(), a.begin() + 3);
  Arrays g = grad(loss)(w);
  for (std::size_t i = 0; i < w.size(); ++i) g[i] = w[i] - 0.1 * g[i];
  return g;
}

void add_mlp(Cases& list, std::int64_t n) {
  const P rows(kAll);
  add(list, n, "mlp step", {{256, 1024}, {1024, 1024}, {1024, 256}, {1024, 256}, {1024, 256}},
      {{"batch x, model y", {P(none, "y"), P("y"), P(), P("x"), P("x")}},
       {"batch", {P(), P(), P(), rows, rows}},
       {"model", {P(none, kAll), P(kAll), P(), P(), P()}},
       {"batch, parameters scattered", {rows, rows, rows, rows, rows}},
       {"batch y, model x", {P(none, "x"), P("x"), P(), P("y"), P("y")}}},
      mlp_step);
}

void add_gpt(Cases& list, std::int64_t n) {
  for (std::int64_t model : {2, 1, 4}) {
    if (n % model != 0) continue;
    list.push_back({"gpt step", "batch " + std::to_string(n / model) + ", model " + std::to_string(model), [n, model] {
                      auto [state, tokens] = gpt::state(make_mesh({n / model, model}, {"x", "y"}));
                      return planned([](const gpt::State& s, const Array& t) { return gpt::step(s, t); }, state,
                                     tokens);
                    }});
  }
}

Array attention(const Arrays& a) {
  Array scores = einsum("bhqd,bhkd->bhqk", {a[0], a[1]}) * 0.125;
  return einsum("bhqk,bhkd->bhqd", {softmax(scores, -1), a[2]});
}

void add_attention(Cases& list, std::int64_t n) {
  const P batch(kAll);
  const P heads(none, kAll);
  const P queries(none, none, kAll);
  const Shape shape{8, 8, 256, 64};
  add(list, n, "attention", {shape, shape, shape},
      {{"batch x, heads y", {P("x", "y"), P("x", "y"), P("x", "y")}},
       {"batch", {batch, batch, batch}},
       {"heads", {heads, heads, heads}},
       {"queries", {queries, P(), P()}},
       {"keys", {P(), queries, queries}}},
      attention);
}

void add_rows(Cases& list, std::int64_t n) {
  const std::vector<Plan> plans = {{"rows", {P(kAll)}}, {"columns", {P(none, kAll)}}, {"both", {P("x", "y")}}};
  add(list, n, "softmax 8192x1024", {{8192, 1024}}, plans, [](const Arrays& a) { return softmax(a[0], -1); });
  add(list, n, "layer norm 8192x1024", {{8192, 1024}}, plans, [](const Arrays& a) { return layernorm(a[0]); });
  add(list, n, "gelu 64 MB", {{4096, 4096}}, {plans[0]}, [](const Arrays& a) { return gelu(a[0]); });
  add(list, n, "sum 64 MB", {{4096, 4096}}, {plans[0]}, [](const Arrays& a) { return sum(a[0]); });
  add(list, n, "sort 64x16384", {{64, 16384}}, {plans[0], {"columns", {P(none, kAll)}}},
      [](const Arrays& a) { return sort(a[0], -1); });
  add(list, n, "top 8 of 64x16384", {{64, 16384}}, {plans[0], {"columns", {P(none, kAll)}}},
      [](const Arrays& a) { return lax::top_k(a[0], 8).first; });
}

void add_convolutions(Cases& list, std::int64_t n) {
  const lax::ConvOptions options{
      .strides = {1, 1}, .pad_mode = lax::PadMode::Same, .dimension_numbers = {"NHWC", "HWIO", "NHWC"}};
  add(list, n, "convolution", {{32, 32, 32, 64}, {3, 3, 64, 64}},
      {{"batch", {P(kAll), P()}}, {"channels", {P(), P(none, none, none, kAll)}}, {"image rows", {P(none, kAll), P()}}},
      [options](const Arrays& a) { return lax::conv_general_dilated(a[0], a[1], options); });
}

// Poisson's equation on a torus, as in examples/fft2.cc.
Array poisson(const Arrays& a) {
  Array wave = 2.0 * cos(2 * 3.14159265358979 * arange(512, float32) / 512) - 2.0;
  Array both = expand_dims(wave, 1) + expand_dims(wave, 0);
  Array spectrum = where(both == 0.0, 1.0, both);
  return real(fft::ifft2(-fft::fft2(a[0]) / spectrum));
}

// Conjugate gradients, as in examples/linear_solve.cc.
Array solve(const Arrays& in) {
  const Array& a = in[0];
  const Array& b = in[1];
  using Search = std::vector<Array>;  // x, residual, direction, square of the residual's norm
  auto step = [&](const Array&, const Search& s) {
    Array image = matmul(a, s[2]) + s[2];
    Array length = s[3] / vdot(s[2], image);
    Array residual = s[1] - length * image;
    Array square = vdot(residual, residual);
    return Search{s[0] + length * s[2], residual, residual + square / s[3] * s[2], square};
  };
  return fori_loop(0, 50, step, Search{zeros_like(b), b, b, vdot(b, b)})[0];
}

Array shifted(const Array& u, std::size_t dim, std::int64_t by) {
  std::vector<lax::PadDim> pads(2);
  pads[dim] = {by, -by};
  return lax::pad(u, 0.0F, pads);
}

// The heat equation, as in examples/heat.cc.
Array heat(const Arrays& a) {
  auto step = [](const Array&, const Array& u) {
    Array around = shifted(u, 0, 1) + shifted(u, 0, -1) + shifted(u, 1, 1) + shifted(u, 1, -1);
    return u + 0.2 * (around - 4.0 * u);
  };
  return fori_loop(0, 50, step, a[0]);
}

void add_solvers(Cases& list, std::int64_t n) {
  const std::vector<Plan> plans = {{"both", {P("x", "y")}}, {"rows", {P(kAll)}}, {"columns", {P(none, kAll)}}};
  add(list, n, "poisson 512x512", {{512, 512}}, plans, poisson);
  add(list, n, "conjugate gradients 1024", {{1024, 1024}, {1024}},
      {{"both", {P("x", "y"), P("x")}}, {"rows", {P(kAll), P()}}, {"columns", {P(none, kAll), P()}}}, solve);
  add(list, n, "heat 1024x1024", {{1024, 1024}}, plans, heat);
}

// A layer of eight experts, each token through the one that its router chooses (examples/mixture_of_experts.cc, dense).
Array mixture(const Arrays& a) {
  const Array& x = a[0];
  Array probability = softmax(matmul(x, a[1]));
  Array chosen = one_hot(argmax(probability, 1), 8) * probability;
  Array hidden = nn::silu(einsum("tw,ewh->eth", {x, a[2]}));
  return einsum("eth,ehw,te->tw", {hidden, a[3], chosen});
}

void add_experts(Cases& list, std::int64_t n) {
  add(list, n, "mixture of experts", {{1024, 128}, {128, 8}, {8, 128, 256}, {8, 256, 128}},
      {{"tokens x, experts y", {P("x"), P(), P("y"), P("y")}},
       {"tokens", {P(kAll), P(), P(), P()}},
       {"experts", {P(), P(), P(kAll), P(kAll)}},
       {"hidden", {P(), P(), P(none, none, kAll), P(none, kAll)}}},
      mixture);
}

}  // namespace

std::vector<CalibrationCase> calibration_cases(std::int64_t devices) {
  constexpr std::int64_t kMost = 8;
  if (devices < 1 || devices > kMost || (devices & (devices - 1)) != 0) {
    throw ValueError("--check: --devices is " + std::to_string(devices) +
                     "; expected 1, 2, 4 or 8, over which the programs' dimensions are split");
  }
  Cases out;
  add_gpt(out, devices);
  add_mlp(out, devices);
  add_attention(out, devices);
  add_rows(out, devices);
  add_products(out, devices);
  add_convolutions(out, devices);
  add_solvers(out, devices);
  add_experts(out, devices);
  return out;
}

}  // namespace tessera::bench
