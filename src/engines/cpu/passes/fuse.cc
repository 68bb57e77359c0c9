// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/fuse.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/strings.h"
#include "engines/cpu/adapters/ew_ops.h"
#include "engines/cpu/kernels/elementwise/fused.h"
#include "engines/cpu/kernels/fused_columns.h"
#include "engines/cpu/passes/find_windows.h"
#include "engines/cpu/passes/fuse_rules.h"
#include "engines/cpu/steps/unit.h"
#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/transform/interpret.h"

namespace tessera::cpu {

namespace {

using kernels::Access;
using kernels::FusedColumns;
using kernels::FusedKernel;
using kernels::FusedProgram;

// Who reads a value.
struct Uses {
  std::vector<std::vector<std::size_t>> eqns;  // by value
  std::vector<bool> output;

  explicit Uses(const ir::Graph& g) : eqns(g.num_values()), output(g.num_values()) {
    for (std::size_t i = 0; i < g.eqns.size(); ++i) {
      for (auto v : g.eqns[i].in) eqns[at(v)].push_back(i);
    }
    for (auto v : g.outputs) output[at(v)] = true;
  }
  bool outside(ir::ValueId v, const std::vector<std::size_t>& group) const {
    if (output[at(v)]) return true;
    const auto& readers = eqns[at(v)];
    return std::any_of(readers.begin(), readers.end(),
                       [&](std::size_t i) { return !std::binary_search(group.begin(), group.end(), i); });
  }
};

FusionGroup alone(std::size_t eqn) {
  FusionGroup group;
  group.eqns = {eqn};
  return group;
}

// True when values of rows have all dimensions of the space that are split.
bool rows_tell_extent(const FusionGroup& group) {
  return group.split >= 0 && !group.has_columns() &&
         std::all_of(group.dims.begin() + group.split, group.dims.end(),
                     [](const ir::AxisList& axes) { return axes.empty(); });
}

// Groups stay open while equations that are not in them go by, and run when the first outsider wants a result: then
// everything that they read is there, and no cycle can arise.
class Planner {
 public:
  explicit Planner(const ir::Graph& g) : g_(g), uses_(g), owner_(g.num_values(), nullptr) {}

  std::vector<FusionGroup> plan() {
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) add(i);
    while (!open_.empty()) close(open_.front().get(), nullptr);
    return std::move(done_);
  }

 private:
  static constexpr std::size_t kLargest = 60;

  void add(std::size_t i) {
    const ir::Eqn& e = g_.eqns[i];
    std::vector<FusionGroup*> producers;
    for (auto v : e.in) {
      auto* owner = owner_[at(v)];
      if (owner != nullptr && std::find(producers.begin(), producers.end(), owner) == producers.end()) {
        producers.push_back(owner);
      }
    }
    FusionGroup* home = join(e, producers);
    for (auto* p : producers) {
      if (p != home) close(p, &e);
    }
    if (home == nullptr) home = start(e);
    if (home == nullptr) {
      done_.push_back(alone(i));
      return;
    }
    auto f = fit(g_, *home, e);
    if (f->split >= 0) home->split = f->split;
    home->produced[e.out[0]] = f->role;
    home->eqns.push_back(i);
    owner_[at(e.out[0])] = home;
  }

  // The producer that takes the equation in, after taking in what it can of the others.
  FusionGroup* join(const ir::Eqn& e, std::vector<FusionGroup*>& producers) {
    for (std::size_t h = producers.size(); h-- > 0;) {
      FusionGroup* home = producers[h];
      if (home->eqns.size() >= kLargest || !fits(*home, e)) continue;
      for (std::size_t o = producers.size(); o-- > 0;) {
        if (producers[o] == home) continue;
        auto both = merged(*home, *producers[o]);
        if (!both || !fits(*both, e)) continue;
        take_over(home, producers[o], std::move(*both));
        producers.erase(producers.begin() + static_cast<std::ptrdiff_t>(o));
      }
      return home;
    }
    return nullptr;
  }

