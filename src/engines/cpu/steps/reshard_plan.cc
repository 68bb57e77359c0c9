// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/reshard_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::cpu {

namespace {
bool keeps_equal_values(ir::Reduction r) { return r != ir::Reduction::Sum && r != ir::Reduction::Prod; }
}  // namespace

std::int64_t offset_of(const Dims& index, const Dims& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}

bool is_one_run(const Shape& box, const Shape& tile) {
  std::size_t d = 0;
  while (d < box.size() && box[d] == 1) ++d;
  for (++d; d < box.size(); ++d) {
    if (box[d] != tile[d]) return false;
  }
  return true;
}

ReshardPlan::ReshardPlan(const ir::Type& type, std::shared_ptr<const LayoutTable> source,
                         std::shared_ptr<const LayoutTable> target, const Context& context, bool deterministic)
    : global_(type.shape),
      source_(std::move(source)),
      target_(std::move(target)),
      mesh_(context.mesh()),
      process_of_(context.owners().process_of),
      strides_(context.strides()),
      deterministic_(deterministic) {
  const ir::Layout& from = source_->layout;
  const ir::Layout& to = target_->layout;
  ir::AxisMask reduced = from.partial & ~(to.partial | to.vary);
  kept_ = (from.partial | from.vary) & ~reduced;
  if (!keeps_equal_values(to.reduction)) identity_axes_ = to.partial & ~(from.partial | from.tiled());
  combined_ = {0};
  for (std::size_t a = 0; a < mesh_.sizes.size(); ++a) {
    if (!(reduced >> a & 1)) continue;
    std::vector<std::int32_t> more;
    for (auto base : combined_) {
      for (std::int64_t i = 0; i < mesh_.sizes[a]; ++i) {
        more.push_back(base + static_cast<std::int32_t>(i * source_->strides.of_axis[a]));
      }
    }
    combined_ = std::move(more);
  }
  for (std::size_t d = 0; d < global_.size(); ++d) {
    source_parts_.push_back(ir::parts(from.dims[d], mesh_));
    target_parts_.push_back(ir::parts(to.dims[d], mesh_));
    std::int64_t stride = 1;
    for (std::size_t k = from.dims[d].size(); k-- > 0; stride *= mesh_.sizes[from.dims[d][k]]) {
      if (to.partial >> from.dims[d][k] & 1) own_.push_back({from.dims[d][k], d, stride});
    }
  }
}

bool ReshardPlan::is_own(const Dims& tile, std::int64_t position) const {
  return std::all_of(own_.begin(), own_.end(), [&](const OwnTile& o) {
    return tile[o.dim] / o.stride % mesh_.sizes[o.axis] == position / strides_[o.axis] % mesh_.sizes[o.axis];
  });
}

bool ReshardPlan::is_identity(std::int32_t target) const {
  if (identity_axes_ == 0) return false;
  std::int64_t p = target_->map.first_position[at(target)];
  for (std::size_t a = 0; a < mesh_.sizes.size(); ++a) {
    if ((identity_axes_ >> a & 1) && p / strides_[a] % mesh_.sizes[a] != 0) return true;
  }
  return false;
}

std::int64_t ReshardPlan::base_shard(std::int32_t target) const {
  if (kept_ == 0) return 0;
  std::int64_t p = target_->map.first_position[at(target)];
  std::int64_t shard = 0;
  for (std::size_t a = 0; a < mesh_.sizes.size(); ++a) {
    if (kept_ >> a & 1) shard += p / strides_[a] % mesh_.sizes[a] * source_->strides.of_axis[a];
  }
  return shard;
}

