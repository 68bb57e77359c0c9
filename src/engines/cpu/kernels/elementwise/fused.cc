// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/elementwise/fused.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/process.h"
#include "base/thread_own.h"
#include "base/thread_pool.h"
#include "base/verify_mode.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/elementwise/fused_plan.h"
#include "engines/cpu/kernels/elementwise/under_window.h"
#include "tessera/config.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kWholeRow = 4096;  // longest row, in elements, that is a tile of its own
constexpr double kGrainNanoseconds = 15000;
constexpr std::int64_t kVectorful = 16;  // elements that code reads of what is the same everywhere

template <class T>
void expand_typed(void* out, const void* in, std::int64_t rows, std::int64_t cols) {
  const T* x = static_cast<const T*>(in);
  T* r = static_cast<T*>(out);
  for (std::int64_t i = 0; i < rows; ++i, r += cols) std::fill_n(r, cols, x[i]);
}

struct Sixteen {
  std::uint64_t words[2];
};

void expand(void* out, const void* in, std::int64_t rows, std::int64_t cols, std::int64_t size) {
  switch (size) {
    case 1:
      return expand_typed<std::uint8_t>(out, in, rows, cols);
    case 2:
      return expand_typed<std::uint16_t>(out, in, rows, cols);
    case 4:
      return expand_typed<std::uint32_t>(out, in, rows, cols);
    case 8:
      return expand_typed<std::uint64_t>(out, in, rows, cols);
    default:
      return expand_typed<Sixteen>(out, in, rows, cols);
  }
}

struct Tile {
  std::int64_t row, column, rows, columns;
};

// One run: the sizes and the memory that steps refer to.
class Run {
 public:
  Run(const Variant& variant, std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t inner,
      std::int64_t tile_rows, std::int64_t tile_columns)
      : v_(variant),
        inputs_(inputs),
        outputs_(outputs),
        inner_(inner),
        tile_rows_(tile_rows),
        tile_columns_(tile_columns),
        capacity_((tile_rows * std::max<std::int64_t>(tile_columns, 1) + 63) / 64 * 64),
        scratch_bytes_(v_.buffer_starts.back() * capacity_ +
                       static_cast<std::int64_t>(v_.windows.size() * sizeof(std::byte*))) {}

  bool stream = false;
  std::span<const Window> windows;
  std::byte* kept = nullptr;  // row values of all rows: each `rows_total` elements, in order
  std::vector<std::int64_t> kept_offsets;
  std::byte* partial = nullptr;
  std::vector<std::int64_t> partial_offsets;
  std::int64_t chunks = 1;

  // Scratch of the calling thread, with the constant buffers filled.
  std::byte* prepare() const {
    auto& memory = base::thread_own<std::vector<std::byte>, struct FusedScratchTag>();
    // At a page, as large operands are: loads that run ahead of stores to addresses with the same low bits would wait.
    constexpr std::uintptr_t kPage = 4096;
    auto bytes = static_cast<std::size_t>(scratch_bytes_) + kPage;
    if (memory.size() < bytes) memory.resize(bytes);
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    std::byte* scratch = memory.data() + (-address & (kPage - 1));
    base::poison(scratch, static_cast<std::size_t>(scratch_bytes_));
    for (const Prefill& f : v_.prefills) {
      std::byte* to = scratch + offset(f.buffer);
      std::int64_t count = f.whole ? capacity_ : kVectorful;
      if (f.fn) {
        const std::byte* in[3] = {};
        for (std::size_t i = 0; i < 3; ++i) {
          if (f.operands[i] >= 0) in[i] = scratch + offset(f.operands[i]);
        }
        f.fn(in[0], in[1], in[2], to, count);
      } else if (f.period_input >= 0) {
        if (tile_rows_ == 1) continue;
        const void* from = inputs_[static_cast<std::size_t>(f.period_input)];
        for (std::int64_t r = 0; r < tile_rows_; ++r) {
          std::memcpy(to + r * inner_ * f.size, from, static_cast<std::size_t>(inner_ * f.size));
        }
      } else {
        const void* from = f.scalar_input >= 0 ? inputs_[static_cast<std::size_t>(f.scalar_input)] : f.bytes.data();
        expand(to, from, 1, count, f.size);
      }
    }
    return scratch;
  }

