// SPDX-License-Identifier: Apache-2.0
// Element-wise ops by themselves: many elements, which run by blocks, give the bits of few, which are one call of the
// kernel; also around the caches, and in the memory of each operand that may be shared.
#include <gtest/gtest.h>

#include <cstring>

#include "engines/cpu/adapters/kernel_table.h"
#include "ops/ops.h"
#include "support/engine_programs.h"
#include "support/graphs.h"

namespace tessera::test {
namespace {

using ir::Values;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kChunk = 500;         // one call
constexpr std::int64_t kMany = 41 * kChunk;  // more than one call takes

struct Case {
  std::string name;
  std::vector<DType> in;
  int scalar;  // the operand of rank 0, or -1
  std::function<ir::Value(const Values&)> body;
};

ir::GraphPtr graph_of(const Case& c, std::int64_t n) {
  ir::Types types;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    types.push_back({c.in[i], static_cast<int>(i) == c.scalar ? Shape{} : Shape{n}});
  }
  return make_graph(types, [&](ir::Builder&, const Values& in) { return Values{c.body(in)}; });
}

struct Found {
  ir::GraphPtr graph;
  cpu::Kernel kernel;
  std::vector<std::int64_t> in_bytes;
  std::int64_t out_bytes = 0;
};

Found find(const Case& c, std::int64_t n) {
  Found f{graph_of(c, n), {}, {}, 0};
  EXPECT_EQ(f.graph->eqns.size(), 1U);
  const auto& e = f.graph->eqns[0];
  ir::Types in, out{f.graph->types[static_cast<std::size_t>(e.out[0])]};
  for (auto v : e.in) in.push_back(f.graph->types[static_cast<std::size_t>(v)]);
  f.kernel = cpu::KernelTable::get().find({*e.op, e.attrs, in, out});
  for (const auto& t : in) f.in_bytes.push_back(t.nbytes());
  f.out_bytes = out[0].nbytes();
  return f;
}

Bytes run(const cpu::Kernel::Fn& fn, const Found& f, std::vector<Bytes> in, int shared) {
  Bytes own(static_cast<std::size_t>(f.out_bytes));
  std::vector<const void*> from;
  for (const Bytes& b : in) from.push_back(b.data());
  void* to = shared < 0 ? own.data() : in[static_cast<std::size_t>(shared)].data();
  fn(from.data(), &to);
  return shared < 0 ? own : in[static_cast<std::size_t>(shared)];
}

void check(const Case& c) {
  SCOPED_TRACE(c.name);
  Found many = find(c, kMany), chunk = find(c, kChunk);
  ASSERT_TRUE(many.kernel.run && many.kernel.stream && many.kernel.fast);
  std::vector<Bytes> in;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const HostArray a =
        host(many.graph->types[static_cast<std::size_t>(many.graph->eqns[0].in[i])], static_cast<unsigned>(i + 1));
    const auto* bytes = static_cast<const std::byte*>(a.data());
    in.emplace_back(bytes, bytes + many.in_bytes[i]);
  }
  Bytes want;
  for (std::int64_t k = 0; k < kMany / kChunk; ++k) {
    std::vector<Bytes> operands;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto* from = in[i].data() + (static_cast<int>(i) == c.scalar ? 0 : k * chunk.in_bytes[i]);
      operands.emplace_back(from, from + chunk.in_bytes[i]);
    }
    Bytes got = run(chunk.kernel.run, chunk, operands, -1);
    want.insert(want.end(), got.begin(), got.end());
  }
  EXPECT_EQ(run(many.kernel.run, many, in, -1), want);
  EXPECT_EQ(run(many.kernel.stream, many, in, -1), want) << "around the caches";
  for (std::size_t i = 0; i < in.size(); ++i) {
    if ((many.kernel.in_place >> i & 1) == 0 || many.in_bytes[i] != many.out_bytes) continue;
    EXPECT_EQ(run(many.kernel.run, many, in, static_cast<int>(i)), want) << "in operand " << i;
    EXPECT_EQ(run(many.kernel.stream, many, in, static_cast<int>(i)), want) << "around the caches in operand " << i;
  }
}

TEST(LoneOps, ManyElementsGiveTheBitsOfFew) {
  using ir::Value;
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8, DType::I32, DType::I64, DType::U16,
                  DType::U32, DType::C64, DType::C128}) {
    const std::string of = " of " + std::string(dtype_name(t));
    for (int scalar : {-1, 0, 1}) {
      const std::string with = of + (scalar < 0 ? "" : ", operand " + std::to_string(scalar) + " of rank 0");
      check({"add" + with, {t, t}, scalar, [](const Values& v) { return v[0] + v[1]; }});
      check({"multiply" + with, {t, t}, scalar, [](const Values& v) { return v[0] * v[1]; }});
      if (!is_complex(t)) {
        check({"less" + with, {t, t}, scalar, [](const Values& v) { return ops::lt(v[0], v[1]); }});
        check({"maximum" + with, {t, t}, scalar, [](const Values& v) { return ops::max(v[0], v[1]); }});
      }
    }
    check({"negative" + of, {t}, -1, [](const Values& v) { return -v[0]; }});
    check({"select" + of, {DType::Bool, t, t}, -1, [](const Values& v) { return ops::where(v[0], v[1], v[2]); }});
    check({"select by one" + of, {DType::Bool, t, t}, 0, [](const Values& v) { return ops::where(v[0], v[1], v[2]); }});
    if (is_inexact(t)) check({"exp" + of, {t}, -1, [](const Values& v) { return ops::exp(v[0]); }});
    if (is_inexact(t)) check({"tanh" + of, {t}, -1, [](const Values& v) { return ops::tanh(v[0]); }});
    for (DType to : {DType::F32, DType::F64, DType::BF16, DType::I32, DType::I64, DType::U8, DType::Bool}) {
      if (to == t || is_complex(t)) continue;
      check({"convert" + of + " to " + std::string(dtype_name(to)), {t}, -1, [to](const Values& v) {
               return ops::convert(v[0], to);
             }});
    }
  }
}

}  // namespace
}  // namespace tessera::test
