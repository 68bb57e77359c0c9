// SPDX-License-Identifier: Apache-2.0
// What must hold of every op, tried on the op's own samples: its rules describe one function.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/strings.h"
#include "ops/define_op.h"
#include "ops/transform/graph_rules.h"
#include "ops/transform/interpret.h"
#include "tests/props/op_cases.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

ir::GraphPtr graph_of(const OpDef& op, const AnySample& s) {
  return test::make_graph(s.in, [&](Builder& b, const Values& in) { return b.add(op, in, s.attrs); });
}

// In double precision where the op takes that; else as it is.
AnySample widened(const OpDef& op, const AnySample& s) {
  AnySample wide = s;
  for (auto& t : wide.in) {
    if (is_float(t.dtype)) t.dtype = DType::F64;
    if (is_complex(t.dtype)) t.dtype = DType::C128;
  }
  try {
    (void)op.infer(wide.in, wide.attrs);
    return wide;
  } catch (const Error&) {
    return s;
  }
}
bool is_double(DType t) { return t == DType::F64 || t == DType::C128; }

// Ops whose derivative is by definition not that of the function.
bool own_derivative(const OpDef& op, const AnySample& s) {
  static const std::set<std::string_view> names{"reduce_precision", "bitcast_convert_type"};
  return names.count(op.name()) > 0 || (op.name() == "sign" && is_complex(s.in[0].dtype));
}

// Properties of one rule: made for the ops that have it. Those that never have it say why (EveryNeverHasAReason).
class OpReference : public OpRules {};
class OpTangents : public OpRules {};
class OpTranspose : public OpRules {};
class OpBatch : public OpRules {};

TEST_P(OpRules, EveryNeverHasAReason) {
  for (const char* rule : {"batch", "jvp", "transpose", "reference", "factors"}) {
    const char* why = op().never(rule);
    EXPECT_TRUE(why == nullptr || std::string_view(why).size() > 5) << op().name() << " " << rule;
  }
  EXPECT_EQ(find(op().name()), &op()) << "two ops are called " << op().name();
}

// Every byte of every result is written, and none beside it.
TEST_P(OpReference, ReferenceFillsWhatInferPromises) {
  constexpr std::int64_t guard = 64;
  for (const auto& s : op().samples()) {
    SCOPED_TRACE(label(op(), s, 0));
    auto in = operands(op(), s.in, 0);
    std::vector<View> views;
    for (auto& x : in) views.push_back(view_of(x));
    Types types = op().infer(s.in, s.attrs);
    auto run = [&](int fill) {
      std::vector<std::vector<char>> memory;
      std::vector<View> out;
      for (const auto& t : types) {
        memory.emplace_back(at(t.nbytes() + 2 * guard), static_cast<char>(fill));
        out.push_back({t.dtype, t.shape, memory.back().data() + guard});
      }
      op().reference(views, out, s.attrs);
      return memory;
    };
    auto a = run(0x5A);
    auto b = run(0xA5);
    for (std::size_t i = 0; i < types.size(); ++i) {
      auto n = at(types[i].nbytes());
      EXPECT_EQ(std::memcmp(a[i].data() + guard, b[i].data() + guard, n), 0) << "result " << i << " is not all written";
      for (std::size_t k = 0; k < at(guard); ++k) {
        ASSERT_EQ(a[i][k], 0x5A) << "written before result " << i;
        ASSERT_EQ(a[i][at(guard) + n + k], 0x5A) << "written behind result " << i;
      }
    }
  }
}

// --- derivatives -------------------------------------------------------------------------------------------

// Compares the tangents along `which` with differences; returns how many elements could be compared.
std::int64_t check_tangents(const OpDef& op, const AnySample& s, const std::vector<std::size_t>& which, unsigned seed) {
  auto g = graph_of(op, s);
  Flags active(s.in.size(), false);
  std::vector<HostArray> t;
  for (auto i : which) {
    active[i] = true;
    t.push_back(test::host(s.in[i], seed + 100 + static_cast<unsigned>(i)));
  }
  Flags force;
  for (const auto& type : g->output_types()) force.push_back(is_inexact(type.dtype));
  JvpGraph jvp = jvp_graph(*g, active, force);
  verify(*jvp.graph);
  auto in = operands(op, s.in, seed);
  auto args = in;
  args.insert(args.end(), t.begin(), t.end());
  auto got = interpret(*jvp.graph, args);
  auto coarse = test::difference(*g, in, which, t, 1e-5);
  auto fine = test::difference(*g, in, which, t, 5e-6);
  std::int64_t compared = 0;
  std::size_t next = g->outputs.size();
  for (std::size_t k = 0; k < g->outputs.size(); ++k) {
    if (!force[k]) continue;
    HostArray& tangent = got[next++];
    if (!is_double(tangent.dtype())) continue;
    for (std::int64_t i = 0; i < tangent.size(); ++i) {
      complexd c = load_complex(view_of(coarse[k]), i);
      complexd f = load_complex(view_of(fine[k]), i);
      // Outside the domain, beside a kink or where the function bends too fast, differences say nothing.
      if (!(std::abs(c - f) <= 1e-6 * (1 + std::abs(f)))) continue;
      complexd x = load_complex(view_of(tangent), i);
      EXPECT_LE(std::abs(x - f), 1e-4 * (1 + std::abs(f)))
          << "result " << k << " element " << i << ": tangent " << x << ", difference " << f;
      ++compared;
    }
  }
  return compared;
}

