// SPDX-License-Identifier: Apache-2.0
// Transposition and batching of graphs.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/thread_own.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/collective/collectives.h"
#include "ops/define_op.h"
#include "ops/transform/batch_axes.h"
#include "ops/transform/graph_rules.h"

namespace tessera::ops {

namespace {

// One backward walk. Values that do not depend on the linear inputs are evaluated first; cotangents are then summed
// from the last equation to the first.
class Transposer {
 public:
  Transposer(Builder& b, const Graph& g, ValueSpan in)
      : b_(b), g_(g), known_(b, g), linear_(g.num_values()), repeats_(g.num_values()), ct_(g.num_values()) {
    known_.bind(g.inputs, in);
    for (std::size_t i = 0; i < in.size(); ++i) linear_[at(g.inputs[i])] = !in[i];
  }

  void forward() {
    for (const auto& e : g_.eqns) {
      bool depends = std::any_of(e.in.begin(), e.in.end(), [&](auto v) { return linear_[at(v)]; });
      eqn_linear_.push_back(depends);
      for (auto v : e.out) {
        linear_[at(v)] = depends;
        repeats_[at(v)] = e.op == &def::broadcast_in_dim;
      }
      if (!depends) known_.copy(e);
    }
  }

  void accumulate(ir::ValueId v, Value ct) {
    if (!ct || !linear_[at(v)]) return;
    ct = placed_cotangent(broadcast_to(ct, g_.type(v).shape), v);
    ct_[at(v)] = add_any(ct_[at(v)], ct);
  }

  // A cotangent is placed as its value; it is unreduced where that is reduced.
  Value placed_cotangent(Value ct, ir::ValueId v) {
    const Type& t = g_.type(v);
    if (t.sharding == nullptr) return ct;
    const auto* want = t.sharding->marked() ? ir::cotangent_type(t).sharding : t.sharding;
    const auto* have = ct.type().sharding;
    const ir::AxisMask sums = have != nullptr ? have->unreduced : 0;
    if ((want->unreduced & ~sums) != 0 && !is_zeros(ct)) {
      throw ShardingTypeError(str(
          "grad: the cotangent of a value of type ", t, " is to be unreduced, ", ir::cotangent_type(t),
          ", but it comes as ", ct.type(), ", summed already: the contraction is not split over exactly the reduced ",
          "axes; expected out_sharding with unreduced axes to fit, or reshard the value to a spec without reduced ",
          "axes"));
    }
    // That of a repetition is summed where it is, and then placed.
    if (repeats_[at(v)] && sums == want->unreduced) return ct;
    return placed_as(ct, want, own_);
  }

  // The cotangent of a value after all of its readers.
  Value cotangent(ir::ValueId v) {
    if (auto parts = parts_.extract(v)) join(v, parts.mapped());
    return ct_[at(v)];
  }

  void backward() {
    for (std::size_t i = g_.eqns.size(); i-- > 0;) {
      if (eqn_linear_[i]) step(g_.eqns[i]);
    }
    for (auto v : g_.inputs) cotangent(v);
    b_.set_loc(before_);
  }

 private:
  // Cotangents of slices of one value. Those of a split are joined side by side: summing them, each padded with zeros,
  // would write the whole value as often as it has parts.
  struct Part {
    const ir::Eqn* slice;
    Value ct;
    const StaticSlice& at() const { return ir::get<StaticSlice>(slice->attrs); }
  };

  void join(ir::ValueId v, std::vector<Part>& parts) {
    const Shape& shape = g_.type(v).shape;
    if (auto dim = split_dim(shape, parts)) {
      auto d = at(*dim);
      std::sort(parts.begin(), parts.end(),
                [&](const Part& a, const Part& b) { return a.at().starts[d] < b.at().starts[d]; });
      bool adjoin = true;
      for (std::size_t i = 1; i < parts.size(); ++i) {
        adjoin = adjoin && parts[i].at().starts[d] == parts[i - 1].at().limits[d];
      }
      if (adjoin) {
        Values shards;
        for (const Part& p : parts) shards.push_back(p.ct);
        b_.set_loc(loc_of(*parts[0].slice));
        own_ = b_.graph().num_values();
        Value whole = shards.size() == 1 ? shards[0] : concatenate(shards, *dim);
        Dims low(shape.size());
        Dims high(shape.size());
        low[d] = parts.front().at().starts[d];
        high[d] = shape[d] - parts.back().at().limits[d];
        if (low[d] != 0 || high[d] != 0)
          whole = pad(whole, scalar(b_, 0, whole.dtype()), low, high, Dims(shape.size()));
        return accumulate(v, whole);
      }
    }
    for (const Part& p : parts) {
      b_.set_loc(loc_of(*p.slice));
      Types types{g_.type(v)};
      Values in(1), ct{p.ct};
      own_ = b_.graph().num_values();
      accumulate(v, transpose_of(b_, *p.slice->op, ir::TransposeArgs{in, types, {true}, ct}, p.slice->attrs)[0]);
    }
  }

