// SPDX-License-Identifier: Apache-2.0
#include "support/random_graphs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "support/spmd_simulator.h"

namespace tessera::test {

namespace {

using ir::Type;
using ir::Value;
using Rng = std::mt19937_64;

std::int64_t pick(Rng& rng, std::int64_t n) { return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(n)); }
bool chance(Rng& rng, int percent) { return pick(rng, 100) < percent; }
template <class T>
const T& one_of(Rng& rng, const std::vector<T>& v) {
  return v[static_cast<std::size_t>(pick(rng, static_cast<std::int64_t>(v.size())))];
}

// One of these words, which have blanks around them.
bool listed(std::string_view words, std::string_view name) { return words.find(str(" ", name, " ")) != words.npos; }

// Ops whose result jumps: the last bit of a sum would show.
bool continuous(const ir::OpDef& op) {
  static constexpr std::string_view jumps =
      " floor ceil round sign rem sort argmax argmin argsort top_k trunc floor_divide nextafter cbrt "
      "bitcast_convert_type reduce_precision clamp ";
  return !listed(jumps, op.name());
}

// Ops whose last bit a kernel may choose, and sums in the kernel's order: all but those that pick, move and compare.
bool approximate(const ir::OpDef& op) {
  static constexpr std::string_view exact =
      " neg add sub mul max min abs select_n copy square sign floor ceil round convert_element_type "
      "clamp real imag conj complex stop_gradient optimization_barrier constant iota broadcast_in_dim "
      "reshape transpose pad slice rev concatenate dynamic_slice dynamic_update_slice reduce_max "
      "reduce_min cummax cummin reduce_window_max reduce_window_min gather scatter scatter-min "
      "scatter-max sort top_k sharding_constraint bitcast_convert_type reduce_precision nextafter rem ";
  return !listed(exact, op.name());
}

class Generator {
 public:
  Generator(std::uint64_t seed, const ir::MeshAxes& mesh, const RandomOptions& options)
      : rng_(seed * 0x9E3779B97F4A7C15ull + 1), mesh_(mesh), options_(options) {}

  RandomProgram run() {
    int inputs = 1 + static_cast<int>(pick(rng_, 3));
    for (int i = 0; i < inputs; ++i) input({DType::F32, random_shape()});
    if (options_.samples) input({DType::F32, one_of(rng_, std::vector<Shape>{{4, 6}, {2, 4, 6}, {6, 4}})});
    int wanted = options_.equations / 2 + static_cast<int>(pick(rng_, options_.equations));
    for (int tries = 0; made_ < wanted && tries < 20 * wanted; ++tries) step();
    return finish();
  }

 private:
  struct Known {
    HostArray value;
    bool rounded = false;  ///< depends on the order of a sum
  };

  Shape random_shape() {
    static const std::vector<std::int64_t> evens{8, 16, 4, 2, 8};
    static const std::vector<std::int64_t> odds{3, 5, 7, 8, 6, 4, 1, 2};
    Shape s(static_cast<std::size_t>(1 + pick(rng_, 3)));
    for (auto& n : s) n = one_of(rng_, options_.uneven ? odds : evens);
    return s;
  }

  Value input(ir::Type type) {
    Value v = builder_.input(type);
    args_.push_back(random_array(rng_, type));
    known_.resize(builder_.graph().num_values());
    known_[static_cast<std::size_t>(v.id)] = {args_.back(), false};
    pool_.push_back(v);
    return v;
  }

  Known& known(Value v) { return known_[static_cast<std::size_t>(v.id)]; }

  // Evaluates the equations that `make` appended; takes the result into the pool when it is fit for more.
  void step() {
    std::size_t before = builder_.graph().eqns.size();
    ir::Values made = options_.samples && chance(rng_, 40) ? from_sample() : usual();
    known_.resize(builder_.graph().num_values());
    bool fit = !made.empty();
    for (std::size_t i = before; i < builder_.graph().eqns.size(); ++i) fit = evaluate_one(i) && fit;
    if (!fit) return;
    for (const auto& v : made) pool_.push_back(v);
    made_ += 1;
  }

  bool evaluate_one(std::size_t number) {
    const ir::Graph& g = builder_.graph();
    const ir::Eqn& e = g.eqns[number];
    std::vector<HostArray> in;
    ir::Types types;
    bool rounded = false;
    for (auto v : e.in) {
      in.push_back(known_[static_cast<std::size_t>(v)].value);
      types.push_back(g.type(v));
      rounded = rounded || known_[static_cast<std::size_t>(v)].rounded;
    }
    std::vector<HostArray> out = evaluate_eqn(g, e, in);
    ir::Types out_types;
    for (auto v : e.out) out_types.push_back(g.type(v));
    bool inexact = std::any_of(out_types.begin(), out_types.end(), [](const auto& t) { return is_inexact(t.dtype); });
    bool fit = !rounded || (inexact && continuous(*e.op));
    bool sums = inexact && (!e.op->subgraphs(e.attrs).empty() || sums_up(e.op->factors(types, out_types, e.attrs)));
    sums = sums || (inexact && approximate(*e.op));
    for (std::size_t i = 0; i < out.size(); ++i) {
      fit = fit && moderate(out[i]);
      known_[static_cast<std::size_t>(e.out[i])] = {out[i], rounded || sums};
    }
    return fit;
  }

