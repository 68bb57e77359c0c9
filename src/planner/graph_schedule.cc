// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/control/subgraph_structure.h"
#include "ops/control/trip_count.h"
#include "ops/shared_attrs.h"
#include "planner/equation_work.h"
#include "planner/schedule.h"
#include "spmd/equations/halo_equations.h"
#include "spmd/late_completion.h"

namespace tessera::planner {

namespace {

using LayoutChange = ops::Reshard::Kind;
using TaskIds = std::vector<std::int32_t>;

bool free_reshard(const ir::Eqn& e) {
  return e.op == &ops::def::reshard && ir::get<ops::Reshard>(e.attrs).kind == LayoutChange::Slice;
}
bool communicates(const ir::Eqn& e) {
  return (e.op == &ops::def::reshard && !free_reshard(e)) || e.op == &ops::def::halo ||
         e.op == &ops::def::reinterpret || e.op == &ops::def::group_exchange;
}
// One that needs no copy. What joins or picks from several operands has one.
bool is_barrier(const ir::Eqn& e) { return e.op == &ops::def::optimization_barrier; }
bool reduces(const ir::Eqn& e) { return e.op->traits().reduction.has_value() && !e.op->traits().collective; }

class Writer {
 public:
  Writer(const ir::Graph& g, std::int64_t& unknown, Rows rows, bool is_body)
      : g_(g), unknown_(unknown), rows_(rows), is_body_(is_body), root_(g.num_values(), -1) {
    if (rows_ == Rows::Cached) uses_.emplace(g);
    made_.resize(g.num_values());
    group_.resize(g.num_values(), -1);
    in_memory_.resize(g.num_values());
    is_result_.resize(g.num_values());
    after_round_.resize(g.num_values());
    find_memory();
  }

  /// `carried`: by input, whether it is a loop variable.
  Schedule run(const std::vector<bool>& carried = {}, const std::vector<bool>& carried_outputs = {}) {
    for (std::size_t i = 0; i < carried.size(); ++i) after_round_[index(g_.inputs[i])] = carried[i];
    for (const auto& e : g_.eqns) add(e);
    for (std::size_t i = 0; i < carried_outputs.size(); ++i) {
      if (!carried_outputs[i]) continue;
      const TaskIds& ids = made_[index(g_.outputs[i])];
      out_.carried.insert(out_.carried.end(), ids.begin(), ids.end());
    }
    return std::move(out_);
  }

 private:
  static std::size_t index(ir::ValueId v) { return static_cast<std::size_t>(v); }
  double bytes(ir::ValueId v) const {
    const ir::Type& t = g_.type(v);
    return static_cast<double>(g_.mesh ? ops::local_bytes(t, g_.layout(v), *g_.mesh) : t.nbytes());
  }

  // Of a value that is repeated as a view, a cache holds what is repeated.
  double bytes_read(ir::ValueId v) const {
    return rows_ == Rows::Cached ? std::min(bytes(v), bytes(root(v))) : bytes(v);
  }

  // The value that a view shows.
  ir::ValueId root(ir::ValueId v) const { return root_[index(v)] < 0 ? v : root_[index(v)]; }

  // Which values go through memory: what other than element-wise operations make or read.
  void find_memory() {
    auto store = [&](ir::ValueId v) { in_memory_[index(root(v))] = true; };
    window_.resize(g_.num_values());
    for (auto v : g_.inputs) store(v);
    for (const auto& e : g_.eqns) {
      if (is_view(e) && !e.in.empty()) {
        for (std::size_t k = 0; k < e.out.size(); ++k) root_[index(e.out[k])] = root(e.in[is_barrier(e) ? k : 0]);
        const bool window = shows_window(e);
        for (auto v : e.out) {
          window_[index(v)] = window;
          in_memory_[index(root(v))] = in_memory_[index(root(v))] || window || is_barrier(e);
        }
        continue;
      }
      if (fuses(e) || reduces_rows(e)) continue;
      for (auto v : e.out) store(v);
      if (reduces(e)) continue;
      for (auto v : e.in) store(v);
    }
    for (auto v : g_.outputs) {
      store(v);
      is_result_[index(root(v))] = !is_body_;
    }
  }