  // The one dimension that the slices cut, without steps.
  static std::optional<std::int64_t> split_dim(const Shape& shape, const std::vector<Part>& parts) {
    std::optional<std::int64_t> dim;
    for (const Part& p : parts) {
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (p.at().strides[d] != 1) return std::nullopt;
        if (p.at().starts[d] == 0 && p.at().limits[d] == shape[d]) continue;
        if (dim && *dim != static_cast<std::int64_t>(d)) return std::nullopt;
        dim = static_cast<std::int64_t>(d);
      }
    }
    return dim;
  }

  const Loc& loc_of(const ir::Eqn& e) const { return e.loc.file ? e.loc : before_; }

  void step(const ir::Eqn& e) {
    Values ct;
    bool any = false;
    for (auto v : e.out) {
      ct.push_back(cotangent(v));
      any = any || ct.back();
    }
    if (!any) return;
    if (e.op == &def::slice) {
      parts_[e.in[0]].push_back({&e, ct[0]});
      return;
    }
    Values in = known_.of(e.in);
    Types types;
    Flags linear;
    for (auto v : e.in) {
      types.push_back(g_.type(v));
      linear.push_back(linear_[at(v)]);
    }
    b_.set_loc(loc_of(e));
    own_ = b_.graph().num_values();
    ir::AxisMask reduced = 0;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (linear[i] && types[i].sharding != nullptr) reduced |= types[i].sharding->reduced;
    }
    b_.set_open_axes(reduced);
    Values back = transpose_of(b_, *e.op, ir::TransposeArgs{in, types, linear, ct}, e.attrs);
    b_.set_open_axes(0);
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      if (linear[i]) accumulate(e.in[i], back[i]);
    }
  }

  Builder& b_;
  const Graph& g_;
  ir::Rewriter known_;  // what does not depend on the linear inputs
  std::vector<bool> linear_;
  std::vector<bool> repeats_;  // by value: a repetition of fewer elements
  Values ct_;
  std::map<ir::ValueId, std::vector<Part>> parts_;
  std::vector<bool> eqn_linear_;
  std::size_t own_ = 0;  // the builder's values before the rule that runs
  Loc before_ = b_.loc();
};

}  // namespace

Values transpose_inline(Builder& b, const Graph& g, ValueSpan in, ValueSpan ct) {
  TESSERA_CHECK(in.size() == g.inputs.size() && ct.size() == g.outputs.size(),
                str(in.size(), " inputs and ", ct.size(), " cotangents for a graph of ", g.inputs.size(),
                    " inputs and ", g.outputs.size(), " outputs"));
  Transposer walk(b, g, in);
  walk.forward();
  for (std::size_t i = 0; i < ct.size(); ++i) walk.accumulate(g.outputs[i], ct[i]);
  walk.backward();
  Values out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i]) out[i] = walk.cotangent(g.inputs[i]);
  }
  return out;
}

Transposed transpose_graph(const Graph& g, const Flags& linear_in, const Flags& has_ct, const Flags& force) {
  Builder b;
  Values in;
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    in.push_back(linear_in[i] ? Value{} : b.input(g.type(g.inputs[i])));
  }
  Values ct;
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const Type& t = g.type(g.outputs[i]);
    ct.push_back(has_ct[i] ? b.input(ir::cotangent_type(t)) : Value{});
  }
  Values back = transpose_inline(b, g, in, ct);
  Transposed out;
  Values outputs;
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (linear_in[i] && !back[i] && is_set(force, i)) back[i] = zeros(b, g.type(g.inputs[i]));
    out.nonzero.push_back(static_cast<bool>(back[i]));
    if (back[i]) outputs.push_back(back[i]);
  }
  out.graph = ir::after_pass("transpose", b.finish_shared(outputs));
  return out;
}

Type stacked(const Type& t, std::int64_t size) { return ir::with_dim(t, 0, size); }

namespace {
struct NameTag;
std::string& batch_name() { return base::thread_own<std::string, NameTag>(); }

struct AxesTag;
std::vector<std::string>& batch_axes() { return base::thread_own<std::vector<std::string>, AxesTag>(); }

struct EntryTag;
ir::AxisList& batch_entry() { return base::thread_own<ir::AxisList, EntryTag>(); }

bool uses_name(const ir::Eqn& e, const std::string& name) {
  if (const Collective* c = collective_of(e)) {
    return std::find(c->names.list.begin(), c->names.list.end(), name) != c->names.list.end();
  }
  auto graphs = e.op->subgraphs(e.attrs);
  return std::any_of(graphs.begin(), graphs.end(), [&](const GraphPtr& g) { return ops::uses_name(*g, name); });
}
// A collective over the batch's name acts even where nothing that it reads is batched.
bool carries_name(const ir::Eqn& e) { return !batch_name().empty() && uses_name(e, batch_name()); }
}  // namespace

