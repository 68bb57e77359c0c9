// SPDX-License-Identifier: Apache-2.0
// What is compiled into one function: element-wise ops and row reductions over a tile of [rows, columns], in
// single-assignment form. The function makes as many passes over each row as its reductions ask for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engines/cpu/kernels/compiled/code_memory.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/elementwise/vector_functions.h"
#include "engines/cpu/kernels/reduce_axes.h"
#include "tessera/dtype.h"

namespace tessera::kernels {

struct Fragment {
  using Value = std::int32_t;
  enum class Kind : std::uint8_t {
    Constant,  // `bytes`, everywhere
    Once,      // the element at pointer `pointer`, everywhere
    Row,       // element `row` there
    Full,      // element `row * columns + column` there
    Op,        // of `operands`; full where one of them is
    Reduce,    // of the row of operands[0]
  };
  struct Node {
    Kind kind = Kind::Constant;
    DType dtype = DType::F32;
    bool full = false;
    bool streamed = false;  // Full: comes from memory, not from a cache
    EwOp op = EwOp::Neg;
    ReduceOp reduce = ReduceOp::Sum;
    std::int32_t pointer = -1;
    std::int32_t phase = 0;  // passes that have to be complete before it can be computed
    std::array<Value, 3> operands = {-1, -1, -1};
    std::array<std::byte, 16> bytes = {};
  };
  /// Full: one element for each of the tile, also of a value of fewer; else one a row.
  struct Store {
    Value value;
    std::int32_t pointer;
    bool full;
    bool stream;  // around the caches: the address is a multiple of `stream_alignment` in every row
  };

  std::vector<Node> nodes;
  std::vector<Store> stores;
  std::int32_t pointers = 0;

  /// Appends; fills in `full` and `phase` of an Op or Reduce.
  Value add(Node node);
  bool by_rows() const;  // its rows matter: something is reduced or is one value a row
};

/// A row has at least as many elements where `Code::run` is called for a fragment that reduces: two vectors.
inline std::int64_t shortest_row() { return vector_bytes() / 2; }
inline std::int64_t stream_alignment() { return vector_bytes(); }

/// The machine code of a fragment.
class Code {
 public:
  /// `pointers` as the fragment numbers them, then one for each element of `scratch`.
  using Function = void (*)(void* const* pointers, std::int64_t rows, std::int64_t columns);
  static constexpr std::size_t kMostPointers = 64;
  Function run = nullptr;
  bool by_rows = false;
  std::vector<DType> scratch;  // rows that it needs for values between passes
  std::size_t size = 0;        // bytes of the code
  std::unique_ptr<const CodeMemory> memory;
};

/// True where this machine runs what `compile` writes: x86-64 with AVX2, FMA and F16C, or with AVX-512. Code has
/// vectors of the kernels' size, so that both add in the same order and give the same bits.
bool can_compile();
/// True where `compile` knows the operation; what it does not know is left to the kernels.
bool compiles(EwOp op, DType in, DType out);
bool compiles(ReduceOp op, DType dtype);
/// True where the code of an operation is a call of the kernels' function.
bool calls_kernel(EwOp op, DType in, DType out);
/// True where the code of an operation computes several vectors side by side, which the kernels do not.
bool writes_together(EwOp op, DType in, DType out);
/// True for the dtypes of which a fragment may load and store values.
bool compiles(DType dtype);
/// Null where it has more pointers than the most, the code would be too large or the system refuses executable memory.
std::shared_ptr<const Code> compile(const Fragment& fragment);

}  // namespace tessera::kernels