  bool is_view(const ir::Eqn& e) const {
    return shows_window(e) || (e.op->traits().view && e.in.size() <= 1 && !copies(e)) || free_reshard(e) ||
           is_barrier(e);
  }
  bool fuses(const ir::Eqn& e) const { return (is_view(e) && !is_barrier(e)) || e.op->traits().elementwise; }
  // The native engine copies what it transposes, but for operands and results of products.
  bool copies(const ir::Eqn& e) const {
    if (!uses_ || e.op != &ops::def::transpose) return false;
    const ir::Eqn* maker = uses_->maker_for_one(e.in[0]);
    if (maker != nullptr && maker->op == &ops::def::dot_general) return false;
    const auto& readers = uses_->of(e.out[0]);
    const bool products =
        std::ranges::all_of(readers, [](const spmd::Use& u) { return u.eqn->op == &ops::def::dot_general; });
    return uses_->returned(e.out[0]) || !products;
  }

  // What the native engine's fused groups read where it is; of what is split it moves the edges alone.
  bool shows_window(const ir::Eqn& e) const {
    if (!uses_) return false;
    if (e.op == &ops::def::halo) {
      const auto& h = ir::get<ops::Halo>(e.attrs);
      if (!ops::shifts(h) || std::count(e.in.begin(), e.in.end(), e.in[0]) != std::ssize(h.starts) / h.results)
        return false;
    } else if (!ops::is_window(e)) {
      return false;
    }
    return std::ranges::all_of(e.out, [&](ir::ValueId v) {
      const bool elementwise =
          std::ranges::all_of(uses_->of(v), [](const spmd::Use& u) { return u.eqn->op->traits().elementwise; });
      return elementwise && !uses_->returned(v);
    });
  }

  // What the native engine computes row by row together with what it reads and what reads it.
  bool reduces_rows(const ir::Eqn& e) const {
    constexpr std::int64_t kLongest = 4096;
    const auto* p = ir::get_if<ops::Axes>(e.attrs);
    if (rows_ == Rows::Apart || !reduces(e) || p == nullptr || p->axes.empty()) return false;
    const Shape shape = local_shape(g_, e.in[0]);
    const auto kept = static_cast<std::int64_t>(shape.size() - p->axes.size());
    std::int64_t row = 1;
    for (auto d : p->axes) {
      if (d < kept) return false;
      row *= shape[static_cast<std::size_t>(d)];
    }
    return row <= kLongest && !is_complex(g_.type(e.in[0]).dtype);
  }

  void add(const ir::Eqn& e) {
    if (auto control = ops::control_of(e)) return add_control(e, *control);
    if (communicates(e)) return add_collective(e);
    if (is_view(e) || is_number(e)) return pass_on(e);
    if (rows_ == Rows::Cached && (fuses(e) || reduces(e))) {
      for (auto v : e.in) {
        if (comes_too_early(v, e)) make_again(v, 0);
      }
    }
    add_computation(e);
  }

  // Whether the fused group that computes `v` has to end before `e` can: what else `e` reads comes from others that
  // read the group's results, collectives above all.
  bool comes_too_early(ir::ValueId v, const ir::Eqn& e) {
    if (in_memory_[index(root(v))] || group_[index(v)] < 0) return false;
    const std::int32_t group = whole_group(group_[index(v)]);
    TaskIds open;
    for (auto t : tasks_of(e)) {
      if (whole_group(task(t).group) != group) open.push_back(t);
    }
    std::set<std::int32_t> seen(open.begin(), open.end());
    while (!open.empty()) {
      const Task& t = task(open.back());
      open.pop_back();
      for (auto before : t.after) {
        if (whole_group(task(before).group) == group) return true;
        if (before > group && seen.insert(before).second) open.push_back(before);
      }
    }
    return false;
  }
  // The native engine computes it once more in a later group where that is cheap, else the earlier one stores it.
  void make_again(ir::ValueId v, int depth) {
    constexpr int kLongest = 16;
    const ir::Eqn* maker = uses_->maker(root(v));
    if (in_memory_[index(root(v))] || maker == nullptr) return;
    if (depth >= kLongest || !maker->op->traits().cheap || reduces(*maker)) return store_late(root(v));
    for (auto x : maker->in) make_again(x, depth + 1);
    add_computation(*maker);
    made_[index(v)] = made_[index(root(v))];
    group_[index(v)] = group_[index(root(v))];
  }
  void store_late(ir::ValueId v) {
    in_memory_[index(v)] = true;
    for (auto t : made_[index(v)]) touch(task(t), v, bytes(v), Touch::Kind::Between);
  }
  Task& task(std::int32_t id) { return out_.tasks[static_cast<std::size_t>(id)]; }
  std::int32_t whole_group(std::int32_t group) const {
    auto larger = merged_.find(group);
    return larger == merged_.end() ? group : whole_group(larger->second);
  }

