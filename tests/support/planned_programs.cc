// SPDX-License-Identifier: Apache-2.0
#include "support/planned_programs.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/strings.h"
#include "support/engine_programs.h"

namespace tessera::test {

namespace {

const AbstractMesh& line() {
  static const auto* mesh = new AbstractMesh{{"x", 8}};
  return *mesh;
}
const AbstractMesh& tall() {
  static const auto* mesh = new AbstractMesh{{"x", 4}, {"y", 2}};
  return *mesh;
}
const AbstractMesh& wide() {
  static const auto* mesh = new AbstractMesh{{"x", 2}, {"y", 4}};
  return *mesh;
}
const std::vector<std::string> kBoth{"x", "y"};

Array normal(std::int64_t seed, const Shape& shape, double scale = 1) {
  return scale * random::normal(random::key(seed), shape);
}
// Of a matrix of parameters: by the square root of what it sums over.
Array weights(std::int64_t seed, const Shape& shape) {
  return normal(seed, shape, 1 / std::sqrt(static_cast<double>(shape[shape.size() - 2])));
}

// A step of gradient descent in all arguments but the last `data`, and the loss.
std::function<Arrays(const Arrays&)> descent(const std::function<Array(const Arrays&)>& loss, std::size_t data = 1) {
  return [=](const Arrays& all) {
    const auto split = all.end() - static_cast<std::ptrdiff_t>(data);
    const Arrays parameters(all.begin(), split), rest(split, all.end());
    auto [value, g] = value_and_grad([&](const Arrays& p) {
      Arrays joined = p;
      joined.insert(joined.end(), rest.begin(), rest.end());
      return loss(joined);
    })(parameters);
    Arrays out{value};
    for (std::size_t i = 0; i < parameters.size(); ++i) out.push_back(parameters[i] - 0.1 * g[i]);
    return out;
  };
}

// --- nets ----------------------------------------------------------------------------------------------------------

PlannedProgram perceptron(const std::string& name, std::int64_t rows, std::int64_t width, std::int64_t hidden) {
  PlannedProgram p{.name = name};
  p.f = descent([](const Arrays& a) {
    Array h = a.back();
    for (std::size_t i = 0; i + 1 < a.size(); i += 2) h = h + matmul(tanh(matmul(h, a[i])), a[i + 1]);
    return mean(h * h);
  });
  for (std::int64_t l = 0; l < 2; ++l) {
    p.arguments.push_back(weights(2 * l, {width, hidden}));
    p.arguments.push_back(weights(2 * l + 1, {hidden, width}));
  }
  p.arguments.push_back(normal(9, {rows, width}));
  const P cols(none, "x"), by_rows("x", none), whole;
  p.plans = {
      {"data parallel", line(), {whole, whole, whole, whole, by_rows}},
      {"tensor parallel", line(), {cols, by_rows, cols, by_rows, whole}},
      {"parameters sharded", line(), {by_rows, cols, by_rows, cols, by_rows}},
      {"parameters sharded by rows", line(), {by_rows}},
      {"both", tall(), {P(none, "y"), P("y"), P(none, "y"), P("y"), by_rows}},
      {"both, wide", wide(), {P(none, "y"), P("y"), P(none, "y"), P("y"), by_rows}},
      {"both, sharded", tall(), {P("x", "y"), P("y", "x"), P("x", "y"), P("y", "x"), by_rows}},
  };
  return p;
}

PlannedProgram transformer() {
  constexpr std::int64_t kBatch = 16, kLength = 32, kWidth = 128, kHeads = 8, kLayers = 2, kVocabulary = 256;
  PlannedProgram p{.name = "transformer"};
  p.f = descent([](const Arrays& a) {
    Array x = take(a[0], a.back(), 0);
    for (std::size_t l = 0; l < kLayers; ++l) {
      const Array* w = &a[1 + 4 * l];
      const auto qkv = split(einsum("btd,dhe->bhte", {x, w[0]}), 3, -1);
      const Array scores = einsum("bhqe,bhke->bhqk", {qkv[0], qkv[1]}) * 0.25;
      const Array mixed = einsum("bhqk,bhke->bqhe", {softmax(scores, -1), qkv[2]});
      x = x + einsum("bqhe,hed->bqd", {mixed, w[1]});
      x = x + matmul(nn::relu(matmul(x, w[2])), w[3]);
    }
    const Array logp = log_softmax(matmul(x, transpose(a[0])), -1);
    return -mean(take_along_axis(logp, expand_dims(roll(a.back(), -1, 1), {-1}), -1));
  });
  p.arguments.push_back(normal(1, {kVocabulary, kWidth}, 0.1));
  std::vector<P> data(1), tensor{P()}, both{P()}, sharded{P("x")};
  for (std::int64_t l = 0; l < kLayers; ++l) {
    const std::int64_t e = kWidth / kHeads;
    p.arguments.push_back(normal(10 + 4 * l, {kWidth, kHeads, 3 * e}, 0.1));
    p.arguments.push_back(normal(11 + 4 * l, {kHeads, e, kWidth}, 0.1));
    p.arguments.push_back(normal(12 + 4 * l, {kWidth, 4 * kWidth}, 0.1));
    p.arguments.push_back(normal(13 + 4 * l, {4 * kWidth, kWidth}, 0.1));
    data.resize(data.size() + 4);
    for (auto* plan : {&tensor, &both}) {
      const char* axis = plan == &tensor ? "x" : "y";
      plan->insert(plan->end(), {P(none, axis), P(axis), P(none, axis), P(axis)});
    }
    sharded.insert(sharded.end(), 4, P("x"));
  }
  p.arguments.push_back(random::randint(random::key(3), {kBatch, kLength}, 0, kVocabulary));
  tensor.emplace_back();
  for (auto* plan : {&data, &both, &sharded}) plan->emplace_back("x");
  p.plans = {{"data parallel", line(), data},
             {"tensor parallel", line(), tensor},
             {"both", tall(), both},
             {"both, wide", wide(), both},
             {"parameters sharded", line(), sharded}};
  return p;
}

PlannedProgram experts() {
  constexpr std::int64_t kTokens = 1024, kWidth = 64, kHidden = 256, kExperts = 8;
  PlannedProgram p{.name = "experts"};
  p.f = descent([](const Arrays& a) {
    const Array& x = a.back();
    const Array gates = softmax(matmul(x, a[0]), -1);
    const Array best = max(gates, {.axis = Dims{-1}, .keepdims = true});
    const Array chosen = where(greater_equal(gates, best), gates, 0.0);
    const Array hidden = nn::relu(einsum("td,edh->eth", {x, a[1]}));
    const Array y = einsum("eth,ehd,te->td", {hidden, a[2], chosen});
    return mean(y * y);
  });
  p.arguments = {weights(1, {kWidth, kExperts}), weights(2, {kExperts, kWidth, kHidden}),
                 weights(3, {kExperts, kHidden, kWidth}), normal(4, {kTokens, kWidth})};
  p.plans = {{"data parallel", line(), {P(), P(), P(), P("x")}},
             {"expert parallel", line(), {P(), P("x"), P("x"), P()}},
             {"experts and tokens over one axis", line(), {P(), P("x"), P("x"), P("x")}},
             {"both", tall(), {P(), P("y"), P("y"), P("x")}},
             {"both, wide", wide(), {P(), P("y"), P("y"), P("x")}},
             {"hidden units split", line(), {P(), P(none, none, "x"), P(none, "x"), P()}}};
  return p;
}

PlannedProgram convolutions() {
  PlannedProgram p{.name = "convolution net"};
  p.f = descent([](const Arrays& a) {
    Array h = a.back();
    for (std::size_t l = 0; l < 2; ++l) h = nn::relu(lax::conv(h, a[l], {1, 1}, lax::PadMode::Same));
    const Array pooled = mean(h, {.axis = Dims{2, 3}});
    return mean(square(matmul(pooled, a[2])));
  });
  p.arguments = {normal(1, {32, 8, 3, 3}, 0.1), normal(2, {32, 32, 3, 3}, 0.1), weights(3, {32, 64}),
                 normal(4, {32, 8, 16, 16})};
  p.plans = {{"data parallel", line(), {P(), P(), P(), P("x")}},
             {"channels split", line(), {P("x"), P(none, "x"), P(), P()}},
             {"rows of images split", line(), {P(), P(), P(), P(none, none, "x")}},
             {"images and rows", tall(), {P(), P(), P(), P("x", none, "y")}},
             {"images and channels", tall(), {P("y"), P(none, "y"), P(), P("x")}},
             {"parameters sharded", line(), {P("x"), P("x"), P("x"), P("x")}}};
  return p;
}

PlannedProgram recurrent() {
  constexpr std::int64_t kSteps = 12, kRows = 256, kWidth = 128;
  PlannedProgram p{.name = "recurrent net"};
  p.f = descent([](const Arrays& a) {
    const auto cell = [&](const Array& h, const Array& x) {
      const Array next = tanh(matmul(h, a[0]) + matmul(x, a[1]));
      return std::pair(next, sum(next * next));
    };
    return mean(scan(cell, zeros({kRows, kWidth}), a.back()).second);
  });
  p.arguments = {weights(1, {kWidth, kWidth}), weights(2, {kWidth, kWidth}), normal(3, {kSteps, kRows, kWidth})};
  p.plans = {{"data parallel", line(), {P(), P(), P(none, "x")}},
             {"tensor parallel", line(), {P(none, "x"), P(none, "x"), P()}},
             {"both", tall(), {P(none, "y"), P(none, "y"), P(none, "x")}},
             {"parameters sharded", line(), {P("x"), P("x"), P(none, "x")}}};
  return p;
}

PlannedProgram embeddings() {
  constexpr std::int64_t kWords = 4096, kWidth = 64, kRows = 2048, kClasses = 128;
  PlannedProgram p{.name = "embeddings"};
  p.f = descent(
      [](const Arrays& a) {
        const Array logp = log_softmax(matmul(take(a[0], a[2], 0), a[1]), -1);
        return -mean(take_along_axis(logp, expand_dims(a[3], {-1}), -1));
      },
      2);
  p.arguments = {normal(1, {kWords, kWidth}, 0.1), weights(2, {kWidth, kClasses}),
                 random::randint(random::key(3), {kRows}, 0, kWords),
                 random::randint(random::key(4), {kRows}, 0, kClasses)};
  p.plans = {{"data parallel", line(), {P(), P(), P("x"), P("x")}},
             {"table split by words", line(), {P("x"), P(), P("x"), P("x")}},
             {"table split by features", line(), {P(none, "x"), P("x"), P(), P()}},
             {"both", tall(), {P(none, "y"), P("y"), P("x"), P("x")}}};
  return p;
}

// --- other computations --------------------------------------------------------------------------------------------

PlannedProgram fourier() {
  PlannedProgram p{.name = "Fourier transforms"};
  p.f = [](const Arrays& a) { return Arrays{real(fft::ifft2(fft::fft2(a[1]) * expand_dims(exp(-a[0] * a[0]), {0})))}; };
  p.arguments = {normal(1, {128, 128}), normal(2, {16, 128, 128})};
  p.plans = {{"fields split", line(), {P(), P("x")}},
             {"rows split", line(), {P("x"), P(none, "x")}},
             {"columns split", line(), {P(none, "x"), P(none, none, "x")}},
             {"fields and rows", tall(), {P("y"), P("x", "y")}}};
  return p;
}

PlannedProgram conjugate_gradients() {
  constexpr std::int64_t kSize = 1024;
  PlannedProgram p{.name = "conjugate gradients"};
  p.f = [](const Arrays& a) {
    const auto body = [&](const Array&, const std::tuple<Array, Array, Array>& s) {
      const auto& [x, r, d] = s;
      const Array q = matmul(a[0], d);
      const Array rr = sum(r * r);
      const Array alpha = rr / sum(d * q);
      const Array next = r - alpha * q;
      return std::tuple(x + alpha * d, next, next + sum(next * next) / rr * d);
    };
    return Arrays{std::get<0>(fori_loop(0, 8, body, std::tuple(zeros({kSize}), a[1], a[1])))};
  };
  const Array m = normal(1, {kSize, kSize}, 0.01);
  p.arguments = {matmul(m, transpose(m)) + eye(kSize), normal(2, {kSize})};
  p.plans = {{"rows split", line(), {P("x"), P("x")}},
             {"rows split, vectors whole", line(), {P("x"), P()}},
             {"columns split", line(), {P(none, "x"), P("x")}},
             {"blocks", tall(), {P("x", "y"), P("x")}},
             {"blocks, wide", wide(), {P("x", "y"), P("y")}}};
  return p;
}

PlannedProgram clusters() {
  constexpr std::int64_t kPoints = 8192, kCentres = 64, kSpace = 32;
  PlannedProgram p{.name = "clusters of points"};
  p.f = [](const Arrays& a) {
    const Array distances = sum(square(a[0]), {.axis = Dims{1}}) - 2.0 * matmul(a[1], transpose(a[0]));
    const Array member = nn::one_hot(argmin(distances, 1), kCentres);
    const Array sums = matmul(transpose(member), a[1]);
    return Arrays{sums / maximum(expand_dims(sum(member, {.axis = Dims{0}}), {-1}), 1.0)};
  };
  p.arguments = {normal(1, {kCentres, kSpace}), normal(2, {kPoints, kSpace})};
  p.plans = {{"points split", line(), {P(), P("x")}},
             {"centres split", line(), {P("x"), P()}},
             {"both", tall(), {P("y"), P("x")}},
             {"coordinates split", line(), {P(none, "x"), P(none, "x")}}};
  return p;
}

PlannedProgram stencil() {
  PlannedProgram p{.name = "stencil"};
  p.f = [](const Arrays& a) {
    Array t = a[1];
    for (int i = 0; i < 4; ++i) {
      t = t + a[0] * (roll(t, 1, 0) + roll(t, -1, 0) + roll(t, 1, 1) + roll(t, -1, 1) - 4.0 * t);
    }
    return Arrays{t};
  };
  p.arguments = {abs(normal(1, {1024, 1024}, 0.02)), normal(2, {1024, 1024})};
  p.plans = {{"rows split", line(), {P("x")}},
             {"columns split", line(), {P(none, "x")}},
             {"blocks", tall(), {P("x", "y")}},
             {"blocks, wide", wide(), {P("x", "y")}}};
  return p;
}

// --- random programs -----------------------------------------------------------------------------------------------

// The batch is the last argument, matrices of parameters come before it.
class RandomNet {
 public:
  explicit RandomNet(std::uint64_t seed) : rng_(seed), seed_(static_cast<std::int64_t>(seed)) {}

