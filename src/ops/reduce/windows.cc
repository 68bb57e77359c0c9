// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/windows.h"

#include <limits>

namespace tessera::ops {

std::int64_t dilated(std::string_view op, std::int64_t n, std::int64_t by) {
  std::int64_t gaps = 0;
  if (n > 0 && (__builtin_mul_overflow(n - 1, by, &gaps) || __builtin_add_overflow(gaps, 1, &gaps))) {
    throw ValueError(str(op, ": a dilation of ", n, " by ", by, " is beyond 64 bits"));
  }
  return gaps;
}

std::int64_t padded(std::string_view op, std::int64_t n, std::int64_t low, std::int64_t high) {
  constexpr std::int64_t most = std::int64_t{1} << 62;  // may be negated, and added to another
  std::int64_t room = 0;
  if (low < -most || low > most || high < -most || high > most || __builtin_add_overflow(n, low, &room) ||
      __builtin_add_overflow(room, high, &room)) {
    throw ValueError(str(op, ": an extent of ", n, " padded by ", low, " and ", high, " is beyond 64 bits"));
  }
  return room;
}

Shape windowed_shape(std::string_view op, const Shape& in, const Window& w) {
  auto check = [&](const char* name, const Dims& v, std::int64_t least) {
    if (v.size() != in.size()) {
      bad_attr(op, name, str(base::tuple_text(v), " for shape ", in, "; expected one entry a dimension"));
    }
    for (auto x : v) {
      if (x < least) bad_attr(op, name, str(base::tuple_text(v), "; expected entries >= ", least));
    }
  };
  constexpr auto any = std::numeric_limits<std::int64_t>::min();
  check("window_dimensions", w.dimensions, 1);
  check("window_strides", w.strides, 1);
  check("low", w.low, any);
  check("high", w.high, any);
  check("base_dilation", w.base_dilation, 1);
  check("window_dilation", w.window_dilation, 1);
  Shape out;
  for (std::size_t d = 0; d < in.size(); ++d) {
    auto room = padded(op, dilated(op, in[d], w.base_dilation[d]), w.low[d], w.high[d]);
    auto span = dilated(op, w.dimensions[d], w.window_dilation[d]);
    out.push_back(room < span ? 0 : (room - span) / w.strides[d] + 1);
  }
  return out;
}

FactorRule window_factors(std::size_t operands, std::size_t rank0, std::size_t results, const Shape& in,
                          const Shape& out, const Window& w) {
  FactorRule r;
  FactorRule::Tensor from;
  FactorRule::Tensor to;
  for (std::size_t d = 0; d < in.size(); ++d) {
    bool alone =
        w.dimensions[d] == 1 && w.strides[d] == 1 && w.low[d] == 0 && w.high[d] == 0 && w.base_dilation[d] == 1;
    int f = r.add(in[d], alone ? Factor::Kind::Pass : Factor::Kind::Whole);
    from.push_back({f});
    to.push_back({alone ? f : r.add(out[d], Factor::Kind::Whole)});
  }
  r.operands.assign(operands, from);
  r.operands.resize(operands + rank0);
  r.results.assign(results, to);
  return r;
}

namespace {
// Visits the elements of one window, dimension by dimension, so that what lies outside is skipped at once.
class Walk {
 public:
  Walk(const Shape& in, const Shape& out, const Window& w,
       const std::function<void(std::int64_t, std::int64_t)>& element)
      : window_(w.dimensions), strides_(row_strides(in)), element_(element), places_(in.size()) {
    for (std::size_t d = 0; d < in.size(); ++d) {
      for (std::int64_t o = 0; o < out[d]; ++o) {
        for (std::int64_t k = 0; k < window_[d]; ++k) {
          auto place = o * w.strides[d] + k * w.window_dilation[d] - w.low[d];
          bool inside = place >= 0 && place % w.base_dilation[d] == 0 && place / w.base_dilation[d] < in[d];
          places_[d].push_back(inside ? place / w.base_dilation[d] : -1);
        }
      }
    }
  }
  void visit(std::int64_t k, const Dims& position) const { step(k, position, 0, 0); }

 private:
  void step(std::int64_t k, const Dims& position, std::size_t d, std::int64_t start) const {
    if (d == places_.size()) return element_(k, start);
    const auto* place = &places_[d][at(position[d] * window_[d])];
    for (std::int64_t n = 0; n < window_[d]; ++n) {
      if (place[n] >= 0) step(k, position, d + 1, start + place[n] * strides_[d]);
    }
  }

  const Dims& window_;
  Dims strides_;
  const std::function<void(std::int64_t, std::int64_t)>& element_;
  std::vector<Dims> places_;  // by dimension, place of the window and place in it: the element there, or -1
};
}  // namespace

void for_each_window(const Shape& in, const Shape& out, const Window& w, const std::function<void(std::int64_t)>& open,
                     const std::function<void(std::int64_t, std::int64_t)>& element) {
  Walk walk(in, out, w, element);
  std::int64_t k = 0;
  for_each_position(out, [&](const Dims& position) {
    open(k);
    walk.visit(k++, position);
  });
}

std::optional<Cumulative> running_window(const Shape& in, const Window& w) {
  std::optional<Cumulative> found;
  for (std::size_t d = 0; d < in.size(); ++d) {
    bool plain = w.strides[d] == 1 && w.base_dilation[d] == 1 && w.window_dilation[d] == 1;
    if (!plain) return std::nullopt;
    std::int64_t reach = w.dimensions[d] - 1;
    if (reach == 0 && w.low[d] == 0 && w.high[d] == 0) continue;
    bool forward = w.low[d] == reach && w.high[d] == 0;
    bool reverse = w.low[d] == 0 && w.high[d] == reach;
    if (found || w.dimensions[d] != in[d] || (!forward && !reverse)) return std::nullopt;
    found = Cumulative{static_cast<std::int64_t>(d), reverse};
  }
  return found;
}

std::vector<Window> sample_windows() {
  return {{{2, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
          {{1, 3}, {1, 2}, {0, 1}, {0, 1}, {1, 1}, {1, 1}},
          {{2, 2}, {2, 1}, {1, 0}, {0, 2}, {2, 1}, {1, 2}},
          {{2, 1}, {1, 1}, {-1, 0}, {1, 0}, {1, 1}, {2, 1}}};
}

}  // namespace tessera::ops
