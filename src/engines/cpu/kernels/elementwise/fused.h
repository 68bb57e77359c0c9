// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise ops and row reductions over [outer, inner], run in cache-sized tiles: values between the ops
// live in a few small buffers and never reach memory.
//
// Softmax over rows:
//   FusedProgram p;
//   auto x = p.input(DType::F32, Access::Contiguous);
//   auto e = p.op(EwOp::Exp, DType::F32, p.op(EwOp::Sub, DType::F32, x, p.reduce(ReduceOp::Max, x)));
//   p.output(p.op(EwOp::Div, DType::F32, e, p.reduce(ReduceOp::Sum, e)));
//   FusedKernel(p).run({{data}}, {{result}}, rows, cols);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "tessera/shape.h"

namespace tessera::kernels {

/// How an input is read at row r, column c of the space.
enum class Access : std::uint8_t {
  Contiguous,    // element r * inner + c
  Scalar,        // element 0
  RowBroadcast,  // element c: one row, the same for all
  ColBroadcast,  // element r: one value a row
  Window,        // the element that a `Window` gives the position, else a fill value
};

/// An operand under the space: element i of the space is element i - low of the operand along each dimension, where it
/// has that one.
struct Window {
  struct Dim {
    std::int64_t extent = 1, operand = 1;  // elements of the space and of the operand
    std::int64_t low = 0;
    std::int64_t stride = 1;  // elements of the operand's memory between its neighbours; 0 where one is all of them
    bool whole() const { return operand == extent && low == 0; }
  };
  std::vector<Dim> outer;  // slowest first
  Dim line;                // the last dimensions, as one: in both, elements that are as far from each other everywhere
  std::int64_t first = 0;  // of the operand's elements, that of the space's first

  Window(const Shape& space, const Shape& operand, const Dims& low);
  /// An operand whose dimensions come in another order or backwards in its memory, are repeated, or have elements
  /// between those of the space: it has all elements of the space, `strides` of its elements apart, from element
  /// `first` on.
  Window(const Shape& space, const Dims& strides, std::int64_t first = 0);

 private:
  void add_outside(const Dim& dim);
};

/// A program in single-assignment form: every input, constant and instruction is a value, named by its number.
class FusedProgram {
 public:
  using Value = std::int32_t;

  /// The next operand of `run`.
  Value input(DType dtype, Access access);
  /// The next operand of `run`, under the next window; elements that it lacks are `fill`, a value that is the same
  /// everywhere. Without one it lacks none.
  Value window(DType dtype, Value fill = -1);
  /// The next two operands of `run`, the first under the next window, which moves it along one dimension. The elements
  /// that it lacks are those of the second, in order.
  Value window_with_edges(DType dtype);
  /// One value everywhere; `bytes` points at an element of `dtype`.
  Value constant(DType dtype, const void* bytes);
  /// A value for every element, of as many operands as `op` takes. Throws `TypeError` when there is no such kernel.
  Value op(EwOp op, DType out, Value a, Value b = -1, Value c = -1);
  /// One value a row: `op` over the elements of the row, in the operand's dtype. Throws `TypeError` for a dtype that
  /// has no such reduction.
  Value reduce(ReduceOp op, Value a);
  /// The next result of `run`, outer * inner elements; values that are the same for all elements of a row, or for all
  /// rows, are repeated.
  void output(Value value);
  /// The next result of `run`, `outer` elements. `value` is one value a row or the same everywhere.
  void row_output(Value value);

  DType dtype(Value v) const { return nodes_[static_cast<std::size_t>(v)].dtype; }
  std::int64_t num_inputs() const { return inputs_; }
  std::int64_t num_outputs() const { return static_cast<std::int64_t>(outputs_.size()); }
  DType output_dtype(std::int64_t n) const { return dtype(outputs_[static_cast<std::size_t>(n)].value); }
  /// Bytes from one row of `inner` elements to the next, of each operand; 0 where all rows read the same.
  std::vector<std::int64_t> input_row_bytes(std::int64_t inner) const;
  std::vector<std::int64_t> output_row_bytes(std::int64_t inner) const;

 private:
  friend struct FusedPlanner;
  friend class VariantBuilder;
  enum class Kind : std::uint8_t { Input, Constant, Op, Reduce };
  enum class Extent : std::uint8_t { Once, Row, Full };  // how many elements a value has
  struct Node {
    Kind kind;
    DType dtype;
    Extent extent;
    Access access = Access::Contiguous;
    EwOp op = EwOp::Neg;
    ReduceOp reduce = ReduceOp::Sum;
    std::int32_t index = 0;   // of an input
    std::int32_t edges = -1;  // the input that has what this one lacks under its window
    std::int32_t phase = 0;   // row reductions that have to be complete before this value can be computed
    std::array<Value, 3> operands = {-1, -1, -1};
    std::array<std::byte, 16> bytes = {};
    EwFn joined = nullptr;  // when it does the work of an operand's op as well
  };
  struct Output {
    Value value;
    bool per_row;
  };
  Value add(Node node);

  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  std::int32_t inputs_ = 0;
};

/// A program made ready: buffers assigned, kernels looked up, machine code written where the machine has AVX2 or
/// AVX-512 and `Config::compile_blocks` is on. Equal programs share all that. Immutable; `run` may be called from
/// several threads.
class FusedKernel {
 public:
  explicit FusedKernel(FusedProgram program);

  /// Operands and results in the order in which the program names them. A full result may be the very memory of a
  /// Contiguous input whose elements have the same size, one of rows that of a Contiguous input whose rows do;
  /// otherwise nothing overlaps. `stream`: full results are stored around the caches. `windows`: those that the program
  /// reads through, over this space.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t outer, std::int64_t inner,
           bool stream = false, std::span<const Window> windows = {}) const;

  /// What of a run over such a space is machine code: for tests.
  struct Coverage {
    std::int64_t by_code = 0, by_kernels = 0;  // steps
    std::size_t code_bytes = 0;
  };
  Coverage coverage(std::int64_t outer, std::int64_t inner) const;

  struct Plan;
  /// The same for equal programs.
  const Plan* plan() const { return plan_.get(); }

 private:
  std::shared_ptr<const Plan> plan_;
};

/// Prepares and runs in one call.
void run(const FusedProgram& program, std::span<const void* const> inputs, std::span<void* const> outputs,
         std::int64_t outer, std::int64_t inner, std::span<const Window> windows = {});

}  // namespace tessera::kernels
