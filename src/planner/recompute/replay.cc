// SPDX-License-Identifier: Apache-2.0
#include "planner/recompute/replay.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"

namespace tessera::planner {

Replay::Replay(const ReplayProgram& program, const std::vector<Recomputation>& list)
    : program_(program), bounds_(program.bases.size()), made_(program.values.size()) {
  for (const auto& r : list) bounds_[at(r.value)].push_back(r);
  for (auto& bounds : bounds_) std::ranges::stable_sort(bounds, {}, &Recomputation::after);
  write_all();
  find_needed();
  measure();
}

std::size_t Replay::versions_before(ir::ValueId of, std::size_t place) const {
  std::size_t n = 0;
  for (const auto& r : bounds_[at(of)]) n += r.after < place ? 1 : 0;
  return n;
}

// Copies are made anew for readers after each bound, the value itself only where it is computed again.
std::size_t Replay::version_at(std::int32_t value, std::size_t place) const {
  const auto& v = program_.values[at(value)];
  if (v.of < 0 || v.step < 0) return 0;
  std::size_t k = versions_before(v.of, place);
  while (!v.copy && k > 0 && bounds_[at(v.of)][k - 1].copies) --k;
  return k;
}

std::int32_t Replay::known(std::int32_t value, std::size_t version) const {
  const auto& all = made_[at(value)];
  return version < all.size() ? all[version] : -1;
}
std::int32_t Replay::find(std::int32_t value, std::size_t place) const {
  return known(value, version_at(value, place));
}

void Replay::set(std::int32_t value, std::size_t version, std::int32_t life) {
  auto& all = made_[at(value)];
  if (all.size() <= version) all.resize(version + 1, -1);
  all[version] = life;
}

std::int32_t Replay::add_life(std::int32_t value, const Line* line) {
  const auto id = static_cast<std::int32_t>(lives_.size());
  Life life{value, id, line == nullptr ? -1 : static_cast<std::int32_t>(lines_.size()), {}};
  const auto shares = program_.values[at(value)].shares_with;
  if (line != nullptr && shares >= 0) life.root = lives_[at(line->in[at(shares)])].root;
  lives_.push_back(std::move(life));
  return id;
}

std::vector<std::int32_t> Replay::write(std::int32_t step, std::vector<std::int32_t> in, std::size_t place) {
  Line line{step, std::move(in), {}, place};
  for (auto v : program_.steps[at(step)].out) line.out.push_back(add_life(v, &line));
  lines_.push_back(std::move(line));
  return lines_.back().out;
}

// What a reader at this place gets of a value. `inside`: what was made in between for the value that is computed again.
std::int32_t Replay::read(std::int32_t value, std::size_t place, Inside* inside) {
  const auto& v = program_.values[at(value)];
  if (v.of >= 0) return make(value, version_at(value, place), place);
  if (inside != nullptr && program_.steps[at(v.step)].again) return make_inside(value, place, *inside);
  return known(value, 0);
}

std::int32_t Replay::make_inside(std::int32_t value, std::size_t place, Inside& inside) {
  auto there = std::ranges::find(inside, value, [](const auto& p) { return p.first; });
  if (there != inside.end()) return there->second;
  const std::int32_t step = program_.values[at(value)].step;
  std::vector<std::int32_t> in;
  for (auto x : program_.steps[at(step)].in) in.push_back(read(x, place, &inside));
  const auto out = write(step, std::move(in), place);
  const auto& values = program_.steps[at(step)].out;
  for (std::size_t k = 0; k < out.size(); ++k) inside.emplace_back(values[k], out[k]);
  return std::ranges::find(inside, value, [](const auto& p) { return p.first; })->second;
}

std::int32_t Replay::make(std::int32_t value, std::size_t version, std::size_t place) {
  if (const auto there = known(value, version); there >= 0) return there;
  const auto& v = program_.values[at(value)];
  TESSERA_CHECK(v.step >= 0, str("input ", value, " has no version ", version));
  const auto& step = program_.steps[at(v.step)];
  Inside inside;
  std::vector<std::int32_t> in;
  for (auto x : step.in) in.push_back(read(x, place, &inside));
  const auto out = write(v.step, std::move(in), place);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto& other = program_.values[at(step.out[k])];
    if (other.of == v.of && known(step.out[k], version) < 0) set(step.out[k], version, out[k]);
  }
  return known(value, version);
}

