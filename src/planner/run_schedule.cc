// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "base/strings.h"
#include "planner/schedule.h"

namespace tessera::planner {

namespace {

constexpr std::size_t kMostLevels = 32;
constexpr int kRounds = 2;  // of a loop that are simulated: the first, and one like all others

// A task's end, and whether it is data that arrived or was computed.
struct Ready {
  double at = 0;
  const Task* waits_for = nullptr;  // the collective that ends then
};

// What was counted so far, to be multiplied for the rounds of a loop that are not simulated.
struct Counts {
  double compute = 0, communication = 0, exposed = 0, products = 0;
  std::int64_t collectives = 0;
};

// What the last cache holds of values that are used again after so many bytes. Its rate was measured with some of them
// already gone: a mixture of that of the cache before it and the memory's. Beyond its size the rest goes.
double last_cache_share(const ClusterDevice& d, double bytes) {
  if (d.caches.empty()) return 0;
  const ClusterCache& last = d.caches.back();
  const auto size = static_cast<double>(last.bytes);
  double most = 1;
  if (d.caches.size() > 1) {
    const ClusterCache& before = d.caches[d.caches.size() - 2];
    if (bytes <= static_cast<double>(before.bytes)) return 1;
    const double all_missed = 1 / d.memory_bandwidth - 1 / before.bandwidth;
    if (all_missed > 0) most = std::clamp((1 / d.memory_bandwidth - 1 / last.bandwidth) / all_missed, 0.0, 1.0);
  }
  return most * std::clamp(2 - bytes / size, 0.0, 1.0);
}
// The rate at which that share is read.
double cached_bandwidth(const ClusterDevice& d, double bytes) {
  const bool mixed = d.caches.size() > 1 && bytes > static_cast<double>(d.caches[d.caches.size() - 2].bytes);
  return mixed             ? d.caches[d.caches.size() - 2].bandwidth
         : d.cached(bytes) ? d.bandwidth(bytes)
                           : d.caches.back().bandwidth;
}

// Seconds that a task takes to read and write what caches hold, and what they do not.
struct Moves {
  double cached = 0, memory = 0;
  double since = 0;  ///< bytes read and written since it last used what it reads
};

// Of a fused group. Its passes follow each other; in each, arithmetic and what caches give go on side by side. Beside
// all of them goes the traffic with memory, for a row's elements are asked for while the row before is computed.
struct GroupSums {
  double passes = 0;  // seconds of those that are done
  double computes = 0;
  Moves moves = {};
  double in_caches() const { return passes + std::max(computes, moves.cached); }
  double seconds() const { return std::max(in_caches(), moves.memory); }
};

class Simulator {
 public:
  Simulator(const ClusterModel& cluster, const Dims& mesh_sizes) : cluster_(cluster), mesh_sizes_(mesh_sizes) {}

  Timeline run(const Schedule& schedule) {
    Ready end = round(schedule, {});
    wait(std::max(end.at, busy_until()), end.waits_for);
    out_.seconds = now_;
    out_.compute = counts_.compute;
    out_.communication = counts_.communication;
    out_.exposed = counts_.exposed;
    out_.products = counts_.products;
    out_.collectives = counts_.collectives;
    for (auto& [key, line] : lines_) out_.lines.push_back(std::move(line));
    std::ranges::stable_sort(out_.lines, std::greater(),
                             [](const auto& l) { return l.second.compute + l.second.exposed; });
    return std::move(out_);
  }

 private:
  using LineKey = std::tuple<std::string, std::uint32_t>;

  LineCost& line(const Loc& loc) {
    auto& entry = lines_[{loc.file ? loc.file : "", loc.line}];
    entry.first = loc;
    return entry.second;
  }
  double busy_until() const { return *std::ranges::max_element(link_free_); }

  // The device does nothing until `at`.
  void wait(double at, const Task* for_collective) {
    if (at <= now_) return;
    const Task* cause = for_collective ? for_collective : last_collective_;
    counts_.exposed += (at - now_) * scale_;
    line(cause ? cause->loc : Loc{}).exposed += (at - now_) * scale_;
    now_ = at;
  }

  void add_event(const Task& t, const std::string& track, double begin, double seconds) {
    if (seconds <= 0 || out_.events.size() >= Timeline::kMostEvents) return;
    out_.events.push_back({t.name, track, t.loc, begin, seconds, t.bytes});
  }