  // The native engine writes single constants into the code that reads them.
  bool is_number(const ir::Eqn& e) const {
    return rows_ == Rows::Cached && e.in.empty() && e.out.size() == 1 && size_of(local_shape(g_, e.out[0])) == 1;
  }

  void pass_on(const ir::Eqn& e) {
    for (auto v : e.out) {
      made_[index(v)] = tasks_of(e);
      after_round_[index(v)] = reads_round(e);
      if (!e.in.empty()) group_[index(v)] = group_[index(e.in[0])];
    }
  }

  TaskIds tasks_of(const ir::Eqn& e) const {
    TaskIds ids;
    for (auto v : e.in) ids.insert(ids.end(), made_[index(v)].begin(), made_[index(v)].end());
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }
  bool reads_round(const ir::Eqn& e) const {
    return std::ranges::any_of(e.in, [&](ir::ValueId v) { return after_round_[index(v)] && made_[index(v)].empty(); });
  }

  Task task(const ir::Eqn& e) const {
    Task t;
    t.name = std::string(e.op->name());
    t.loc = e.loc;
    t.after = tasks_of(e);
    t.after_round = reads_round(e);
    return t;
  }
  std::int32_t push(const ir::Eqn& e, Task t) {
    const auto id = static_cast<std::int32_t>(out_.tasks.size());
    out_.tasks.push_back(std::move(t));
    for (auto v : e.out) made_[index(v)] = {id};
    return id;
  }

  ir::AxisMask distinct(const std::vector<ir::ValueId>& values) const {
    ir::AxisMask out = 0;
    for (auto v : values) out |= g_.mesh ? g_.layout(v).distinct() : 0;
    return out;
  }
  bool sums_products(const ir::Eqn& e) const {
    const auto* p = ir::get_if<ops::Reshard>(e.attrs);
    if (!uses_ || p == nullptr || p->kind != LayoutChange::AllReduce || e.in.size() != 1) return false;
    const ir::Eqn* maker = uses_->maker_for_one(e.in[0]);
    return maker != nullptr && maker->op == &ops::def::dot_general &&
           g_.layout(e.in[0]).reduction == ir::Reduction::Sum;
  }

  void add_computation(const ir::Eqn& e) {
    Task t = task(e);
    describe_work(g_, e, rows_ == Rows::Cached, t);
    t.distinct = distinct(e.out.empty() ? e.in : e.out);
    const bool joins = fuses(e) || reduces(e);
    std::int32_t group = joins ? group_of(e) : -1;
    t.ends_pass = reduces_rows(e);
    t.launches = group < 0;
    if (reduces(e) && !t.ends_pass && t.launches) t.reads_at = "reduction_reads";
    if (group < 0) group = static_cast<std::int32_t>(out_.tasks.size());
    t.group = group;
    for (auto v : e.in) {
      if (!in_memory_[index(root(v))]) continue;
      const auto kind = joins ? kind_read(group, v) : as_read(v);
      if (!kind) continue;
      touch(t, root(v), bytes_read(v), *kind);
      if (kind != Touch::Kind::Window) continue;
      t.windows += static_cast<double>(size_of(local_shape(g_, v)));
      t.window_rows += row_count(g_, v);
    }
    const double read = t.bytes;
    for (auto v : e.out) {
      if (in_memory_[index(v)]) touch(t, v, bytes(v), kind_written(v));
      group_[index(v)] = fuses(e) || reduces_rows(e) ? group : -1;
    }
    // What only picks elements reads no more than it writes.
    if (e.op->traits().view) t.bytes = 2 * std::min(read, t.bytes - read);
    push(e, std::move(t));
  }
  // Inside a group each value is read once, and once more for each window: whichever comes first, moved or not, brings
  // it. None where the group has it.
  std::optional<Touch::Kind> kind_read(std::int32_t group, ir::ValueId v) {
    const bool window = window_[index(v)];
    if (window && !reads_.insert({group, v}).second) return std::nullopt;
    if (reads_.insert({group, root(v)}).second) {
      if (window) brought_by_window_.insert({group, root(v)});
      return as_read(v);
    }
    const bool again = window || brought_by_window_.erase({group, root(v)}) > 0;
    return again ? std::optional(Touch::Kind::Window) : std::nullopt;
  }
  std::optional<Touch::Kind> as_read(ir::ValueId v) const {
    return carried(v) ? Touch::Kind::Carried : Touch::Kind::Read;
  }
  void touch(Task& t, ir::ValueId v, double bytes, Touch::Kind kind) const {
    t.touches.push_back({v, bytes, kind, distinct({v})});
    t.bytes += bytes;
  }
  Touch::Kind kind_written(ir::ValueId v) const {
    return is_result_[index(v)] ? Touch::Kind::Written : Touch::Kind::Between;
  }
  bool carried(ir::ValueId v) const { return after_round_[index(root(v))] && made_[index(root(v))].empty(); }