  PlannedProgram run() {
    const std::int64_t rows = extent(), width = extent();
    std::int64_t now = width;
    const int depth = 2 + static_cast<int>(rng_() % 3);
    for (int i = 0; i < depth; ++i) add_layer(now);
    PlannedProgram p{.name = str("random ", seed_)};
    const auto layers = layers_;
    const auto forward = [layers](const Arrays& a) {
      Array h = a.back();
      std::size_t next = 0;
      for (const auto& layer : layers) h = layer(h, a, next);
      return h;
    };
    if (seed_ % 2 == 0) {
      p.f = [forward](const Arrays& a) { return Arrays{forward(a)}; };
    } else {
      p.f = descent([forward](const Arrays& a) { return mean(square(forward(a))); });
    }
    p.arguments = parameters_;
    p.arguments.push_back(normal(seed_ * 100 + 99, {rows, width}));
    p.plans = plans(parameters_.size());
    return p;
  }

 private:
  using Layer = std::function<Array(const Array& h, const Arrays& a, std::size_t& next)>;

  std::int64_t extent() { return std::int64_t{64} << rng_() % 5; }

  void add_layer(std::int64_t& width) {
    switch (rng_() % 5) {
      case 0:
      case 1: {  // a product
        const std::int64_t out = extent();
        parameters_.push_back(weights(seed_ * 100 + static_cast<std::int64_t>(parameters_.size()), {width, out}));
        width = out;
        layers_.push_back(
            [](const Array& h, const Arrays& a, std::size_t& next) { return tanh(matmul(h, a[next++])); });
        break;
      }
      case 2: {  // one that comes back to the width, on top of what there was
        const std::int64_t hidden = extent();
        const auto count = static_cast<std::int64_t>(parameters_.size());
        parameters_.push_back(weights(seed_ * 100 + count, {width, hidden}));
        parameters_.push_back(weights(seed_ * 100 + count + 1, {hidden, width}));
        layers_.push_back([](const Array& h, const Arrays& a, std::size_t& next) {
          const Array inner = nn::relu(matmul(h, a[next]));
          next += 2;
          return h + matmul(inner, a[next - 1]);
        });
        break;
      }
      case 3:  // rows among each other
        layers_.push_back([](const Array& h, const Arrays&, std::size_t&) {
          return matmul(softmax(matmul(h, transpose(h)) * 0.01, -1), h);
        });
        break;
      default:
        layers_.push_back([](const Array& h, const Arrays&, std::size_t&) {
          const Array c = h - mean(h, {.axis = Dims{-1}, .keepdims = true});
          return c * rsqrt(mean(c * c, {.axis = Dims{-1}, .keepdims = true}) + 1e-3);
        });
    }
  }

