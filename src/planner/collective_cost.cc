// SPDX-License-Identifier: Apache-2.0
#include "planner/collective_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::planner {

namespace {

using Kind = ClusterLevel::Kind;

// One dimension of a level, as a run of device numbers: members `stride` devices apart.
struct Cell {
  std::size_t level, dim;
  std::int64_t size, stride;
};

std::vector<Cell> cells_of(const ClusterModel& cluster) {
  std::vector<Cell> out;
  std::int64_t stride = 1;
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const Dims& sizes = cluster.levels[l].sizes;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      out.push_back({l, d, sizes[d], stride});
      stride *= sizes[d];
    }
  }
  return out;
}

bool rings(const ClusterLevel& l, const Span& s) {
  return l.kind == Kind::Torus && l.wrap && s.stride == 1 && s.size == l.sizes[s.dim];
}

// Spans of one axis, whose positions are `stride` devices apart.
void add_axis(const ClusterModel& cluster, const std::vector<Cell>& cells, std::int64_t stride, std::int64_t size,
              std::vector<Span>& out) {
  std::vector<Span> own;
  std::int64_t product = 1;
  const Cell* outermost = nullptr;
  bool nests = true;
  for (const auto& c : cells) {
    const std::int64_t low = std::max(stride, c.stride);
    const std::int64_t high = std::min(stride * size, c.stride * c.size);
    if (high <= low) continue;
    outermost = &c;
    nests = nests && high % low == 0 && low % c.stride == 0;
    if (!nests) continue;
    own.push_back({c.level, c.dim, high / low, low / c.stride, false});
    product *= high / low;
  }
  if (outermost == nullptr) return;
  if (!nests || product != size) own = {{outermost->level, outermost->dim, size, 1, false}};
  for (auto& s : own) {
    // The next span of a dimension that another axis has begun continues it.
    if (!out.empty() && out.back().level == s.level && out.back().dim == s.dim &&
        s.stride == out.back().stride * out.back().size) {
      out.back().size *= s.size;
    } else {
      out.push_back(s);
    }
    Span& last = out.back();
    last.ring = nests && rings(cluster.levels[last.level], last);
  }
}

// What one stage of a collective, over one span, has to work with.
class Stage {
 public:
  Stage(const ClusterModel& cluster, const Span& span, double share)
      : level_(cluster.levels[span.level]), span_(span), n_(static_cast<double>(span.size)) {
    double below = 1;
    for (std::size_t l = 0; l < span.level; ++l) below *= static_cast<double>(cluster.levels[l].size());
    bandwidth_ = level_.bandwidth * level_.efficiency;
    // All devices of a member communicate at the same time, in groups of their own.
    if (level_.kind == Kind::Torus) bandwidth_ /= static_cast<double>(span.stride) * below;
    if (level_.kind == Kind::Switch) bandwidth_ /= below;
    if (level_.kind == Kind::Shared) bandwidth_ /= below * static_cast<double>(level_.size());
    // Buffers that devices below hold together are sent once.
    bandwidth_ /= share;
    alpha_ = level_.latency;
    if (level_.kind == Kind::Torus) alpha_ *= static_cast<double>(span.stride);
  }

  /// Of an all-gather to `bytes`, or a reduce-scatter of them.
  double gather(double bytes) const {
    if (span_.size <= 1) return 0;
    const double part = (n_ - 1) / n_ * bytes;
    if (level_.kind == Kind::Torus) {
      return span_.ring ? std::ceil((n_ - 1) / 2) * alpha_ + part / (2 * bandwidth_)
                        : (n_ - 1) * alpha_ + part / bandwidth_;
    }
    const double steps = level_.direct ? 1 : halves() ? std::log2(n_) : n_ - 1;
    return steps * alpha_ + part / bandwidth_;
  }
  double all_reduce(double bytes, const char** algorithm) const {
    *algorithm = gather_name();
    const double two = 2 * gather(bytes);
    if (span_.size <= 1) return two;
    if (level_.direct) return std::min(two, alpha_ + (n_ - 1) * bytes / bandwidth_);
    if (level_.kind == Kind::Torus || !level_.trees) return two;
    const double tree = 2 * std::ceil(std::log2(n_)) * alpha_ + 2 * bytes / bandwidth_;
    if (tree >= two) return two;
    *algorithm = "tree";
    return tree;
  }
  double all_to_all(double bytes) const {
    if (span_.size <= 1) return 0;
    if (level_.kind != Kind::Torus) {
      return (level_.direct ? 1 : n_ - 1) * alpha_ + (n_ - 1) / n_ * bytes / bandwidth_;
    }
    // The link in the middle carries what a half sends to the other.
    return span_.ring ? std::ceil(n_ / 2) * alpha_ + bytes * n_ / 8 / bandwidth_
                      : (n_ - 1) * alpha_ + bytes * n_ / 4 / bandwidth_;
  }
  double permute(double bytes) const { return span_.size <= 1 ? 0 : alpha_ + bytes / bandwidth_; }
  const char* gather_name() const {
    return level_.direct ? "direct" : level_.kind == Kind::Torus ? "torus" : halves() ? "halving" : "ring";
  }
  double size() const { return n_; }

