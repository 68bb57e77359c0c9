// SPDX-License-Identifier: Apache-2.0
// What must hold of every op, tried on the op's own samples: its rules describe one function.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "ops/define.h"
#include "ops/graph_rules.h"
#include "ops/interpret.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

using ir::AnySample;
using ir::OpDef;

std::string label(const OpDef& op, const AnySample& s, unsigned seed) {
  std::string out = str(op.name(), "[", s.attrs ? s.attrs->text() : "", "]");
  for (const auto& t : s.in) out += str(" ", t);
  return str(out, " seed ", seed);
}

// Three ranges of floats, so that each function meets its domain in one of them; small integers, which are legal
// indices, and negative ones where nothing is indexed.
HostArray operand(const OpDef& op, const Type& type, unsigned seed) {
  static constexpr double low[] = {0.1, -0.95, 1.1};
  static constexpr double high[] = {0.9, 0.95, 3.0};
  HostArray out(type.dtype, type.shape);
  View v = view_of(out);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(low[seed % 3], high[seed % 3]);
  int shift = op.traits().elementwise && is_signed_int(type.dtype) ? 4 : 0;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    switch (wide_kind(type.dtype)) {
      case Wide::Bool:
        store_bool(v, i, random() % 2 == 0);
        break;
      case Wide::Float:
        store_float(v, i, real(random));
        break;
      case Wide::Complex: {
        double re = real(random);
        store_complex(v, i, complexd(re, real(random)));
        break;
      }
      default:
        store_int(v, i, static_cast<std::int64_t>(random() % (shift ? 9 : 3)) - shift);
    }
  }
  return out;
}
std::vector<HostArray> operands(const OpDef& op, const Types& types, unsigned seed) {
  std::vector<HostArray> out;
  for (std::size_t i = 0; i < types.size(); ++i) {
    out.push_back(operand(op, types[i], seed + 3 * static_cast<unsigned>(i + 1)));
    if (seed != 3 || i > 0 || types.size() == 1 || !op.traits().elementwise || !is_float(types[i].dtype)) continue;
    View v = view_of(out[i]);  // whole numbers, for functions that want one (polygamma)
    for (std::int64_t k = 0; k < v.size(); ++k) store_float(v, k, std::ceil(load_float(v, k)));
  }
  return out;
}

ir::GraphPtr graph_of(const OpDef& op, const AnySample& s) {
  return test::make_graph(s.in, [&](Builder& b, const Values& in) { return b.add(op, in, s.attrs); });
}

double tolerance(const std::vector<HostArray>& results) {
  double worst = 1e-10;
  for (const auto& r : results) {
    switch (r.dtype()) {
      case DType::BF16:
        worst = std::max(worst, 4e-2);
        break;
      case DType::F16:
        worst = std::max(worst, 1e-2);
        break;
      case DType::F32:
      case DType::C64:
        worst = std::max(worst, 2e-5);
        break;
      default:
        break;
    }
  }
  return worst;
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

class OpRules : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
};
// Properties of one rule: made for the ops that have it. Those that never have it say why (EveryNeverHasAReason).
class OpReference : public OpRules {};
class OpTangents : public OpRules {};
class OpTranspose : public OpRules {};
class OpBatch : public OpRules {};
class OpFactors : public OpRules {};

// Ops with a reference to compare with, and with a rule.
std::vector<const OpDef*> comparable(const char* rule) {
  std::vector<const OpDef*> out;
  for (const OpDef* op : all()) {
    const bool has = op->never(rule) == nullptr || (std::string_view(rule) == "jvp" && op->has_dual());
    if (op->has_reference() && has) out.push_back(op);
  }
  return out;
}
std::string test_name(const testing::TestParamInfo<const OpDef*>& info) {
  std::string name(info.param->name());
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c) && c != '_'; }, '_');
  return name;
}

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
    bool out = false;
    for (const auto& t : op().infer(s.in, s.attrs)) out = out || is_inexact(t.dtype);
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
      // Beside other data a joint op is affine in a single operand.
      if (op().traits().linearity == Linearity::Joint && which.size() == data.size()) {
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

// --- factors ---------------------------------------------------------------------------------------------------

struct Split {
  int factor;
  std::int64_t parts;
  std::int64_t index;
};
struct Piece {
  Shape shape;
  Dims offsets;
};

// The piece of one tensor; dimensions of several factors are split along the first.
Piece piece_of(const Shape& shape, const FactorRule::Tensor& dims, const std::vector<Split>& splits) {
  Piece p{shape, Dims(shape.size(), 0)};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    for (const auto& s : splits) {
      if (dims[d].empty() || dims[d][0] != s.factor) continue;
      auto [begin, end] = ir::part_range(shape[d], s.parts, s.index);
      p.offsets[d] = begin;
      p.shape[d] = end - begin;
    }
  }
  return p;
}
Index index_of(const Piece& p) {
  Index index;
  for (std::size_t d = 0; d < p.shape.size(); ++d) index.push_back({p.offsets[d], p.offsets[d] + p.shape[d]});
  return index;
}