  // The group that the equation joins; -1: none.
  std::int32_t group_of(const ir::Eqn& e) {
    std::int32_t group = -1;
    for (auto v : e.in) {
      if (in_memory_[index(root(v))]) continue;
      const std::int32_t other = whole_group(group_[index(v)]);
      if (other < 0 || other == group) continue;
      const bool both = rows_ == Rows::Cached && group >= 0;
      group = both ? merge(std::min(group, other), std::max(group, other)) : std::max(group, other);
    }
    return group;
  }
  // What both groups read is read once.
  std::int32_t merge(std::int32_t group, std::int32_t other) {
    merged_[other] = group;
    std::set<ir::ValueId> twice;
    auto read = reads_.lower_bound({other, std::numeric_limits<ir::ValueId>::min()});
    for (; read != reads_.end() && read->first == other; read = reads_.erase(read)) {
      if (!reads_.insert({group, read->second}).second) twice.insert(read->second);
    }
    for (auto i = static_cast<std::size_t>(other); i < out_.tasks.size(); ++i) {
      Task& t = out_.tasks[i];
      if (t.group != other) continue;
      t.group = group;
      t.launches = false;
      std::erase_if(t.touches, [&](const Touch& u) {
        const bool known = !u.writes() && u.kind != Touch::Kind::Window && twice.contains(u.value);
        if (known) t.bytes -= u.bytes;
        return known;
      });
    }
    return group;
  }

  void add_collective(const ir::Eqn& e) {
    Task t = task(e);
    t.is_collective = true;
    auto all = [&](const std::vector<ir::ValueId>& values) {
      double sum = 0;
      for (auto v : values) sum += bytes(v);
      return sum;
    };
    t.bytes = all(e.in);
    t.axes = ops::exchange_axes(g_, e);
    t.distinct = distinct(e.in);
    if (const auto* p = ir::get_if<ops::Reshard>(e.attrs)) {
      t.collective = p->kind == LayoutChange::AllReduce       ? Collective::AllReduce
                     : p->kind == LayoutChange::ReduceScatter ? Collective::ReduceScatter
                     : p->kind == LayoutChange::AllGather     ? Collective::AllGather
                     : p->kind == LayoutChange::AllToAll      ? Collective::AllToAll
                                                              : Collective::Permute;
      if (t.collective == Collective::AllGather) t.bytes = all(e.out);
      t.sums_products = sums_products(e);
    } else if (const auto* q = ir::get_if<ops::GroupExchange>(e.attrs)) {
      set_groups(t, *q);
    } else {
      t.collective = Collective::Permute;
      t.bytes = static_cast<double>(ops::received(g_, e));
      if (e.op == &ops::def::halo) t.copied = shows_window(e) ? 2 * t.bytes : all(e.in) + all(e.out);
    }
    if (ops::received(g_, e) == 0) return pass_on(e);
    if (!shows_window(e)) {
      for (auto v : e.in) t.touches.push_back({root(v), bytes(v), Touch::Kind::Read, distinct({v})});
      for (auto v : e.out) t.touches.push_back({v, bytes(v), kind_written(v), distinct({v})});
    }
    t.name = to_string(t.collective);
    push(e, std::move(t));
  }
  static void set_groups(Task& t, const ops::GroupExchange& q) {
    using Groups = ops::GroupExchange::Kind;
    switch (q.kind) {
      case Groups::Sum:
      case Groups::Max:
      case Groups::Min:
        t.collective = Collective::AllReduce;
        break;
      case Groups::AllGather:
        t.collective = Collective::AllGather;
        t.bytes *= static_cast<double>(q.groups.front().size());
        break;
      case Groups::ReduceScatter:
        t.collective = Collective::ReduceScatter;
        break;
      case Groups::AllToAll:
      case Groups::Ragged:
        t.collective = Collective::AllToAll;
        break;
    }
  }
  Schedule body_of(const ops::Body& body, const ops::Control& control) const {
    std::vector<bool> in(body.graph->inputs.size());
    std::vector<bool> out(body.graph->outputs.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] = std::ranges::any_of(control.carried, [&](const auto& c) { return c.first == body.inputs[i].outer; });
    }
    for (const auto& tie : body.outputs) {
      out[tie.inner] = std::ranges::any_of(control.carried, [&](const auto& c) { return c.second == tie.outer; });
    }
    return Writer(*body.graph, unknown_, rows_, true).run(in, out);
  }