  static std::vector<WrittenPlan> plans(std::size_t count) {
    std::vector<WrittenPlan> out;
    auto add = [&](const std::string& name, const AbstractMesh& mesh, const P& even, const P& odd, const P& batch) {
      WrittenPlan plan{name, mesh, {}};
      for (std::size_t i = 0; i < count; ++i) plan.arguments.push_back(i % 2 == 0 ? even : odd);
      plan.arguments.push_back(batch);
      out.push_back(std::move(plan));
    };
    const P whole, rows("x"), cols(none, "x");
    add("data parallel", line(), whole, whole, rows);
    add("columns of the batch", line(), rows, whole, cols);
    add("tensor parallel", line(), cols, rows, whole);
    add("tensor parallel, rows first", line(), rows, cols, cols);
    add("parameters sharded by rows", line(), rows, rows, rows);
    add("parameters sharded by columns", line(), cols, cols, rows);
    for (const auto* mesh : {&tall(), &wide()}) {
      add("both", *mesh, P(none, "y"), P("y"), rows);
      add("both, rows first", *mesh, P("y"), P(none, "y"), rows);
      add("both, sharded", *mesh, P("x", "y"), P("y", "x"), rows);
      add("everything over both axes", *mesh, P(kBoth), P(kBoth), P(kBoth));
    }
    return out;
  }