void Replay::write_all() {
  const auto count = static_cast<std::int32_t>(program_.values.size());
  for (std::int32_t v = 0; v < count; ++v) {
    if (program_.values[at(v)].step < 0) set(v, 0, add_life(v, nullptr));
  }
  for (std::size_t s = 0; s < program_.steps.size(); ++s) {
    const auto& step = program_.steps[s];
    auto there = [&](std::int32_t v) { return find(v, step.place) >= 0; };
    if (!step.out.empty() && std::ranges::all_of(step.out, there)) continue;  // made for an earlier reader
    std::vector<std::int32_t> in;
    for (auto x : step.in) in.push_back(read(x, step.place, nullptr));
    const auto out = write(static_cast<std::int32_t>(s), std::move(in), step.place);
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (!there(step.out[k])) set(step.out[k], version_at(step.out[k], step.place), out[k]);
    }
  }
}

void Replay::find_needed() {
  std::vector<bool> needed(lives_.size());
  for (auto v : program_.outputs) needed[at(made_[at(v)].back())] = true;
  for (std::size_t i = lines_.size(); i-- > 0;) {
    Line& line = lines_[i];
    line.needed = program_.steps[at(line.step)].effect ||
                  std::ranges::any_of(line.out, [&](std::int32_t l) { return needed[at(l)]; });
    if (!line.needed) continue;
    for (auto l : line.in) needed[at(l)] = true;
  }
}

void Replay::measure() {
  const auto end = static_cast<std::int32_t>(lines_.size());
  for (std::int32_t i = 0; i < end; ++i) {
    const Line& line = lines_[at(i)];
    if (!line.needed) continue;
    seconds_ += program_.steps[at(line.step)].seconds;
    for (auto l : line.in) {
      lives_[at(l)].reads.push_back(i);
      lives_[at(lives_[at(l)].root)].last = i;
    }
  }
  for (auto v : program_.outputs) lives_[at(lives_[at(made_[at(v)].back())].root)].last = end;
  std::vector<std::int64_t> dies(lines_.size());
  std::int64_t now = 0;
  for (std::size_t l = 0; l < lives_.size(); ++l) {
    lives_[at(lives_[l].root)].members.push_back(static_cast<std::int32_t>(l));
  }
  for (const Line& line : lines_) {
    for (auto l : line.out) {
      const Life& life = lives_[at(l)];
      if (life.root != l || life.last < 0 || life.last >= end) continue;
      now += value_of(life).bytes;
      dies[at(life.last)] += value_of(life).bytes;
    }
    bytes_.push_back(line.needed ? now + program_.steps[at(line.step)].inside : 0);
    if (bytes_.back() > most_) {
      most_ = bytes_.back();
      peak_ = bytes_.size() - 1;
    }
    now -= dies[bytes_.size() - 1];
  }
}

double Replay::excess(std::int64_t limit) const {
  double sum = 0;
  std::int64_t here = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    here = std::max(here, bytes_[i] - limit);
    const bool ends = i + 1 == lines_.size() || lines_[i + 1].place != lines_[i].place;
    if (!ends) continue;
    sum += static_cast<double>(here);
    here = 0;
  }
  return sum;
}

std::vector<std::int32_t> Replay::places_above(std::int64_t limit) const {
  std::vector<std::int32_t> out(lines_.empty() ? 1 : lines_.back().place + 2);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (bytes_[i] > limit) out[lines_[i].place] = 1;
  }
  for (std::size_t p = 1; p < out.size(); ++p) out[p] += out[p - 1];
  return out;
}

}  // namespace tessera::planner
