// SPDX-License-Identifier: Apache-2.0
// Factor rules: what an op makes of shards of its operands is the shards of what it makes of the whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"
#include "tests/props/op_cases.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

class OpFactors : public OpRules {};

struct Split {
  int factor;
  std::int64_t parts;
  std::int64_t index;
};
struct Shard {
  Shape shape;
  Dims offsets;
};

// The shard of one tensor; dimensions of several factors are split along the first.
Shard shard_of(const Shape& shape, const FactorRule::Tensor& dims, const std::vector<Split>& splits) {
  Shard p{shape, Dims(shape.size(), 0)};
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
Index index_of(const Shard& p) {
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
void put(HostArray& whole, const HostArray& part, const Shard& p) {
  auto item = dtype_size(whole.dtype());
  Dims to = core::contiguous_strides(whole.shape(), item);
  Dims from = core::contiguous_strides(part.shape(), item);
  auto* start = static_cast<char*>(whole.data()) + flat(p.offsets, to);
  core::copy_strided(start, to, part.data(), from, part.shape(), item);
}

class ShardBuffers {
 public:
  ShardBuffers(const OpDef& op, const AnySample& s) : op_(op), s_(s), out_(op.infer(s.in, s.attrs)) {
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

  /// Computes every shard and compares what they make together with the whole.
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
    std::vector<Shard> results;
    std::vector<HostArray> args;
    for (std::size_t i = 0; i < s_.in.size(); ++i) {
      FactorRule::Tensor dims = rule_.operands[i];
      dims.resize(s_.in[i].shape.size());
      Shard p = shard_of(s_.in[i].shape, dims, splits);
      local_in[i].shape = p.shape;
      in_offsets.push_back(p.offsets);
      args.push_back(in_[i].slice(index_of(p)));
    }
    for (std::size_t k = 0; k < out_.size(); ++k) {
      results.push_back(shard_of(out_[k].shape, rule_.results[k], splits));
      local_out[k].shape = results[k].shape;
      out_offsets.push_back(results[k].offsets);
    }
    ir::Attrs attrs =
        op_.remaps() ? op_.remap({s_.in, out_, local_in, local_out, in_offsets, out_offsets}, s_.attrs) : s_.attrs;
    Types inferred = op_.infer(local_in, attrs);
    for (std::size_t k = 0; k < out_.size(); ++k) ASSERT_EQ(inferred[k].shape, local_out[k].shape) << "shard " << k;
    auto part = interpret(op_, args, attrs);
    for (std::size_t k = 0; k < out_.size(); ++k) place(k, part[k], results[k], splits);
  }

  void place(std::size_t k, const HostArray& part, const Shard& p, const std::vector<Split>& splits) {
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

TEST_P(OpFactors, ShardsMakeTheWhole) {
  for (const auto& s : op().samples()) {
    SCOPED_TRACE(label(op(), s, 1));
    ShardBuffers shards(op(), s);
    shards.check_rule();
    if (HasFatalFailure()) return;
    std::vector<int> passing;
    for (std::size_t i = 0; i < shards.rule().factors.size(); ++i) {
      const Factor& f = shards.rule().factors[i];
      int number = static_cast<int>(i);
      Use use = use_of(shards.rule(), number);
      if (f.kind == Factor::Kind::Whole || !use.splittable || f.size < 2) continue;
      if (f.kind == Factor::Kind::Pass && f.size % 2 == 0) passing.push_back(number);
      for (std::int64_t parts : {2, 3}) {
        if (f.size % parts != 0 && !use.alone) continue;
        SCOPED_TRACE(str("factor ", i, " of ", f.size, " in ", parts));
        shards.check({{number, parts}});
      }
    }
    if (passing.size() > 1) {
      SCOPED_TRACE(str("factors ", passing[0], " and ", passing[1], " in 2"));
      shards.check({{passing[0], 2}, {passing[1], 2}});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpFactors, testing::ValuesIn(comparable("factors")), test_name);

}  // namespace
}  // namespace tessera::ops