  // Columns of what is stored in any case would only be read once less, and cost it its way around the caches.
  bool fits(const FusionGroup& group, const ir::Eqn& e) const {
    const auto f = fit(g_, group, e);
    if (!f || f->role != Role::Column) return f.has_value();
    const ir::ValueId v = e.in[0];
    return !uses_.output[at(v)] && std::ranges::all_of(uses_.eqns[at(v)], [&](std::size_t i) {
      const ir::Eqn& other = g_.eqns[i];  // which may follow, if it reduces the same rows
      return (reduce_op(*other.op) && ir::equal(other.attrs, e.attrs)) ||
             std::binary_search(group.eqns.begin(), group.eqns.end(), i);
    });
  }

  std::optional<FusionGroup> merged(const FusionGroup& a, const FusionGroup& b) const {
    if (a.space != b.space || a.dims != b.dims || a.distinct != b.distinct ||
        a.eqns.size() + b.eqns.size() >= kLargest) {
      return std::nullopt;
    }
    FusionGroup out = a;
    FusionGroup other = b;
    if (a.split >= 0 && b.split >= 0 && a.split != b.split) {
      if (splits_at(g_, b, a.split)) {
        other.split = a.split;
      } else if (splits_at(g_, a, b.split)) {
        out.split = b.split;
      } else {
        return std::nullopt;
      }
    }
    if ((out.has_columns() && has_windows(g_, other)) || (other.has_columns() && has_windows(g_, out))) {
      return std::nullopt;
    }
    out.split = std::max(out.split, other.split);
    out.produced.insert(b.produced.begin(), b.produced.end());
    out.eqns.insert(out.eqns.end(), b.eqns.begin(), b.eqns.end());
    std::sort(out.eqns.begin(), out.eqns.end());
    return out;
  }
  void take_over(FusionGroup* home, FusionGroup* other, FusionGroup both) {
    for (const auto& [v, role] : other->produced) owner_[at(v)] = home;
    *home = std::move(both);
    std::erase_if(open_, [&](const auto& p) { return p.get() == other; });
  }

  FusionGroup* start(const ir::Eqn& e) {
    auto group = group_for(g_, e);
    if (!group) return nullptr;
    open_.push_back(std::make_unique<FusionGroup>(std::move(*group)));
    return open_.back().get();
  }

  // Runs what `reader` needs of the group; everything for null. What is left over stays open where that stores fewer
  // values: it will run beside those who read it.
  void close(FusionGroup* group, const ir::Eqn* reader) {
    auto it = std::find_if(open_.begin(), open_.end(), [&](const auto& p) { return p.get() == group; });
    FusionGroup now;
    if (reader == nullptr || !split_off(*group, *reader, now)) {
      now = std::move(*group);
      open_.erase(it);
    }
    for (const auto& [v, role] : now.produced) owner_[at(v)] = nullptr;
    for (auto i : now.eqns) {
      ir::ValueId v = g_.eqns[i].out[0];
      if (uses_.outside(v, now.eqns)) now.results.push_back(v);
    }
    if (worthwhile(now)) {
      done_.push_back(std::move(now));
    } else {
      for (auto i : now.eqns) done_.push_back(alone(i));
    }
  }

  bool split_off(FusionGroup& group, const ir::Eqn& reader, FusionGroup& now) const {
    std::set<ir::ValueId> wanted(reader.in.begin(), reader.in.end());
    std::vector<std::size_t> later;
    now = group;
    now.eqns.clear();
    now.produced.clear();
    for (std::size_t n = group.eqns.size(); n-- > 0;) {
      const ir::Eqn& e = g_.eqns[group.eqns[n]];
      if (wanted.contains(e.out[0])) {
        wanted.insert(e.in.begin(), e.in.end());
        now.eqns.insert(now.eqns.begin(), group.eqns[n]);
        now.produced[e.out[0]] = group.produced.at(e.out[0]);
      } else {
        later.insert(later.begin(), group.eqns[n]);
      }
    }
    if (later.empty()) return false;
    // Values that are stored only because of the split, and those that it spares.
    std::size_t extra = 0;
    std::size_t spared = 0;
    for (const auto& [v, role] : group.produced) {
      bool here = now.produced.contains(v);
      if (!here && uses_.output[at(v)]) return false;
      if (here) extra += !uses_.outside(v, group.eqns) && uses_.outside(v, now.eqns);
      if (!here) spared += uses_.outside(v, group.eqns);
    }
    if (extra > spared) return false;
    for (const auto& [v, role] : now.produced) group.produced.erase(v);
    group.eqns = std::move(later);
    return true;
  }

