// SPDX-License-Identifier: Apache-2.0
// Operations over explicit axes: operands placed at random give a result whose array is placed as its type says and
// whose value is that of one device, or an error whose cures do that.
#include <gtest/gtest.h>

#include <random>

#include "base/strings.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"
#include "program/program.h"
#include "program/trace.h"
#include "program/typed/sharding_cures.h"
#include "tessera/explicit_sharding.h"
#include "tests/props/op_cases.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

class OpPlaced : public OpRules {};

// Axes of a 2x2x2 mesh, dealt out to dimensions that they divide.
PartitionSpec random_spec(const Shape& shape, std::mt19937& random) {
  std::vector<std::vector<AxisRef>> dims(shape.size());
  std::vector<std::int64_t> left(shape.begin(), shape.end());
  for (const char* axis : {"x", "y", "z"}) {
    if (shape.empty() || random() % 3 == 0) continue;
    const std::size_t d = random() % shape.size();
    if (left[d] % 2 != 0) continue;
    left[d] /= 2;
    dims[d].emplace_back(axis);
  }
  std::vector<SpecEntry> entries;
  for (auto& d : dims) entries.push_back(d.empty() ? SpecEntry(none) : SpecEntry(std::move(d)));
  return PartitionSpec(std::move(entries));
}

// The sample's extents, each as often as makes room for the axes, where the op takes that; else as they are.
struct Placed {
  std::vector<Array> operands;
  Types types;
};
Placed place(const Mesh& mesh, const std::vector<HostArray>& values, std::mt19937& random) {
  Placed out;
  for (const auto& v : values) {
    out.operands.push_back(device_put(v, NamedSharding(mesh, random_spec(v.shape(), random)).share()));
    out.types.push_back(out.operands.back().impl()->type);
  }
  return out;
}

void check(const std::vector<Array>& got, const std::vector<HostArray>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const ArrayType type = type_of(got[k]);
    const auto* named = dynamic_cast<const NamedSharding*>(got[k].sharding().get());
    ASSERT_NE(named, nullptr) << what << ": " << got[k].sharding()->text();
    EXPECT_TRUE(named->is_equivalent_to(NamedSharding(named->mesh(), type.spec), got[k].ndim()))
        << what << ": " << type.text() << " is placed by " << named->text();
    if (!type.spec.unreduced().empty()) continue;  // an open sum has no value to read
    SCOPED_TRACE(str(what, ", result ", k));
    test::expect_close(got[k].host(), want[k], tolerance(want));
  }
}

TEST_P(OpPlaced, TypeIsPlacementOrCuresDo) {
  ClientScope scope(Client::cpu({.devices = 8}));
  const Mesh mesh = make_explicit_mesh({2, 2, 2}, {"x", "y", "z"});
  SetMesh set(mesh);
  int typed = 0, refused = 0, cured_count = 0;
  for (const auto& s : op().samples()) {
    if (s.in.empty()) continue;
    for (unsigned seed = 0; seed < 4; ++seed) {
      std::mt19937 random(seed * 77 + 5);
      const std::vector<HostArray> values = operands(op(), s.in, seed);
      const std::vector<HostArray> want = interpret(op(), values, s.attrs);
      const Placed p = place(mesh, values, random);
      const std::string what = str(label(op(), s, seed), " on ", base::join(p.types));
      try {
        check(program::bind(op(), p.operands, s.attrs, {}), want, what);
        ++typed;
        continue;
      } catch (const ShardingTypeError& e) {
        ++refused;
        EXPECT_NE(std::string(e.what()).find(op().name()), std::string::npos) << e.what();
      }
      std::int64_t before = 0;
      for (const auto& cure : program::sharding_cures(op(), p.types, s.attrs)) {
        EXPECT_LE(before, cure.bytes) << what << ": " << cure.text;
        before = cure.bytes;
        auto run = program::bind_graph(program::cured(op(), p.types, s.attrs, cure), p.operands, {});
        check(run, want, str(what, ", ", cure.text));
        ++cured_count;
      }
    }
  }
  if (HasFailure())
    std::cout << op().name() << ": " << typed << " typed, " << refused << " refused, " << cured_count << " cured\n";
}

INSTANTIATE_TEST_SUITE_P(All, OpPlaced, testing::ValuesIn(comparable("factors")), test_name);

}  // namespace
}  // namespace tessera::ops