std::vector<ReshardPlan::Span> ReshardPlan::spans(std::int32_t target) const {
  std::vector<Span> out(global_.size());
  for (std::size_t d = 0; d < global_.size(); ++d) {
    std::int64_t tile = target / target_->strides.of_dim[d] % target_parts_[d];
    auto [begin, end] = ir::part_range(global_[d], target_parts_[d], tile);
    std::int64_t chunk = std::max<std::int64_t>(1, (global_[d] + source_parts_[d] - 1) / source_parts_[d]);
    out[d] = {begin, end, begin / chunk, begin < end ? (end - 1) / chunk : begin / chunk - 1};
  }
  return out;
}

Shape ReshardPlan::target_shape(std::int32_t target) const {
  Shape shape;
  for (const auto& s : spans(target)) shape.push_back(s.end - s.begin);
  return shape;
}
Shape ReshardPlan::source_shape(std::int32_t source) const {
  Shape shape;
  for (std::size_t d = 0; d < global_.size(); ++d) {
    std::int64_t tile = source / source_->strides.of_dim[d] % source_parts_[d];
    auto [begin, end] = ir::part_range(global_[d], source_parts_[d], tile);
    shape.push_back(end - begin);
  }
  return shape;
}

std::int32_t ReshardPlan::equal_source(std::int32_t target) const {
  std::int64_t shard = base_shard(target);
  if (keeps_tiles()) return -1;
  auto ranges = spans(target);
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const Span& s = ranges[d];
    if (s.first_tile != s.last_tile) return -1;
    auto [begin, end] = ir::part_range(global_[d], source_parts_[d], s.first_tile);
    if (begin != s.begin || end != s.end) return -1;
    shard += s.first_tile * source_->strides.of_dim[d];
  }
  return static_cast<std::int32_t>(shard);
}

void ReshardPlan::for_each_box(std::int32_t target, const std::function<void(const Box&)>& body) const {
  auto ranges = spans(target);
  std::size_t rank = ranges.size();
  Box box{Shape(rank), Dims(rank), Dims(rank), Shape(rank), 0};
  std::int64_t base = base_shard(target);
  Dims tile(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    if (ranges[d].last_tile < ranges[d].first_tile) return;
    tile[d] = ranges[d].first_tile;
  }
  for (;;) {
    box.shard = base;
    for (std::size_t d = 0; d < rank; ++d) {
      auto [begin, end] = ir::part_range(global_[d], source_parts_[d], tile[d]);
      std::int64_t first = std::max(begin, ranges[d].begin);
      box.extent[d] = std::min(end, ranges[d].end) - first;
      box.in_source[d] = first - begin;
      box.in_target[d] = first - ranges[d].begin;
      box.source_shape[d] = end - begin;
      box.shard += tile[d] * source_->strides.of_dim[d];
    }
    if (is_own(tile, target_->map.first_position[at(target)])) body(box);
    std::size_t d = rank;
    while (d-- > 0) {
      if (++tile[d] <= ranges[d].last_tile) break;
      tile[d] = ranges[d].first_tile;
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

std::int32_t ReshardPlan::owner(std::int32_t source_shard) const {
  return process_of_[at(source_->map.first_position[at(source_shard)])];
}

// Reduced shards are grouped by the process of their first holder, whoever reads: so all readers add in the same order
// and get the same bits.
std::vector<Term> ReshardPlan::terms(const Box& box, std::int32_t reader) const {
  auto first = static_cast<std::int32_t>(box.shard);
  if (!reduces()) {
    const auto& holders = source_->holders[at(first)];
    bool has = std::binary_search(holders.begin(), holders.end(), reader);
    return {{has ? reader : owner(first), {first}}};
  }
  std::vector<Term> out;
  std::map<std::int32_t, std::vector<std::int32_t>> groups;
  for (auto offset : combined_) {
    std::int32_t shard = first + offset;
    if (deterministic_) {
      out.push_back({owner(shard), {shard}});
    } else {
      groups[owner(shard)].push_back(shard);
    }
  }
  for (auto& [process, shards] : groups) out.push_back({process, std::move(shards)});
  return out;
}

}  // namespace tessera::cpu
