// SPDX-License-Identifier: Apache-2.0
#include "explicit/program.h"

namespace tessera::test {

namespace {

Body program_of(const Call& c, const char* field = "program") {
  return [&program = c.params.at(field)](const Arrays& a) { return run_program(program, a); };
}

/// The loss and its gradients in the arguments that `argnums` lists.
Arrays value_and_gradients(const Call& c) {
  const Body f = program_of(c);
  const auto argnums = c.params.at("argnums").get<std::vector<std::size_t>>();
  Arrays moving;
  for (auto i : argnums) moving.push_back(c.x(i));
  auto loss = [&](const Arrays& given) {
    Arrays all = c.in;
    for (std::size_t i = 0; i < argnums.size(); ++i) all[argnums[i]] = given[i];
    return f(all).at(0);
  };
  auto [value, gradients] = value_and_grad(loss)(moving);
  Arrays out{value};
  out.insert(out.end(), gradients.begin(), gradients.end());
  return out;
}
Arrays gradients(const Call& c) {
  const Arrays all = value_and_gradients(c);
  return {all.begin() + 1, all.end()};
}

/// One cotangent for each result of the program, behind the primals.
Arrays pulled_back(const Call& c) {
  const auto primals = static_cast<std::ptrdiff_t>(c.params.at("program").at("args").size());
  auto pull = vjp([f = program_of(c)](const Arrays& a) { return f(a); }, Arrays(c.in.begin(), c.in.begin() + primals));
  return std::get<0>(pull.second(Arrays(c.in.begin() + primals, c.in.end())));
}
Arrays pushed_forward(const Call& c) {
  const auto half = static_cast<std::ptrdiff_t>(c.in.size() / 2);
  auto [primals, tangents] =
      jvp([f = program_of(c)](const Arrays& a) { return f(a); }, std::tuple{Arrays(c.in.begin(), c.in.begin() + half)},
          std::tuple{Arrays(c.in.begin() + half, c.in.end())});
  primals.insert(primals.end(), tangents.begin(), tangents.end());
  return primals;
}

Arrays scanned(const Call& c) {
  auto step = [f = program_of(c)](const Array& carry, const Array& x) {
    const Arrays out = f({carry, x});
    return std::pair{out.at(0), out.at(1)};
  };
  auto [carry, ys] = scan(step, c.x(), c.x(1));
  return {carry, ys};
}
Arrays repeated(const Call& c) {
  auto body = [f = program_of(c)](const Array&, const Array& a) { return f({a}).at(0); };
  return {fori_loop(c.integer("lower"), c.integer("upper"), body, c.x())};
}
Arrays chosen(const Call& c) {
  auto branch = [&c](const char* field) { return [f = program_of(c, field)](const Array& a) { return f({a}).at(0); }; };
  return {cond(c.x(), branch("program"), branch("false_program"), c.x(1))};
}

std::string axis_of(const Call& c) { return c.params.at("axis_name"); }

/// Operations that apply to sub-programs, and collectives.
const Table& program_operations() {
  static const Table table = {
      {"grad", gradients},
      {"value_and_grad", value_and_gradients},
      {"vjp", pulled_back},
      {"jvp", pushed_forward},
      {"remat", [](const Call& c) { return checkpoint([f = program_of(c)](const Arrays& a) { return f(a); })(c.in); }},
      {"auto_axes", [](const Call& c) { return in_auto_axes(program_of(c), c); }},
      {"explicit_axes", [](const Call& c) { return in_explicit_axes(program_of(c), c); }},
      {"shard_map", [](const Call& c) { return in_map(program_of(c), c); }},
      {"vmap", [](const Call& c) { return vmapped(program_of(c), c); }},
      {"jit", [](const Call& c) { return jitted(program_of(c), c); }},
      {"scan", scanned},
      {"fori_loop", repeated},
      {"cond", chosen},
      {"psum", one([](const Call& c) { return psum(c.x(), axis_of(c)); })},
      {"pcast", one([](const Call& c) {
         const bool unreduced = c.params.at("to") == "unreduced";
         return pcast(c.x(), axis_of(c), unreduced ? CastTo::unreduced : CastTo::varying);
       })},
      {"psum_scatter", one([](const Call& c) {
         return psum_scatter(c.x(), axis_of(c),
                             {.scatter_dimension = c.integer("scatter_dimension", 0), .tiled = true});
       })},
      {"all_gather", one([](const Call& c) { return all_gather(c.x(), axis_of(c), {.tiled = true}); })},
      {"ppermute", one([](const Call& c) {
         PermutationPairs pairs;
         for (const auto& p : c.params.at("perm")) pairs.emplace_back(p[0], p[1]);
         return ppermute(c.x(), axis_of(c), pairs);
       })},
  };
  return table;
}

}  // namespace

namespace {
Arrays run_steps(const json& program, const Arrays& args, std::vector<ArrayType>* types) {
  std::map<std::string, Array> values;
  for (std::size_t i = 0; i < args.size(); ++i) values[program.at("args").at(i)] = args[i];
  for (const auto& step : program.at("steps")) {
    static const json none_given = json::object();
    Call call{{}, step.contains("params") ? step["params"] : none_given};
    for (const auto& name : step.at("in")) call.in.push_back(values.at(name));
    if (step.contains("out_sharding") && !step["out_sharding"].is_null())
      call.out = to_partition_spec(step["out_sharding"]);
    const std::string op = step.at("op");
    auto special = program_operations().find(op);
    const Arrays out = special != program_operations().end() ? special->second(call) : operation(op)(call);
    for (std::size_t i = 0; i < out.size() && i < step.at("out").size(); ++i) {
      values[step["out"][i]] = out[i];
      if (types != nullptr) types->push_back(type_of(out[i]));
    }
  }
  Arrays out;
  for (const auto& name : program.at("results")) out.push_back(values.at(name));
  return out;
}
}  // namespace

Arrays run_program(const json& program, const Arrays& args) { return run_steps(program, args, nullptr); }

std::vector<ArrayType> types_of_steps(const json& program, const Arrays& args) {
  std::vector<ArrayType> types;
  eval_types([&](const Arrays& in) { return run_steps(program, in, &types); }, args);
  return types;
}

}  // namespace tessera::test
