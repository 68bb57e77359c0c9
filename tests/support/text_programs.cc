// SPDX-License-Identifier: Apache-2.0
#include "support/text_programs.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/strings.h"
#include "bench/workloads/gpt.h"
#include "hlo/export/export.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/transform/interpret.h"
#include "support/collective_case.h"
#include "support/engine_programs.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "tessera/stablehlo.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

using Leaves = std::vector<Array>;
using LeafFunction = std::function<Leaves(const Leaves&)>;

HostArray sample_input(std::mt19937_64& random, const ir::Type& t) {
  HostArray a(t.dtype, t.shape);
  ir::View v{t.dtype, t.shape, a.data()};
  std::uniform_real_distribution<double> real(0.1, 0.9);
  for (std::int64_t i = 0; i < a.size(); ++i) {
    switch (ops::wide_kind(t.dtype)) {
      case ops::Wide::Bool:
        ops::store_bool(v, i, random() % 2 != 0);
        break;
      case ops::Wide::Float:
        ops::store_float(v, i, real(random));
        break;
      case ops::Wide::Complex:
        ops::store_complex(v, i, {real(random), real(random)});
        break;
      default:
        ops::store_int(v, i, static_cast<std::int64_t>(random() % 3));
    }
  }
  return a;
}

std::vector<HostArray> hosts(const Leaves& x) {
  std::vector<HostArray> out;
  for (const auto& a : x) out.push_back(a.host());
  return out;
}
double tolerance_of(const std::vector<HostArray>& arrays) {
  double worst = 2e-5;
  for (const auto& a : arrays) {
    if (a.dtype() == DType::F16) worst = std::max(worst, 5e-3);
    if (a.dtype() == DType::BF16) worst = std::max(worst, 3e-2);
  }
  return worst;
}

ir::AxisSharding sharding_of(const ir::Layout& l, const ir::NamedMesh& mesh) {
  ir::AxisSharding s;
  s.mesh = mesh.name;
  for (const auto& dim : l.dims) {
    ir::DimSharding d;
    for (auto a : dim) d.axes.push_back({mesh.axes[a]});
    s.dims.push_back(d);
  }
  return s;
}
// Nothing for programs with an op that has no text.
std::optional<TextProgram> text_of(const RandomProgram& p, std::string name) {
  ir::Module m = p.module;
  for (auto* ports : {&m.inputs, &m.outputs}) {
    for (auto& port : *ports) {
      if (port.layout) port.sharding = sharding_of(*port.layout, m.meshes[0]);
    }
  }
  try {
    auto expected = p.expected.empty() ? ops::interpret(*m.graph, p.args) : p.expected;
    return TextProgram{std::move(name), hlo::export_module(m), p.args, std::move(expected), 1e-3, false};
  } catch (const UnimplementedError&) {
    return std::nullopt;
  }
}

// What each device has of an array, one index a device.
HostArray stacked_shards(const Array& a) {
  auto shards = a.addressable_shards();
  Shape shape = shards.front().data().value().shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(shards.size()));
  HostArray out(a.dtype(), shape);
  auto* to = static_cast<char*>(out.data());
  for (const auto& s : shards) {
    HostArray shard = s.data().value().host();
    std::memcpy(to, shard.data(), static_cast<std::size_t>(shard.nbytes()));
    to += shard.nbytes();
  }
  return out;
}
// The program that each device runs of a program over several, where all shards are of one size.
void add_device_program(const ProgramSink& sink, const TextProgram& whole) {
  auto program = StablehloProgram::parse(whole.text, whole.name);
  if (program.num_devices() == 1) return;
  TextProgram p;
  p.name = "device." + whole.name;
  p.tolerance = whole.tolerance;
  p.replicas = true;
  auto args = program.place(whole.args);
  try {
    p.text = program.device_text(args);
  } catch (const UnimplementedError&) {
    return;
  }
  for (const auto& a : args) p.args.push_back(stacked_shards(a));
  for (const auto& r : program(args)) p.expected.push_back(stacked_shards(r));
  sink(std::move(p));
}