  bool shares_memory() const { return rows_of(cluster_) == Rows::Cached; }
  // Of the members of a shared memory those that have work or values of their own: what is alike is computed once, by
  // all cores, and held once.
  double share_of(ir::AxisMask distinct) const {
    if (!shares_memory()) return 1;
    const std::int64_t members = cluster_.levels[0].size();
    std::int64_t left = members;
    std::int64_t unlike = 1;
    for (std::size_t a = mesh_sizes_.size(); a-- > 0 && left > 1;) {
      if ((distinct >> a & 1) != 0) unlike *= std::min(left, mesh_sizes_[a]);
      left /= mesh_sizes_[a];
    }
    return static_cast<double>(unlike) / static_cast<double>(members);
  }
  double share_of(const Task& t) const { return share_of(t.distinct); }
  double share_of(const Task& t, const Touch& u) const { return std::min(share_of(t), share_of(u.distinct)); }
  // What the task adds to its fused group, which takes the longer of its arithmetic and its memory traffic. Where
  // nobody shares memory each operation is taken by itself: so those clusters were held against published figures.
  double fused(const Task& t, double arithmetic, const Moves& moves) {
    if (!shares_memory() || t.group < 0) return std::max(arithmetic, moves.cached + moves.memory);
    if (t.launches) group_sums_[t.group] = {};
    GroupSums& g = group_sums_[t.group];
    const ClusterLevel& level = cluster_.levels[0];
    const double before = level.on_cores(g.seconds());
    if (t.products > 0) {
      g.passes += arithmetic + moves.cached + moves.memory;  // the operands are packed before they are multiplied
    } else {
      g.computes += arithmetic;
      g.moves.cached += moves.cached;
      g.moves.memory += moves.memory;
    }
    const double after = level.on_cores(g.seconds());
    if (t.ends_pass) g = {g.in_caches(), 0, {0, g.moves.memory}};
    return after - before;
  }
  double arithmetic(const Task& t) const {
    const ClusterDevice& d = cluster_.device;
    double seconds = t.vector / d.vector_flops;
    auto add = [&](const char* operation, double times) {
      if (operation == nullptr || times == 0) return;
      const auto known = d.operations.find(operation);
      if (known != d.operations.end()) seconds += times / known->second;
    };
    add("window", t.windows);
    add("window_row", t.window_rows);
    add(t.row_operation, t.rows);
    auto rate = t.operation == nullptr ? d.operations.end() : d.operations.find(t.operation);
    if (t.products > 0) {
      const double measured = rate == d.operations.end() ? 1 : rate->second / d.rate(DType::F32);
      return seconds + t.idle * t.products / (measured * d.rate(t.dtype));
    }
    if (t.operation == nullptr) return seconds;
    if (rate == d.operations.end() && t.function) rate = d.operations.find("transcendental");
    return seconds + (rate == d.operations.end() ? t.unmeasured / d.vector_flops : t.elements / rate->second);
  }
  // Each task's traffic. In a shared memory a value comes from the cache that holds all that was read and written since
  // it was last used; one that is used for the first time was last used a step, or a round, before. What is written
  // around the caches is in none.
  std::vector<Moves> traffic(const Schedule& s) const {
    const ClusterDevice& d = cluster_.device;
    constexpr double kFar = std::numeric_limits<double>::infinity();
    std::vector<Moves> out;
    std::map<ir::ValueId, double> last;
    const double all = moved(s);
    double now = 0;
    for (const auto& t : s.tasks) {
      const double share = share_of(t);
      Moves moves;
      if (!shares_memory()) moves.memory = t.bytes / d.bandwidth(t.bytes);
      double bytes = 0;
      const double before = now;
      now += moved(t);
      for (const auto& u : t.touches) {
        bytes += u.bytes;
        if (!shares_memory() || (u.kind == Touch::Kind::Window && d.operations.contains("window"))) continue;
        const auto used = last.find(u.value);
        double since = used == last.end() ? now - all : used->second;
        if (used == last.end() && u.kind == Touch::Kind::Carried) since = 0;
        if (u.kind == Touch::Kind::Between) since = before;
        if (streams(t, u)) since = -kFar;
        add(moves, t, u, now - since);
        if (!u.writes()) moves.since = std::max(moves.since, now - since);
        last[u.value] = streams(t, u) ? -kFar : before;
      }
      const double scale = bytes > 0 && shares_memory() ? share * t.bytes / bytes : 1;
      out.push_back({scale * moves.cached, scale * moves.memory, moves.since});
    }
    return out;
  }
  // Where the last cache holds a part of what is read, a core waits for that part and the other one in turn, and the
  // memory gives the other one beside what else it does.
  void add(Moves& moves, const Task& t, const Touch& u, double since) const {
    const ClusterDevice& d = cluster_.device;
    if (u.writes()) {
      (d.cached(since) ? moves.cached : moves.memory) += d.write_cost_of(since) * u.bytes / d.bandwidth(since);
      return;
    }
    double hits = last_cache_share(d, since);
    // What several devices read in turn comes from the memory for the first of them.
    const auto members = static_cast<double>(cluster_.levels[0].size());
    if (!d.caches.empty() && u.bytes <= members * static_cast<double>(d.caches.back().bytes)) {
      hits = 1 - (1 - hits) * share_of(t, u) / share_of(t);
    }
    const double missed = (1 - hits) * u.bytes / memory_rate_of(t);
    moves.memory += missed;
    if (hits > 0) moves.cached += missed + hits * u.bytes / cached_rate_of(t, since);
  }
  // Whether the native engine writes the value around the caches: from this size of all devices' shards on.
  bool streams(const Task& t, const Touch& u) const {
    const ClusterLevel& memory = cluster_.levels[0];
    const double all = share_of(t) * static_cast<double>(memory.size()) * u.bytes;
    return u.writes() && t.products == 0 && all >= static_cast<double>(memory.stream_bytes);
  }
  // Libraries read the operands of products from caches with more in flight than other passes do, and so do reductions
  // that no fused group joins, from memory too.
  double reads_at(const Task& t) const {
    const auto known =
        t.reads_at == nullptr ? cluster_.device.operations.end() : cluster_.device.operations.find(t.reads_at);
    return known == cluster_.device.operations.end() ? 0 : known->second;
  }
  double cached_rate_of(const Task& t, double since) const {
    return std::max(reads_at(t), cached_bandwidth(cluster_.device, since));
  }
  double memory_rate_of(const Task& t) const {
    return std::max(t.products > 0 ? 0 : reads_at(t), cluster_.device.memory_bandwidth);
  }
  double moved(const Task& t) const {
    if (t.body) return moved(*t.body);
    double sum = 0;
    for (const auto& u : t.touches) {
      const bool again = u.kind == Touch::Kind::Window || (shares_memory() && streams(t, u));
      if (!again) sum += share_of(t, u) * u.bytes;
    }
    return sum;
  }
  double moved(const Schedule& s) const {
    double sum = 0;
    for (const auto& t : s.tasks) sum += moved(t);
    return sum;
  }