  // Asks for the inputs of a tile that comes later: the hardware's own prefetching stops at the ends of tiles.
  void prefetch(const Tile& t) const {
    constexpr std::int64_t kLine = 64;
    for (const Operand& o : v_.streamed) {
      const std::byte* from = at(o, nullptr, t);
      std::int64_t bytes = t.rows * t.columns * o.size;
      for (std::int64_t b = 0; b < bytes; b += kLine) __builtin_prefetch(from + b, 0, 2);
    }
  }

  void steps(const std::vector<Step>& list, std::byte* scratch, const Tile& t) const {
    find_windows(scratch, t);
    for (const Step& s : list) {
      // The tile at the start of a row writes what is one value a row: its neighbours may run at the same time.
      if (s.out.place == Place::OutputRow && t.column != 0) continue;
      std::byte* out = at(s.out, scratch, t);
      const std::byte* a = at(s.in[0], scratch, t);
      std::int64_t n = s.per_row ? t.rows : t.rows * t.columns;
      switch (s.kind) {
        case Step::Kind::Op:
          s.fn(a, at(s.in[1], scratch, t), at(s.in[2], scratch, t), out, n);
          break;
        case Step::Kind::Code:
          run_code(s, scratch, t);
          break;
        case Step::Kind::RowOperand:
          s.row_fn(a, at(s.in[1], scratch, t), out, t.rows, t.columns);
          break;
        case Step::Kind::Reduce:
          if (t.columns == 0) {
            expand(out, s.identity.data(), 1, t.rows, s.out.size);
          } else {
            s.reduce(a, out, t.rows, t.columns);
          }
          break;
        case Step::Kind::Expand:
          expand(out, a, t.rows, t.columns, s.out.size);
          break;
        case Step::Kind::Copy:
          if (stream && !s.per_row) {
            copy_streaming(out, a, n * s.out.size);
          } else {
            std::memmove(out, a, static_cast<std::size_t>(n * s.out.size));
          }
          break;
      }
    }
  }

 private:
  void run_code(const Step& s, std::byte* scratch, const Tile& t) const {
    void* pointers[Code::kMostPointers];
    void** next = pointers;
    for (const Operand& o : s.reads) *next++ = at(o, scratch, t);
    for (const Operand& o : s.writes) *next++ = at(o, scratch, t);
    if (s.code->by_rows) {
      s.code->run(pointers, t.rows, t.columns);
    } else {
      s.code->run(pointers, 1, t.rows * t.columns);
    }
  }

  const std::byte* input(std::int32_t i) const {
    return static_cast<const std::byte*>(inputs_[static_cast<std::size_t>(i)]);
  }
  // Behind the buffers: where the tile's elements under each window are.
  const std::byte** found(std::byte* scratch) const {
    return reinterpret_cast<const std::byte**>(scratch + v_.buffer_starts.back() * capacity_);
  }
  void find_windows(std::byte* scratch, const Tile& t) const {
    for (std::size_t w = 0; w < v_.windows.size(); ++w) {
      const WindowedInput& in = v_.windows[w];
      if (in.buffer < 0) continue;
      const WindowOperand operand{input(in.input), in.fill < 0 ? nullptr : scratch + offset(in.fill),
                                  in.edges < 0 ? nullptr : input(in.edges), in.size};
      found(scratch)[w] =
          under_window(windows[w], operand, t.row * inner_ + t.column, t.rows * t.columns, scratch + offset(in.buffer));
    }
  }

