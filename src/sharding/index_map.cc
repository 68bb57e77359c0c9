// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"
#include "sharding/index_map_state.h"
#include "tessera/error.h"

namespace tessera {

namespace sharding {

std::int64_t IndexMapState::position(std::size_t i) const {
  if (i >= size())
    throw IndexError(str("IndexMap: position = ", i, "; expected 0..", static_cast<std::int64_t>(size()) - 1));
  return local_only ? list->local_positions[i] : static_cast<std::int64_t>(i);
}

std::int32_t IndexMapState::replica(std::int64_t position) const {
  if (shard_grid.replicas_by_digits()) return shard_grid.replica_at(position);
  std::call_once(once_, [&] { replicas_ = shard_grid.count_replicas(); });
  return replicas_[static_cast<std::size_t>(position)];
}

namespace {

bool has(const IndexMapState* s, const Device& d) {
  return s != nullptr && s->list->position(d) >= 0 && (!s->local_only || d.is_local());
}
std::int64_t find(const IndexMapState* s, const Device& d) {
  if (!has(s, d))
    throw ValueError(str("IndexMap::at: device = ", d, " is not in the map; expected one of its devices"));
  return s->list->position(d);
}
const IndexMapState& need(const std::shared_ptr<const IndexMapState>& s) {
  if (s == nullptr) throw IndexError("IndexMap: the map is empty");
  return *s;
}
Device device_at(const std::shared_ptr<const IndexMapState>& s, std::size_t i) {
  const auto& state = need(s);
  return state.list->devices[static_cast<std::size_t>(state.position(i))];
}
template <class Map>
bool same_entries(const Map& a, const Map& b) {
  if (a.identity() == b.identity()) return true;
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.device(i) != b.device(i)) return false;
  }
  return true;
}

}  // namespace
}  // namespace sharding

std::size_t IndexMap::size() const { return state_ ? state_->size() : 0; }
Device IndexMap::device(std::size_t i, const Loc&) const { return sharding::device_at(state_, i); }
const Index IndexMap::index(std::size_t i, const Loc&) const {
  const auto& s = sharding::need(state_);
  return s.shard_grid.index_at(s.position(i));
}
void IndexMap::read(std::size_t i, Entry& to) const {
  const auto& s = sharding::need(state_);
  std::int64_t p = s.position(i);
  to.device = s.list->devices[static_cast<std::size_t>(p)];
  s.shard_grid.read_index(p, to.index);
}
bool IndexMap::contains(const Device& d) const { return sharding::has(state_.get(), d); }
const Index IndexMap::at(const Device& d, const Loc&) const {
  return state_->shard_grid.index_at(sharding::find(state_.get(), d));
}
bool IndexMap::operator==(const IndexMap& other) const {
  if (!sharding::same_entries(*this, other)) return false;
  for (std::size_t i = 0; state_ != other.state_ && i < size(); ++i) {
    if (index(i) != other.index(i)) return false;
  }
  return true;
}

std::size_t PlaceMap::size() const { return state_ ? state_->size() : 0; }
Device PlaceMap::device(std::size_t i, const Loc&) const { return sharding::device_at(state_, i); }
const ShardPlace PlaceMap::place(std::size_t i, const Loc&) const {
  const auto& s = sharding::need(state_);
  std::int64_t p = s.position(i);
  return {s.shard_grid.index_at(p), s.replica(p)};
}
void PlaceMap::read(std::size_t i, Entry& to) const {
  const auto& s = sharding::need(state_);
  std::int64_t p = s.position(i);
  to.device = s.list->devices[static_cast<std::size_t>(p)];
  s.shard_grid.read_index(p, to.place.index);
  to.place.replica_id = s.replica(p);
}
bool PlaceMap::contains(const Device& d) const { return sharding::has(state_.get(), d); }
const ShardPlace PlaceMap::at(const Device& d, const Loc&) const {
  std::int64_t p = sharding::find(state_.get(), d);
  return {state_->shard_grid.index_at(p), state_->replica(p)};
}
bool PlaceMap::operator==(const PlaceMap& other) const {
  if (!sharding::same_entries(*this, other)) return false;
  for (std::size_t i = 0; state_ != other.state_ && i < size(); ++i) {
    if (place(i) != other.place(i)) return false;
  }
  return true;
}

}  // namespace tessera