  Ready compute(const Task& t, const Moves& moves, const Ready& ready) {
    wait(ready.at, ready.waits_for);
    const ClusterDevice& d = cluster_.device;
    const double share = share_of(t);
    double seconds = fused(t, share * arithmetic(t), moves);
    if (t.launches) seconds += d.launch;
    add_event(t, "compute", now_, seconds);
    counts_.compute += seconds * scale_;
    counts_.products += t.products * scale_;
    line(t.loc).compute += seconds * scale_;
    now_ += seconds;
    return {now_, nullptr};
  }

  Ready communicate(const Task& t, const Moves& moves, const Ready& ready) {
    if (t.sums_products && shares_memory() && cluster_.levels.size() == 1) {
      counts_.collectives += static_cast<std::int64_t>(scale_);
      return ready;
    }
    const CollectiveCost cost =
        planner::cost_of(cluster_, t.collective, t.bytes, spans(t.axes), {share_of(t), t.copied, moves.since});
    const bool beside = std::ranges::find(cluster_.overlaps, to_string(t.collective)) != cluster_.overlaps.end();
    double begin = ready.at;
    if (!beside) begin = std::max(begin, now_);
    std::string track;
    for (std::size_t l = 0; l < cluster_.levels.size(); ++l) {
      if ((cost.levels >> l & 1) == 0) continue;
      begin = std::max(begin, link_free_[l]);
      track += (track.empty() ? "" : "+") + cluster_.levels[l].name;
    }
    last_collective_ = &t;
    const double end = begin + cost.seconds;
    for (std::size_t l = 0; l < cluster_.levels.size(); ++l) {
      if ((cost.levels >> l & 1) != 0) link_free_[l] = end;
    }
    add_event(t, track.empty() ? "local" : track, begin, cost.seconds);
    counts_.communication += cost.seconds * scale_;
    counts_.collectives += static_cast<std::int64_t>(scale_);
    if (!beside) wait(end, &t);
    return {end, &t};
  }