  // Something must be computed, and the local extent of the space must be known from an operand or a result.
  bool worthwhile(const FusionGroup& group) const {
    bool computes = false;
    bool extent =
        rows_tell_extent(group) || std::any_of(group.results.begin(), group.results.end(),
                                               [&](ir::ValueId v) { return group.produced.at(v) == Role::Full; });
    for (auto i : group.eqns) {
      const ir::Eqn& e = g_.eqns[i];
      computes = computes || !(e.op->traits().view || reads_window(g_, group, e));
      for (std::size_t k = 0; k < e.in.size(); ++k) {
        if (group.produced.contains(e.in[k]) || !covers_space(g_, group, e.in[k])) continue;
        extent = extent || access(g_, group, e, k) == Access::Contiguous;
      }
    }
    return computes && extent && group.eqns.size() > 1;
  }

  const ir::Graph& g_;
  Uses uses_;
  std::vector<FusionGroup*> owner_;  // open group that produces the value
  std::vector<std::unique_ptr<FusionGroup>> open_;
  std::vector<FusionGroup> done_;
};

class FusedUnit final : public Unit {
 public:
  FusedUnit(const ir::Graph& g, const FusionGroup& group) : g_(g), group_(group) {
    out = group.results;
    for (auto i : group.eqns) {
      const ir::Eqn& e = g.eqns[i];
      for (std::size_t k = 0; k < e.in.size(); ++k) {
        ir::ValueId v = e.in[k];
        if (!group.produced.contains(v)) read(v, access(g, group, e, k));
      }
    }
  }

  std::string name() const override {
    std::string ops;
    for (auto i : group_.eqns) ops += str(ops.empty() ? "" : " ", g_.eqns[i].op->name());
    return "fused[" + ops + "]";
  }
  bool follows_offsets() const override { return false; }
  ir::Attrs remapped(ir::TypeSpan, ir::TypeSpan, std::span<const Dims>, std::span<const Dims>) const override {
    return nullptr;
  }

  Kernel kernel(ir::TypeSpan local_in, ir::TypeSpan local_out, const ir::Attrs&) const override {
    const Shape space = local_space(local_in, local_out);
    auto [outer, inner] = extents(space);
    FusedProgram program;
    std::vector<std::size_t> order;  // operand that each input of the program is
    std::vector<kernels::Window> windows;
    for (auto i : group_.eqns) {
      const ir::Eqn& e = g_.eqns[i];
      if (!reads_window(g_, group_, e)) continue;
      windows.push_back(window_of(g_, e, space, local_in[place_of(e.in[0])].shape));
    }
    Kernel k;
    k.in_place = whole_ & ~partly_;
    std::vector<FusedColumns::Column> columns;
    std::vector<std::size_t> stored;  // results that are not columns
    write(program, order, stored, columns);
    double work = static_cast<double>(outer * inner) * static_cast<double>(group_.eqns.size());
    k.cost = 200 + 0.2 * work;
    if (!columns.empty()) {
      k.run = with_columns(std::move(program), order, stored, std::move(columns), outer, inner);
      return k;
    }
    auto fused = std::make_shared<FusedKernel>(std::move(program));
    auto run = [=, outer = outer, inner = inner, results = out.size()](const void* const* from, void* const* to,
                                                                       bool stream) {
      constexpr std::size_t kInline = 16;
      const void* fixed[kInline];
      std::vector<const void*> dynamic;
      const void** inputs = fixed;
      if (order.size() > kInline) {
        dynamic.resize(order.size());
        inputs = dynamic.data();
      }
      for (std::size_t i = 0; i < order.size(); ++i) inputs[i] = from[order[i]];
      fused->run({inputs, order.size()}, {to, results}, outer, inner, stream, windows);
    };
    k.run = [run](const void* const* from, void* const* to) { run(from, to, false); };
    k.stream = [run](const void* const* from, void* const* to) { run(from, to, true); };
    return k;
  }

