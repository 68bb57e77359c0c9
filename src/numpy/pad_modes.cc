// SPDX-License-Identifier: Apache-2.0
// The modes of numpy.pad.
#include "program/composite.h"
#include "tessera/creation.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/shaping.h"
#include "tessera/statistics.h"

namespace tessera {

using program::Arrays;
using program::cut;

namespace {

constexpr std::int64_t kPastEnd = INT64_MAX;

Array wrapped(const Array& x, std::int64_t low, std::int64_t high, std::int64_t d) {
  const std::int64_t n = x.shape(d);
  Arrays parts;
  if (low % n > 0) parts.push_back(cut(x, n - low % n, n, d));
  parts.insert(parts.end(), static_cast<std::size_t>(low / n + high / n + 1), x);
  if (high % n > 0) parts.push_back(cut(x, 0, high % n, d));
  return concatenate(parts, d);
}

// Mirror images, as many as needed; `reflect` leaves the edge out.
Array mirrored(Array x, std::int64_t width, std::int64_t d, bool before, bool reflect, bool odd) {
  const std::int64_t n = x.shape(d);
  const std::int64_t offset = reflect && n > 1 ? 1 : 0;
  Array edge = before ? cut(x, 0, 1, d) : cut(x, -1, kPastEnd, d);
  while (width > 0) {
    const std::int64_t now = std::min(width, n - offset);
    width -= now;
    const std::int64_t end = x.shape(d);
    Array part = before ? cut(x, offset, offset + now, d) : cut(x, end - now - offset, end - offset, d);
    part = lax::rev(part, {d});
    if (odd) {
      part = 2 * edge - part;
      if (n > 1) edge = before ? cut(part, 0, 1, d) : cut(part, -1, kPastEnd, d);
    }
    x = before ? concatenate({part, x}, d) : concatenate({x, part}, d);
  }
  return x;
}

Array ramped(const Array& x, std::int64_t low, std::int64_t high, std::int64_t d, double end_value) {
  auto ramp = [&](const Array& edge, std::int64_t n) {
    const SpaceOptions o{.endpoint = false, .dtype = x.dtype(), .axis = d};
    return linspace(full({}, end_value, x.dtype()), lax::squeeze(edge, {d}), n, o);
  };
  Array behind = lax::rev(ramp(cut(x, -1, kPastEnd, d), high), {d});
  return concatenate({ramp(cut(x, 0, 1, d), low), x, behind}, d);
}

Array with_statistic(const Array& x, std::int64_t low, std::int64_t high, std::int64_t d, PadMode mode,
                     const PadOptions& o) {
  auto statistic = [&](const Array& part) {
    const ReduceOptions along{.axis = Dims{d}, .keepdims = true};
    Array y = mode == PadMode::Maximum   ? max(part, along)
              : mode == PadMode::Minimum ? min(part, along)
              : mode == PadMode::Mean    ? mean(part, along)
                                         : median(part, {.axis = Dims{d}, .keepdims = true});
    return astype(is_integer(x.dtype()) ? round(y) : y, x.dtype());
  };
  const std::int64_t n = std::min(o.stat_length.value_or(x.shape(d)), x.shape(d));
  if (n <= 0) throw ValueError(str("pad: stat_length of ", n, " elements gives no value"));
  Array before = statistic(cut(x, 0, n, d));
  Array behind = statistic(cut(x, x.shape(d) - n, kPastEnd, d));
  return concatenate({repeat(before, low, d), x, repeat(behind, high, d)}, d);
}

Array padded(const Array& x, std::int64_t low, std::int64_t high, std::int64_t d, PadMode mode, const PadOptions& o) {
  if (low == 0 && high == 0) return x;
  if (x.shape(d) == 0)
    throw ValueError(str("pad: dimension ", d, " of shape ", x.shape(), " is empty; expected mode Constant"));
  switch (mode) {
    case PadMode::Edge:
      return concatenate({repeat(cut(x, 0, 1, d), low, d), x, repeat(cut(x, -1, kPastEnd, d), high, d)}, d);
    case PadMode::Wrap:
      return wrapped(x, low, high, d);
    case PadMode::LinearRamp:
      return ramped(x, low, high, d, o.end_value);
    case PadMode::Reflect:
    case PadMode::Symmetric: {
      const bool reflect = mode == PadMode::Reflect;
      return mirrored(mirrored(x, low, d, true, reflect, o.odd_reflection), high, d, false, reflect, o.odd_reflection);
    }
    default:
      return with_statistic(x, low, high, d, mode, o);
  }
}

}  // namespace

Array pad(const Operand& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths, PadMode mode,
          const PadOptions& o) {
  const auto r = static_cast<std::size_t>(x.array().ndim());
  if (widths.size() != r && widths.size() != 1) {
    throw ValueError(str("pad: ", widths.size(), " widths for shape ", x.array().shape(), "; expected 1 or ", r));
  }
  std::vector<lax::PadDim> config;
  for (std::size_t d = 0; d < r; ++d) {
    const auto& [low, high] = widths[widths.size() == 1 ? 0 : d];
    if (low < 0 || high < 0) throw ValueError(str("pad: widths ", low, ", ", high, "; expected no negative count"));
    config.push_back({low, high, 0});
  }
  return program::composite("pad", {x}, [&](const Arrays& v) {
    if (mode == PadMode::Constant || mode == PadMode::Empty) {
      return lax::pad(v[0], program::as(Array(o.constant_value), v[0].dtype()), config);
    }
    Array y = v[0];
    for (std::size_t d = 0; d < r; ++d) {
      y = padded(y, config[d].low, config[d].high, static_cast<std::int64_t>(d), mode, o);
    }
    return y;
  });
}
Array pad(const Operand& x, std::int64_t width, PadMode mode, const PadOptions& o) {
  return pad(x, std::vector<std::pair<std::int64_t, std::int64_t>>{{width, width}}, mode, o);
}

}  // namespace tessera