  // All rounds of a loop. What the links and the device do in the second stands for what they do in each later one.
  Ready loop(const Task& t, const Ready& ready) {
    if (t.times <= 0) return ready;
    Ready end = round(*t.body, ready);
    if (t.times == 1) return end;
    const double before = scale_;
    const double begin = now_;
    const std::array<double, kMostLevels> links = link_free_;
    scale_ = before * static_cast<double>(t.times - 1);
    end = round(*t.body, end);
    scale_ = before;
    const auto more = static_cast<double>(t.times - kRounds);
    const double advance = more * (now_ - begin);
    if (more > 0) {
      Task rest = t;
      rest.bytes = 0;
      rest.name = str(t.name, ": ", t.times - kRounds, " more rounds");
      add_event(rest, "compute", now_, advance);
    }
    now_ += advance;
    end.at += advance;
    // Links that lag behind the device do so by more each round.
    for (std::size_t l = 0; l < kMostLevels; ++l) link_free_[l] += more * (link_free_[l] - links[l]);
    if (busy_until() > now_) end = {std::max(end.at, busy_until()), last_collective_};
    return end;
  }

  Ready round(const Schedule& s, const Ready& entered) {
    std::vector<Ready> ends(s.tasks.size());
    auto [known, added] = traffic_.try_emplace(&s);
    if (added) known->second = traffic(s);
    const std::vector<Moves>& moves = known->second;
    for (std::size_t i = 0; i < s.tasks.size(); ++i) {
      const Task& t = s.tasks[i];
      Ready ready = t.after_round ? entered : Ready{loop_begin_, nullptr};
      for (auto a : t.after) {
        if (ends[static_cast<std::size_t>(a)].at > ready.at) ready = ends[static_cast<std::size_t>(a)];
      }
      if (t.body) {
        const double outer = loop_begin_;
        loop_begin_ = std::max(ready.at, outer);
        ends[i] = loop(t, ready);
        loop_begin_ = outer;
      } else {
        ends[i] = t.is_collective ? communicate(t, moves[i], ready) : compute(t, moves[i], ready);
      }
    }
    Ready end{now_, nullptr};
    for (auto c : s.carried) {
      if (ends[static_cast<std::size_t>(c)].at > end.at) end = ends[static_cast<std::size_t>(c)];
    }
    return end;
  }

  const std::vector<Span>& spans(const Dims& axes) {
    auto [it, added] = spans_.try_emplace(axes);
    if (added) it->second = spans_of(cluster_, mesh_sizes_, axes);
    return it->second;
  }

  const ClusterModel& cluster_;
  const Dims& mesh_sizes_;
  Timeline out_;
  Counts counts_;
  double now_ = 0;         // of the device
  double scale_ = 1;       // rounds that what is simulated stands for
  double loop_begin_ = 0;  // when what the innermost loop takes from outside is there
  const Task* last_collective_ = nullptr;
  std::array<double, kMostLevels> link_free_{};
  std::map<LineKey, std::pair<Loc, LineCost>> lines_;
  std::map<Dims, std::vector<Span>> spans_;
  std::map<const Schedule*, std::vector<Moves>> traffic_;
  std::map<std::int32_t, GroupSums> group_sums_;
};

}  // namespace

Rows rows_of(const ClusterModel& cluster) {
  const bool memory = !cluster.levels.empty() && cluster.levels[0].kind == ClusterLevel::Kind::Memory;
  return memory ? Rows::Cached : Rows::Apart;
}

Timeline run(const Schedule& schedule, const ClusterModel& cluster, const Dims& mesh_sizes) {
  return Simulator(cluster, mesh_sizes).run(schedule);
}

}  // namespace tessera::planner
