// SPDX-License-Identifier: Apache-2.0
#include "planner/recompute/choice.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace tessera::planner {

namespace {

using Life = Replay::Life;

constexpr double kStart = 1e-7;            // seconds that whatever is done once more takes at least
constexpr std::size_t kLongestChain = 64;  // values that one is computed again from
constexpr std::size_t kMostDecisions = 4000;
constexpr std::size_t kTried = 6;   // candidates, the best first, of which one must help
constexpr std::size_t kOneIn = 16;  // of the candidates that are taken together
constexpr std::size_t kMostTakenBack = 64;

struct Candidate {
  FreedValue freed;
  double score = 0;
};

// What is known of the moment when memory is highest.
class Peak {
 public:
  Peak(const Replay& now, std::int64_t limit)
      : now_(now),
        line_(static_cast<std::int32_t>(now.peak())),
        place_(now.lines()[now.peak()].place),
        over_(now.most() - limit),
        above_(now.places_above(limit)),
        lives_of_(now.program().bases.size()) {
    for (std::size_t l = 0; l < now.lives().size(); ++l) {
      const auto of = now.value_of(now.lives()[l]).of;
      if (of >= 0) lives_of_[at(of)].push_back(static_cast<std::int32_t>(l));
    }
  }

  const Replay& now() const { return now_; }
  std::size_t place() const { return place_; }
  std::int64_t over() const { return over_; }
  const std::vector<std::int32_t>& lives_of(ir::ValueId of) const { return lives_of_[at(of)]; }

  bool alive_later(const Life& root) const { return root.last > line_; }
  bool crosses(const Life& root) const {
    return root.born < line_ && root.last > line_ && !now_.is_output(root) && now_.value_of(root).step >= 0;
  }
  /// Of a life: its first read after the peak.
  std::optional<std::int32_t> late_read(const Life& life) const {
    auto it = std::ranges::upper_bound(life.reads, line_);
    return it == life.reads.end() ? std::nullopt : std::optional(*it);
  }
  /// Whether readers that stay need the memory when it is highest, or after.
  bool needed_here(const Life& root) const {
    for (auto m : root.members) {
      for (auto r : now_.life(m).reads) {
        if (r >= line_ && now_.lines()[at(r)].place <= place_) return true;
      }
    }
    return false;
  }
  /// Places above the limit between the peak and another place.
  double span(std::size_t place) const { return 1.0 + above_[std::min(place, above_.size() - 1)] - above_[place_]; }

 private:
  const Replay& now_;
  std::int32_t line_;
  std::size_t place_;
  std::int64_t over_;
  std::vector<std::int32_t> above_;
  std::vector<std::vector<std::int32_t>> lives_of_;  // by value before partitioning
};

// One value that might be computed again, with what it takes: the longer the chain of values that lead to it, the less
// must be kept for it.
class Chain {
 public:
  Chain(const Peak& peak, ir::ValueId value, bool copies) : peak_(peak), now_(peak.now()), program_(now_.program()) {
    candidate_.freed.value = value;
    candidate_.freed.copies = copies;
    decide(value, copies);
  }

  std::optional<Candidate> best() {
    find_freed();
    if (freed_ <= 0) return std::nullopt;
    reader_ = now_.lines()[at(first_)].place;
    const std::vector<Recomputation> begin = candidate_.freed.list;
    for (const auto& r : begin) {
      if (!r.copies && !remake(program_.bases[at(r.value)])) return std::nullopt;
    }
    for (auto l : copied_) {
      if (!move_again(now_.life(l).value)) return std::nullopt;
    }
    std::optional<Candidate> out;
    while (true) {
      rate();
      if (candidate_.score > 0 && (!out || candidate_.score > out->score)) out = candidate_;
      if (candidate_.freed.list.size() > kLongestChain || !grow()) return out;
    }
  }

 private:
  void decide(ir::ValueId value, bool copies) {
    candidate_.freed.list.push_back({value, peak_.place(), copies});
    decided_.insert({value, copies});
  }
  bool is_decided(const ReplayProgram::Value& v) const {
    return v.of >= 0 && (decided_.contains({v.of, false}) || (v.copy && decided_.contains({v.of, true})));
  }