void add(const ProgramSink& sink, const std::string& name, const LeafFunction& f, const Leaves& args,
         double tolerance = 0, JitOptions options = {}) {
  auto program = jit(f, std::move(options));
  auto expected = hosts(program(args));
  TextProgram p{name, program.lower(args).as_text(), hosts(args), expected, tolerance, false};
  if (tolerance == 0) p.tolerance = tolerance_of(expected);
  if (!name.starts_with("map.")) add_device_program(sink, p);
  sink(std::move(p));
}

}  // namespace

void keep(const TextProgram& p) {
  const char* all = std::getenv("TESSERA_PROGRAMS_DIR");
  if (all == nullptr) return;
  std::string folder = str(all, "/", p.name);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/program.mlir") << p.text;
  std::ofstream(folder + "/tolerance.txt") << p.tolerance << "\n";
  auto put = [&](const std::string& file, const char* prefix, const std::vector<HostArray>& arrays) {
    std::map<std::string, HostArray> named;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      named[str(prefix, i)] = arrays[i].dtype() == DType::BF16 ? arrays[i].astype(DType::F32) : arrays[i];
    }
    save_npz(folder + "/" + file, named);
  };
  put("inputs.npz", "arg", p.args);
  put("outputs.npz", "out", p.expected);
}

std::vector<std::string> op_programs(const ProgramSink& sink) {
  std::vector<std::string> missing;
  std::mt19937_64 random(7);
  for (const auto* op : ops::all()) {
    if (!op->has_reference() || op->traits().collective) continue;
    int number = 0;
    for (const auto& sample : op->samples()) {
      ir::Builder b;
      ir::Values in;
      std::vector<HostArray> args;
      for (const auto& t : sample.in) {
        in.push_back(b.input(t));
        args.push_back(sample_input(random, t));
      }
      auto graph = b.finish_shared(b.add(*op, in, sample.attrs));
      try {
        std::string text = hlo::export_module(ir::module_of(graph));
        auto expected = ops::interpret(*graph, args);
        double tolerance = tolerance_of(expected);
        sink({str("op.", op->name(), "_", number++), std::move(text), std::move(args), std::move(expected), tolerance,
              false});
      } catch (const UnimplementedError&) {
        missing.emplace_back(op->name());
        break;
      }
    }
  }
  return missing;
}

void random_programs(const ProgramSink& sink, int count) {
  for (const auto& mesh : test_meshes()) {
    for (int i = 0; i < count; ++i) {
      auto seed = static_cast<std::uint64_t>(1000 + i);
      std::string name = str("random.", mesh.sizes.size(), "d_", i);
      RandomProgram p = random_program(seed, mesh, {.samples = i % 2 == 0});
      if (auto whole = text_of(p, name)) {
        add_device_program(sink, *whole);
        sink(std::move(*whole));
      }
      if (i % 3 != 0) continue;
      RandomProgram g = gradient_of(random_program(seed, mesh, {.smooth = true}));
      if (!g.module.graph) continue;
      if (auto whole = text_of(g, name + "_gradient")) sink(std::move(*whole));
    }
  }
}

void map_programs(const ProgramSink& sink) {
  for (const auto& c : collective_cases("cases.jsonl")) {
    // Ragged exchanges are not read; arrays that a body captures would be further arguments.
    bool left_out =
        c.at("op") == "ragged_all_to_all" || c.at("id").get<std::string>().find("const") != std::string::npos;
    if (!c.contains("mesh_shape") || c.at("level") != "core" || left_out) continue;
    auto sizes = c.at("mesh_shape").get<Shape>();
    std::int64_t n = 1;
    for (auto s : sizes) n *= s;
    Mesh mesh = make_mesh(sizes, c.at("mesh_axes").get<std::vector<std::string>>(),
                          Client::current().devices().first(static_cast<std::size_t>(n)));
    auto f = shard_map([&c](const Leaves& x) { return case_body(c, x); }, mesh, SpecTree{spec_list(c.at("in_specs"))},
                       spec_list(c.at("out_specs")), {.check_vma = c.at("check_vma").get<bool>()});
    std::string name = str("map.", c.at("id").get<std::string>());
    std::replace(name.begin(), name.end(), '/', '-');
    add(sink, name, f, arrays(c.at("inputs")));
  }
}

