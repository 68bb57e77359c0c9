// SPDX-License-Identifier: Apache-2.0
// Random programs over explicit axes, eagerly and jitted. Where an operation refuses placements, its cheapest cure is
// taken. Types say where arrays are, and values are those of one device.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/transform/interpret.h"
#include "program/program.h"
#include "program/trace.h"
#include "program/typed/sharding_cures.h"
#include "support/random_graphs.h"
#include "support/spmd_simulator.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

// The program one operation after the other.
std::vector<Array> run(const ir::Graph& g, const std::vector<Array>& args, int& cured) {
  std::vector<Array> values(g.num_values());
  for (std::size_t i = 0; i < args.size(); ++i) values[static_cast<std::size_t>(g.inputs[i])] = args[i];
  for (const auto& e : g.eqns) {
    std::vector<Array> in;
    for (auto v : e.in) in.push_back(values[static_cast<std::size_t>(v)]);
    std::vector<Array> out;
    try {
      out = program::bind(*e.op, in, e.attrs, e.loc);
    } catch (const ShardingTypeError&) {
      ir::Types types;
      for (const auto& a : in) types.push_back(a.impl()->type);
      const auto cures = program::sharding_cures(*e.op, types, e.attrs);
      if (cures.empty()) throw;
      ++cured;
      out = program::bind_graph(program::cured(*e.op, types, e.attrs, cures[0]), in, e.loc);
    }
    for (std::size_t k = 0; k < out.size(); ++k) values[static_cast<std::size_t>(e.out[k])] = out[k];
  }
  std::vector<Array> results;
  for (auto v : g.outputs) results.push_back(values[static_cast<std::size_t>(v)]);
  return results;
}

// An open sum is completed before it is read.
HostArray whole(const Array& a) {
  const ArrayType type = type_of(a);
  return type.spec.unreduced().empty() ? a.host() : reshard(a, PartitionSpec(type.spec.entries())).host();
}

void check(const std::vector<Array>& got, const RandomProgram& p, const std::string& what) {
  ASSERT_EQ(got.size(), p.expected.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const ArrayType type = type_of(got[k]);
    const auto* named = dynamic_cast<const NamedSharding*>(got[k].sharding().get());
    if (named != nullptr) {
      EXPECT_TRUE(named->is_equivalent_to(NamedSharding(named->mesh(), type.spec), got[k].ndim()))
          << what << ": " << type.text() << " is placed by " << named->text();
    }
    EXPECT_EQ(difference(whole(got[k]), p.expected[k], p.tolerance), "")
        << what << ", result " << k << ", " << type.text();
  }
}

TEST(ExplicitPrograms, TypesArePlacementsAndValuesThoseOfOneDevice) {
  ClientScope scope(Client::cpu({.devices = 8}));
  int programs = 0;
  int cured = 0;
  for (const auto& axes : test_meshes()) {
    const Mesh mesh = make_explicit_mesh(Shape(axes.sizes.begin(), axes.sizes.end()), AxisNames(axes.names));
    SetMesh set(mesh);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const RandomProgram p = random_program(seed * 31 + 7, axes, {.equations = 6, .samples = seed % 2 == 0});
      std::mt19937_64 rng(seed);
      std::vector<Array> args;
      for (const auto& value : p.args) {
        const ir::Layout layout = random_layout(rng, value.shape(), axes, false);
        std::vector<SpecEntry> entries;
        for (const auto& dim : layout.dims) {
          std::vector<AxisRef> refs;
          for (auto a : dim) refs.emplace_back(axes.names[a]);
          entries.push_back(refs.empty() ? SpecEntry(none) : SpecEntry(std::move(refs)));
        }
        args.push_back(device_put(value, NamedSharding(mesh, PartitionSpec(std::move(entries))).share()));
      }
      const std::string what = str("seed ", seed, " on ", mesh);
      const ir::Graph& g = *p.module.graph;
      const int before = cured;
      check(run(g, args, cured), p, what + ", eager");
      const int eager_cured = cured - before;
      int again = 0;
      auto jitted = jit([&](const std::vector<Array>& in) { return run(g, in, again); });
      check(jitted(args), p, what + ", jitted");
      EXPECT_EQ(eager_cured, again) << what << ": the same operations are refused";
      ++programs;
    }
  }
  std::cout << programs << " programs, " << cured << " operations with a cure\n";
}

}  // namespace
}  // namespace tessera::test