TEST_P(OpTangents, TangentsAgreeWithDifferences) {
  std::int64_t compared = 0;
  bool differentiable = false;
  for (const auto& given : op().samples()) {
    if (own_derivative(op(), given)) continue;
    AnySample s = widened(op(), given);
    std::vector<std::size_t> smooth;
    for (std::size_t i = 0; i < s.in.size(); ++i) {
      if (is_double(s.in[i].dtype)) smooth.push_back(i);
    }
    bool out = false;
    for (const auto& t : op().infer(s.in, s.attrs)) out = out || is_double(t.dtype);
    if (smooth.empty() || !out) continue;
    differentiable = true;
    std::vector<std::vector<std::size_t>> choices{smooth};
    if (smooth.size() > 1) {
      for (auto i : smooth) choices.push_back({i});
    }
    for (unsigned seed = 0; seed < 4; ++seed) {
      for (const auto& which : choices) {
        SCOPED_TRACE(str(label(op(), s, seed), ", tangents of ", base::join(which)));
        try {
          compared += check_tangents(op(), s, which, seed);
        } catch (const UnimplementedError&) {  // some operands may have no derivative; not all of them
        }
      }
    }
  }
  EXPECT_TRUE(!differentiable || compared > 0) << op().name() << ": no sample shows the derivative";
}

// Results of the op where the operands `which` are `t` and the others stay.
std::vector<HostArray> at_point(const OpDef& op, const AnySample& s, std::vector<HostArray> in,
                                const std::vector<std::size_t>& which, const std::vector<HostArray>& t) {
  for (std::size_t k = 0; k < which.size(); ++k) in[which[k]] = t[k];
  return interpret(op, in, s.attrs);
}

HostArray combination(const HostArray& a, double x, const HostArray& b, double y) {
  HostArray out(a.dtype(), a.shape());
  HostArray p = a;
  HostArray q = b;
  View v = view_of(out);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    complexd c = x * load_complex(view_of(p), i) + y * load_complex(view_of(q), i);
    is_complex(out.dtype()) ? store_complex(v, i, c) : store_float(v, i, c.real());
  }
  return out;
}

// f(2t - 3u) = 2 f(t) - 3 f(u), for the inexact results.
bool behaves_linear(const OpDef& op, const AnySample& s, const std::vector<HostArray>& in,
                    const std::vector<std::size_t>& which, const std::vector<HostArray>& t) {
  std::vector<HostArray> u;
  std::vector<HostArray> mixed;
  for (std::size_t k = 0; k < which.size(); ++k) {
    u.push_back(test::host(s.in[which[k]], 900 + static_cast<unsigned>(k)));
    mixed.push_back(combination(t[k], 2, u[k], -3));
  }
  auto ft = at_point(op, s, in, which, t);
  auto fu = at_point(op, s, in, which, u);
  auto fm = at_point(op, s, in, which, mixed);
  for (std::size_t k = 0; k < ft.size(); ++k) {
    if (!is_inexact(ft[k].dtype())) continue;
    HostArray want = combination(ft[k], 2, fu[k], -3);
    for (std::int64_t i = 0; i < want.size(); ++i) {
      complexd a = load_complex(view_of(want), i);
      complexd b = load_complex(view_of(fm[k]), i);
      if (!(std::abs(a - b) <= 1e-8 * (1 + std::abs(a)))) return false;
    }
  }
  return true;
}

void check_adjoint(const OpDef& op, const AnySample& s, const std::vector<HostArray>& in,
                   const std::vector<std::size_t>& which, const std::vector<HostArray>& t) {
  Types out = op.infer(s.in, s.attrs);
  std::vector<bool> mask(s.in.size(), false);
  for (auto i : which) mask[i] = true;
  std::vector<HostArray> args;
  std::vector<HostArray> cts;
  Builder b;
  Values operands;
  Values ct;
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    operands.push_back(mask[i] ? Value{} : b.input(s.in[i]));
    if (!mask[i]) args.push_back(in[i]);
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    cts.push_back(test::host(out[k], 500 + static_cast<unsigned>(k)));
    ct.push_back(is_inexact(out[k].dtype) ? b.input(out[k]) : Value{});
    if (is_inexact(out[k].dtype)) args.push_back(cts.back());
  }
  Values back = transpose_of(b, op, {operands, s.in, mask, ct}, s.attrs);
  ASSERT_EQ(back.size(), s.in.size());
  Values wanted;
  std::vector<std::size_t> of;
  for (std::size_t k = 0; k < which.size(); ++k) {
    Value v = back[which[k]];
    if (!v) continue;
    ASSERT_EQ(v.dtype(), s.in[which[k]].dtype) << "cotangent of operand " << which[k];
    ASSERT_EQ(v.shape(), s.in[which[k]].shape) << "cotangent of operand " << which[k];
    wanted.push_back(v);
    of.push_back(k);
  }
  auto g = b.finish_shared(wanted);
  verify(*g);
  auto got = interpret(*g, args);
  double right = 0;
  for (std::size_t k = 0; k < got.size(); ++k) right += test::inner(got[k], t[of[k]]);
  auto ft = at_point(op, s, in, which, t);
  double left = 0;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (is_inexact(out[k].dtype)) left += test::inner(cts[k], ft[k]);
  }
  EXPECT_NEAR(left, right, 1e-8 * (1 + std::abs(left))) << "<ct, f(t)> and <transpose(ct), t>";
}

