// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/elementwise/under_window.h"

#include <algorithm>
#include <cstdlib>

#include "core/stream_copy.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/copy_rows.h"

namespace tessera::kernels {

namespace {

// Elements [begin, end) of a line, none of which the operand has.
void copy_outside(const Window& w, const WindowOperand& o, std::int64_t line, std::int64_t begin, std::int64_t end,
                  std::byte* to) {
  if (begin == end) return;
  if (o.edges == nullptr) return fill(to, o.fill, o.size, end - begin);
  const std::int64_t edge = std::abs(w.line.low);
  const std::int64_t first = line * edge + (w.line.low > 0 ? begin : begin - (w.line.extent - edge));
  core::copy_block(to, o.edges + first * o.size, (end - begin) * o.size);
}

template <class T>
void copy_steps(unsigned char* to, const unsigned char* from, std::int64_t n, std::int64_t step) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  if (step == -1) return backwards<T>(to, from, n);
  if (step == 2) return every_other<T>(to, from, n);
  strided_run<T>(to, size, from, step * size, n);
}

// Elements that follow each other there, `step` elements apart here.
void copy_elements(std::byte* to, const std::byte* from, std::int64_t n, std::int64_t step, std::int64_t size) {
  if (step == 1) return core::copy_block(to, from, n * size);
  auto* d = reinterpret_cast<unsigned char*>(to);
  const auto* s = reinterpret_cast<const unsigned char*>(from);
  switch (size) {
    case 1:
      return copy_steps<std::uint8_t>(d, s, n, step);
    case 2:
      return copy_steps<std::uint16_t>(d, s, n, step);
    case 4:
      return copy_steps<std::uint32_t>(d, s, n, step);
    case 8:
      return copy_steps<std::uint64_t>(d, s, n, step);
    default:
      return copy_steps<Item<16>>(d, s, n, step);
  }
}

// Elements [column, column + n) of a line, whose first element in the operand is at `start`; null: it lacks the line.
void copy_line(const Window& w, const WindowOperand& o, const std::byte* start, std::int64_t line, std::int64_t column,
               std::int64_t n, std::byte* to) {
  std::int64_t from = column;  // what the operand has
  std::int64_t until = column;
  if (start != nullptr) {
    from = std::clamp(w.line.low, column, column + n);
    until = std::clamp(w.line.low + w.line.operand, from, column + n);
  }
  copy_outside(w, o, line, column, from, to);
  if (until > from) {
    copy_elements(to + (from - column) * o.size, start + (from - w.line.low) * w.line.stride * o.size, until - from,
                  w.line.stride, o.size);
  }
  copy_outside(w, o, line, until, column + n, to + (until - column) * o.size);
}

// Where in the operand the lines are that differ in the last of the outer dimensions, the others being those of number
// `rest`; null where it has none of them.
const std::byte* lines_start(const Window& w, const WindowOperand& o, std::int64_t rest) {
  std::int64_t skipped = 0;
  for (std::size_t d = w.outer.size() - 1; d-- > 0;) {
    const Window::Dim& dim = w.outer[d];
    const std::int64_t i = rest % dim.extent - dim.low;
    rest /= dim.extent;
    if (i < 0 || i >= dim.operand) return nullptr;
    skipped += i * dim.stride;
  }
  return o.elements + (w.first + skipped) * o.size;
}

}  // namespace

const std::byte* under_window(const Window& w, const WindowOperand& o, std::int64_t first, std::int64_t count,
                              std::byte* buffer) {
  static constexpr Window::Dim kOne;
  const Window::Dim& dim = w.outer.empty() ? kOne : w.outer.back();
  const std::int64_t extent = w.line.extent;
  const bool in_place = w.line.stride == 1;
  const bool covered = in_place && w.line.low <= 0 && w.line.low + w.line.operand >= extent;
  std::int64_t line = first / extent;
  std::int64_t column = first % extent;
  std::byte* to = buffer;
  for (std::int64_t left = count; left > 0;) {
    const std::byte* lines = w.outer.empty() ? o.elements + w.first * o.size : lines_start(w, o, line / dim.extent);
    for (std::int64_t i = line % dim.extent; i < dim.extent && left > 0;) {
      const bool has = lines != nullptr && i >= dim.low && i < dim.low + dim.operand;
      const std::byte* start = has ? lines + (i - dim.low) * dim.stride * o.size : nullptr;
      std::int64_t n = std::min(left, extent - column);
      if (n == count && has && in_place && column >= w.line.low && column + n <= w.line.low + w.line.operand) {
        return start + (column - w.line.low) * o.size;
      }
      std::int64_t whole = 1;  // lines
      if (has && covered && n == extent) {
        whole = std::min({dim.low + dim.operand - i, dim.extent - i, left / extent});
        n = whole * extent;
        const std::byte* from = start - w.line.low * o.size;
        if (dim.stride == 0 && whole > 1) {
          fill(to, from, extent * o.size, whole);
        } else {
          copy_lines(reinterpret_cast<unsigned char*>(to), extent * o.size,
                     reinterpret_cast<const unsigned char*>(from), dim.stride * o.size, extent * o.size, whole);
        }
      } else {
        copy_line(w, o, start, line, column, n, to);
      }
      left -= n;
      to += n * o.size;
      i += whole;
      line += whole;
      column = 0;
    }
  }
  return buffer;
}

Window::Window(const Shape& space, const Shape& operand, const Dims& low) {
  for (std::size_t d = space.size(); d-- > 0;) {
    if (line.whole() && outer.empty()) {
      line = {space[d] * line.extent, operand[d] * line.extent, low[d] * line.extent};
    } else {
      const Dim& inner = outer.empty() ? line : outer.front();
      add_outside({space[d], operand[d], low[d], inner.stride * inner.operand});
    }
  }
}

Window::Window(const Shape& space, const Dims& strides, std::int64_t first) : first(first) {
  bool begun = false;  // the line
  for (std::size_t d = space.size(); d-- > 0;) {
    if (space[d] == 1) continue;
    if (!begun && strides[d] != 0) line.stride = strides[d];
    if (outer.empty() && strides[d] == line.stride * line.extent) {
      line.extent = line.operand = space[d] * line.extent;
      begun = true;
    } else {
      add_outside({space[d], space[d], 0, strides[d]});
    }
  }
}

void Window::add_outside(const Dim& dim) {
  if (!outer.empty()) {
    Dim& inner = outer.front();
    if (dim.whole() && inner.whole() && dim.stride == inner.stride * inner.extent) {
      inner.extent = inner.operand = inner.extent * dim.extent;
      return;
    }
  }
  outer.insert(outer.begin(), dim);
}

}  // namespace tessera::kernels