  static bool sums_up(const ir::FactorRule& rule) {
    return std::any_of(rule.factors.begin(), rule.factors.end(),
                       [](const auto& f) { return f.kind == ir::Factor::Kind::Reduce; });
  }

  static bool moderate(const HostArray& a) {
    if (!is_inexact(a.dtype())) return true;
    ir::View v{a.dtype(), a.shape(), const_cast<void*>(a.data())};
    for (std::int64_t i = 0; i < a.size(); ++i) {
      if (!(std::abs(ops::load_complex(v, i)) <= 1e4)) return false;
    }
    return true;
  }

  // Any op on operands of exactly the types of one of its samples.
  ir::Values from_sample() {
    const ir::OpDef* op =
        ops::all()[static_cast<std::size_t>(pick(rng_, static_cast<std::int64_t>(ops::all().size())))];
    auto samples = op->samples();
    if (samples.empty() || !op->has_reference() || op->traits().effect || op->traits().collective) return {};
    const auto& s = one_of(rng_, samples);
    // Mostly samples that use what is there.
    bool linked = std::any_of(s.in.begin(), s.in.end(), [&](const ir::Type& t) {
      return std::any_of(pool_.begin(), pool_.end(),
                         [&](Value v) { return v.dtype() == t.dtype && v.shape() == t.shape; });
    });
    if (!linked && chance(rng_, 80)) return {};
    ir::Values in;
    for (const auto& t : s.in) in.push_back(operand(t, continuous(*op)));
    return builder_.add(*op, in, s.attrs);
  }

  Value operand(ir::Type type, bool rounded_too) {
    std::vector<Value> fitting;
    for (auto v : pool_) {
      if (v.dtype() == type.dtype && v.shape() == type.shape && (rounded_too || !known(v).rounded))
        fitting.push_back(v);
    }
    if (!fitting.empty() && chance(rng_, 70)) return one_of(rng_, fitting);
    // Something of as many elements, in another shape, or a reduction of it.
    for (auto v : pool_) {
      if (v.dtype() == type.dtype && v.type().size() == type.size() && !known(v).rounded && chance(rng_, 30)) {
        Value r = ops::reshape(v, type.shape);
        settle();
        return r;
      }
    }
    return input(type);
  }

  // Values of equations made on the way to an operand.
  void settle() {
    known_.resize(builder_.graph().num_values());
    const auto& eqns = builder_.graph().eqns;
    if (!eqns.empty()) evaluate_one(eqns.size() - 1);
  }

  // Mostly something recent, so that equations hang together.
  Value recent() {
    auto n = static_cast<std::int64_t>(pool_.size());
    return pool_[static_cast<std::size_t>(chance(rng_, 70) ? n - 1 - pick(rng_, std::min<std::int64_t>(n, 3))
                                                           : pick(rng_, n))];
  }

  ir::Values usual() {
    Value x = recent();
    if (x.dtype() != DType::F32) return {};
    switch (pick(rng_, 12)) {
      case 9:
      case 10:
        return moved(x);
      case 11:
        return along_one(x);
      case 0:
        return {chance(rng_, 50) ? ops::tanh(x) : ops::neg(x)};
      case 1:
      case 2: {
        Value y = operand(x.type(), true);
        switch (pick(rng_, 6)) {
          case 0:
            return {x * y};
          case 1:
            return {options_.smooth ? x - y : ops::max(x, y)};
          case 2:
            return {ops::div(x, y)};
          default:
            return {x + y};
        }
      }
      case 3:
        return reduced(x);
      case 4:
        return product(x);
      case 5:
        return reshaped(x);
      case 6: {
        Dims p(static_cast<std::size_t>(x.rank()));
        std::iota(p.begin(), p.end(), 0);
        std::shuffle(p.begin(), p.end(), rng_);
        return {ops::transpose(x, p)};
      }
      case 7:
        return broadcast(x);
      default:
        return constrained(x);
    }
  }

  ir::Values reduced(Value x) {
    Dims axes;
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      if (chance(rng_, 50)) axes.push_back(d);
    }
    if (axes.empty()) return {};
    switch (options_.smooth ? 3 : pick(rng_, 4)) {
      case 0:
        return {ops::reduce_max(x, axes)};
      case 1:
        return {ops::reduce_min(x, axes)};
      default:
        return {ops::reduce_sum(x, axes)};
    }
  }