 private:
  bool halves() const { return level_.trees && level_.kind == Kind::Switch && (span_.size & (span_.size - 1)) == 0; }

  const ClusterLevel& level_;
  const Span& span_;
  double n_, bandwidth_ = 0, alpha_ = 0;
};

// Of a span of the innermost level, whose members share one memory: a device reads what it needs of the others' buffers
// and writes a part of the result, which is one buffer for all that hold it.
double seconds_in_memory(const ClusterModel& cluster, Collective kind, double bytes, double members,
                         const InMemory& in_memory) {
  const ClusterLevel& level = cluster.levels[0];
  double moved = 0;  // read and written, of a device
  switch (kind) {
    case Collective::AllReduce:
    case Collective::ReduceScatter:
      moved = bytes + bytes / members;
      break;
    case Collective::AllGather:
      moved = 2 * bytes / members;
      break;
    case Collective::AllToAll:
      moved = 2 * bytes;
      break;
    case Collective::Permute:  // whole buffers change hands
      moved = in_memory.copied;
      break;
  }
  moved *= in_memory.share;
  // Large copies are written around the caches, and have no others' data to wait for.
  const ClusterDevice& d = cluster.device;
  const auto size = static_cast<double>(level.size());
  const double since = std::max(moved, in_memory.since);
  const double copies = level.bandwidth / size;
  const bool large = d.caches.empty() || moved * size >= static_cast<double>(level.stream_bytes);
  const double bandwidth = large ? copies : d.cached(since) ? d.bandwidth(since) : std::min(copies, d.memory_bandwidth);
  return level.latency + level.on_cores(moved / (bandwidth * level.efficiency));
}

void name(CollectiveCost& out, const char* algorithm) {
  if (out.algorithm == algorithm || out.algorithm.ends_with(str(" + ", algorithm))) return;
  out.algorithm += (out.algorithm.empty() ? "" : " + ") + std::string(algorithm);
}

}  // namespace

const char* to_string(Collective c) {
  constexpr std::array kNames{"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute"};
  return kNames[static_cast<std::size_t>(c)];
}

std::vector<Span> spans_of(const ClusterModel& cluster, const Dims& mesh_sizes, const Dims& axes) {
  const std::int64_t positions = size_of(mesh_sizes);
  if (positions > cluster.num_devices()) {
    throw ValueError(str("simulate: the mesh has ", positions, " positions; the cluster \"", cluster.name, "\" has ",
                         cluster.num_devices(), " devices"));
  }
  const std::vector<Cell> cells = cells_of(cluster);
  std::vector<Span> out;
  std::int64_t stride = 1;
  for (std::size_t a = mesh_sizes.size(); a-- > 0;) {
    if (std::ranges::find(axes, static_cast<std::int64_t>(a)) != axes.end() && mesh_sizes[a] > 1) {
      add_axis(cluster, cells, stride, mesh_sizes[a], out);
    }
    stride *= mesh_sizes[a];
  }
  return out;
}

CollectiveCost cost_of(const ClusterModel& cluster, Collective kind, double bytes, const std::vector<Span>& spans,
                       const InMemory& in_memory) {
  CollectiveCost out;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    out.levels |= std::uint32_t{1} << spans[i].level;
    if (cluster.levels[spans[i].level].kind == Kind::Memory) {
      const auto members = static_cast<double>(spans[i].size);
      out.seconds += seconds_in_memory(cluster, kind, bytes, members, in_memory);
      if (kind != Collective::AllToAll && kind != Collective::Permute) bytes /= members;
      name(out, "memory");
      continue;
    }
    const Stage stage(cluster, spans[i], in_memory.share);
    const char* algorithm = stage.gather_name();
    switch (kind) {
      case Collective::AllReduce:
        // Reduced and scattered from the innermost level out, reduced in full on the outermost, gathered on the way
        // back.
        out.seconds += i + 1 < spans.size() ? 2 * stage.gather(bytes) : stage.all_reduce(bytes, &algorithm);
        bytes /= stage.size();
        break;
      case Collective::AllGather:
      case Collective::ReduceScatter:
        out.seconds += stage.gather(bytes);
        bytes /= stage.size();
        break;
      case Collective::AllToAll:
        algorithm = "direct";
        out.seconds += stage.all_to_all(bytes);
        break;
      case Collective::Permute:
        algorithm = "direct";
        out.seconds = std::max(out.seconds, stage.permute(bytes));
        break;
    }
    name(out, algorithm);
  }
  return out;
}

}  // namespace tessera::planner
