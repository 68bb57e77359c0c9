// SPDX-License-Identifier: Apache-2.0
// What a fused program is turned into: short lists of steps over numbered buffers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/elementwise/ew_joined.h"
#include "engines/cpu/kernels/elementwise/fused.h"
#include "engines/cpu/kernels/reduce_kernels.h"

namespace tessera::kernels {

/// Where a step reads or writes. All but Period, Window and Partial are `base + row * row_step + column * column_step`.
enum class Place : std::uint8_t {
  None,
  Input,      // Contiguous input `index`
  InputRow,   // ColBroadcast input: one element a row
  Period,     // RowBroadcast input: in place when the tile is within a row, else the copies in buffer `buffer`
  Window,     // input under window `index`: in place where the tile's elements follow each other, else in a buffer
  Output,     // full result
  OutputRow,  // result with one element a row
  Buffer,     // scratch of this tile
  Kept,       // one element a row for all rows of a run, row value `index`
  Partial,    // one element a row and tile, reduction `index`
};

struct Operand {
  Place place = Place::None;
  std::int32_t index = 0;
  std::int32_t buffer = -1;
  std::int64_t size = 0;  // bytes of an element
};

struct Step {
  enum class Kind : std::uint8_t { Op, RowOperand, Expand, Reduce, Copy, Code };
  Kind kind = Kind::Op;
  EwOp op = EwOp::Neg;  // of an Op
  ReduceOp reduction = ReduceOp::Sum;
  DType from = DType::F32, to = DType::F32;  // of the data operands and of the result
  bool per_row = false;                      // over the rows of the tile, not its elements
  EwFn fn = nullptr;
  EwRowFn row_fn = nullptr;  // the second operand has one element a row
  RowReduceFn reduce = nullptr;
  std::array<std::byte, 16> identity = {};  // what `reduce` gives for rows without elements
  std::array<Operand, 3> in;
  Operand out;
  std::shared_ptr<const Code> code;  // in place of several steps:
  std::vector<Operand> reads;        // its pointers, in this order
  std::vector<Operand> writes;
};

/// A value that is the same everywhere, laid out over a whole buffer before the tiles start.
struct Prefill {
  std::int32_t buffer = 0;
  bool whole = true;  // else its first elements are enough
  std::int64_t size = 0;
  std::int32_t scalar_input = -1;  // else `bytes`, or `fn` of other such buffers
  std::int32_t period_input = -1;  // else: whole rows, repeated
  std::array<std::byte, 16> bytes = {};
  EwFn fn = nullptr;
  std::array<std::int32_t, 3> operands = {-1, -1, -1};
};

struct PartialReduce {
  RowReduceFn total;
  std::int64_t size;
  std::int32_t kept;
};

/// Steps that one pass over the tiles takes, in phased runs between two rounds of reductions.
struct Stage {
  std::vector<Step> row_steps;  // before the tiles, over whole blocks of rows: phased runs only
  std::vector<Step> steps;
  std::vector<std::int32_t> partials;  // of PartialReduce
};

/// An input that is read through a window.
struct WindowedInput {
  std::int32_t input = 0;
  std::int32_t fill = -1;    // the buffer that starts with the fill value, or
  std::int32_t edges = -1;   // the input that has what this one lacks
  std::int32_t buffer = -1;  // of a tile's elements; negative: nobody reads it
  std::int64_t size = 0;     // bytes of an element
};

/// One way to run the program.
struct Variant {
  std::vector<Stage> stages;
  std::vector<Prefill> prefills;
  std::vector<std::int64_t> buffer_sizes;   // bytes of an element of each scratch buffer
  std::vector<std::int64_t> buffer_starts;  // sum of the sizes before each, and of all
  std::vector<std::int64_t> kept_sizes;
  std::vector<PartialReduce> partials;
  std::vector<Operand> streamed;       // Contiguous inputs
  std::vector<WindowedInput> windows;  // by window
  std::int64_t block = 0;              // elements of a tile

  /// Null where nothing fills the buffer beforehand.
  const Prefill* prefill(std::int32_t buffer) const;
};

/// Buffers are first handed out without limit; then those whose last use has passed are given to later steps. `sizes`
/// are those of their elements, the first `fixed` stay as they are.
void share_buffers(std::vector<Step>& steps, std::vector<std::int64_t>& sizes, std::size_t fixed);

/// Puts machine code in the place of steps that follow each other, where `compile` knows them; buffers are each written
/// by one step. `stream`: full results are stored around the caches. `few`: for runs of few elements, of which what
/// lies around the steps takes most of the time.
void compile_steps(std::vector<Step>& steps, const Variant& variant, std::vector<std::int64_t>& buffer_sizes,
                   bool stream, bool few);

struct FusedKernel::Plan {
  Plan(FusedProgram as_written, FusedProgram with_pairs)
      : program(std::move(as_written)), joined(std::move(with_pairs)) {}

  /// One way to run it, built when it is first asked for. Whole rows in a tile or, where `chunks`, parts of a row, for
  /// programs with reductions; `staged`: results through scratch.
  const Variant& by_kernels(bool chunks, bool staged) const;
  /// With machine code; null where that would replace nothing, or cannot be had.
  const Variant* by_code(bool chunks, bool stream, bool few) const;

  FusedProgram program, joined;  // what code is made of, and the kernels' steps
  std::string key;               // of the program
  std::vector<DType> output_dtypes;
  std::vector<Access> accesses;
  std::vector<bool> output_is_full;
  bool rows_matter = false;  // else the space is one long row
  bool reduces = false;
  bool by_rows = false;  // has values of one element a row
  double cost = 0;       // nanoseconds an element, roughly
  std::int64_t block = 1024;
  mutable std::atomic<std::int32_t> small_runs = 0;  // of few elements, as long as these are counted
  /// All there is to do for few elements: one step of machine code on inputs and outputs. Null where more is.
  mutable std::atomic<const Variant*> small_code = nullptr;

 private:
  struct Built {
    std::once_flag once;
    std::optional<Variant> variant;
  };
  mutable std::array<Built, 10> built_;
};

struct FusedPlanner {
  /// The plan of an equal program, where there is one.
  static std::shared_ptr<const FusedKernel::Plan> plan(FusedProgram program);
  enum class Code : std::uint8_t { None, WherePays, Few };
  static Variant build(const FusedProgram& program, bool chunks, bool staged, Code code, bool stream);

 private:
  static std::string key(const FusedProgram& program);
  static std::shared_ptr<FusedKernel::Plan> make(FusedProgram program);
  static void join(std::vector<FusedProgram::Node>& nodes, const std::vector<FusedProgram::Output>& outputs);
};

}  // namespace tessera::kernels