// How a factor lies in all tensors of a rule.
struct Use {
  bool splittable = true;  // first among the factors of its dimensions, once a tensor
  bool alone = true;       // the only factor of its dimensions
};
Use use_of(const FactorRule& rule, int factor) {
  Use use;
  auto look = [&](const FactorRule::Tensor& t) {
    int times = 0;
    for (const auto& dim : t) {
      for (std::size_t i = 0; i < dim.size(); ++i) {
        if (dim[i] != factor) continue;
        ++times;
        use.splittable = use.splittable && i == 0;
        use.alone = use.alone && dim.size() == 1;
      }
    }
    use.splittable = use.splittable && times <= 1;
  };
  for (const auto& t : rule.operands) look(t);
  for (const auto& t : rule.results) look(t);
  return use;
}
bool contains(const FactorRule::Tensor& t, int factor) {
  return std::any_of(t.begin(), t.end(),
                     [&](const auto& dim) { return std::find(dim.begin(), dim.end(), factor) != dim.end(); });
}

HostArray reduced(Reduction r, const HostArray& a, const HostArray& b) {
  static const OpDef* const by[] = {&def::add, &def::mul, &def::max, &def::min, &def::and_, &def::or_};
  return interpret(*by[static_cast<int>(r)], std::vector<HostArray>{a, b}, nullptr)[0];
}
void put(HostArray& whole, const HostArray& part, const Piece& p) {
  auto item = dtype_size(whole.dtype());
  Dims to = core::contiguous_strides(whole.shape(), item);
  Dims from = core::contiguous_strides(part.shape(), item);
  auto* start = static_cast<char*>(whole.data()) + flat(p.offsets, to);
  core::copy_strided(start, to, part.data(), from, part.shape(), item);
}

class Pieces {
 public:
  Pieces(const OpDef& op, const AnySample& s) : op_(op), s_(s), out_(op.infer(s.in, s.attrs)) {
    rule_ = op.factors(s.in, out_, s.attrs);
    in_ = operands(op, s.in, 1);
    want_ = interpret(op, in_, s.attrs);
  }
  const FactorRule& rule() const { return rule_; }