 private:
  std::size_t place_of(ir::ValueId v) const {
    return static_cast<std::size_t>(std::find(in.begin(), in.end(), v) - in.begin());
  }
  void read(ir::ValueId v, Access how) {
    auto i = place_of(v);
    if (i == in.size()) in.push_back(v);
    if (how == Access::Contiguous && covers_space(g_, group_, v)) extent_in_ = static_cast<std::int64_t>(i);
    if (i >= 64) return;
    (how == Access::Contiguous ? whole_ : partly_) |= std::uint64_t{1} << i;
  }

  // A shard of the space.
  Shape local_space(ir::TypeSpan local_in, ir::TypeSpan local_out) const {
    if (extent_in_ >= 0) return local_in[at(extent_in_)].shape;
    for (std::size_t j = 0; j < out.size(); ++j) {
      if (group_.produced.at(out[j]) == Role::Full) return local_out[j].shape;
    }
    Shape space = group_.space;
    std::copy_n(local_out[0].shape.begin(), group_.split, space.begin());
    return space;
  }
  // Its rows and columns.
  std::pair<std::int64_t, std::int64_t> extents(const Shape& space) const {
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    for (std::size_t d = 0; d < space.size(); ++d) {
      (static_cast<std::int64_t>(d) < group_.split ? outer : inner) *= space[d];
    }
    return {outer, inner};
  }

  Kernel::Fn with_columns(FusedProgram program, const std::vector<std::size_t>& order,
                          const std::vector<std::size_t>& stored, std::vector<FusedColumns::Column> columns,
                          std::int64_t outer, std::int64_t inner) const {
    std::vector<std::size_t> results = stored;
    for (std::size_t j = 0; j < out.size(); ++j) {
      if (group_.produced.at(out[j]) == Role::Column) results.push_back(j);
    }
    const auto count = static_cast<std::int64_t>(stored.size());
    auto fused = std::make_shared<FusedColumns>(std::move(program), count, std::move(columns));
    return [=](const void* const* from, void* const* to) {
      std::vector<const void*> inputs;
      std::vector<void*> outputs;
      for (auto i : order) inputs.push_back(from[i]);
      for (auto j : results) outputs.push_back(to[j]);
      fused->run(inputs, outputs, outer, inner);
    };
  }

