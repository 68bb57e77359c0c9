// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/aligned_interiors.h"

#include <algorithm>
#include <unordered_map>

#include "ir/op_def.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/shape/indexing_common.h"
#include "ops/shared_attrs.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::ValueId;
using ir::Values;

// What is padded, back to the slices that it is computed of.
struct Interior {
  const ir::Eqn* padding;
  std::vector<bool> inside;     // by equation: element by element, for nobody else
  std::vector<ValueId> leaves;  // what those equations read, but for scalars
};

class Aligner {
 public:
  Aligner(const ir::Module& m, const std::vector<ir::Layout>& layouts)
      : g_(*m.graph), layouts_(layouts), maker_(g_.num_values(), kNone), uses_(g_.num_values(), 0) {
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      for (auto v : g_.eqns[i].out) maker_[at(v)] = i;
      for (auto v : g_.eqns[i].in) ++uses_[at(v)];
    }
    for (auto v : g_.outputs) ++uses_[at(v)];
  }

  std::optional<LaidGraph> run() {
    for (const auto& e : g_.eqns) {
      if (auto found = interior(e)) interiors_.emplace(&e, *std::move(found));
    }
    if (interiors_.empty()) return std::nullopt;
    const std::vector<bool> needed = needed_equations();
    ir::Rewriter r(b_, g_);
    r.add_inputs();
    for (auto v : g_.inputs) lay(r[v], layouts_[at(v)]);
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      const ir::Eqn& e = g_.eqns[i];
      if (!needed[i]) continue;
      auto found = interiors_.find(&e);
      if (found == interiors_.end()) {
        r.copy(e);
      } else {
        r.bind(e.out[0], written(found->second, r));
      }
      for (auto v : e.out) lay(r[v], layouts_[at(v)]);
    }
    // Not pruned: values keep the numbers that their layouts have.
    auto graph = std::make_shared<const ir::Graph>(b_.finish(r.outputs()));
    return LaidGraph{ir::after_pass("align_interiors", graph), std::move(made_)};
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const ir::Eqn* maker(ValueId v) const { return maker_[at(v)] == kNone ? nullptr : &g_.eqns[maker_[at(v)]]; }
  template <class T>
  const T* made_by(ValueId v) const {
    const ir::Eqn* e = maker(v);
    return e == nullptr || !e->attrs ? nullptr : ir::get_if<T>(e->attrs);
  }

  std::optional<Interior> interior(const ir::Eqn& e) const {
    const auto* pad = e.attrs ? ir::get_if<ops::Pad>(e.attrs) : nullptr;
    if (pad == nullptr || g_.type(e.in[0]).size() == 0) return std::nullopt;
    bool splits = false;
    for (std::size_t d = 0; d < pad->low.size(); ++d) {
      if (pad->low[d] < 0 || pad->high[d] < 0 || pad->interior[d] != 0) return std::nullopt;
      splits = splits || (pad->low[d] + pad->high[d] > 0 && !layouts_[at(e.out[0])].dims[d].empty());
    }
    if (!splits || uses_[at(e.in[0])] != 1) return std::nullopt;
    Interior out{&e, std::vector<bool>(g_.eqns.size()), {}};
    collect(out);
    const bool any = std::any_of(out.inside.begin(), out.inside.end(), [](bool inside) { return inside; });
    auto is_cut = [&](ValueId v) { return cut_of(v, e.out[0]); };
    if (!any || std::none_of(out.leaves.begin(), out.leaves.end(), is_cut)) return std::nullopt;
    return out;
  }

  // Whether `v` is a slice of an array that is of the size of `whole`, and split as it is.
  bool cut_of(ValueId v, ValueId whole) const {
    const auto* slice = made_by<ops::StaticSlice>(v);
    if (slice == nullptr || std::ranges::any_of(slice->strides, [](std::int64_t s) { return s != 1; })) return false;
    const ValueId source = maker(v)->in[0];
    return g_.type(source).shape == g_.type(whole).shape && layouts_[at(source)].dims == layouts_[at(whole)].dims;
  }

  // From the last equation to the first, so that all readers of a value have been looked at before it.
  void collect(Interior& out) const {
    const Shape& whole = g_.type(out.padding->out[0]).shape;
    std::vector<int> reads(g_.num_values(), 0);  // by equations that are inside
    reads[at(out.padding->in[0])] = 1;
    for (std::size_t i = g_.eqns.size(); i-- > 0;) {
      const ir::Eqn& e = g_.eqns[i];
      if (e.out.size() != 1 || reads[at(e.out[0])] == 0 || g_.type(e.out[0]).rank() == 0) continue;
      // What somebody else reads, too, is there in any case.
      if (!e.op->traits().elementwise || reads[at(e.out[0])] != uses_[at(e.out[0])] || !fits(e, whole)) continue;
      out.inside[i] = true;
      for (auto v : e.in) ++reads[at(v)];
    }
    for (std::size_t v = 0; v < reads.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      const bool inside = maker_[v] != kNone && out.inside[maker_[v]];
      if (reads[v] > 0 && !inside && g_.type(id).rank() > 0) out.leaves.push_back(id);
    }
  }
  // Whether the equation does the same to larger arrays.
  bool fits(const ir::Eqn& e, const Shape& whole) const {
    ir::Types in;
    for (auto v : e.in) {
      in.push_back(g_.type(v));
      if (in.back().rank() > 0) in.back().shape = whole;
    }
    return e.op->infer(in, e.attrs)[0].shape == whole;
  }

  // What the new program reads.
  std::vector<bool> needed_equations() const {
    std::vector<bool> values(g_.num_values()), out(g_.eqns.size());
    for (auto v : g_.outputs) values[at(v)] = true;
    for (std::size_t i = g_.eqns.size(); i-- > 0;) {
      const ir::Eqn& e = g_.eqns[i];
      out[i] = e.op->traits().effect || std::ranges::any_of(e.out, [&](ValueId v) { return values[at(v)]; });
      if (!out[i]) continue;
      auto found = interiors_.find(&e);
      if (found == interiors_.end()) {
        for (auto v : e.in) values[at(v)] = true;
        continue;
      }
      values[at(e.in[1])] = true;
      for (auto v : found->second.leaves) values[at(whole_of(v, e) ? maker(v)->in[0] : v)] = true;
      for (std::size_t k = 0; k < i; ++k) {
        if (!found->second.inside[k]) continue;
        for (auto v : g_.eqns[k].in) values[at(v)] = values[at(v)] || g_.type(v).rank() == 0;
      }
    }
    return out;
  }

  // Whether a leaf is made again from what it is made of: a slice, or a value that is equal along the padded
  // dimensions.
  bool whole_of(ValueId v, const ir::Eqn& padding) const {
    if (const auto* slice = made_by<ops::StaticSlice>(v)) {
      return std::ranges::all_of(slice->strides, [](std::int64_t s) { return s == 1; });
    }
    const auto* spread = made_by<ops::BroadcastInDim>(v);
    if (spread == nullptr) return false;
    const auto& pad = ir::get<ops::Pad>(padding.attrs);
    return std::ranges::all_of(spread->dims, [&](std::int64_t d) { return pad.low[at(d)] + pad.high[at(d)] == 0; });
  }

  Value written(const Interior& interior, const ir::Rewriter& r) {
    const ir::Eqn& padding = *interior.padding;
    const auto& pad = ir::get<ops::Pad>(padding.attrs);
    const ir::Layout& layout = layouts_[at(padding.out[0])];
    const Shape whole = g_.type(padding.out[0]).shape;
    const Shape window = g_.type(padding.in[0]).shape;
    std::unordered_map<ValueId, Value> made;
    for (auto v : interior.leaves) made[v] = leaf(v, padding, r);
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      if (!interior.inside[i]) continue;
      const ir::Eqn& e = g_.eqns[i];
      b_.set_loc(e.loc);
      Values in;
      for (auto v : e.in) in.push_back(g_.type(v).rank() == 0 ? r[v] : made.at(v));
      made[e.out[0]] = b_.add1(*e.op, in, e.attrs);
    }
    b_.set_loc(padding.loc);
    Value out = ops::where(ops::inside_window(b_, whole, pad.low, window), made.at(padding.in[0]), r[padding.in[1]]);
    for (std::size_t v = made_.size(); v < b_.graph().num_values(); ++v) {
      const ir::Type& type = b_.graph().type(static_cast<ValueId>(v));
      made_.push_back(type.shape == whole ? layout : ir::Layout::replicated(type.rank()));
    }
    return out;
  }

  // For all elements of the whole, of which those outside of the inner part may be anything.
  Value leaf(ValueId v, const ir::Eqn& padding, const ir::Rewriter& r) {
    const auto& pad = ir::get<ops::Pad>(padding.attrs);
    const Shape& whole = g_.type(padding.out[0]).shape;
    const bool again = whole_of(v, padding);
    if (again) b_.set_loc(maker(v)->loc);
    if (const auto* spread = made_by<ops::BroadcastInDim>(v); again && spread != nullptr) {
      return ops::broadcast_in_dim(r[maker(v)->in[0]], whole, spread->dims);
    }
    const ValueId source = again ? maker(v)->in[0] : v;
    Dims low = pad.low;
    Dims high = pad.high;
    for (std::size_t d = 0; again && d < low.size(); ++d) {
      low[d] -= made_by<ops::StaticSlice>(v)->starts[d];
      high[d] = whole[d] - low[d] - g_.type(source).shape[d];
    }
    auto none = [](const Dims& n) { return std::ranges::all_of(n, [](std::int64_t i) { return i == 0; }); };
    if (none(low) && none(high)) return r[source];
    return ops::pad(r[source], zero(g_.type(v).dtype), low, high);
  }

  // One for all: exchanges of the same operands can be joined.
  Value zero(DType dtype) {
    Value& out = zeros_[dtype];
    if (!out) out = ops::scalar(b_, 0, dtype);
    return out;
  }

  void lay(Value v, const ir::Layout& layout) {
    made_.resize(std::max(made_.size(), b_.graph().num_values()));
    made_[at(v.id)] = layout;
  }

  const ir::Graph& g_;
  const std::vector<ir::Layout>& layouts_;
  std::vector<std::size_t> maker_;  // by value the equation that makes it
  std::vector<int> uses_;           // by value
  std::unordered_map<const ir::Eqn*, Interior> interiors_;
  ir::Builder b_;
  std::unordered_map<DType, Value> zeros_;
  std::vector<ir::Layout> made_;  // by new value
};

}  // namespace

std::optional<LaidGraph> align_interiors(const ir::Module& m, const std::vector<ir::Layout>& layouts) {
  return Aligner(m, layouts).run();
}

}  // namespace tessera::spmd
