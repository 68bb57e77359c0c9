// SPDX-License-Identifier: Apache-2.0
// halo: elements moved along dimensions that may be split, as slices, padding, concatenation and windows move them. It
// stands in partitioned graphs only, where a shard of its result takes what it needs, and no more, from the shards of
// its operands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

namespace def {
extern const ir::OpDef& halo;  // not in ops.def: no user's program has it, and no rule meets it
}

using ir::field;

/// Operands: arrays of one dtype and rank, then perhaps the rank-0 value of elements that no operand covers. Position o
/// of the result along dimension d is element s of operand k where s * spacing[d] = starts[k][d] + strides[d] * o, if
/// there is one. No two operands cover one position; strides or spacing of a dimension are 1.
struct Halo {
  Shape shape;                 ///< of the result, without the dimension of windows
  std::vector<Dims> starts;    ///< of each operand; with several results those of the first result, then of the next
  Dims strides;                ///< not 0; negative ones go backward
  Dims spacing;                ///< at least 1
  std::int64_t windows = 0;    ///< not 0: that many such results, stacked along a further dimension 0, each of which
  std::int64_t dimension = 0;  ///< starts, along this dimension,
  std::int64_t step = 0;       ///< so much further than the one before
  std::int64_t results = 1;    ///< that many arrays of the shape; several have strides and spacing of 1, and no windows
  std::string reason = {};     ///< for the communication plan, as with `Reshard`
  std::string cause = {};
  static constexpr auto fields = std::tuple{
      field("shape", &Halo::shape),     field("starts", &Halo::starts),           field("strides", &Halo::strides),
      field("spacing", &Halo::spacing), field("windows", &Halo::windows),         field("dimension", &Halo::dimension),
      field("step", &Halo::step),       ir::rare_field("results", &Halo::results)};
  /// Operands that have starts.
  std::size_t operands() const { return starts.size() / static_cast<std::size_t>(results); }
};

/// Whether each operand is moved as a whole: no element is left out or put between others.
bool shifts(const Halo& h);
/// Whether the result is one array's elements as they follow each other, some left out at its ends or added there: of
/// padding and slices without steps.
bool is_window(const ir::Eqn& e);

/// Elements of one shard.
struct HaloBox {
  Dims low;
  Shape extent;
  std::int64_t size() const;
  bool holds(const HaloBox& other) const;
};
/// Adds a box to those that a shard is to send. Two become the least box around them where that has no more elements
/// than both: what several results need is sent once.
void add_box(std::vector<HaloBox>& boxes, HaloBox box);

/// Windows of one dimension that may overlap and reach beyond the array.
struct WindowStack {
  std::size_t dimension;
  std::int64_t count;    ///< of windows
  std::int64_t size;     ///< elements of each
  std::int64_t first;    ///< where the first one begins
  std::int64_t step;     ///< how much further each next one does
  std::int64_t spacing;  ///< of the array's elements; between them, and beyond the array, is `outside`
};
/// The windows along a new dimension 0, as a `halo` that `cause` needs.
Value window_stack(Value x, Value outside, const WindowStack& w, std::string_view cause);

/// Whether somebody reads what windows have of beyond the array: if not it may be anything.
enum class Outside : std::uint8_t { Read, Unread };
struct PaddedWindows {
  Value windows;
  Value taken = {};  ///< those of the array before it was padded along other dimensions; empty where it was not
};
/// The same; where `x` is an array that was padded along the dimension, windows of that array, between elements of its
/// padding: what shards of the padded array begin with need not be moved there first.
PaddedWindows window_stack_of_padded(Value x, Value outside, const WindowStack& w, Outside read,
                                     std::string_view cause);

/// Positions of the result, and the elements that they hold.
struct HaloLine {
  std::int64_t count = 0;
  std::int64_t position = 0, position_step = 1;
  std::int64_t element = 0, element_step = 1;
};
/// Those of positions [begin, end) along dimension d that hold elements [from, to) of the operand of `starts[k]`, in
/// window w.
HaloLine halo_line(const Halo& h, std::size_t k, std::size_t d, std::int64_t w, std::int64_t begin, std::int64_t end,
                   std::int64_t from, std::int64_t to);

}  // namespace tessera::ops
