// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "engines/cpu/kernels/elementwise/fused_plan.h"

namespace tessera::kernels {

namespace {

class BufferSharing {
 public:
  BufferSharing(std::vector<Step>& steps, std::vector<std::int64_t>& sizes, std::size_t fixed)
      : steps_(steps), sizes_(sizes), fixed_(fixed), last_(sizes.size(), -1), renamed_(sizes.size(), -1) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      each_read(steps[s],
                [&](Operand& o) { last_[static_cast<std::size_t>(o.buffer)] = static_cast<std::ptrdiff_t>(s); });
    }
    kept_.assign(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(fixed));
    for (std::size_t i = 0; i < fixed; ++i) renamed_[i] = static_cast<std::int32_t>(i);
  }

  void share() {
    for (std::size_t s = 0; s < steps_.size(); ++s) step(s);
    sizes_ = std::move(kept_);
  }

 private:
  template <class F>
  static void each_read(Step& s, F f) {
    for (Operand& o : s.in) {
      if (o.place == Place::Buffer) f(o);
    }
    for (Operand& o : s.reads) {
      if (o.place == Place::Buffer) f(o);
    }
  }

  void step(std::size_t s) {
    Step& step = steps_[s];
    std::vector<std::int32_t> dying;
    each_read(step, [&](Operand& o) {
      auto old = static_cast<std::size_t>(o.buffer);
      o.buffer = renamed_[old];
      bool seen = std::find(dying.begin(), dying.end(), o.buffer) != dying.end();
      if (old >= fixed_ && last_[old] == static_cast<std::ptrdiff_t>(s) && !seen) dying.push_back(o.buffer);
    });
    // Element-wise kernels may write over an operand of as many elements; the other steps may not.
    bool in_place = step.kind == Step::Kind::Op;
    if (step.kind == Step::Kind::RowOperand && !dying.empty() && step.in[0].place == Place::Buffer &&
        dying.front() == step.in[0].buffer) {
      free_.push_back(dying.front());
      dying.erase(dying.begin());
    }
    if (in_place) free_.insert(free_.end(), dying.begin(), dying.end());
    write(step.out, dying);
    for (Operand& o : step.writes) write(o, dying);
    if (!in_place) free_.insert(free_.end(), dying.begin(), dying.end());
  }

  void write(Operand& out, std::vector<std::int32_t>& dying) {
    if (out.place != Place::Buffer) return;
    auto old = static_cast<std::size_t>(out.buffer);
    // The most recently freed buffer is the one most surely still in L1.
    auto same = std::find_if(free_.rbegin(), free_.rend(),
                             [&](std::int32_t b) { return kept_[static_cast<std::size_t>(b)] == sizes_[old]; });
    if (same != free_.rend()) {
      renamed_[old] = *same;
      free_.erase(std::next(same).base());
    } else {
      renamed_[old] = static_cast<std::int32_t>(kept_.size());
      kept_.push_back(sizes_[old]);
    }
    out.buffer = renamed_[old];
    if (last_[old] < 0) dying.push_back(out.buffer);  // for the step's own use
  }

  std::vector<Step>& steps_;
  std::vector<std::int64_t>& sizes_;
  std::size_t fixed_;
  std::vector<std::ptrdiff_t> last_;  // step that reads each buffer last, or -1
  std::vector<std::int32_t> renamed_;
  std::vector<std::int64_t> kept_;
  std::vector<std::int32_t> free_;
};

}  // namespace

void share_buffers(std::vector<Step>& steps, std::vector<std::int64_t>& sizes, std::size_t fixed) {
  BufferSharing(steps, sizes, fixed).share();
}

}  // namespace tessera::kernels
