// SPDX-License-Identifier: Apache-2.0
#include "support/numpy_programs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/transform/graph_rules.h"
#include "ops/transform/interpret.h"
#include "support/moved_values.h"

namespace tessera::test {

namespace {

using ir::Type;
using ir::Value;
using ir::Values;
using Rng = std::mt19937_64;

class NumpyGenerator {
 public:
  NumpyGenerator(std::uint64_t seed, const NumpyOptions& options)
      : rng_(seed * 0x9E3779B97F4A7C15ull + 5), options_(options) {}

  NumpyProgram run() {
    choose_sizes();
    wild_ = options_.non_finite && chance(20);
    dtype_ = one_of<DType>({DType::F32, DType::F32, DType::F32, DType::F32, DType::F64, DType::F64, DType::F16,
                            DType::BF16, DType::I32, DType::I64, DType::I8, DType::U8});
    input({dtype_, space_});
    if (chance(60)) input({DType::Bool, space_});
    if (chance(40)) input({dtype_, space_});
    if (chance(40)) input({dtype_, {space_.back()}});
    if (chance(40)) input({dtype_, rows()});
    if (chance(20)) input({dtype_, {}});
    int wanted = options_.equations / 2 + static_cast<int>(pick(options_.equations));
    for (int tries = 0; static_cast<int>(graph().eqns.size()) < wanted && tries < 10 * wanted; ++tries) step();
    return finish();
  }

 private:
  std::int64_t pick(std::int64_t n) { return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[pick(static_cast<std::int64_t>(list.size()))];
  }
  const ir::Graph& graph() const { return builder_.graph(); }
  bool floats() const { return is_inexact(dtype_); }

  void choose_sizes() {
    auto size = [&] { return one_of<std::int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33, 37}); };
    auto rank = one_of<std::int64_t>({1, 2, 2, 2, 2, 2, 3, 3});
    for (std::int64_t d = 0; d < rank; ++d)
      space_.push_back(rank == 3 && d < 2 ? one_of<std::int64_t>({1, 2, 3, 4}) : size());
    if (chance(options_.long_rows)) {
      space_ = {1 + pick(3), 4090 + pick(3000)};
      if (chance(20)) space_.insert(space_.begin(), 1);
    } else if (chance(5)) {
      space_ = {100 + pick(400), one_of<std::int64_t>({1, 2, 3, 5})};
    }
  }
  // The space without its last dimension.
  Shape rows() const { return {space_.begin(), space_.end() - 1}; }

  Value input(const Type& type) {
    Value v = builder_.input(type);
    HostArray a(type.dtype, type.shape);
    ir::View view{a.dtype(), a.shape(), a.data()};
    for (std::int64_t i = 0; i < a.size(); ++i) {
      switch (ops::wide_kind(type.dtype)) {
        case ops::Wide::Bool:
          ops::store_bool(view, i, chance(60));
          break;
        case ops::Wide::Float:
          ops::store_float(view, i, static_cast<double>(pick(33) - 12) / 8.0);
          break;
        default:
          ops::store_int(view, i, pick(7));
      }
    }
    args_.push_back(a);
    known_.resize(graph().num_values());
    known(v).value = a;
    known(v).moved.fill(a);
    pool_.push_back(v);
    return v;
  }

  Moved& known(Value v) { return known_[at(v.id)]; }

  // Appends equations; takes the results into the pool where all values on the way are fit for more.
  void step() {
    std::size_t before = graph().eqns.size();
    Values made = choose();
    known_.resize(graph().num_values());
    bool fit = true;
    for (std::size_t i = before; i < graph().eqns.size(); ++i) {
      const ir::Eqn& e = graph().eqns[i];
      fit = evaluate_moved(graph(), e, known_, rng_) && fit;
      for (auto v : e.out) fit = fit && moderate(known_[at(v)]);
    }
    if (fit) pool_.insert(pool_.end(), made.begin(), made.end());
  }

