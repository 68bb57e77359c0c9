// SPDX-License-Identifier: Apache-2.0
// Windows are products of intervals: reducing one dim after the other does the work of a window in the sum of its
// extents. Where the rest of a dim's position fits in a cache it goes through all further dims there.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/raw_memory.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/reduce_kernels.h"
#include "engines/cpu/kernels/window_kernels.h"
#include "tessera/error.h"
#include "tessera/shape.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kWindowsGrain = 16 << 10;  // elements that are worth waking a thread for
constexpr std::int64_t kResultBlock = 4 << 10;    // elements of a result that stay in the first-level cache
constexpr std::int64_t kSlabBytes = 512 << 10;

// What an operation takes a window's elements to: the neutral element of sums is -0, as 0 + -0 is 0.
struct WindowOp {
  EwFn fn = nullptr;
  std::int64_t size = 0;
  alignas(16) std::byte identity[16] = {};

  WindowOp(EwFn f, ReduceOp op, DType t) : fn(f), size(dtype_size(t)) {
    reduce_identity(op, t, identity);
    if (op != ReduceOp::Sum || !is_inexact(t)) return;
    EwFn negate = ew_find(EwOp::Neg, t, t);
    negate(identity, nullptr, nullptr, identity, 1);
  }
};

// The rows of `in` that element k of the windows finds, and the windows that find one: both step evenly.
struct Track {
  std::int64_t count = 0, out = 0, out_step = 1, in = 0, in_step = 1;

  // What of it belongs to windows [begin, end).
  Track within(std::int64_t begin, std::int64_t end) const {
    auto reached = [&](std::int64_t o) { return o <= out ? 0 : std::min(count, (o - out + out_step - 1) / out_step); };
    const std::int64_t skip = reached(begin);
    return {reached(end) - skip, out + skip * out_step - begin, out_step, in + skip * in_step, in_step};
  }
};