  // The memory that late readers then do not hold: of the value, of its copies, and of what shares memory with these,
  // which is then made anew, too.
  void find_freed() {
    std::set<std::int32_t> seen;
    for (std::size_t i = 0; i < candidate_.freed.list.size(); ++i) {
      const Recomputation r = candidate_.freed.list[i];
      if (!r.copies && program_.bases[at(r.value)] < 0) continue;
      for (auto l : peak_.lives_of(r.value)) {
        const std::int32_t root = now_.life(l).root;
        if (r.copies && !now_.value_of(now_.life(l)).copy) continue;
        if (peak_.crosses(now_.life(root)) && seen.insert(root).second) free(now_.life(root));
      }
    }
  }
  void free(const Life& root) {
    if (peak_.needed_here(root)) return;
    std::vector<std::pair<std::int32_t, std::int32_t>> late;  // members, and their first late reads
    for (auto m : root.members) {
      const auto read = peak_.late_read(now_.life(m));
      if (!read) continue;
      if (now_.value_of(now_.life(m)).of < 0) return;
      late.emplace_back(m, *read);
    }
    for (auto [m, read] : late) {
      const auto& v = now_.value_of(now_.life(m));
      if (!is_decided(v)) decide(v.of, false);
      if (v.copy) copied_.push_back(m);
      if (first_ < 0 || read < first_) first_ = read;
    }
    freed_ += now_.value_of(root).bytes;
  }

  // Counts the step of a value, and all that must be there for it. False where it may not be done twice.
  bool remake(std::int32_t value) {
    if (value < 0 || program_.values[at(value)].step < 0) return false;
    const std::int32_t step = program_.values[at(value)].step;
    if (!steps_.insert(step).second) return true;
    const auto& s = program_.steps[at(step)];
    if (!s.again) return false;
    candidate_.freed.seconds += s.seconds;
    return std::ranges::all_of(s.in, [&](std::int32_t x) { return need(x); });
  }
  // The changes of layout from where a value is made to a copy.
  bool move_again(std::int32_t copy) {
    for (std::int32_t v = copy; program_.values[at(v)].copy;) {
      const std::int32_t step = program_.values[at(v)].step;
      if (!steps_.insert(step).second) return true;
      const auto& s = program_.steps[at(step)];
      candidate_.freed.seconds += s.seconds;
      const auto k = static_cast<std::size_t>(std::ranges::find(s.out, v) - s.out.begin());
      v = s.in[k];
      if (!program_.values[at(v)].copy && !is_decided(program_.values[at(v)])) return need(v);
    }
    return true;
  }

  bool need(std::int32_t value) {
    const auto& v = program_.values[at(value)];
    if (v.step < 0) return true;
    if (v.of < 0) return remake(value);
    if (is_decided(v)) return v.copy ? move_again(value) : true;
    const std::int32_t life = now_.find(value, reader_);
    if (life < 0) return v.copy ? move_again(value) : remake(value);
    if (!peak_.alive_later(now_.life(now_.life(life).root))) dead_.insert(life);
    return true;
  }

  // The largest value that would have to be kept longer is computed again as well.
  bool grow() {
    while (true) {
      std::int32_t largest = -1;
      for (auto l : dead_) {
        if (fixed_.contains(l)) continue;
        if (largest < 0 || bytes_of(l) > bytes_of(largest)) largest = l;
      }
      if (largest < 0) return false;
      if (replace(largest)) return true;
      fixed_.insert(largest);
    }
  }
  bool replace(std::int32_t life) {
    const std::int32_t value = now_.life(life).value;
    const auto& v = program_.values[at(value)];
    const Chain before = *this;
    dead_.erase(life);
    const bool stays = v.copy && base_stays(v.of);
    decide(v.of, stays);
    if ((stays || remake(program_.bases[at(v.of)])) && (!v.copy || move_again(value))) return true;
    restore(before);
    return false;
  }
  bool base_stays(ir::ValueId of) const {
    const std::int32_t base = program_.bases[at(of)];
    if (base < 0) return false;
    if (program_.values[at(base)].step < 0) return true;
    const std::int32_t life = now_.find(base, reader_);
    return life >= 0 && peak_.alive_later(now_.life(now_.life(life).root));
  }
  void restore(const Chain& before) {
    candidate_ = before.candidate_;
    decided_ = before.decided_;
    steps_ = before.steps_;
    dead_ = before.dead_;
  }
  std::int64_t bytes_of(std::int32_t life) const { return now_.value_of(now_.life(now_.life(life).root)).bytes; }

  void rate() {
    std::int64_t kept = 0;
    std::set<std::int32_t> roots;
    for (auto l : dead_) {
      if (roots.insert(now_.life(l).root).second) kept += bytes_of(l);
    }
    candidate_.freed.bytes = freed_ - kept;
    const auto useful = static_cast<double>(std::min(candidate_.freed.bytes, peak_.over()));
    candidate_.score = useful * peak_.span(reader_) / (candidate_.freed.seconds + kStart);
  }