  void add_control(const ir::Eqn& e, const ops::Control& control) {
    Task t = task(e);
    const bool loops = e.op == &ops::def::while_ || control.times != 1;
    auto chosen = std::make_shared<Schedule>();
    for (const auto& body : control.bodies) {
      Schedule s = body_of(body, control);
      if (loops && !chosen->tasks.empty()) {  // a condition, then the body
        const auto shift = static_cast<std::int32_t>(chosen->tasks.size());
        for (auto& inner : s.tasks) {
          for (auto& a : inner.after) a += shift;
          chosen->tasks.push_back(std::move(inner));
        }
        for (auto c : s.carried) chosen->carried.push_back(c + shift);
      } else if (chosen->tasks.empty() || work(*chosen) < work(s)) {  // of branches the one with most work
        *chosen = std::move(s);
      }
    }
    t.times = control.times >= 0 ? control.times : ops::trip_count(g_, e).value_or(-1);
    if (t.times < 0) {
      ++unknown_;
      t.times = 1;
    }
    t.body = std::move(chosen);
    push(e, std::move(t));
  }
  static std::tuple<double, double, double> work(const Schedule& s) {
    std::tuple<double, double, double> sum{};
    for (const auto& t : s.tasks) {
      auto [products, vector, memory] = t.body ? work(*t.body) : std::tuple(t.products, t.vector, t.bytes);
      std::get<0>(sum) += products * static_cast<double>(t.times);
      std::get<1>(sum) += vector * static_cast<double>(t.times);
      std::get<2>(sum) += memory * static_cast<double>(t.times);
    }
    return sum;
  }

  const ir::Graph& g_;
  std::int64_t& unknown_;
  Rows rows_;
  bool is_body_;  // the results of a loop's body take the memory of what a round has read
  Schedule out_;
  std::optional<spmd::GraphUses> uses_;  // of a graph for the native engine
  std::vector<ir::ValueId> root_;        // of views, by value
  std::vector<bool> window_;             // by value: of another one, moved
  std::vector<bool> in_memory_;          // by root
  std::vector<bool> is_result_;          // by root: of the graph
  std::vector<TaskIds> made_;            // by value: the tasks that it needs
  std::vector<bool> after_round_;        // by value: of a loop's variable
  std::vector<std::int32_t> group_;      // by value: the fused group that computes it
  std::set<std::pair<std::int32_t, ir::ValueId>> reads_;
  std::set<std::pair<std::int32_t, ir::ValueId>> brought_by_window_;  // not read where it is so far
  std::map<std::int32_t, std::int32_t> merged_;                       // groups that others took in
};

}  // namespace

Schedule schedule_of(const ir::Graph& partitioned, std::int64_t& unknown, Rows rows) {
  return Writer(partitioned, unknown, rows, false).run();
}

}  // namespace tessera::planner
