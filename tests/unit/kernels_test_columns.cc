// SPDX-License-Identifier: Apache-2.0
// Fused programs with reductions over their rows, beside the same programs with everything stored.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engines/cpu/kernels/fused_columns.h"

namespace tessera::kernels {
namespace {

struct Memory {
  std::vector<std::byte> bytes;
  Memory(DType t, std::int64_t n) : bytes(static_cast<std::size_t>(n * dtype_size(t)) + 1) {}
  void* data() { return bytes.data(); }
};

Memory random(DType t, std::int64_t n, std::mt19937& rng) {
  std::vector<float> values(static_cast<std::size_t>(n) + 1);
  for (auto& v : values) v = static_cast<float>(rng() % 2001) / 500 - 2;
  Memory m(t, n);
  ew_find(EwOp::Convert, DType::F32, t)(values.data(), nullptr, nullptr, m.data(), n);
  return m;
}
std::vector<double> doubles(DType t, Memory& m, std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(n) + 1);
  ew_find(EwOp::Convert, t, DType::F64)(m.data(), nullptr, nullptr, out.data(), n);
  out.pop_back();
  return out;
}

// (x * scale of the row + x) and (x + bias of the column) less the largest of the row, of which the second is stored.
struct Case {
  DType t;
  std::int64_t outer, inner;
  bool rows;  // with a reduction of rows

  FusedProgram program() const {
    FusedProgram p;
    auto x = p.input(t, Access::Contiguous);
    auto scale = p.input(t, Access::ColBroadcast);
    auto bias = p.input(t, Access::RowBroadcast);
    auto a = p.op(EwOp::Add, t, p.op(EwOp::Mul, t, x, scale), x);
    auto b = p.op(EwOp::Add, t, x, bias);
    if (rows) b = p.op(EwOp::Sub, t, b, p.reduce(ReduceOp::Max, b));
    p.output(b);
    p.output(a);
    return p;
  }
};

void compare(const Case& c, std::mt19937& rng) {
  const std::int64_t n = c.outer * c.inner;
  Memory x = random(c.t, n, rng), scale = random(c.t, c.outer, rng), bias = random(c.t, c.inner, rng);
  const std::vector<const void*> in{x.data(), scale.data(), bias.data()};
  Memory b(c.t, n), a(c.t, n);
  FusedKernel(c.program()).run(in, std::vector<void*>{b.data(), a.data()}, c.outer, c.inner);
  const std::vector<FusedColumns::Column> columns{
      {ReduceOp::Sum, 1}, {ReduceOp::Max, 0}, {ReduceOp::Min, 1}, {ReduceOp::Sum, 0}};
  Memory stored(c.t, n);
  std::vector<Memory> results(columns.size(), Memory(c.t, c.inner));
  std::vector<void*> out{stored.data()};
  for (auto& r : results) out.push_back(r.data());
  FusedColumns(c.program(), 1, columns).run(in, out, c.outer, c.inner);
  ASSERT_EQ(stored.bytes, b.bytes);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    Memory& operand = columns[k].operand == 0 ? b : a;
    Memory want(c.t, c.inner);
    reduce(columns[k].op, c.t, operand.data(), want.data(), 1, c.outer, c.inner);
    const auto values = doubles(c.t, operand, n), expected = doubles(c.t, want, c.inner),
               got = doubles(c.t, results[k], c.inner);
    const double epsilon = c.t == DType::F64 ? 1e-13 : c.t == DType::BF16 ? 1.0 / 128 : 1e-5;
    for (std::size_t j = 0; j < got.size(); ++j) {
      double size = 0;  // of the addends together
      for (std::size_t r = 0; r < static_cast<std::size_t>(c.outer); ++r) size += std::abs(values[r * got.size() + j]);
      const bool sum = columns[k].op == ReduceOp::Sum && !is_integer(c.t);
      const bool same = got[j] == expected[j] || std::abs(got[j] - expected[j]) <= (sum ? epsilon * size : 0);
      ASSERT_TRUE(same) << dtype_name(c.t) << " " << c.outer << " x " << c.inner << ", column " << j << " of " << k
                        << ": " << got[j] << ", expected " << expected[j];
    }
  }
}

TEST(FusedColumns, GiveWhatStoredValuesGive) {
  std::mt19937 rng(5);
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I32}) {
    for (const auto& [outer, inner] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {0, 20}, {1, 16}, {31, 17}, {64, 100}, {700, 33}, {2000, 1}, {513, 1024}, {70, 9000}, {40, 0}}) {
      for (bool rows : {false, true}) {
        if (inner == 0 && rows) continue;
        compare({t, outer, inner, rows}, rng);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// The order of additions is that of the sizes, whatever threads do.
TEST(FusedColumns, SumsAreTheSameEachTime) {
  std::mt19937 rng(6);
  const Case c{DType::F32, 5000, 300, false};
  Memory x = random(c.t, c.outer * c.inner, rng), scale = random(c.t, c.outer, rng), bias = random(c.t, c.inner, rng);
  const std::vector<const void*> in{x.data(), scale.data(), bias.data()};
  FusedColumns columns(c.program(), 0, {{ReduceOp::Sum, 0}, {ReduceOp::Sum, 1}});
  std::vector<std::byte> first;
  for (int time = 0; time < 5; ++time) {
    Memory a(c.t, c.inner), b(c.t, c.inner);
    columns.run(in, std::vector<void*>{a.data(), b.data()}, c.outer, c.inner);
    a.bytes.insert(a.bytes.end(), b.bytes.begin(), b.bytes.end());
    if (time == 0) first = a.bytes;
    ASSERT_EQ(a.bytes, first);
  }
}

}  // namespace
}  // namespace tessera::kernels