  std::int64_t offset(std::int32_t buffer) const {
    return v_.buffer_starts[static_cast<std::size_t>(buffer)] * capacity_;
  }
  std::byte* at(const Operand& o, std::byte* scratch, const Tile& t) const {
    auto i = static_cast<std::size_t>(o.index);
    // Inputs are never written: the cast only lets reads and writes share this function.
    auto input = [&] { return static_cast<std::byte*>(const_cast<void*>(inputs_[i])); };
    switch (o.place) {
      case Place::None:
        return nullptr;
      case Place::Input:
        return input() + (t.row * inner_ + t.column) * o.size;
      case Place::InputRow:
        return input() + t.row * o.size;
      case Place::Period:
        if (tile_rows_ == 1) return input() + t.column * o.size;
        return scratch + offset(o.buffer);
      case Place::Window:  // neither written
        return const_cast<std::byte*>(found(scratch)[i]);
      case Place::Output:
        return static_cast<std::byte*>(outputs_[i]) + (t.row * inner_ + t.column) * o.size;
      case Place::OutputRow:
        return static_cast<std::byte*>(outputs_[i]) + t.row * o.size;
      case Place::Buffer:
        return scratch + offset(o.buffer);
      case Place::Kept:
        return kept + kept_offsets[i] + t.row * o.size;
      case Place::Partial:
        return partial + partial_offsets[i] + (t.row * chunks + t.column / tile_columns_) * o.size;
    }
    return nullptr;
  }

  const Variant& v_;
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  std::int64_t inner_, tile_rows_, tile_columns_, capacity_;
  std::int64_t scratch_bytes_;
};

std::int64_t grain(double cost, std::int64_t elements) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kGrainNanoseconds / (cost * static_cast<double>(elements) + 1)));
}

// Tiles of whole rows, or of chunks of a row where nothing is reduced.
void run_tiles(const Variant& v, Run& run, std::int64_t outer, std::int64_t inner, std::int64_t tile_rows,
               std::int64_t tile_columns, double cost) {
  if (tile_rows >= outer && tile_columns >= inner) {  // small shards, of which there may be thousands
    base::stop_if_ended();
    run.steps(v.stages[0].steps, run.prepare(), {0, 0, outer, inner});
    return;
  }
  std::int64_t across = std::max<std::int64_t>(1, (inner + tile_columns - 1) / std::max<std::int64_t>(tile_columns, 1));
  std::int64_t down = (outer + tile_rows - 1) / tile_rows;
  auto tiles = [&](std::int64_t begin, std::int64_t end) {
    std::byte* scratch = run.prepare();
    auto tile = [&](std::int64_t u) {
      Tile t{u / across * tile_rows, u % across * tile_columns, 0, 0};
      t.rows = std::min(tile_rows, outer - t.row);
      t.columns = std::min(tile_columns, inner - t.column);
      return t;
    };
    for (std::int64_t u = begin; u < end; ++u) {
      if (u + 1 < end) run.prefetch(tile(u + 1));
      run.steps(v.stages[0].steps, scratch, tile(u));
    }
  };
  base::parallel_for(down * across, grain(cost, tile_rows * tile_columns), std::ref(tiles));  // copied, it is allocated
}

