// SPDX-License-Identifier: Apache-2.0
#include "support/section_programs.h"

#include <algorithm>
#include <random>
#include <string>

#include "base/index.h"
#include "ops/ops.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera::test {

namespace {

using ir::Value;
using ir::Values;

// One program: rows of `width` elements, `count` sections of `heads` times `depth` columns.
class SectionWriter {
 public:
  SectionWriter(std::uint64_t seed, const ir::MeshAxes& mesh) : rng_(seed), mesh_(mesh) {
    for (std::size_t a = 0; a < mesh.sizes.size(); ++a)
      (coin(2) ? rows_ : columns_).push_back(static_cast<std::uint8_t>(a));
    if (columns_.empty()) std::swap(rows_, columns_);
    count_ = 2 + below(3);
    heads_ = ir::parts(columns_, mesh) * (1 + below(2));
    if (coin(8)) ++heads_;  // sections that are not split evenly
    for (std::int64_t i = 0; i < count_; ++i) larger_.push_back(0);
    if (coin(3)) {
      for (auto& n : larger_) n = below(3);  // of several sizes
    }
    depth_ = 1 + below(3);
    outer_ = coin(2) ? 2 : 0;
    length_ = ir::parts(rows_, mesh) * (2 + below(3));
  }

  RandomProgram run() {
    Value x = input(with_rows({width_}), ir::AxisList{});
    Value y = columns(x);
    Value z = consumed(y);
    Values out{z};
    if (coin(4)) out.push_back(ops::sin(y));
    RandomProgram p;
    p.module = ir::module_over(b_.finish_shared(out), mesh_);
    for (std::size_t i = 0; i < layouts_.size(); ++i) p.module.inputs[i].layout = layouts_[i];
    for (auto v : p.module.graph->inputs) p.args.push_back(random_array(rng_, p.module.graph->type(v)));
    p.expected = evaluate(*p.module.graph, p.args);
    p.tolerance = 1e-4;
    return p;
  }

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n)); }
  bool coin(std::int64_t n) { return below(n) == 0; }
  std::int64_t section(std::int64_t i) const { return (1 + larger_[at(i)]) * heads_ * depth_; }
  std::int64_t before(std::int64_t i) const { return i == 0 ? 0 : before(i - 1) + section(i - 1); }
  bool equal() const { return std::ranges::count(larger_, larger_[0]) == count_; }

  // Shape of rows: [length, …] or [2, length, …].
  Shape with_rows(Shape rest) const {
    rest.insert(rest.begin(), length_);
    if (outer_ > 0) rest.insert(rest.begin(), outer_);
    return rest;
  }
  std::int64_t last_row() const { return outer_ > 0 ? 1 : 0; }

  // An input whose rows, if it has them, are split over the axes of rows, and its last dimension over `last`.
  Value input(const Shape& shape, const ir::AxisList& last, std::int64_t split_dim = -1) {
    ir::Layout l = ir::Layout::replicated(static_cast<std::int64_t>(shape.size()));
    if (split_dim < 0) {
      l.dims[at(last_row())] = rows_;
      l.dims.back() = last;
    } else if (shape[at(split_dim)] % ir::parts(last, mesh_) == 0) {
      l.dims[at(split_dim)] = last;
    }
    layouts_.push_back(l);
    return b_.input({DType::F32, shape});
  }
  // A matrix [from, to] whose `to` is split, or `from`; stored either way round.
  Value times(Value x, std::int64_t to, bool split_to) {
    const std::int64_t from = x.shape().back();
    const bool turned = coin(2);
    const std::int64_t dim = split_to != turned ? 1 : 0;
    Value w = input(turned ? Shape{to, from} : Shape{from, to}, columns_, dim);
    const std::int64_t last = x.rank() - 1;
    return ops::dot_general(x, w, {{last}, {turned ? 1 : 0}, {}, {}});
  }

  Value columns(Value x) {
    const std::int64_t all = before(count_);
    Value y = times(x, all, true);
    if (coin(2)) {
      Value bias = input({all}, columns_, 0);
      y = y + ops::broadcast_in_dim(bias, y.shape(), {y.rank() - 1});
    }
    if (coin(3)) y = ops::tanh(y);
    if (coin(3)) y = y * times(x, all, true);
    if (coin(4)) y = y + ops::reshape(joined(x), y.shape());
    if (coin(4) && all % ir::parts(columns_, mesh_) == 0) y = constrained(y);
    return y;
  }
  // To the split that it has.
  Value constrained(Value y) {
    auto names = [&](const ir::AxisList& axes) {
      std::string text;
      for (auto a : axes) text += (text.empty() ? "" : ".") + mesh_.names[a];
      return text.empty() ? "-" : text;
    };
    return constrain(y, (outer_ > 0 ? "-, " : "") + names(rows_) + ", " + names(columns_), mesh_);
  }

  // Sections that are made one by one, in one array [rows, count, section] or [rows, count * section].
  Value joined(Value x) {
    Values sections;
    const bool stacked = equal() && coin(2);
    for (std::int64_t i = 0; i < count_; ++i) {
      Value s = times(x, section(i), true);
      if (stacked) s = ops::reshape(s, with_rows({1, section(i)}));
      sections.push_back(s);
    }
    if (!coin(3) || stacked) return ops::concatenate(sections, last_row() + 1);
    Value sum;
    for (std::int64_t i = 0; i < count_; ++i) {
      Dims low(at(last_row() + 2));
      Dims high(low);
      low.back() = before(i);
      high.back() = before(count_) - before(i + 1);
      Value padded = ops::pad(sections[at(i)], ops::scalar(b_, 0, DType::F32), low, high);
      sum = sum ? sum + padded : padded;
    }
    return sum;
  }

  Value cut(Value y, std::int64_t i) {
    const std::int64_t last = y.rank() - 1;
    if (!equal() || !coin(3)) return ops::slice_in_dim(y, before(i), before(i + 1), last);
    Value apart = ops::reshape(y, with_rows({count_, section(0)}));
    return ops::squeeze(ops::slice_in_dim(apart, i, i + 1, last), {last});
  }

  Value consumed(Value y) {
    const std::int64_t how = below(3);
    if (how == 0) {  // all sections side by side
      return times(ops::tanh(joined_again(y)), width_, false);
    }
    if (!equal()) {
      Value sum;
      for (std::int64_t i = 0; i < count_; ++i) {
        Value z = times(ops::tanh(cut(y, i)), width_, false);
        sum = sum ? sum + z : z;
      }
      return sum;
    }
    Value first = cut(y, below(count_));
    Value second = cut(y, below(count_));
    Value third = cut(y, count_ - 1);
    if (how == 1) return times(first * ops::logistic(second) + third, width_, false);
    return times(attention(first, second, third), width_, false);
  }
  Value joined_again(Value y) {
    Values parts;
    for (std::int64_t i = 0; i < count_; ++i) parts.push_back(cut(y, count_ - 1 - i));
    return ops::concatenate(parts, y.rank() - 1);
  }
  Value attention(Value q, Value k, Value v) {
    const std::int64_t r = last_row();
    Dims order;
    if (outer_ > 0) order.push_back(0);
    for (auto d : {r + 1, r, r + 2}) order.push_back(d);
    const std::int64_t depth = section(0) / heads_;
    auto heads = [&](Value s) { return ops::transpose(ops::reshape(s, with_rows({heads_, depth})), order); };
    Dims batch;
    for (std::int64_t d = 0; d <= r; ++d) batch.push_back(d);
    Value scores = ops::dot_general(heads(q), heads(k), {{r + 2}, {r + 2}, batch, batch});
    Value mixed = ops::dot_general(ops::sin(scores), heads(v), {{r + 2}, {r + 1}, batch, batch});
    return ops::reshape(ops::transpose(mixed, order), with_rows({section(0)}));
  }

  std::mt19937_64 rng_;
  const ir::MeshAxes& mesh_;
  ir::Builder b_;
  ir::AxisList rows_, columns_;
  std::int64_t count_ = 2, heads_ = 1, depth_ = 1, outer_ = 0, length_ = 1, width_ = 4;
  Dims larger_;  // by section: how many times as large as the smallest it may be, less one
  std::vector<ir::Layout> layouts_;
};

}  // namespace

RandomProgram section_program(std::uint64_t seed, const ir::MeshAxes& mesh) { return SectionWriter(seed, mesh).run(); }

}  // namespace tessera::test