namespace {

Array ramp(const Shape& shape, double scale = 0.1) {
  return reshape(arange(size_of(shape), float32), shape) * scale - 0.3;
}

void control_programs(const ProgramSink& sink) {
  Array x = ramp({8, 4});
  auto one = [&](const char* name, Array (*f)(const Array&), const Array& arg, double tolerance = 0) {
    add(
        sink, str("control.", name), [f](const Leaves& a) { return Leaves{f(a[0])}; }, {arg}, tolerance);
    add(
        sink, str("gradient.", name),
        [f](const Leaves& a) { return Leaves{grad([f](const Array& v) { return sum(f(v)); })(a[0])}; }, {arg},
        tolerance);
  };
  one(
      "cond",
      [](const Array& v) {
        return cond(
            sum(v) > 1.0, [](const Array& w) { return sin(w); }, [](const Array& w) { return w * w; }, v);
      },
      x);
  one(
      "scan",
      [](const Array& v) {
        auto [last, rows] =
            scan([](const Array& c, const Array& r) { return std::pair(tanh(c + r), c * r); }, index(v, {0}), v);
        return rows + last;
      },
      x);
  one(
      "scan_carry",
      [](const Array& v) {
        return scan([](const Array& c, const Array& r) { return std::pair(c * 0.5 + cos(c), r * c); }, v, v).first;
      },
      x);
  one(
      "checkpoint", [](const Array& v) { return checkpoint([](const Array& w) { return sin(exp(w)); })(v); }, x);
  one(
      "softmax", [](const Array& v) { return softmax(v, -1); }, x);
  one(
      "layer", [](const Array& v) { return nn::relu(matmul(v, transpose(v))) + logsumexp(v); }, x);
  one(
      "sort", [](const Array& v) { return sort(v, 0) * v; }, x);
  one(
      "cumsum", [](const Array& v) { return cumsum(v, 1) * cumprod(v, 0); }, x);
  one(
      "gather", [](const Array& v) { return take(v, argmax(v, 1), 0); }, x);
  one(
      "linalg",
      [](const Array& v) {
        Array a = matmul(transpose(v), v) + eye(4);
        return linalg::cholesky(a) + linalg::inv(a) + linalg::det(a);
      },
      x, 1e-3);
  one(
      "pool",
      [](const Array& v) {
        return max(reshape(v, {4, 2, 4}), {.axis = Dims{1}}) * 2.0;
      },
      x);
  one(
      "vmap", [](const Array& v) { return vmap([](const Array& r) { return dot(r, r) + r; })(v); }, x);
  add(sink, "control.while",
      [](const Leaves& a) {
        auto f = [](const Array& c) { return sum(c) < 40.0; };
        return Leaves{while_loop(
            f, [](const Array& c) { return c * 1.5 + 0.1; }, a[0])};
      },
      {x});
  add(sink, "control.random",
      [](const Leaves& a) {
        auto keys = random::split(a[0]);
        return Leaves{random::uniform(index(keys, {0}), {3, 4}), random::normal(index(keys, {1}), {5}),
                      random::bits(a[0], {7})};
      },
      {random::key(5)});
}

void sharded_programs(const ProgramSink& sink) {
  Mesh mesh = make_mesh({4, 2}, {"x", "y"}, Client::current().devices().first(8));
  Mesh other = make_mesh({2, 2, 2}, {"a", "b", "c"}, Client::current().devices().first(8));
  auto on = [&](const Array& a, const PartitionSpec& s) { return device_put(a, NamedSharding(mesh, s)); };
  std::vector<PartitionSpec> specs{P("x"), P("x", "y"), P(none, "y"), P(axes("y", "x")), P()};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t k = 0; k < specs.size(); ++k) {
      Leaves args{on(ramp({8, 8}), specs[i]), on(ramp({8, 8}, 0.02), specs[k])};
      auto f = [&](const Leaves& a) {
        Array h = with_sharding_constraint(tanh(matmul(a[0], a[1])), NamedSharding(mesh, P("x", unconstrained)));
        return Leaves{sum(h, {.axis = Dims{0}}), h - mean(h)};
      };
      add(sink, str("sharded.matmul_", i, "_", k), f, args);
      auto loss = [&](const Array& w, const Array& x) { return sum(square(matmul(x, w))); };
      add(sink, str("sharded.gradient_", i, "_", k), [&](const Leaves& a) { return Leaves{grad(loss)(a[0], a[1])}; },
          args, 0, {.out_shardings = {NamedSharding(mesh, specs[(i + k) % specs.size()])}});
    }
  }
  add(sink, "sharded.two_meshes",
      [&](const Leaves& a) {
        return Leaves{a[0] + a[1], transpose(a[1])};
      },
      {on(ramp({8, 8}), P("x", "y")), device_put(ramp({8, 8}), NamedSharding(other, P(axes("a", "c"), "b")))});
}