  // Finite (mostly), not too large, and known to some digits.
  bool moderate(const Moved& k) const {
    if (!is_inexact(k.value.dtype())) return true;
    double most = k.value.dtype() == DType::F16 ? 200 : 1e4;
    double digits = k.value.dtype() == DType::F16 || k.value.dtype() == DType::BF16 ? 0.2 : 1e-2;
    for (std::int64_t i = 0; i < k.value.size(); ++i) {
      double x = number_at(k.value, i);
      if (!std::isfinite(x) ? !wild_ : std::abs(x) > most) return false;
      for (std::size_t c = 0; k.moves && c < k.moved.size(); ++c) {
        double y = number_at(k.moved[c], i);
        if (!same_number(x, y) && !(std::abs(x - y) <= digits * std::max(1.0, std::abs(x)))) return false;
      }
    }
    return true;
  }

  // --- what programs are made of ---------------------------------------------------------------------------------

  Value recent(bool number = true) {
    for (int tries = 0; tries < 20; ++tries) {
      auto n = static_cast<std::int64_t>(pool_.size());
      Value v = pool_[at(chance(60) ? n - 1 - pick(std::min<std::int64_t>(n, 5)) : pick(n))];
      if (number ? v.dtype() == dtype_ : v.dtype() == DType::Bool) return v;
    }
    return number ? pool_[0] : Value{};
  }