  ir::Values product(Value x) {
    if (x.rank() == 0) return {};
    Value y;
    std::int64_t k = pick(rng_, x.rank());
    ops::DotDims d;
    for (auto v : pool_) {
      if (v.dtype() != DType::F32 || v.rank() == 0 || v.rank() + x.rank() > 5 || !chance(rng_, 60)) continue;
      for (std::int64_t j = 0; j < v.rank(); ++j) {
        if (v.shape()[static_cast<std::size_t>(j)] != x.shape()[static_cast<std::size_t>(k)]) continue;
        y = v;
        d.lhs_contracting = {k};
        d.rhs_contracting = {j};
      }
    }
    if (!y) {
      y = input({DType::F32, {x.shape()[static_cast<std::size_t>(k)], options_.uneven ? 5 : 8}});
      d.lhs_contracting = {k};
      d.rhs_contracting = {0};
    }
    // One more pair of equal dimensions may be a batch.
    for (std::int64_t i = 0; i < x.rank() && chance(rng_, 40); ++i) {
      for (std::int64_t j = 0; j < y.rank() && d.lhs_batch.empty(); ++j) {
        bool taken = i == d.lhs_contracting[0] || j == d.rhs_contracting[0];
        if (!taken && x.shape()[static_cast<std::size_t>(i)] == y.shape()[static_cast<std::size_t>(j)]) {
          d.lhs_batch = {i};
          d.rhs_batch = {j};
        }
      }
    }
    return {ops::dot_general(x, y, d)};
  }

  ir::Values reshaped(Value x) {
    std::int64_t left = x.type().size();
    if (left == 0) return {ops::reshape(x, {0, 3})};
    Shape shape;
    while (left > 1 && shape.size() < 4) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t n = 2; n <= left; ++n) {
        if (left % n == 0) divisors.push_back(n);
      }
      shape.push_back(shape.size() == 3 ? left : one_of(rng_, divisors));
      left /= shape.back();
    }
    return {ops::reshape(x, shape)};
  }

  ir::Values broadcast(Value x) {
    if (x.type().size() > 256 || x.rank() > 2) return {};
    Shape shape = x.shape();
    auto at = pick(rng_, x.rank() + 1);
    shape.insert(shape.begin() + at, options_.uneven ? 3 : 8);
    Dims dims;
    for (std::int64_t d = 0; d < rank(shape); ++d) {
      if (d != at) dims.push_back(d);
    }
    return {ops::broadcast_in_dim(x, shape, dims)};
  }

  // Ops that shift elements along dimensions, so that shards need parts of their neighbours.
  ir::Values moved(Value x) {
    if (x.rank() == 0 || x.type().size() == 0) return {};
    auto d = at(pick(rng_, x.rank()));
    auto n = x.shape()[d];
    Dims zeros(x.shape().size(), 0);
    switch (pick(rng_, 5)) {
      case 0: {
        Dims starts = zeros;
        Dims limits = x.shape();
        Dims strides(x.shape().size(), 1);
        starts[d] = pick(rng_, n);
        limits[d] = starts[d] + 1 + pick(rng_, n - starts[d]);
        if (chance(rng_, 40)) strides[d] = 1 + pick(rng_, 3);
        return {ops::slice(x, starts, limits, strides)};
      }
      case 1: {
        Dims low = zeros;
        Dims high = zeros;
        Dims interior = zeros;
        low[d] = pick(rng_, 4) - 1;
        high[d] = pick(rng_, 4) - 1;
        if (chance(rng_, 30)) interior[d] = pick(rng_, 3);
        if (n + low[d] + high[d] <= 0 || n > 64) return {};
        return {ops::pad(x, ops::scalar(builder_, 0.5, DType::F32), low, high, interior)};
      }
      case 2: {
        if (n > 64) return {};
        Type other = x.type();
        other.shape[d] = 1 + pick(rng_, 8);
        ir::Values parts{x, operand(other, true)};
        if (chance(rng_, 30)) parts.push_back(x);
        return {ops::concatenate(parts, static_cast<std::int64_t>(d))};
      }
      case 3:
        return {ops::rev(x, {static_cast<std::int64_t>(d)})};
      default: {
        ops::Window w;
        w.dimensions = w.strides = w.base_dilation = w.window_dilation = Dims(x.shape().size(), 1);
        w.low = w.high = zeros;
        w.dimensions[d] = 1 + pick(rng_, 3);
        w.low[d] = pick(rng_, 2);
        w.high[d] = pick(rng_, 2);
        if (chance(rng_, 40)) w.strides[d] = 2;
        if (n + w.low[d] + w.high[d] < w.dimensions[d]) return {};
        return {options_.smooth || chance(rng_, 50) ? ops::reduce_window_sum(x, w) : ops::reduce_window_max(x, w)};
      }
    }
  }

  // Ops that need one dimension whole.
  ir::Values along_one(Value x) {
    if (x.rank() == 0 || x.type().size() == 0) return {};
    auto d = pick(rng_, x.rank());
    if (options_.smooth || chance(rng_, 60)) return {ops::cumsum(x, d, chance(rng_, 40))};
    if (known(x).rounded) return {};
    return {ops::convert(ops::argmax(x, d), DType::F32)};
  }

  // A constraint on a mesh that is the program's: axis numbers need no translation.
  ir::Values constrained(Value x) {
    ir::Layout l = random_layout(rng_, x.shape(), mesh_, options_.uneven);
    ops::ShardingConstraint c;
    c.mesh_sizes = mesh_.sizes;
    c.mesh_names.list = mesh_.names;
    c.uneven = options_.uneven;
    for (const auto& axes : l.dims) {
      c.dims.push_back(chance(rng_, 30) ? Dims{-1} : Dims(axes.begin(), axes.end()));
    }
    return {builder_.add1(ops::def::sharding_constraint, {x}, ir::make_attrs(c))};
  }

  RandomProgram finish() {
    // The last value, and most of what nobody has read.
    ir::Values outputs{pool_.back()};
    std::vector<std::int32_t> last = ir::last_uses(builder_.graph());
    for (const auto& v : pool_) {
      if (v == outputs[0] || outputs.size() > 5) continue;
      if (chance(rng_, last[static_cast<std::size_t>(v.id)] < 0 ? 80 : 10)) outputs.push_back(v);
    }
    RandomProgram p;
    for (const auto& v : outputs) p.expected.push_back(known(v).value);
    ir::Graph g = ir::eliminate_dead(builder_.finish(outputs));
    auto choose = [&](ir::ValueId v) -> std::optional<ir::Layout> {
      if (chance(rng_, 25)) return std::nullopt;
      return random_layout(rng_, g.type(v).shape, mesh_, options_.uneven);
    };
    p.module = ir::module_over(std::make_shared<const ir::Graph>(g), mesh_);
    for (std::size_t i = 0; i < g.inputs.size(); ++i) p.module.inputs[i].layout = choose(g.inputs[i]);
    for (std::size_t i = 0; i < g.outputs.size(); ++i) p.module.outputs[i].layout = choose(g.outputs[i]);
    p.module.uneven = options_.uneven;
    p.args = std::move(args_);
    p.tolerance = 2e-4;
    return p;
  }

  Rng rng_;
  ir::MeshAxes mesh_;
  RandomOptions options_;
  ir::Builder builder_;
  std::vector<HostArray> args_;
  std::vector<Known> known_;  ///< by value
  ir::Values pool_;
  int made_ = 0;
};

}  // namespace