bool uses_name(const Graph& g, const std::string& name) {
  return std::any_of(g.eqns.begin(), g.eqns.end(), [&](const ir::Eqn& e) { return uses_name(e, name); });
}

BatchName::BatchName(std::string name) : before_(std::exchange(batch_name(), std::move(name))) {}
BatchName::~BatchName() { batch_name() = std::move(before_); }
const std::string& BatchName::current() { return batch_name(); }

BatchMeshAxes::BatchMeshAxes(std::vector<std::string> axes) : before_(std::exchange(batch_axes(), std::move(axes))) {}
BatchMeshAxes::~BatchMeshAxes() { batch_axes() = std::move(before_); }
const std::vector<std::string>& BatchMeshAxes::current() { return batch_axes(); }

BatchEntry::BatchEntry(ir::AxisList axes) : before_(std::exchange(batch_entry(), std::move(axes))) {}
BatchEntry::~BatchEntry() { batch_entry() = std::move(before_); }
const ir::AxisList& BatchEntry::current() { return batch_entry(); }

Value repeat_in_front(Value x, std::int64_t size) {
  const std::size_t own = x.builder->graph().num_values();
  const Type type = ir::with_dim(x.type(), 0, size, batch_entry());
  Dims dims;
  for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d + 1);
  return placed_as(broadcast_in_dim(x, type.shape, dims), type.sharding, own);
}

ir::Batched batch_inline(Builder& b, const Graph& g, ValueSpan in, const Flags& batched, std::int64_t size) {
  TESSERA_CHECK(in.size() == g.inputs.size() && batched.size() == in.size(),
                str(in.size(), " values and ", batched.size(), " flags for ", g.inputs.size(), " inputs"));
  ir::Rewriter r(b, g);
  r.bind(g.inputs, in);
  std::vector<bool> is_batched(g.num_values());
  for (std::size_t i = 0; i < in.size(); ++i) is_batched[at(g.inputs[i])] = batched[i];
  Flags flags;
  r.walk([&](const ir::Eqn& e, const Values& x) {
    flags.clear();
    for (auto v : e.in) flags.push_back(is_batched[at(v)]);
    if (std::find(flags.begin(), flags.end(), true) == flags.end() && !carries_name(e)) return r.copy(e, x);
    const std::size_t own = b.graph().num_values();
    ir::Batched results = e.op->batch(b, ir::BatchArgs{x, flags, size}, e.attrs);
    for (std::size_t i = 0; i < e.out.size(); ++i) {
      is_batched[at(e.out[i])] = results.batched[i];
      // In types the results are those of one call, with the batch's axes in front.
      const Type& one = g.type(e.out[i]);
      if (one.sharding == nullptr) continue;
      for (auto a : batch_entry()) {
        if (!results.batched[i] || (one.sharding->split() >> a & 1) == 0) continue;
        throw DuplicateAxisError(str(
            "vmap: a value of type ", one, " in each call and the mapped dimension have duplicate ",
            "entries for the mesh axis `", ir::axes_text({a}, one.sharding->mesh), "`; expected other axes inside"));
      }
      const Type want = results.batched[i] ? ir::with_dim(one, 0, size, batch_entry()) : one;
      results.out[i] = placed_as(results.out[i], want.sharding, own);
    }
    return results.out;
  });
  ir::Batched out{r.outputs(), {}};
  for (auto v : g.outputs) out.batched.push_back(is_batched[at(v)]);
  return out;
}

BatchedGraph batch_graph(const Graph& g, const Flags& batched_in, std::int64_t size, const Flags& force_out) {
  Builder b;
  Values in;
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const Type& t = g.type(g.inputs[i]);
    in.push_back(b.input(batched_in[i] ? ir::with_dim(t, 0, size, batch_entry()) : t));
  }
  ir::Batched r = batch_inline(b, g, in, batched_in, size);
  for (std::size_t i = 0; i < r.out.size(); ++i) {
    if (r.batched[i] || !is_set(force_out, i)) continue;
    r.out[i] = repeat_in_front(r.out[i], size);
    r.batched[i] = true;
  }
  return {ir::after_pass("batch", b.finish_shared(r.out)), r.batched};
}

}  // namespace tessera::ops
