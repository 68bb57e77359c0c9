// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/overlap.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/strings.h"

namespace tessera::cpu {

namespace {

using SharedExchange = std::shared_ptr<ExchangeStep>;

class BeginStep final : public Step {
 public:
  BeginStep(SharedExchange step, std::size_t number) : step_(std::move(step)), number_(number) {
    reads = step_->reads;
    loc = step_->loc;
  }
  void run(Frame& frame) const override { frame.under_way[number_] = step_->begin(frame); }
  std::string label() const override { return "begin " + step_->label(); }
  double cost() const override { return step_->cost() / 2; }

 private:
  SharedExchange step_;
  std::size_t number_;
};

// Reads what the beginning has read: messages may still be sent from there.
class EndStep final : public Step {
 public:
  EndStep(SharedExchange step, std::size_t number) : step_(std::move(step)), number_(number) {
    reads = step_->reads;
    writes = step_->writes;
    loc = step_->loc;
    received = step_->received;
    axes = step_->axes;
  }
  void run(Frame& frame) const override {
    step_->end(frame, *frame.under_way[number_]);
    frame.under_way[number_].reset();
  }
  void set_dying(const std::vector<bool>& dies) override { step_->set_dying(dies); }
  std::string label() const override { return "end " + step_->label(); }
  double cost() const override { return step_->cost() / 2; }

 private:
  SharedExchange step_;
  std::size_t number_;
};

class Ordering {
 public:
  Ordering(std::vector<StepPtr> steps, std::size_t num_values) : steps_(std::move(steps)), state_(num_values) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (auto v : steps_[i]->writes) state_[at(v)].there = false;
      auto* exchange = dynamic_cast<ExchangeStep*>(steps_[i].get());
      if (exchange == nullptr || !exchange->exchanges()) continue;
      for (auto v : exchange->writes) state_[at(v)].exchange = exchanges_.size();
      exchanges_.push_back({i, operands_there(*exchange), nullptr, false});
    }
  }

  Overlapped take() && {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (next_ < exchanges_.size() && exchanges_[next_].place == i) ++next_;
      if (!steps_[i]) continue;  // begun early
      if (steps_[i]->ordered) catch_up();
      if (operands_there(*steps_[i])) {
        take_turn(i);
      } else {
        postponed_.push_back(i);
        if (postponed_.size() == kMostPostponed) catch_up();
      }
      begin_early();
    }
    catch_up();
    while (!under_way_.empty()) end(under_way_.front());
    return {std::move(out_), exchanges_.size()};
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr std::size_t kMostUnderWay = 8;
  static constexpr std::size_t kMostPostponed = 16;
  struct State {
    bool there = true;             // inputs are
    std::size_t exchange = kNone;  // that makes the value
  };
  struct Exchange {
    std::size_t place;  // in the old order
    bool of_inputs;
    SharedExchange step;  // once begun
    bool ended;
  };

  bool operands_there(const Step& step) const {
    return std::all_of(step.reads.begin(), step.reads.end(), [&](auto v) { return state_[at(v)].there; });
  }

  void take_turn(std::size_t i) {
    const std::size_t number = exchange_at(i);
    if (number != kNone) return begin(number);
    for (auto v : steps_[i]->reads) end(state_[at(v)].exchange);
    for (auto v : steps_[i]->writes) state_[at(v)].there = true;
    out_.push_back(std::move(steps_[i]));
  }
  // Those that waited, and now what they wait for.
  void catch_up() {
    for (auto i : std::exchange(postponed_, {})) {
      if (steps_[i]) take_turn(i);
    }
  }
  std::size_t exchange_at(std::size_t place) const {
    auto found = std::lower_bound(exchanges_.begin(), exchanges_.end(), place,
                                  [](const Exchange& e, std::size_t p) { return e.place < p; });
    if (found == exchanges_.end() || found->place != place) return kNone;
    return static_cast<std::size_t>(found - exchanges_.begin());
  }

  // All whose operands are there. Those of inputs could begin with the program, all at once: they wait until the one
  // before them has had its turn, so that one result is early and not every one.
  void begin_early() {
    for (std::size_t k = 0; k < exchanges_.size() && under_way_.size() < kMostUnderWay; ++k) {
      const Exchange& e = exchanges_[k];
      if (!e.step && (k <= next_ || !e.of_inputs) && operands_there(*steps_[e.place])) begin(k);
    }
  }

  void begin(std::size_t number) {
    Exchange& e = exchanges_[number];
    for (auto v : steps_[e.place]->reads) end(state_[at(v)].exchange);
    if (under_way_.size() >= kMostUnderWay) end(under_way_.front());
    e.step = SharedExchange(static_cast<ExchangeStep*>(steps_[e.place].release()));
    out_.push_back(std::make_unique<BeginStep>(e.step, number));
    under_way_.push_back(number);
  }

  void end(std::size_t number) {
    if (number == kNone || exchanges_[number].ended) return;
    Exchange& e = exchanges_[number];
    e.ended = true;
    std::erase(under_way_, number);
    for (auto v : e.step->writes) state_[at(v)].there = true;
    out_.push_back(std::make_unique<EndStep>(e.step, number));
  }

  std::vector<StepPtr> steps_;
  std::vector<State> state_;  // by value
  std::vector<Exchange> exchanges_;
  std::size_t next_ = 0;  // of these, whose turn is next in the old order
  std::deque<std::size_t> under_way_;
  std::vector<std::size_t> postponed_;  // steps that have had their turn and lack an operand
  std::vector<StepPtr> out_;
};

}  // namespace

Overlapped overlapped(std::vector<StepPtr> steps, std::size_t num_values) {
  return Ordering(std::move(steps), num_values).take();
}

}  // namespace tessera::cpu