  std::mt19937_64 rng_;
  std::int64_t seed_;
  std::vector<Layer> layers_;
  Arrays parameters_;
};

// On the current client.
Arrays placed_anew(const Arrays& list) {
  Arrays out;
  for (const auto& a : list) out.emplace_back(a.host());
  return out;
}

// The largest difference beside the largest element.
double difference(const Array& found, const Array& wanted) {
  const auto a = found.host().to_vector<float>(), b = wanted.host().to_vector<float>();
  double most = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    size = std::max(size, std::abs(static_cast<double>(b[i])));
  }
  return std::isfinite(most) ? most / std::max(size, 1e-30) : HUGE_VAL;
}

}  // namespace

std::vector<PlannedProgram> real_programs() {
  return {perceptron("perceptron, many rows", 4096, 128, 256),
          perceptron("perceptron, wide layers", 64, 512, 1024),
          transformer(),
          experts(),
          convolutions(),
          recurrent(),
          embeddings(),
          fourier(),
          conjugate_gradients(),
          clusters(),
          stencil()};
}

PlannedProgram random_planned_program(std::uint64_t seed) { return RandomNet(seed).run(); }

ClusterModel slow_node() {
  ClusterModel c;
  c.name = "slow node";
  c.source = "assumed";
  c.device = {"slow", {{DType::F32, 2e10}, {DType::C64, 2e10}}, 2e9, 8e9, std::int64_t{1} << 30, 1e-6};
  c.levels = {{"switch", ClusterLevel::Kind::Switch, {8}, false, 2e-6, 2e9}};
  return c;
}