template <class T>
void move_rows(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t inner) {
  const T* x = reinterpret_cast<const T*>(from);
  T* r = reinterpret_cast<T*>(to);
  if (inner == 1) {
    for (std::int64_t i = 0; i < rows; ++i) r[i * to_step] = x[i * from_step];
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(x + i * from_step * inner, inner, r + i * to_step * inner);
}

// One dim of windows: [extent, inner] to [out, inner].
class AlongDim {
 public:
  AlongDim(const WindowSpec& s, std::size_t dim, std::int64_t out, std::int64_t inner, const WindowOp& op)
      : out_(out), inner_(inner), row_(inner * op.size), extent_(s.in_shape[dim]), op_(op) {
    for (std::int64_t k = 0; k < s.window[dim]; ++k) tracks_.push_back(track(s, dim, k));
    block_ = std::max<std::int64_t>(1, kResultBlock / std::max<std::int64_t>(1, inner));
  }

  std::int64_t out() const { return out_; }
  std::int64_t extent() const { return extent_; }
  std::int64_t row() const { return row_; }
  std::int64_t block() const { return std::min(block_, std::max<std::int64_t>(1, out_)); }
  std::int64_t work() const { return inner_ * static_cast<std::int64_t>(tracks_.size()); }  // of one window
  std::int64_t scratch_bytes() const { return long_rows() ? 0 : 2 * block() * row_; }

  // All windows of `outer` operands, on the calling thread.
  void run(std::int64_t outer, const std::byte* in, std::byte* to, std::byte* scratch) const {
    for (std::int64_t u = 0; u < outer; ++u, in += extent_ * row_) {
      for (std::int64_t o = 0; o < out_; o += block()) {
        const std::int64_t end = std::min(out_, o + block());
        run(o, end, in, to, scratch);
        to += (end - o) * row_;
      }
    }
  }

  // Windows [begin, end) of one operand, no more than a block.
  void run(std::int64_t begin, std::int64_t end, const std::byte* in, std::byte* to, std::byte* scratch) const {
    if (row_ == 0) return;  // a dim that follows has no elements yet
    const Track first = tracks_[0].within(begin, end);
    const Track second = tracks_.size() > 1 ? tracks_[1].within(begin, end) : Track();
    std::size_t k = 1;
    if (first.count < end - begin) {
      fill(to, op_.identity, op_.size, (end - begin) * inner_);
      move(in, first, to);
    } else if (second.count == first.count) {
      combine_first(in, first, second, to, scratch);
      k = 2;
    } else {
      move(in, first, to);
    }
    for (; k < tracks_.size(); ++k) {
      const Track t = tracks_[k].within(begin, end);
      if (t.count > 0) combine(in, t, to, scratch);
    }
  }

 private:
  // Element k of window o is at o * stride + shift of the operand as spread by the dilation.
  Track track(const WindowSpec& s, std::size_t dim, std::int64_t k) const {
    const std::int64_t stride = s.strides[dim], dilation = s.base_dilation[dim];
    const std::int64_t shift = k * s.window_dilation[dim] - s.pad_low[dim];
    const std::int64_t common = std::gcd(stride, dilation), last = (extent_ - 1) * dilation - shift;
    Track t;
    t.out_step = dilation / common;
    t.in_step = stride / common;
    t.out = shift < 0 ? (-shift + stride - 1) / stride : 0;
    for (std::int64_t i = 0; (t.out * stride + shift) % dilation != 0; ++i, ++t.out) {
      if (i == t.out_step) return {};
    }
    if (extent_ == 0 || last < 0) return {};
    const std::int64_t end = std::min(out_, last / stride + 1);
    if (t.out >= end) return {};
    t.count = (end - t.out + t.out_step - 1) / t.out_step;
    t.in = (t.out * stride + shift) / dilation;
    return t;
  }

  bool dense(const Track& t) const { return t.count == 1 || (t.out_step == 1 && t.in_step == 1); }
  // Of which a call of the kernel is worth more than bringing several side by side.
  bool long_rows() const { return row_ >= 64; }
  const std::byte* from(const std::byte* in, const Track& t, std::int64_t i) const {
    return in + (t.in + i * t.in_step) * row_;
  }
  std::byte* at(std::byte* to, const Track& t, std::int64_t i) const { return to + (t.out + i * t.out_step) * row_; }

  void rows(const std::byte* source, std::int64_t source_step, std::byte* to, std::int64_t to_step,
            std::int64_t count) const {
    switch (op_.size) {
      case 1:
        return move_rows<std::uint8_t>(source, source_step, to, to_step, count, inner_);
      case 2:
        return move_rows<std::uint16_t>(source, source_step, to, to_step, count, inner_);
      case 4:
        return move_rows<std::uint32_t>(source, source_step, to, to_step, count, inner_);
      case 8:
        return move_rows<std::uint64_t>(source, source_step, to, to_step, count, inner_);
      default:
        return move_rows<complex128_t>(source, source_step, to, to_step, count, inner_);
    }
  }
  void move(const std::byte* in, const Track& t, std::byte* to) const {
    if (t.count == 0) return;
    if (dense(t)) {
      std::memcpy(at(to, t, 0), from(in, t, 0), static_cast<std::size_t>(t.count * row_));
    } else {
      rows(from(in, t, 0), t.in_step, at(to, t, 0), t.out_step, t.count);
    }
  }
  // The rows of a track side by side.
  const std::byte* gathered(const std::byte* in, const Track& t, std::byte* scratch) const {
    if (dense(t)) return from(in, t, 0);
    rows(from(in, t, 0), t.in_step, scratch, 1, t.count);
    return scratch;
  }

  // Both have a row for every window.
  void combine_first(const std::byte* in, const Track& a, const Track& b, std::byte* to, std::byte* scratch) const {
    if (dense(a) && dense(b)) {
      op_.fn(from(in, a, 0), from(in, b, 0), nullptr, to, a.count * inner_);
    } else if (long_rows()) {
      for (std::int64_t i = 0; i < a.count; ++i) op_.fn(from(in, a, i), from(in, b, i), nullptr, to + i * row_, inner_);
    } else {
      const std::byte* x = gathered(in, a, scratch);
      const std::byte* y = gathered(in, b, scratch + block() * row_);
      op_.fn(x, y, nullptr, to, a.count * inner_);
    }
  }
  void combine(const std::byte* in, const Track& t, std::byte* to, std::byte* scratch) const {
    if (dense(t)) {
      std::byte* r = at(to, t, 0);
      op_.fn(r, from(in, t, 0), nullptr, r, t.count * inner_);
    } else if (long_rows()) {
      for (std::int64_t i = 0; i < t.count; ++i) {
        std::byte* r = at(to, t, i);
        op_.fn(r, from(in, t, i), nullptr, r, inner_);
      }
    } else {
      rows(from(in, t, 0), t.in_step, scratch, 1, t.count);
      const std::byte* x = scratch;
      std::byte* r = at(to, t, 0);
      if (t.out_step == 1) {
        op_.fn(r, x, nullptr, r, t.count * inner_);
        return;
      }
      std::byte* held = scratch + block() * row_;
      rows(r, t.out_step, held, 1, t.count);
      op_.fn(held, x, nullptr, held, t.count * inner_);
      rows(held, 1, r, t.out_step, t.count);
    }
  }

  std::int64_t out_, inner_, row_, extent_, block_ = 1;
  const WindowOp& op_;
  std::vector<Track> tracks_;  // one an element of a window
};

bool reduces_along(const WindowSpec& s, std::size_t d) {
  return s.window[d] != 1 || s.strides[d] != 1 || s.pad_low[d] != 0 || s.pad_high[d] != 0 || s.base_dilation[d] != 1;
}

// The dims that are left, on one slab: what follows a position of the first of them.
struct Slab {
  struct Dim {
    std::int64_t outer;
    AlongDim along;
  };
  std::vector<Dim> dims;
  std::int64_t largest = 0, scratch = 0, out_bytes = 0;

  Slab(const WindowSpec& spec, std::size_t first, const std::vector<std::int64_t>& out_shape, const WindowOp& op) {
    WindowSpec s = spec;
    auto bytes_from = [&](std::size_t d) {
      std::int64_t n = op.size;
      for (; d < s.in_shape.size(); ++d) n *= s.in_shape[d];
      return n;
    };
    largest = bytes_from(first);
    std::int64_t outer = 1;
    for (std::size_t d = first; d < s.in_shape.size(); outer *= out_shape[d], ++d) {
      if (!reduces_along(s, d)) continue;
      dims.push_back({outer, AlongDim(s, d, out_shape[d], bytes_from(d + 1) / op.size, op)});
      s.in_shape[d] = out_shape[d];
      largest = std::max(largest, bytes_from(first));
      scratch = std::max(scratch, dims.back().along.scratch_bytes());
    }
    out_bytes = bytes_from(first);
  }
};

// Runs with memory of a thread's own: two slabs and what the dims need on the way.
void run_slab(const Slab& slab, const std::byte* in, std::byte* to, std::byte* memory) {
  std::byte* scratch = memory + 2 * slab.largest;
  for (std::size_t i = 0; i < slab.dims.size(); ++i) {
    const bool last = i + 1 == slab.dims.size();
    std::byte* next = last ? to : memory + static_cast<std::int64_t>(i % 2) * slab.largest;
    slab.dims[i].along.run(slab.dims[i].outer, in, next, scratch);
    in = next;
  }
}

// `start` combined with each of `n` elements, as first operand.
void combine_start(const WindowOp& op, const std::byte* start, std::byte* to, std::int64_t n) {
  alignas(64) std::byte starts[1024];
  const std::int64_t most = static_cast<std::int64_t>(sizeof starts) / op.size;
  fill(starts, start, op.size, std::min(n, most));
  for (std::int64_t i = 0; i < n; i += most) {
    op.fn(starts, to + i * op.size, nullptr, to + i * op.size, std::min(most, n - i));
  }
}

// All dims, of elements as they are summed. `start`: null where it changes nothing.
void reduce_dims(WindowSpec s, const std::vector<std::int64_t>& out_shape, const WindowOp& op, const std::byte* start,
                 const std::byte* in, std::byte* out) {
  const std::size_t rank = s.in_shape.size();
  base::RawMemory held;
  std::int64_t outer = 1;
  for (std::size_t d = 0; d < rank; outer *= out_shape[d], ++d) {
    if (!reduces_along(s, d)) continue;
    const Slab rest(s, d + 1, out_shape, op);
    std::int64_t after = 1;
    for (std::size_t e = d + 1; e < rank; ++e) after *= s.in_shape[e];
    const AlongDim along(s, d, out_shape[d], after, op);
    const bool slabs = !rest.dims.empty() && rest.largest <= kSlabBytes;
    const bool last = rest.dims.empty() || slabs;
    const std::int64_t to_row = slabs ? rest.out_bytes : along.row();
    base::RawMemory next;
    std::byte* to = out;
    if (!last) {
      next = base::raw_memory(outer * along.out() * along.row());
      to = next.get();
    }
    const std::int64_t block = slabs ? 1 : along.block(), blocks = (along.out() + block - 1) / block;
    const std::int64_t work =
        std::max<std::int64_t>(1, block * (along.work() + (slabs ? 2 * rest.largest / op.size : 0)));
    base::parallel_for(outer * blocks, std::max<std::int64_t>(1, kWindowsGrain / work),
                       [&](std::int64_t begin, std::int64_t end) {
                         const std::int64_t slab = slabs ? along.row() + 2 * rest.largest + rest.scratch : 0;
                         base::RawMemory memory = base::raw_memory(along.scratch_bytes() + slab);
                         std::byte* more = memory.get() + along.scratch_bytes();
                         for (std::int64_t u = begin; u < end; ++u) {
                           const std::int64_t o = u % blocks * block, o_end = std::min(along.out(), o + block);
                           const std::byte* from = in + u / blocks * along.extent() * along.row();
                           std::byte* result = to + (u / blocks * along.out() + o) * to_row;
                           along.run(o, o_end, from, slabs ? more : result, memory.get());
                           if (slabs) run_slab(rest, more, result, more + along.row());
                           if (last && start != nullptr) {
                             combine_start(op, start, result, (o_end - o) * to_row / op.size);
                           }
                         }
                       });
    if (last) return;
    held = std::move(next);
    in = held.get();
    s.in_shape[d] = out_shape[d];
  }
  // No dim is reduced.
  const std::int64_t n = size_of(out_shape);
  copy_bytes(out, in, n * op.size);
  if (start != nullptr) combine_start(op, start, out, n);
}

void convert(DType from, DType to, const void* in, std::byte* out, std::int64_t n) {
  EwFn fn = ew_find(EwOp::Convert, from, to);
  base::parallel_for(n, 2 * kWindowsGrain, [&](std::int64_t begin, std::int64_t end) {
    fn(static_cast<const std::byte*>(in) + begin * dtype_size(from), nullptr, nullptr, out + begin * dtype_size(to),
       end - begin);
  });
}

EwOp element_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return EwOp::Add;
    case ReduceOp::Prod:
      return EwOp::Mul;
    case ReduceOp::Max:
      return EwOp::Max;
    case ReduceOp::Min:
      return EwOp::Min;
    case ReduceOp::And:
      return EwOp::And;
    default:
      return EwOp::Or;
  }
}

}  // namespace