RandomProgram random_program(std::uint64_t seed, const ir::MeshAxes& mesh, const RandomOptions& options) {
  return Generator(seed, mesh, options).run();
}

HostArray random_array(Rng& rng, const ir::Type& type) {
  HostArray a(type.dtype, type.shape);
  ir::View v{a.dtype(), a.shape(), a.data()};
  for (std::int64_t i = 0; i < a.size(); ++i) {
    switch (ops::wide_kind(type.dtype)) {
      case ops::Wide::Bool:
        ops::store_bool(v, i, chance(rng, 50));
        break;
      case ops::Wide::Float:
        ops::store_float(v, i, static_cast<double>(1 + pick(rng, 16)) / 16.0);
        break;
      case ops::Wide::Complex:
        ops::store_complex(v, i,
                           {static_cast<double>(pick(rng, 17)) / 16.0, static_cast<double>(pick(rng, 17)) / 16.0});
        break;
      default:
        ops::store_int(v, i, pick(rng, 4));
    }
  }
  return a;
}

ir::Layout random_layout(Rng& rng, const Shape& shape, const ir::MeshAxes& mesh, bool uneven) {
  ir::Layout l = ir::Layout::replicated(rank(shape));
  std::vector<std::uint8_t> axes(mesh.sizes.size());
  std::iota(axes.begin(), axes.end(), std::uint8_t{0});
  std::shuffle(axes.begin(), axes.end(), rng);
  for (auto a : axes) {
    if (shape.empty() || chance(rng, 30)) continue;
    auto d = static_cast<std::size_t>(pick(rng, rank(shape)));
    l.dims[d].push_back(a);
    if (!uneven && shape[d] % ir::parts(l.dims[d], mesh) != 0) l.dims[d].pop_back();
  }
  return l;
}

std::vector<ir::MeshAxes> test_meshes() { return {{{8}, {"x"}}, {{4, 2}, {"x", "y"}}, {{2, 2, 2}, {"x", "y", "z"}}}; }

}  // namespace tessera::test