  const Peak& peak_;
  const Replay& now_;
  const ReplayProgram& program_;
  Candidate candidate_;
  std::set<std::pair<ir::ValueId, bool>> decided_;
  std::vector<std::int32_t> copied_;  // copies that late readers want
  std::int64_t freed_ = 0;
  std::int32_t first_ = -1;  // of the late readers' lines
  std::size_t reader_ = 0;   // its place
  std::set<std::int32_t> steps_;
  std::set<std::int32_t> dead_;   // lives that end before, and are needed
  std::set<std::int32_t> fixed_;  // of these, those that cannot be computed again
};

std::vector<Candidate> candidates(const Replay& now, std::int64_t limit) {
  const Peak peak(now, limit);
  std::set<std::pair<ir::ValueId, bool>> seen;
  std::vector<Candidate> out;
  for (std::size_t l = 0; l < now.lives().size(); ++l) {
    const Life& root = now.lives()[l];
    const auto& v = now.value_of(root);
    if (root.root != static_cast<std::int32_t>(l) || v.of < 0 || !peak.crosses(root) || peak.needed_here(root))
      continue;
    for (const bool copies : {false, true}) {
      if ((copies && !v.copy) || !seen.insert({v.of, copies}).second) continue;
      if (auto c = Chain(peak, v.of, copies).best()) out.push_back(*std::move(c));
    }
  }
  std::ranges::stable_sort(out, std::greater(), &Candidate::score);
  return out;
}

// What is decided so far.
class Selection {
 public:
  Selection(const ReplayProgram& program, std::int64_t limit, std::vector<FreedValue> begin)
      : program_(program),
        limit_(limit),
        freed_(std::move(begin)),
        now_(std::in_place, program, recomputations(freed_)) {}

  bool above_limit() const { return now_->most() > limit_; }

  // Several of the best, where these help together, else the best that does by itself. False where none does.
  bool free_some() {
    std::vector<Candidate> list = candidates(*now_, limit_);
    std::erase_if(list, [&](const Candidate& c) { return useless_.contains(key_of(c.freed)); });
    if (list.empty() || freed_.size() > kMostDecisions) return false;
    const std::size_t most = 1 + list.size() / kOneIn;
    std::int64_t over = now_->most() - limit_;
    std::size_t some = 0;
    for (; some < most && over > 0 && 2 * list[some].score >= list[0].score; ++some) over -= list[some].freed.bytes;
    if (some > 1 && helps(std::span(list).first(some))) return true;
    for (std::size_t i = 0; i < std::min(list.size(), kTried); ++i) {
      if (helps(std::span(list).subspan(i, 1))) return true;
      useless_.insert(key_of(list[i].freed));
    }
    return false;
  }

  std::vector<FreedValue> result() {
    if (!above_limit()) take_back();
    return std::move(freed_);
  }

 private:
  using Key = std::tuple<ir::ValueId, bool, std::size_t>;
  static Key key_of(const FreedValue& f) { return {f.value, f.copies, f.list[0].after}; }

  // Takes them where memory above the limit becomes less.
  bool helps(std::span<const Candidate> some) {
    const std::size_t before = freed_.size();
    double alone = 0;
    for (const auto& c : some) {
      freed_.push_back(c.freed);
      alone += c.freed.seconds;
    }
    Replay next(program_, recomputations(freed_));
    if (next.excess(limit_) >= now_->excess(limit_) * (1 - 1e-9)) {
      freed_.resize(before);
      return false;
    }
    const double together = std::max(0.0, next.seconds() - now_->seconds());
    for (std::size_t i = before; i < freed_.size() && alone > 0; ++i) freed_[i].seconds *= together / alone;
    now_.emplace(std::move(next));
    return true;
  }

  // Decisions that later ones have made superfluous, the most expensive first, and of equal ones those that free least.
  void take_back() {
    std::vector<FreedValue> order = freed_;
    std::ranges::stable_sort(order, {}, [](const FreedValue& f) { return std::pair(-f.seconds, f.bytes); });
    order.resize(std::min(order.size(), kMostTakenBack));
    for (const auto& f : order) {
      std::vector<FreedValue> without = freed_;
      std::erase_if(without, [&](const FreedValue& o) { return key_of(o) == key_of(f); });
      Replay next(program_, recomputations(without));
      if (next.most() > limit_ || next.seconds() > now_->seconds()) continue;
      now_.emplace(std::move(next));
      freed_ = std::move(without);
    }
  }

  const ReplayProgram& program_;
  const std::int64_t limit_;
  std::vector<FreedValue> freed_;
  std::optional<Replay> now_;
  std::set<Key> useless_;
};

}  // namespace

std::vector<Recomputation> recomputations(const std::vector<FreedValue>& freed) {
  std::vector<Recomputation> out;
  std::set<std::tuple<ir::ValueId, std::size_t, bool>> seen;
  for (const auto& f : freed) {
    for (const auto& r : f.list) {
      if (seen.insert({r.value, r.after, r.copies}).second) out.push_back(r);
    }
  }
  return out;
}

std::vector<FreedValue> choose_recomputations(const ReplayProgram& program, std::int64_t limit,
                                              std::vector<FreedValue> begin) {
  Selection selection(program, limit, std::move(begin));
  while (selection.above_limit() && selection.free_some()) {
  }
  return selection.result();
}

}  // namespace tessera::planner