void reduce_window(ReduceOp op, DType dtype, const WindowSpec& spec, const void* in, const void* init, void* out) {
  DType acc = accumulator_dtype(dtype);
  EwFn fn = ew_find(element_op(op), acc, acc);
  if (!find_reduce(op, dtype).row || !fn) {
    throw UnimplementedError(str("reduce_window: dtype = ", dtype_name(dtype), " with operation ", static_cast<int>(op),
                                 "; expected a dtype that has it"));
  }
  const auto out_shape = window_out_shape(spec);
  const std::int64_t n = size_of(out_shape);
  if (n == 0) return;
  const WindowOp window_op(fn, op, acc);
  alignas(16) std::byte first[16];
  ew_find(EwOp::Convert, dtype, acc)(init, nullptr, nullptr, first, 1);
  const bool changes = std::memcmp(first, window_op.identity, static_cast<std::size_t>(window_op.size)) != 0;
  const std::byte* start = changes ? first : nullptr;
  if (acc == dtype) {
    return reduce_dims(spec, out_shape, window_op, start, static_cast<const std::byte*>(in),
                       static_cast<std::byte*>(out));
  }
  const std::int64_t elements = size_of(spec.in_shape);
  base::RawMemory wide = base::raw_memory(elements * window_op.size), result = base::raw_memory(n * window_op.size);
  convert(dtype, acc, in, wide.get(), elements);
  reduce_dims(spec, out_shape, window_op, start, wide.get(), result.get());
  convert(acc, dtype, result.get(), static_cast<std::byte*>(out), n);
}

}  // namespace tessera::kernels
