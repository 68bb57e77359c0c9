// SPDX-License-Identifier: Apache-2.0
// Control flow, and the functions that cases name as bodies.
#include "explicit/ops.h"

namespace tessera::test {

namespace {

using Step = std::function<std::pair<Array, Array>(const Array&, const Array&)>;

Array replaced(const Array& x, const json& params) { return reshard(x, to_partition_spec(params.at("reshard"))); }

Step step_of(const std::string& name, const json& params) {
  if (name == "add") return [](const Array& c, const Array& x) { return std::pair{c + x, x}; };
  if (name == "reshard_carry")
    return [&params](const Array& c, const Array& x) { return std::pair{replaced(c, params), x}; };
  if (name == "dot") return [](const Array& c, const Array& x) { return std::pair{matmul(c, x), c}; };
  if (name == "sum_y") return [](const Array& c, const Array& x) { return std::pair{c, sum(x)}; };
  throw std::out_of_range("no body " + name);
}

std::function<Array(Array)> branch(const std::string& name, const json& params) {
  return [f = body_of(name, params)](const Array& x) { return f({x})[0]; };
}
std::function<Array(const Array&)> single(const Call& c, const char* field) {
  return branch(c.params.at(field).get<std::string>(), c.params);
}

}  // namespace

Body body_of(const std::string& name, const json& params) {
  auto of_one = [](Array (*f)(const Array&)) { return [f](const Arrays& a) { return Arrays{f(a.at(0))}; }; };
  if (name == "id") return of_one([](const Array& a) { return a; });
  if (name == "sin") return of_one([](const Array& a) { return sin(a); });
  if (name == "double") return of_one([](const Array& a) { return a + a; });
  if (name == "cumsum0") return of_one([](const Array& a) { return lax::cumsum(a, 0); });
  if (name == "sort0") return of_one([](const Array& a) { return sort(a, 0); });
  if (name == "sum") return of_one([](const Array& a) { return sum(a); });
  if (name == "sum0") return of_one([](const Array& a) { return sum(a, 0); });
  if (name == "reshape_flat") return of_one([](const Array& a) { return reshape(a, {-1}); });
  if (name == "transpose") return of_one([](const Array& a) { return transpose(a); });
  if (name == "psum_x") return of_one([](const Array& a) { return psum(a, "x"); });
  if (name == "all_gather_x") return of_one([](const Array& a) { return all_gather(a, "x", {.tiled = true}); });
  if (name == "psum_scatter_x") return of_one([](const Array& a) { return psum_scatter(a, "x", {.tiled = true}); });
  if (name == "pcast_unreduced_x") return of_one([](const Array& a) { return pcast(a, "x", CastTo::unreduced); });
  if (name == "square_dot") return of_one([](const Array& a) { return dot(a, a); });
  if (name == "add") return [](const Arrays& a) { return Arrays{a.at(0) + a.at(1)}; };
  if (name == "mul") return [](const Arrays& a) { return Arrays{a.at(0) * a.at(1)}; };
  if (name == "matmul") return [](const Arrays& a) { return Arrays{matmul(a.at(0), a.at(1))}; };
  if (name == "matmul_psum_x") return [](const Arrays& a) { return Arrays{psum(matmul(a.at(0), a.at(1)), "x")}; };
  if (name == "reshard") return [&params](const Arrays& a) { return Arrays{replaced(a.at(0), params)}; };
  throw std::out_of_range("no body " + name);
}

void add_control(Table& t) {
  t["lax.scan"] = [](const Call& c) {
    auto [carry, ys] = scan(step_of(c.params.at("body"), c.params), c.x(), c.x(1));
    return Arrays{carry, ys};
  };
  t["lax.map"] = one([](const Call& c) { return map(single(c, "body"), c.x()); });
  t["lax.while_loop"] = one([](const Call& c) {
    using Carry = std::pair<Array, Array>;
    const auto body = single(c, "body");
    return while_loop([](const Carry& s) { return s.first < 3; },
                      [&](const Carry& s) {
                        return Carry{s.first + 1, body(s.second)};
                      },
                      Carry{Array(0), c.x()})
        .second;
  });
  t["lax.fori_loop"] = one([](const Call& c) {
    const auto body = single(c, "body");
    return fori_loop(
        0, 3, [&](const Array&, const Array& a) { return body(a); }, c.x());
  });
  t["lax.cond"] = one([](const Call& c) { return cond(c.x(), single(c, "true"), single(c, "false"), c.x(1)); });
  t["lax.switch"] = one([](const Call& c) {
    std::vector<std::function<Array(Array)>> branches;
    for (const auto& b : c.params.at("branches")) branches.push_back(branch(b.get<std::string>(), c.params));
    return switch_(c.x(), branches, c.x(1));
  });
}

}  // namespace tessera::test