// From every way to lay a matrix over three axes to every other; sums are completed on the way to each, too.
void layout_changes(const ProgramSink& sink) {
  Mesh mesh = make_mesh({2, 2, 2}, {"a", "b", "c"}, Client::current().devices().first(8));
  std::vector<PartitionSpec> specs{P(),
                                   P("a"),
                                   P("b"),
                                   P(none, "a"),
                                   P("a", "b"),
                                   P("b", "a"),
                                   P(axes("a", "b")),
                                   P(axes("b", "a")),
                                   P("b", axes("a", "c")),
                                   P(axes("c", "a"), "b"),
                                   P(axes("a", "b", "c")),
                                   P(none, axes("c", "b"))};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t k = 0; k < specs.size(); ++k) {
      Array x = device_put(ramp({8, 8}), NamedSharding(mesh, specs[i]));
      JitOptions to{.out_shardings = {NamedSharding(mesh, specs[k])}};
      add(
          sink, str("moved.", i, "_", k), [](const Leaves& a) { return Leaves{tanh(a[0])}; }, {x}, 0, to);
      add(
          sink, str("moved.sum_", i, "_", k), [](const Leaves& a) { return Leaves{matmul(transpose(a[0]), a[0])}; },
          {x}, 0, to);
      add(
          sink, str("moved.max_", i, "_", k),
          [](const Leaves& a) {
            return Leaves{max(reshape(a[0], {8, 8, 1}) * reshape(a[0], {8, 1, 8}), {.axis = Dims{0}})};
          },
          {x}, 0, to);
    }
  }
}