  void check_rule() const {
    ASSERT_EQ(rule_.operands.size(), s_.in.size());
    ASSERT_EQ(rule_.results.size(), out_.size());
    auto extents = [&](const Type& t, const FactorRule::Tensor& dims) {
      if (dims.empty() && !t.shape.empty()) return;
      ASSERT_EQ(dims.size(), t.shape.size());
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].empty()) continue;
        std::int64_t n = 1;
        for (int f : dims[d]) n *= rule_.factors[at(f)].size;
        EXPECT_EQ(n, t.shape[d]) << "dimension " << d << " of " << to_string(t);
      }
    };
    for (std::size_t i = 0; i < s_.in.size(); ++i) extents(s_.in[i], rule_.operands[i]);
    for (std::size_t i = 0; i < out_.size(); ++i) extents(out_[i], rule_.results[i]);
  }

  /// Computes every piece and compares what they make together with the whole.
  void check(const std::vector<std::pair<int, std::int64_t>>& cuts) {
    got_.clear();
    for (const auto& t : out_) got_.emplace_back(t.dtype, t.shape);
    first_.assign(out_.size(), true);
    std::vector<Split> splits;
    for (auto [factor, parts] : cuts) splits.push_back({factor, parts, 0});
    each(splits, 0);
    for (std::size_t k = 0; k < out_.size(); ++k) test::expect_close(got_[k], want_[k], 4 * tolerance(want_));
  }

 private:
  void each(std::vector<Split>& splits, std::size_t n) {
    if (n == splits.size()) return compute(splits);
    for (splits[n].index = 0; splits[n].index < splits[n].parts; ++splits[n].index) each(splits, n + 1);
  }

  void compute(const std::vector<Split>& splits) {
    Types local_in = s_.in;
    Types local_out = out_;
    std::vector<Dims> in_offsets;
    std::vector<Dims> out_offsets;
    std::vector<Piece> results;
    std::vector<HostArray> args;
    for (std::size_t i = 0; i < s_.in.size(); ++i) {
      FactorRule::Tensor dims = rule_.operands[i];
      dims.resize(s_.in[i].shape.size());
      Piece p = piece_of(s_.in[i].shape, dims, splits);
      local_in[i].shape = p.shape;
      in_offsets.push_back(p.offsets);
      args.push_back(in_[i].slice(index_of(p)));
    }
    for (std::size_t k = 0; k < out_.size(); ++k) {
      results.push_back(piece_of(out_[k].shape, rule_.results[k], splits));
      local_out[k].shape = results[k].shape;
      out_offsets.push_back(results[k].offsets);
    }
    ir::Attrs attrs =
        op_.remaps() ? op_.remap({s_.in, out_, local_in, local_out, in_offsets, out_offsets}, s_.attrs) : s_.attrs;
    Types inferred = op_.infer(local_in, attrs);
    for (std::size_t k = 0; k < out_.size(); ++k) ASSERT_EQ(inferred[k].shape, local_out[k].shape) << "piece " << k;
    auto part = interpret(op_, args, attrs);
    for (std::size_t k = 0; k < out_.size(); ++k) place(k, part[k], results[k], splits);
  }

  void place(std::size_t k, const HostArray& part, const Piece& p, const std::vector<Split>& splits) {
    const Factor* reducing = nullptr;
    for (const auto& s : splits) {
      if (rule_.factors[at(s.factor)].kind == Factor::Kind::Reduce) reducing = &rule_.factors[at(s.factor)];
      if (rule_.factors[at(s.factor)].kind == Factor::Kind::Pass && !contains(rule_.results[k], s.factor)) {
        test::expect_close(part, want_[k].slice(index_of(p)), tolerance(want_));
      }
    }
    bool fresh = reducing == nullptr || first_[k];
    put(got_[k], fresh ? part : reduced(reducing->reduction, got_[k], part), p);
    first_[k] = false;
  }

  const OpDef& op_;
  const AnySample& s_;
  Types out_;
  FactorRule rule_;
  std::vector<HostArray> in_;
  std::vector<HostArray> want_;
  std::vector<HostArray> got_;
  std::vector<bool> first_;
};

TEST_P(OpFactors, PiecesMakeTheWhole) {
  for (const auto& s : op().samples()) {
    SCOPED_TRACE(label(op(), s, 1));
    Pieces pieces(op(), s);
    pieces.check_rule();
    if (HasFatalFailure()) return;
    std::vector<int> passing;
    for (std::size_t i = 0; i < pieces.rule().factors.size(); ++i) {
      const Factor& f = pieces.rule().factors[i];
      int number = static_cast<int>(i);
      Use use = use_of(pieces.rule(), number);
      if (f.kind == Factor::Kind::Whole || !use.splittable || f.size < 2) continue;
      if (f.kind == Factor::Kind::Pass && f.size % 2 == 0) passing.push_back(number);
      for (std::int64_t parts : {2, 3}) {
        if (f.size % parts != 0 && !use.alone) continue;
        SCOPED_TRACE(str("factor ", i, " of ", f.size, " in ", parts));
        pieces.check({{number, parts}});
      }
    }
    if (passing.size() > 1) {
      SCOPED_TRACE(str("factors ", passing[0], " and ", passing[1], " in 2"));
      pieces.check({{passing[0], 2}, {passing[1], 2}});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpRules, testing::ValuesIn(all().begin(), all().end()), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpReference, testing::ValuesIn(comparable("reference")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpTangents, testing::ValuesIn(comparable("jvp")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpTranspose, testing::ValuesIn(comparable("transpose")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpBatch, testing::ValuesIn(comparable("batch")), test_name);
INSTANTIATE_TEST_SUITE_P(All, OpFactors, testing::ValuesIn(comparable("factors")), test_name);

}  // namespace
}  // namespace tessera::ops