  void write(FusedProgram& program, std::vector<std::size_t>& order, std::vector<std::size_t>& stored,
             std::vector<FusedColumns::Column>& columns) const {
    std::map<ir::ValueId, FusedProgram::Value> values;
    std::map<std::pair<ir::ValueId, Access>, FusedProgram::Value> inputs;
    // Programs that differ in a constant alone share their code, for which constants are operands; but quotients by a
    // number that is known are products.
    for (auto i : group_.eqns) {
      const ir::Eqn* divisor = whole_divisor(g_.eqns[i]);
      if (divisor == nullptr || values.contains(divisor->out[0])) continue;
      const HostArray c = ops::interpret(*divisor->op, {}, divisor->attrs)[0];
      values[divisor->out[0]] = program.constant(c.dtype(), c.data());
    }
    auto operand = [&](const ir::Eqn& e, std::size_t i) {
      ir::ValueId v = e.in[i];
      if (auto it = values.find(v); it != values.end()) return it->second;
      Access how = access(g_, group_, e, i);
      auto [it, fresh] = inputs.try_emplace({v, how}, -1);
      if (fresh) {
        it->second = program.input(g_.type(v).dtype, how);
        order.push_back(place_of(v));
      }
      return it->second;
    };
    for (auto i : group_.eqns) {
      const ir::Eqn& e = g_.eqns[i];
      FusedProgram::Value& result = values[e.out[0]];
      if (reads_window(g_, group_, e)) {
        result = write_window(program, e, order, operand);
      } else if (e.op->traits().view) {
        result = operand(e, 0);
      } else if (group_.produced.at(e.out[0]) == Role::Column) {
        continue;
      } else if (auto reduce = reduce_op(*e.op)) {
        result = program.reduce(*reduce, operand(e, 0));
      } else {
        ir::Types types;
        for (auto v : e.in) types.push_back(g_.type(v));
        ir::Types result_type{g_.type(e.out[0])};
        result = write_ew(program, *e.op, e.attrs, types, result_type, [&](std::size_t k) { return operand(e, k); });
      }
    }
    for (std::size_t j = 0; j < out.size(); ++j) {
      const Role role = group_.produced.at(out[j]);
      if (role == Role::Column) continue;
      stored.push_back(j);
      if (role == Role::Full) {
        program.output(values[out[j]]);
      } else {
        program.row_output(values[out[j]]);
      }
    }
    std::map<ir::ValueId, std::int64_t> operands;  // of columns: which result of the program
    for (auto v : out) {
      if (group_.produced.at(v) != Role::Column) continue;
      const auto i = *std::ranges::find_if(group_.eqns, [&](std::size_t n) { return g_.eqns[n].out[0] == v; });
      const ir::Eqn& e = g_.eqns[i];
      auto [it, fresh] = operands.try_emplace(e.in[0], program.num_outputs());
      if (fresh) program.output(values[e.in[0]]);
      columns.push_back({*reduce_op(*e.op), it->second});
    }
  }

  // The constant without dimensions that an equation divides whole numbers by; null for others.
  const ir::Eqn* whole_divisor(const ir::Eqn& e) const {
    if ((e.op != &ops::def::div && e.op != &ops::def::rem) || !is_integer(g_.type(e.out[0]).dtype)) return nullptr;
    ir::ValueId v = e.in[1];
    auto maker = [&] {
      return std::ranges::find_if(g_.eqns, [&](const ir::Eqn& x) { return std::ranges::count(x.out, v) > 0; });
    };
    auto made = maker();
    for (; made != g_.eqns.end() && made->op == &ops::def::broadcast_in_dim; made = maker()) v = made->in[0];
    const bool known = made != g_.eqns.end() && made->op == &ops::def::constant && g_.type(v).shape.empty();
    return known ? &*made : nullptr;
  }

  template <class F>
  FusedProgram::Value write_window(FusedProgram& program, const ir::Eqn& e, std::vector<std::size_t>& order,
                                   const F& operand) const {
    const DType t = g_.type(e.in[0]).dtype;
    const bool edges = e.op == &halo_shift();
    const FusedProgram::Value fill = e.op == &ops::def::pad ? operand(e, 1) : -1;
    order.push_back(place_of(e.in[0]));
    if (edges) order.push_back(place_of(e.in[1]));
    return edges ? program.window_with_edges(t) : program.window(t, fill);
  }

  const ir::Graph& g_;
  const FusionGroup& group_;
  std::uint64_t whole_ = 0;   // operands that are read as they lie
  std::uint64_t partly_ = 0;  // operands that are repeated
  std::int64_t extent_in_ = -1;
};

}  // namespace

std::vector<FusionGroup> fusion_groups(const ir::Graph& g, bool fuse) {
  if (fuse) return Planner(g).plan();
  std::vector<FusionGroup> out;
  for (std::size_t i = 0; i < g.eqns.size(); ++i) out.push_back(alone(i));
  return out;
}

StepPtr make_fused_step(const ir::Graph& g, const FusionGroup& group, Context& context) {
  return make_unit_step(g, FusedUnit(g, group), context);
}

}  // namespace tessera::cpu