  // One of the ways of writing the same repetition. The dimensions of x are the last ones of the shape, as in NumPy.
  Value repeated(Value x, const Shape& shape) {
    if (x.shape() == shape) return x;
    auto missing = rank(shape) - x.rank();
    Dims dims;
    Dims moving;
    Shape kept;
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      dims.push_back(d + missing);
      if (x.shape()[at(d)] == 1) continue;
      moving.push_back(d + missing);
      kept.push_back(x.shape()[at(d)]);
    }
    if (x.rank() > 0 && chance(20)) {  // the dimensions in front first
      Shape padded(at(missing), 1);
      padded.insert(padded.end(), x.shape().begin(), x.shape().end());
      Value y = in_shape(x, padded, dims);
      dims.clear();
      for (std::int64_t d = 0; d < rank(shape); ++d) dims.push_back(d);
      return ops::broadcast_in_dim(y, shape, dims);
    }
    if (chance(30)) return ops::broadcast_in_dim(ops::reshape(x, kept), shape, moving);
    return ops::broadcast_in_dim(x, shape, dims);
  }
  // More dimensions of one element, by either op.
  Value in_shape(Value x, const Shape& shape, const Dims& dims) {
    if (x.shape() == shape) return x;
    return chance(50) ? ops::reshape(x, shape) : ops::broadcast_in_dim(x, shape, dims);
  }

  // NumPy's common shape; nothing where there is none.
  static std::optional<Shape> common(const Shape& a, const Shape& b) {
    Shape out(std::max(a.size(), b.size()), 1);
    for (const auto* s : {&a, &b}) {
      for (std::size_t i = 0; i < s->size(); ++i) {
        auto& n = out[out.size() - 1 - i];
        auto m = (*s)[s->size() - 1 - i];
        if (n != 1 && m != 1 && n != m) return std::nullopt;
        if (n == 1) n = m;
      }
    }
    if (size_of(out) > 20000) return std::nullopt;
    return out;
  }

  // y as an operand beside x: itself, or one value a row with the other dimensions behind.
  std::optional<std::pair<Value, Value>> together(Value x, Value y) {
    auto shape = common(x.shape(), y.shape());
    bool front =
        y.rank() > 0 && y.rank() < x.rank() && std::equal(y.shape().begin(), y.shape().end(), x.shape().begin());
    if (front && (!shape || chance(50))) {
      Shape wide = y.shape();
      Dims dims;
      for (std::int64_t d = 0; d < y.rank(); ++d) dims.push_back(d);
      if (chance(40)) return std::pair{x, ops::broadcast_in_dim(y, x.shape(), dims)};
      wide.resize(x.shape().size(), 1);
      y = in_shape(y, wide, dims);
      shape = common(x.shape(), y.shape());
    }
    if (!shape) return std::nullopt;
    if (x.rank() == 0 && !shape->empty() && chance(50)) return std::pair{x, repeated(y, *shape)};
    if (y.rank() == 0 && !shape->empty() && chance(50)) return std::pair{repeated(x, *shape), y};
    return std::pair{repeated(x, *shape), repeated(y, *shape)};
  }

  Value constant_like(Value x) {
    double c = one_of<double>({0, 0, 1, 1, 2, 0.5, -1});
    if (!floats()) c = std::abs(std::floor(c));
    if (chance(40)) return ops::scalar(builder_, c, x.dtype());
    if (chance(50)) return ops::full(builder_, c, x.type());
    HostArray a(x.dtype(), x.shape());
    ir::View v{a.dtype(), a.shape(), a.data()};
    for (std::int64_t i = 0; i < a.size(); ++i) {
      if (floats()) {
        ops::store_float(v, i, c);
      } else {
        ops::store_int(v, i, static_cast<std::int64_t>(c));
      }
    }
    return ops::constant(builder_, a);
  }

  Values choose() {
    Value x = recent();
    switch (pick(14)) {
      case 0:
        return {unary(x)};
      case 1:
      case 2:
      case 3:
        return binary(x, recent());
      case 4:
        return {arithmetic(x, constant_like(x))};
      case 5:
      case 6:
      case 7:
        return {reduced(x)};
      case 8:
        return reshaped(x);
      case 9:
        return compared(x);
      case 10:
        return masked(x);
      case 11:
        return floats() ? composite(x) : Values{reduced(x)};
      case 12:
        return odd(x);
      default:
        return floats() && chance(40) ? loop(x) : binary(x, recent());
    }
  }

  Value unary(Value x) {
    if (!floats()) return ops::max(x, ops::scalar(builder_, 2, x.dtype()));
    switch (pick(9)) {
      case 0:
        return ops::exp(ops::min(x, ops::scalar(builder_, 3, x.dtype())));
      case 1:
        return ops::sqrt(ops::abs(x));
      case 2:
        return ops::tanh(x);
      case 3:
        return ops::log(ops::abs(x) + 1.0);
      case 4:
        return ops::floor(x);
      case 5:
        return ops::rsqrt(ops::square(x) + 0.5);
      case 6:
        return ops::neg(x);
      case 7:
        return ops::integer_pow(x, 2 + pick(2));
      default:
        return ops::abs(x);
    }
  }
  Value arithmetic(Value x, Value y) {
    switch (pick(floats() ? 7 : 5)) {
      case 0:
      case 1:
        return x + y;
      case 2:
        return x - y;
      case 3:
        return x * y;
      case 4:
        return chance(50) ? ops::max(x, y) : ops::min(x, y);
      default:
        return ops::div(x, y);
    }
  }
  Values binary(Value x, Value y) {
    auto both = together(x, y);
    if (!both) both = together(y, x);
    if (!both) return {};
    return {chance(50) ? arithmetic(both->first, both->second) : arithmetic(both->second, both->first)};
  }

  Value reduce(Value x, const Dims& axes, std::int64_t which) {
    if (which == 0) return ops::reduce_max(x, axes);
    if (which == 1) return ops::reduce_min(x, axes);
    if (which == 2 && size_of(x.shape()) < 64) return ops::reduce_prod(x, axes);
    return ops::reduce_sum(x, axes);
  }
  // With the reduced dimensions at one element, sometimes.
  Value kept(Value r, const Type& of, const Dims& axes) {
    Shape shape = of.shape;
    Dims others;
    for (auto a : axes) shape[at(a)] = 1;
    for (std::int64_t d = 0; d < of.rank(); ++d) {
      if (std::find(axes.begin(), axes.end(), d) == axes.end()) others.push_back(d);
    }
    return in_shape(r, shape, others);
  }
  Dims some_axes(Value x) {
    Dims axes;
    auto first = chance(70) ? x.rank() - 1 : pick(x.rank());
    for (std::int64_t d = first; d < x.rank(); ++d) axes.push_back(d);
    if (chance(15)) axes = {pick(x.rank())};
    return axes;
  }
  Value reduced(Value x) {
    if (x.rank() == 0) return unary(x);
    Dims axes = some_axes(x);
    Value r = reduce(x, axes, pick(7));
    return chance(45) ? kept(r, x.type(), axes) : r;
  }

  Values reshaped(Value x) {
    Shape s = x.shape();
    Dims dims;
    for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    if (!s.empty() && s.back() == 1) {
      s.pop_back();
      return {ops::reshape(x, s)};
    }
    if (rank(s) >= 3) return {ops::reshape(x, {x.type().size() / s.back(), s.back()})};
    s.push_back(1);
    return {in_shape(x, s, dims)};
  }

  Values compared(Value x) {
    auto both = chance(50) ? std::optional(std::pair{x, constant_like(x)}) : together(x, recent());
    if (!both) return {};
    auto [a, b] = *both;
    switch (pick(4)) {
      case 0:
        return {ops::lt(a, b)};
      case 1:
        return {ops::ge(a, b)};
      case 2:
        return {ops::eq(a, b)};
      default: {
        Value numbers = ops::convert(ops::gt(a, b), dtype_);
        return {numbers};
      }
    }
  }

  Values masked(Value x) {
    Value mask = recent(false);
    if (!mask) return compared(x);
    auto both = together(x, mask);
    if (!both) both = together(mask, x);
    if (!both) return {};
    auto [a, m] = *both;
    if (a.dtype() == DType::Bool) std::swap(a, m);
    if (chance(20)) return {ops::convert(m, dtype_)};
    if (m.rank() == 0 && a.rank() > 0) m = ops::broadcast_to(m, a.shape());
    if (a.rank() == 0 && m.rank() > 0) a = ops::broadcast_to(a, m.shape());
    Value other = wild_ && chance(40) ? ops::scalar(builder_, -std::numeric_limits<double>::infinity(), dtype_)
                                      : constant_like(a);
    if (!floats()) other = constant_like(a);
    if (other.rank() == 0) other = ops::broadcast_to(other, a.shape());
    return {chance(50) ? ops::where(m, a, other) : ops::where(m, other, a)};
  }

  // Statistics as NumPy writes them.
  Values composite(Value x) {
    if (x.rank() == 0) return {unary(x)};
    Dims axes{x.rank() - 1};
    auto over = [&](Value r) { return repeated(kept(r, x.type(), axes), x.shape()); };
    switch (pick(4)) {
      case 0: {  // softmax
        Value e = ops::exp(x - over(ops::reduce_max(x, axes)));
        return {e / over(ops::reduce_sum(e, axes))};
      }
      case 1: {  // variance of what a mask leaves
        Value mask = recent(false);
        if (!mask || mask.shape() != x.shape()) mask = ops::lt(x, ops::full(builder_, 1, x.type()));
        Value zero = ops::full(builder_, 0, x.type());
        Value n = ops::reduce_sum(ops::convert(mask, dtype_), axes);
        Value mean = kept(ops::reduce_sum(ops::where(mask, x, zero), axes), x.type(), axes) /
                     kept(ops::max(n, ops::scalar(builder_, 1, dtype_)), x.type(), axes);
        Value d = ops::where(mask, ops::square(x - repeated(mean, x.shape())), zero);
        Value count = ops::max(n - constant_like(n), ops::scalar(builder_, 1, dtype_));
        Value variance = ops::reduce_sum(d, axes) / count;
        return {variance, count};
      }
      case 2: {  // normalised
        auto n = static_cast<double>(x.shape().back());
        Value c = x - over(ops::reduce_sum(x, axes) / n);
        Value v = ops::reduce_sum(ops::square(c), axes) / n;
        return {c * over(ops::rsqrt(v + 0.5)), v};
      }
      default: {  // logarithm of a sum of exponentials
        Value m = ops::reduce_max(x, axes);
        return {ops::log(ops::reduce_sum(ops::exp(x - over(m)), axes)) + m};
      }
    }
  }

  // Rare forms: transposing repetitions, conversions there and back, permuted dimensions of one element.
  Values odd(Value x) {
    switch (pick(4)) {
      case 0: {
        if (x.rank() != 2) return {};
        auto n = x.shape()[0];
        auto m = x.shape()[1];
        if (n * m > 4000) return {};
        if (chance(50) && n == m) return {ops::broadcast_in_dim(x, {n, m, 1}, {1, 0})};
        return {ops::broadcast_in_dim(x, {m, n}, {1, 0})};
      }
      case 1: {
        DType wide = floats() ? (dtype_ == DType::F64 ? DType::F32 : DType::F64) : DType::I64;
        Value y = ops::convert(x, wide);
        return {ops::convert(floats() ? y * 2.0 : y + y, dtype_)};
      }
      case 2:
        if (x.rank() < 2) return {};
        return {ops::transpose(x, x.rank() == 2 ? Dims{1, 0} : Dims{1, 0, 2})};
      default:
        return {x, ops::broadcast_in_dim(x, x.shape(), all_dims(x))};
    }
  }
  static Dims all_dims(Value x) {
    Dims dims;
    for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    return dims;
  }

  // A running softmax over blocks, as ring attention has it: maxima and sums of rows are carried, and read with a last
  // dimension in the body.
  Values loop(Value x) {
    if (x.rank() < 1 || dtype_ == DType::F16 || dtype_ == DType::BF16 || size_of(x.shape()) > 600) return {};
    Shape s = x.shape();
    Shape front(s.begin(), s.end() - 1);
    Type row{dtype_, front};
    Dims axes{x.rank() - 1};
    ir::Builder b;
    Value shift = b.input(x.type());
    Value m = b.input(row);
    Value l = b.input(row);
    Value acc = b.input(x.type());
    auto wide = [&](Value r) {
      Shape one = front;
      one.push_back(1);
      Value y = in_shape(r, one, all_dims(r));
      return ops::broadcast_in_dim(y, s, all_dims(y));
    };
    Value logits = ops::tanh(acc) + shift;
    if (chance(50)) {
      logits = ops::where(ops::lt(shift, ops::scalar(b, 1, dtype_)), logits, ops::full(b, -1e3, x.type()));
    }
    Value next = ops::max(m, ops::reduce_max(logits, axes));
    Value p = ops::exp(logits - wide(next));
    Value scale = ops::exp(m - next);
    Value sum = l * scale + ops::reduce_sum(p, axes);
    Value out = chance(50) ? acc * wide(scale) + p : p / wide(sum);
    auto body = std::make_shared<const ir::Graph>(b.finish(Values{next, sum, out}));
    ops::ScanArgs args;
    args.body = body;
    args.length = 1 + pick(8);
    args.consts = {x};
    args.carry = {ops::full(builder_, chance(50) ? -1e3 : 0, row), ops::full(builder_, chance(50) ? 0 : 1, row),
                  ops::full(builder_, 0, x.type())};
    Values done = ops::scan(builder_, args);
    return done;
  }

  NumpyProgram finish() {
    Values outputs;
    std::vector<std::int32_t> last = ir::last_uses(graph());
    for (std::size_t i = pool_.size(); i-- > 0 && outputs.size() < 5;) {
      Value v = pool_[i];
      bool known_already = std::find(outputs.begin(), outputs.end(), v) != outputs.end();
      if (known_already || !(outputs.empty() || chance(last[at(v.id)] < 0 ? 60 : 15))) continue;
      outputs.push_back(v);
    }
    NumpyProgram p;
    for (const auto& v : outputs) {
      const Moved& k = known(v);
      p.expected.push_back(k.value);
      p.room.emplace_back();
      if (k.moves) p.room.back() = room_of(k);
    }
    p.graph = std::make_shared<const ir::Graph>(ir::eliminate_dead(builder_.finish(outputs)));
    p.args = args_;
    return p;
  }
  Rng rng_;
  NumpyOptions options_;
  ir::Builder builder_;
  Shape space_;
  DType dtype_ = DType::F32;
  bool wild_ = false;
  std::vector<HostArray> args_;
  std::vector<Moved> known_;  // by value
  Values pool_;
};

}  // namespace

NumpyProgram numpy_program(std::uint64_t seed, const NumpyOptions& options) {
  return NumpyGenerator(seed, options).run();
}

std::string difference(const NumpyProgram& p, const std::vector<HostArray>& got) {
  for (std::size_t j = 0; j < p.expected.size(); ++j) {
    const HostArray& want = p.expected[j];
    if (got[j].shape() != want.shape() || got[j].dtype() != want.dtype()) return str("output ", j, " has another type");
    for (std::int64_t i = 0; i < want.size(); ++i) {
      double x = number_at(got[j], i);
      double y = number_at(want, i);
      double room = p.room[j].empty() ? 0 : p.room[j][at(i)];
      if (same_number(x, y) || std::abs(x - y) <= room) continue;
      return str("output ", j, ", element ", i, ": ", x, ", expected ", y, " within ", room);
    }
  }
  return "";
}

}  // namespace tessera::test