// Long rows: stage by stage, chunks of `columns` elements, the chunks' reductions combined in order between stages.
void run_chunks(const Variant& v, Run& run, std::int64_t outer, std::int64_t inner, std::int64_t columns, double cost) {
  run.chunks = (inner + columns - 1) / columns;
  std::int64_t kept_bytes = 0, partial_bytes = 0;
  for (std::int64_t size : v.kept_sizes) {
    run.kept_offsets.push_back(kept_bytes);
    kept_bytes += (size * outer + 63) / 64 * 64;
  }
  for (const PartialReduce& p : v.partials) {
    run.partial_offsets.push_back(partial_bytes);
    partial_bytes += (p.size * outer * run.chunks + 63) / 64 * 64;
  }
  std::vector<std::byte> memory(static_cast<std::size_t>(kept_bytes + partial_bytes));
  base::poison(memory.data(), memory.size());
  run.kept = memory.data();
  run.partial = memory.data() + kept_bytes;
  auto row_steps = [&](const Stage& s, std::int64_t begin, std::int64_t end) {
    if (s.row_steps.empty()) return;
    std::byte* scratch = run.prepare();
    for (std::int64_t r = begin; r < end; r += columns)
      run.steps(s.row_steps, scratch, {r, 0, std::min(columns, end - r), 0});
  };
  auto tiles = [&](const Stage& s, std::int64_t begin, std::int64_t end) {
    std::byte* scratch = run.prepare();
    for (std::int64_t u = begin; u < end; ++u) {
      auto tile = [&](std::int64_t k) {
        std::int64_t c = k % run.chunks * columns;
        return Tile{k / run.chunks, c, 1, std::min(columns, inner - c)};
      };
      if (u + 1 < end) run.prefetch(tile(u + 1));
      run.steps(s.steps, scratch, tile(u));
    }
  };
  auto combine = [&](const Stage& s, std::int64_t begin, std::int64_t end) {
    for (std::int32_t i : s.partials) {
      const PartialReduce& p = v.partials[static_cast<std::size_t>(i)];
      p.total(run.partial + run.partial_offsets[static_cast<std::size_t>(i)] + begin * run.chunks * p.size,
              run.kept + run.kept_offsets[static_cast<std::size_t>(p.kept)] + begin * p.size, end - begin, run.chunks);
    }
  };
  if (const int threads = base::team_size(); threads == 1 || outer >= std::int64_t{2} * threads) {
    // A row at a time through all stages keeps it in the second-level cache.
    base::parallel_for(outer, grain(cost, inner), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        for (const Stage& s : v.stages) {
          row_steps(s, r, r + 1);
          if (!s.steps.empty()) tiles(s, r * run.chunks, (r + 1) * run.chunks);
          combine(s, r, r + 1);
        }
      }
    });
    return;
  }
  for (const Stage& s : v.stages) {
    row_steps(s, 0, outer);
    if (!s.steps.empty()) {
      base::parallel_for(outer * run.chunks, grain(cost, columns),
                         [&](std::int64_t begin, std::int64_t end) { tiles(s, begin, end); });
    }
    combine(s, 0, outer);
  }
}

}  // namespace

namespace {

constexpr std::int64_t kManyElements = 256;

// Code makes a pass over one row after the other, kernels one over all rows of a tile: short rows are theirs. Of few
// elements many runs must be seen before code is made, which takes as long as some hundred of them.
bool takes_code(const FusedKernel::Plan& p, bool chunks, std::int64_t outer, std::int64_t inner) {
  constexpr std::int64_t kLongEnough = 96;
  constexpr std::int32_t kOften = 200;
  if (!config().compile_blocks || !can_compile()) return false;
  if (outer * inner < kManyElements) {
    const std::int32_t runs = p.small_runs.load(std::memory_order_relaxed);
    if (runs < kOften) {
      p.small_runs.store(runs + 1, std::memory_order_relaxed);  // one that is lost does not matter
      return false;
    }
  }
  if (chunks && inner % p.block != 0 && inner % p.block < shortest_row()) return false;
  return !(p.reduces || p.by_rows) || inner >= kLongEnough;
}

constexpr std::size_t kMostOnce = 8;

// Whether one step is all of a variant, and needs nothing but inputs, single ones among them, and outputs.
bool only_code(const Variant& v) {
  if (v.stages.size() != 1 || v.stages[0].steps.size() != 1 || !v.windows.empty()) return false;
  const Step& s = v.stages[0].steps[0];
  if (s.kind != Step::Kind::Code || s.code->by_rows || !s.code->scratch.empty()) return false;
  std::size_t once = 0;
  for (const Operand& o : s.reads) {
    if (o.place == Place::Input) continue;
    const Prefill* f = o.place == Place::Buffer ? v.prefill(o.buffer) : nullptr;
    if (f == nullptr || f->scalar_input < 0 || f->size > 8 || ++once > kMostOnce) return false;
  }
  return std::all_of(s.writes.begin(), s.writes.end(), [](const Operand& o) { return o.place == Place::Output; });
}

void run_only_code(const Variant& v, std::span<const void* const> inputs, std::span<void* const> outputs,
                   std::int64_t n) {
  const Step& s = v.stages[0].steps[0];
  void* pointers[Code::kMostPointers];
  alignas(64) std::byte once[kMostOnce][kVectorful * 8];
  std::byte(*repeated)[kVectorful * 8] = once;
  void** next = pointers;
  for (const Operand& o : s.reads) {
    if (o.place == Place::Input) {
      *next++ = const_cast<void*>(inputs[static_cast<std::size_t>(o.index)]);
    } else {
      const Prefill& f = *v.prefill(o.buffer);
      expand(*repeated, inputs[static_cast<std::size_t>(f.scalar_input)], 1, kVectorful, f.size);
      *next++ = *repeated++;
    }
  }
  for (const Operand& o : s.writes) *next++ = outputs[static_cast<std::size_t>(o.index)];
  s.code->run(pointers, 1, n);
}

// Stores around the caches go to whole vectors.
bool streams(const FusedKernel::Plan& p, std::span<void* const> outputs, std::int64_t inner) {
  const std::int64_t alignment = stream_alignment();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!p.output_is_full[o]) continue;
    std::int64_t row = p.rows_matter ? inner * dtype_size(p.output_dtypes[o]) : 0;
    auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(outputs[o]));
    if (address % alignment != 0 || row % alignment != 0) return false;
  }
  return true;
}

}  // namespace