void nested_maps(const ProgramSink& sink) {
  Mesh mesh = make_mesh({4, 2}, {"x", "y"}, Client::current().devices().first(8));
  Array x = device_put(ramp({8, 8}), NamedSharding(mesh, P("x", "y")));
  auto add1 = [&](const char* name, const std::function<Array(const Array&)>& f) {
    add(sink, str("manual.", name), [&](const Leaves& a) { return Leaves{f(a[0])}; }, {x});
    add(sink, str("manual.", name, "_gradient"),
        [&](const Leaves& a) { return Leaves{grad([&](const Array& v) { return sum(square(f(v))); })(a[0])}; }, {x});
  };
  add1("whole", [&](const Array& v) {
    return shard_map([](const Array& b) { return b * psum(sum(b), {"x", "y"}); }, mesh, P("x", "y"), P("x", "y"))(v);
  });
  add1("ring", [&](const Array& v) {
    PermutationPairs pairs{{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    return shard_map([=](const Array& b) { return b + ppermute(b, "x", pairs); }, mesh, P("x", "y"), P("x", "y"))(v);
  });
  add1("partial", [&](const Array& v) {
    auto f = [](const Array& b) { return psum(b, "x") + sin(b); };
    return shard_map(f, mesh, P("x"), P("x"), {.axis_names = {"x"}})(v) * 2.0;
  });
  add1("nested", [&](const Array& v) {
    auto inner = [](const Array& b) { return b * psum(b, "y"); };
    auto outer = [&](const Array& b) {
      return shard_map(inner, mesh, P(none, "y"), P(none, "y"), {.axis_names = {"y"}})(b) + psum(b, "x");
    };
    return shard_map(outer, mesh, P("x"), P("x"), {.axis_names = {"x"}})(v);
  });
  add1("gathered", [&](const Array& v) {
    auto f = [](const Array& b) {
      Array all = all_gather(b, "y", {.axis = 1, .tiled = true});
      return psum_scatter(matmul(all, transpose(all)), "x",
                          {
                              .scatter_dimension = 0,
                              .tiled = true,
                          });
    };
    return shard_map(f, mesh, P("x", "y"), P("x"), {.check_vma = false})(tile(v, {2, 1}));
  });
  add1("loop", [&](const Array& v) {
    auto f = [](const Array& b) {
      return scan([](const Array& c, const Array& r) { return std::pair(c * 0.5 + pmean(c, "x"), r); }, b, b).first;
    };
    return shard_map(f, mesh, P("x", "y"), P("x", "y"), {.check_vma = false})(v);
  });
}

// Arguments and results of pmap in the form of replicas: what each device has.
void pmap_programs(const ProgramSink& sink) {
  auto one = [&](const char* name, const std::function<Array(const Array&)>& f, const Array& x) {
    auto mapped = pmap(f, {.axis_name = "i"});
    Array y = mapped(x);
    auto stacked = [](const HostArray& a) {
      Shape s = a.shape();
      s.insert(s.begin() + 1, 1);
      return a.reshape(s);
    };
    sink({str("pmap.", name),
          mapped.as_text({.replicas = true}, x),
          {stacked(x.host())},
          {stacked(y.host())},
          2e-5,
          true});
    sink({str("pmap.", name, "_partitions"), mapped.as_text({}, x), {x.host()}, {y.host()}, 2e-5, false});
  };
  Array x = ramp({8, 3, 4});
  one(
      "mean", [](const Array& b) { return b - pmean(b, "i"); }, x);
  one(
      "max", [](const Array& b) { return pmax(b, "i") * pmin(b, "i"); }, x);
  one(
      "index", [](const Array& b) { return b * astype(axis_index("i"), float32); }, x);
  one(
      "gather", [](const Array& b) { return sum(all_gather(b, "i"), {.axis = Dims{0}}) + b; }, x);
  one(
      "shift",
      [](const Array& b) {
        return ppermute(b, "i", {{0, 1}, {1, 2}, {7, 0}});
      },
      x);
  one(
      "exchange", [](const Array& b) { return all_to_all(b, "i", 0, 0); }, ramp({8, 8, 2}));
  one(
      "scatter", [](const Array& b) { return psum_scatter(b, "i"); }, ramp({8, 8, 2}));
  one(
      "gradient", [](const Array& b) { return grad([](const Array& v) { return sum(sin(psum(v, "i"))); })(b); }, x);
}

}  // namespace

void written_programs(const ProgramSink& sink) {
  control_programs(sink);
  sharded_programs(sink);
  layout_changes(sink);
  nested_maps(sink);
  pmap_programs(sink);
  Mesh mesh = make_mesh({4, 2}, {"x", "y"}, Client::current().devices().first(8));
  auto [state, tokens] = gpt::state(mesh);
  auto step = jit([](const gpt::State& s, const Array& t) { return gpt::step(s, t); });
  auto [next, loss] = step(state, tokens);
  Leaves args = tree_leaves(state);
  args.push_back(tokens);
  Leaves results = tree_leaves(next);
  results.push_back(loss);
  sink({"train.gpt_step", step.lower(state, tokens).as_text(), hosts(args), hosts(results), 2e-3, false});
}

}  // namespace tessera::test