std::string search_fault(const PlannedProgram& p, std::string& report) {
  const ClusterModel node = slow_node();
  const ClientScope scope(client_with(8));
  const Arrays arguments = placed_anew(p.arguments);
  auto found = jit(p.f, {.name = "found", .in_shardings = automatic(node)});
  const auto lowered = found.lower(arguments);
  const ShardingPlan& plan = lowered.sharding_plan();
  double best = plan.replicated_step;
  std::string best_name = "replicated";
  for (const auto& w : p.plans) {
    std::vector<ShardingArg> in;
    for (std::size_t i = 0; i < p.arguments.size(); ++i) {
      in.emplace_back(NamedSharding(w.mesh, w.arguments[std::min(i, w.arguments.size() - 1)]));
    }
    const double step = jit(p.f, {.name = w.name, .in_shardings = in}).lower(arguments).simulate(node).step;
    if (step >= best) continue;
    best = step;
    best_name = w.name;
  }
  report = str(p.name, ": found ", plan.step * 1e6, " us; by hand ", best * 1e6, " (", best_name, "); replicated ",
               plan.replicated_step * 1e6, "; ", plan.constraints.size(), " constraints; ", plan.candidates,
               " candidates in ", plan.seconds, " s");
  std::string faults;
  if (plan.step > best * (1 + 1e-9)) faults += str("slower than ", best_name, "\n", plan.text);
  const Arrays values = found(arguments);
  Arrays wanted;
  {
    const ClientScope one(client_with(1));
    wanted = jit(p.f)(placed_anew(p.arguments));
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (values[i].sharding()->num_devices() != 8) faults += str("result ", i, " is not on all devices\n");
    const double d = difference(values[i], wanted[i]);
    if (d > p.tolerance) faults += str("result ", i, " differs by ", d, " of its size from that of one device\n");
  }
  return faults;
}

}  // namespace tessera::test