FusedKernel::FusedKernel(FusedProgram program) : plan_(FusedPlanner::plan(std::move(program))) {}

void FusedKernel::run(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t outer,
                      std::int64_t inner, bool stream, std::span<const Window> windows) const {
  const Plan& p = *plan_;
  if (outer == 0) return;
  const bool few = !p.rows_matter && outer * inner < kManyElements;
  if (const Variant* code = few ? p.small_code.load(std::memory_order_acquire) : nullptr;
      code != nullptr && config().compile_blocks && inner > 0) {
    return run_only_code(*code, inputs, outputs, outer * inner);
  }
  bool staged = stream;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      staged |= inputs[i] == outputs[o] && p.accesses[i] == Access::Contiguous;
  }
  if (!p.rows_matter) {
    inner *= outer;
    outer = 1;
  }
  if (inner == 0 && !p.rows_matter) return;
  bool chunks = p.reduces && inner > kWholeRow;
  const Variant* variant = nullptr;
  if (takes_code(p, chunks, outer, inner)) variant = p.by_code(chunks, stream && streams(p, outputs, inner), few);
  if (few && variant != nullptr && only_code(*variant)) p.small_code.store(variant, std::memory_order_release);
  if (variant == nullptr) variant = &p.by_kernels(chunks, staged);
  const Variant& v = *variant;
  if (chunks) {
    Run run(v, inputs, outputs, inner, 1, v.block);
    run.stream = stream;
    run.windows = windows;
    return run_chunks(v, run, outer, inner, v.block, p.cost);
  }
  std::int64_t columns = p.reduces ? inner : std::min(inner, v.block);
  std::int64_t rows = columns == inner && outer > 1
                          ? std::clamp<std::int64_t>(v.block / std::max<std::int64_t>(inner, 1), 1, outer)
                          : 1;
  Run run(v, inputs, outputs, inner, rows, columns);
  run.stream = stream;
  run.windows = windows;
  run_tiles(v, run, outer, inner, rows, columns, p.cost);
}

FusedKernel::Coverage FusedKernel::coverage(std::int64_t outer, std::int64_t inner) const {
  const Plan& p = *plan_;
  if (!p.rows_matter) {
    inner *= outer;
    outer = 1;
  }
  bool chunks = p.reduces && inner > kWholeRow;
  const Variant* v = takes_code(p, chunks, outer, inner)
                         ? p.by_code(chunks, false, !p.rows_matter && outer * inner < kManyElements)
                         : nullptr;
  if (v == nullptr) v = &p.by_kernels(chunks, false);
  Coverage c;
  for (const Stage& s : v->stages) {
    for (const Step& step : s.steps) {
      ++(step.code ? c.by_code : c.by_kernels);
      if (step.code) c.code_bytes += step.code->size;
    }
  }
  return c;
}

void run(const FusedProgram& program, std::span<const void* const> inputs, std::span<void* const> outputs,
         std::int64_t outer, std::int64_t inner, std::span<const Window> windows) {
  FusedKernel(program).run(inputs, outputs, outer, inner, false, windows);
}

}  // namespace tessera::kernels
