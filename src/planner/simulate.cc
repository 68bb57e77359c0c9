// SPDX-License-Identifier: Apache-2.0
#include "planner/simulate.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "planner/figures.h"
#include "planner/schedule.h"
#include "runtime/program_costs.h"
#include "spmd/spmd.h"

namespace tessera {

using planner::bytes_text;
using planner::percent_text;
using planner::seconds_text;

std::string to_string(const Simulation& s) {
  constexpr std::size_t kLines = 5;
  std::string out = str("cluster:               ", s.cluster, ", ", s.devices, " devices\n");
  out += "step:                  " + seconds_text(s.step) + "\n";
  out += str("computation:           ", seconds_text(s.compute), ", ", percent_text(s.flop_utilization),
             " of the peak rate of products\n");
  out += str("communication:         ", seconds_text(s.communication), " in ", s.collectives, " collectives, ",
             seconds_text(s.exposed), " exposed\n");
  out += str("peak memory:           ", bytes_text(s.peak_memory()), " of ", bytes_text(s.memory_limit), " (arguments ",
             bytes_text(s.memory.argument_size_in_bytes), ", results ",
             bytes_text(s.memory.output_size_in_bytes - s.memory.alias_size_in_bytes), ", between ",
             bytes_text(s.memory.temp_size_in_bytes), ")", s.fits() ? "" : ": does not fit", "\n");
  if (s.loops_of_unknown_length > 0) {
    out += str("loops of unknown length, taken as one round: ", s.loops_of_unknown_length, "\n");
  }
  for (std::size_t i = 0; i < std::min(kLines, s.lines.size()); ++i) {
    const auto& l = s.lines[i];
    out += str(i == 0 ? "most expensive lines:  " : "                       ", to_string(l.loc), ": ",
               seconds_text(l.seconds()), l.exposed > 0 ? str(", ", seconds_text(l.exposed), " of them exposed") : "",
               "\n");
  }
  return out;
}

std::string Simulation::trace() const {
  using nlohmann::ordered_json;
  constexpr double kMicroseconds = 1e6;
  auto dump = [](const ordered_json& j) { return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace); };
  std::map<std::string, int> tracks{{"compute", 0}};
  std::string out = "{\"traceEvents\": [\n";
  for (const auto& e : events) {
    auto [it, added] = tracks.try_emplace(e.track, static_cast<int>(tracks.size()));
    out += dump({{"ph", "X"},
                 {"name", e.name},
                 {"pid", 0},
                 {"tid", it->second},
                 {"ts", e.begin * kMicroseconds},
                 {"dur", e.seconds * kMicroseconds},
                 {"args", {{"bytes", e.bytes}, {"at", to_string(e.loc)}}}}) +
           ",\n";
  }
  std::size_t left = tracks.size();
  for (const auto& [track, id] : tracks) {
    out += dump({{"ph", "M"}, {"name", "thread_name"}, {"pid", 0}, {"tid", id}, {"args", {{"name", track}}}});
    out += --left > 0 ? ",\n" : "\n";
  }
  return out + "]}\n";
}

namespace planner {

namespace {

// Seconds that the products of a schedule would take at the peak rate of their dtypes.
double at_peak(const Schedule& s, const ClusterDevice& device) {
  double sum = 0;
  for (const auto& t : s.tasks) {
    const double once = t.body           ? at_peak(*t.body, device)
                        : t.products > 0 ? t.products / (device.rate(t.dtype) / device.efficiency)
                                         : 0;
    sum += once * static_cast<double>(t.times);
  }
  return sum;
}

}  // namespace

Simulation simulate(const ir::GraphPtr& partitioned, const ClusterModel& cluster, const std::vector<bool>& donated) {
  Simulation out;
  const Dims mesh_sizes = partitioned->mesh ? partitioned->mesh->sizes : Dims{};
  const Schedule schedule = schedule_of(*partitioned, out.loops_of_unknown_length, rows_of(cluster));
  Timeline t = run(schedule, cluster, mesh_sizes);
  out.cluster = cluster.name;
  out.devices = size_of(mesh_sizes);
  out.step = t.seconds;
  out.compute = t.compute;
  out.communication = t.communication;
  out.exposed = t.exposed;
  out.collectives = t.collectives;
  out.flops = t.products;
  out.flop_utilization = t.seconds > 0 ? at_peak(schedule, cluster.device) / t.seconds : 0;
  out.memory = runtime::memory_of(*partitioned, donated);
  out.memory_limit = cluster.device.memory;
  for (const auto& [loc, cost] : t.lines) out.lines.push_back({loc, cost.compute, cost.exposed});
  out.comm_plan = spmd::comm_plan(*partitioned);
  out.events = std::move(t.events);
  return out;
}

Simulation simulate(const ir::Module& placed, const ClusterModel& cluster) {
  std::vector<bool> donated;
  for (const auto& port : placed.inputs) donated.push_back(port.donated);
  return simulate(spmd::partition(spmd::prepared(placed)), cluster, donated);
}

}  // namespace planner
}  // namespace tessera