TEST_P(OpTranspose, TransposeIsTheAdjoint) {
  int checked = 0;
  bool possible = false;
  for (const auto& given : op().samples()) {
    if (own_derivative(op(), given)) continue;
    AnySample s = widened(op(), given);
    bool out = false, rounds = false;
    for (const auto& t : op().infer(s.in, s.attrs)) {
      out = out || is_inexact(t.dtype);
      rounds = rounds || dtype_size(t.dtype) < dtype_size(DType::F64);
    }
    std::vector<std::size_t> data;
    for (std::size_t i = 0; i < s.in.size(); ++i) {
      bool covered = op().traits().linear_operands < 0 || static_cast<int>(i) < op().traits().linear_operands;
      if (covered && is_double(s.in[i].dtype)) data.push_back(i);
    }
    if (data.empty() || !out) continue;
    possible = true;
    std::vector<std::vector<std::size_t>> choices;
    for (auto i : data) choices.push_back({i});
    if (op().traits().linearity == Linearity::Joint) choices.push_back(data);
    auto in = operands(op(), s.in, 0);
    for (const auto& which : choices) {
      SCOPED_TRACE(str(label(op(), s, 0), ", linear in ", base::join(which)));
      std::vector<HostArray> t;
      for (auto i : which) t.push_back(test::host(s.in[i], 700 + static_cast<unsigned>(i)));
      bool is_linear = behaves_linear(op(), s, in, which, t);
      // Beside other data a joint op is affine in a single operand. A conversion to a narrower type rounds.
      if (op().traits().linearity == Linearity::Joint && which.size() == data.size() && !rounds) {
        EXPECT_TRUE(is_linear) << "the op says that it is linear";
      }
      if (!is_linear) continue;
      check_adjoint(op(), s, in, which, t);
      ++checked;
    }
  }
  EXPECT_TRUE(!possible || checked > 0) << op().name() << ": no sample shows the transposition";
}

// --- batching ------------------------------------------------------------------------------------------------

void check_batch(const OpDef& op, const AnySample& s, const Flags& batched, std::int64_t size) {
  auto g = graph_of(op, s);
  BatchedGraph bg = batch_graph(*g, batched, size, Flags(g->outputs.size(), true));
  verify(*bg.graph);
  std::vector<HostArray> in;
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    in.push_back(operand(op, batched[i] ? stacked(s.in[i], size) : s.in[i], static_cast<unsigned>(3 * i + 1)));
  }
  auto got = interpret(*bg.graph, in);
  for (std::int64_t n = 0; n < size; ++n) {
    std::vector<HostArray> args;
    for (std::size_t i = 0; i < in.size(); ++i) args.push_back(batched[i] ? test::row(in[i], n) : in[i]);
    auto want = interpret(op, args, s.attrs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < got.size(); ++k) test::expect_close(test::row(got[k], n), want[k], tolerance(want));
  }
}

TEST_P(OpBatch, BatchIsALoop) {
  for (const auto& s : op().samples()) {
    auto n = s.in.size();
    std::vector<Flags> subsets;
    for (unsigned set = 1; n <= 4 && set < 1u << n; ++set) {
      Flags f(n);
      for (std::size_t i = 0; i < n; ++i) f[i] = set >> i & 1;
      subsets.push_back(f);
    }
    for (std::size_t i = 0; n > 4 && i < n; ++i) {
      subsets.emplace_back(n, false);
      subsets.back()[i] = true;
    }
    if (n > 4) subsets.emplace_back(n, true);
    for (const auto& batched : subsets) {
      std::string which;
      for (bool b : batched) which += b ? '1' : '0';
      SCOPED_TRACE(str(label(op(), s, 1), ", batched ", which));
      check_batch(op(), s, batched, 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpRules, testing::ValuesIn(all().begin(), all().end()), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpReference, testing::ValuesIn(comparable("reference")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpTangents, testing::ValuesIn(comparable("jvp")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpTranspose, testing::ValuesIn(comparable("transpose")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpBatch, testing::ValuesIn(comparable("batch")), test_name);

}  // namespace
}  // namespace tessera::ops
