// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/gather_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "core/stream_copy.h"
#include "core/with_type.h"
#include "engines/cpu/kernels/copy_rows.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kRowGrain = 128 << 10;
constexpr std::int64_t kElementGrain = 16 << 10;
constexpr std::int64_t kStreamedRows = 8 << 20;

// Rows are anywhere, so they are asked for before they are needed: as many as hide the way to memory, and of each its
// beginning, after which the processor sees the rest coming.
constexpr std::int64_t kAheadBytes = 8 << 10;
constexpr std::int64_t kMostRowsAhead = 32;
constexpr std::int64_t kBeginning = 1 << 10;

// Rows whose places are worked out together: 16 KB of them.
constexpr std::int64_t kFoundTogether = 2048;

// Rows of as many bytes as an element has, where a call of memcpy would take most of the time.
template <std::size_t kBytes>
void gather_elements(const std::byte* table, const std::int64_t* rows, std::int64_t n, const std::byte* fill,
                     std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i, out += kBytes) {
    const std::byte* from = rows[i] < 0 ? fill : table + rows[i] * static_cast<std::int64_t>(kBytes);
    std::memcpy(out, from, kBytes);
  }
}

// The same by plain indices, without a list of rows between.
template <std::size_t kBytes, class I>
void gather_stretch(const std::byte* table, const RowNumbers& rows, const I* index, std::int64_t n,
                    const std::byte* fill, std::byte* out) {
  const std::int64_t last = rows.components[0].last;
  index += rows.components[0].offset;
  auto copy = [&](std::int64_t i, const std::byte* from) { std::memcpy(out + i * kBytes, from, kBytes); };
  if (rows.drop) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = wide_index(index[i]);
      copy(i, outside(at, last) ? fill : table + at * static_cast<std::int64_t>(kBytes));
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = std::clamp<std::int64_t>(wide_index(index[i]), 0, last);
      copy(i, table + at * static_cast<std::int64_t>(kBytes));
    }
  }
}

struct Rows {
  const std::byte* table;
  const std::byte* fill;
  std::int64_t bytes;  // of one
  bool stream;
};

void gather_block(const Rows& r, const std::int64_t* rows, std::int64_t n, std::byte* out) {
  switch (r.bytes) {
    case 1:
      return gather_elements<1>(r.table, rows, n, r.fill, out);
    case 2:
      return gather_elements<2>(r.table, rows, n, r.fill, out);
    case 4:
      return gather_elements<4>(r.table, rows, n, r.fill, out);
    case 8:
      return gather_elements<8>(r.table, rows, n, r.fill, out);
    case 16:
      return gather_elements<16>(r.table, rows, n, r.fill, out);
    default:
      break;
  }
  const std::int64_t ahead = std::clamp<std::int64_t>(kAheadBytes / r.bytes, 2, kMostRowsAhead);
  const std::int64_t beginning = std::min(r.bytes, kBeginning);
  for (std::int64_t i = 0; i < n; ++i) {
    if (i + ahead < n && rows[i + ahead] >= 0) {
      const std::byte* next = r.table + rows[i + ahead] * r.bytes;
      for (std::int64_t b = 0; b < beginning; b += 64) __builtin_prefetch(next + b);
    }
    const std::byte* from = rows[i] < 0 ? r.fill : r.table + rows[i] * r.bytes;
    if (r.stream) {
      core::copy_streaming(out + i * r.bytes, from, r.bytes);
    } else {
      std::memcpy(out + i * r.bytes, from, static_cast<std::size_t>(r.bytes));
    }
  }
}

template <std::size_t kBytes>
bool gather_elements_plainly(const Rows& r, const RowNumbers& rows, const void* indices, std::byte* out) {
  return core::with_type(rows.index_dtype, [&]<class I>() {
    if constexpr (std::is_integral_v<I>) {
      base::parallel_for(rows.size(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
        std::byte* to = out + begin * static_cast<std::int64_t>(kBytes);
        rows.for_each_stretch(begin, end, [&](std::int64_t index, std::int64_t row, std::int64_t n) {
          gather_stretch<kBytes>(r.table + row * static_cast<std::int64_t>(kBytes), rows,
                                 static_cast<const I*>(indices) + index, n, r.fill, to);
          to += n * static_cast<std::int64_t>(kBytes);
        });
      });
      return true;
    }
    return false;
  });
}
bool gather_plain(const Rows& r, const RowNumbers& rows, const void* indices, std::byte* out) {
  switch (r.bytes) {
    case 1:
      return gather_elements_plainly<1>(r, rows, indices, out);
    case 2:
      return gather_elements_plainly<2>(r, rows, indices, out);
    case 4:
      return gather_elements_plainly<4>(r, rows, indices, out);
    case 8:
      return gather_elements_plainly<8>(r, rows, indices, out);
    default:
      return false;
  }
}

// Elements of a row up to which the call of a kernel for each row would take most of the time.
constexpr std::int64_t kShortRow = 64;
// Bytes of a row that are worth a thread of their own.
constexpr std::int64_t kOwnBytes = 128;

// Updates of one block of rows, in order: those that `chosen` names, or without it all whose row is not dropped; of
// each the elements [first, first + count).
struct Block {
  const std::int64_t* rows;
  const std::int32_t* chosen;
  std::int64_t n;
  const std::byte* updates;
  std::int64_t row_size, first, count;
  std::int64_t size;  // bytes of an element
  bool apart;         // others take some of the updates, or of their elements

  template <class F>
  void for_each(const F& f) const {
    const Block own = *this;  // which what `f` writes cannot be part of
    own.for_each_of_own(f);
  }

 private:
  template <class F>
  void for_each_of_own(const F& f) const {
    constexpr std::int64_t kAhead = 12;
    const std::int64_t bytes = std::min<std::int64_t>(count * size, kBeginning);
    for (std::int64_t u = 0; u < n; ++u) {
      const std::int64_t i = chosen ? chosen[u] : u;
      if (apart && u + kAhead < n) {  // what is left out between them hides from the processor where the next one is
        const std::int64_t next = ((chosen ? chosen[u + kAhead] : u + kAhead) * row_size + first) * size;
        for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(updates + next + b);
      }
      if (rows[i] >= 0) f(rows[i] * row_size + first, i * row_size + first);
    }
  }
};

template <ScatterOp kOp, class T>
T added(T to, T from) {
  if constexpr (kOp == ScatterOp::Set) {
    return from;
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::conditional_t<sizeof(T) < 4, unsigned, std::make_unsigned_t<T>>;  // wraps around
    return static_cast<T>(static_cast<U>(to) + static_cast<U>(from));
  } else {
    return to + from;
  }
}

template <class T>
struct Unsigned : std::make_unsigned<T> {};
template <class T>
requires std::is_floating_point_v<T>
struct Unsigned<T> : std::type_identity<T> {
};
template <>
struct Unsigned<bool> : std::type_identity<bool> {};

// Short rows in vectors of 16 bytes, without asking each time whether the two overlap.
template <ScatterOp kOp, class T>
void add_elements(T* to, const T* from, std::int64_t count) {
  std::int64_t j = 0;
  if constexpr (!std::is_same_v<T, bool>) {
    using V = in_registers::Vector<typename Unsigned<T>::type>;
    constexpr std::int64_t lanes = in_registers::kVectorLanes<T>;
    for (; j + lanes <= count; j += lanes) {
      V x, y;
      std::memcpy(&x, to + j, sizeof x);
      std::memcpy(&y, from + j, sizeof y);
      if constexpr (kOp == ScatterOp::Set) {
        x = y;
      } else {
        x = x + y;
      }
      std::memcpy(to + j, &x, sizeof x);
    }
  }
  for (; j < count; ++j) to[j] = added<kOp>(to[j], from[j]);
}

using Apply = void (*)(void* table, const Block&);
template <ScatterOp kOp, class T>
void apply_short(void* table, const Block& b) {
  T* to = static_cast<T*>(table);
  const T* from = reinterpret_cast<const T*>(b.updates);
  if (b.count == 1) {  // without a loop over it
    return b.for_each([=](std::int64_t row, std::int64_t update) { to[row] = added<kOp>(to[row], from[update]); });
  }
  b.for_each(
      [=, n = b.count](std::int64_t row, std::int64_t update) { add_elements<kOp>(to + row, from + update, n); });
}

Apply short_rows(ScatterOp op, DType dtype, std::int64_t row_size) {
  if (row_size > kShortRow || (op != ScatterOp::Set && op != ScatterOp::Add)) return nullptr;
  return core::with_type(dtype, [&]<class T>() -> Apply {
    if constexpr (std::is_integral_v<T>) {
      return op == ScatterOp::Set ? apply_short<ScatterOp::Set, T> : apply_short<ScatterOp::Add, T>;
    } else if constexpr (std::is_floating_point_v<T>) {
      return op == ScatterOp::Add ? apply_short<ScatterOp::Add, T> : nullptr;
    } else {
      return nullptr;
    }
  });
}

// Single elements by plain indices, without a list of rows between: updates [begin, end).
template <ScatterOp kOp, class T, class I>
void scatter_stretches(const RowNumbers& rows, const I* indices, const T* updates, std::int64_t begin, std::int64_t end,
                       T* table) {
  const RowNumbers::Component c = rows.components[0];
  rows.for_each_stretch(begin, end, [&](std::int64_t index, std::int64_t row, std::int64_t n) {
    const I* at = indices + index + c.offset;
    T* to = table + row;
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t element = wide_index(at[i]);
      if (!rows.drop) element = std::clamp<std::int64_t>(element, 0, c.last);
      if (!outside(element, c.last)) to[element] = added<kOp>(to[element], updates[i]);
    }
    updates += n;
  });
}

// Sums of whole numbers are the same in any order: each thread adds to a table of its own. Tables that are small beside
// the updates only.
constexpr std::int64_t kUpdatesToAnElement = 16, kOwnTableGrain = 64 << 10;

template <ScatterOp kOp, class T, class I>
void scatter_single(const RowNumbers& rows, const I* indices, const T* updates, std::int64_t table_rows, T* table) {
  const std::int64_t n = rows.size();
  const std::int64_t parts = std::min<std::int64_t>(base::team_size(), n / kOwnTableGrain);
  if (kOp != ScatterOp::Add || !std::is_integral_v<T> || parts < 2 || n < kUpdatesToAnElement * parts * table_rows) {
    return scatter_stretches<kOp>(rows, indices, updates, 0, n, table);
  }
  std::vector<std::vector<T>> own(static_cast<std::size_t>(parts - 1));
  base::parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      const std::int64_t begin = n * part / parts, end = n * (part + 1) / parts;
      T* to = table;
      if (part > 0) {
        auto& sums = own[static_cast<std::size_t>(part - 1)];
        sums.resize(static_cast<std::size_t>(table_rows));
        to = sums.data();
      }
      scatter_stretches<kOp>(rows, indices, updates + begin, begin, end, to);
    }
  });
  for (const auto& sums : own) add_elements<kOp>(table, sums.data(), table_rows);
}

// False where it has to be done row by row: only the usual dtypes of indices have code for this.
bool scatter_plainly(ScatterOp op, DType dtype, void* table, std::int64_t table_rows, const RowNumbers& rows,
                     const void* indices, const void* updates) {
  auto with_index = [&]<ScatterOp kOp, class T>() {
    auto run = [&]<class I>(const I* index) {
      scatter_single<kOp>(rows, index, static_cast<const T*>(updates), table_rows, static_cast<T*>(table));
      return true;
    };
    if (rows.index_dtype == DType::I32) return run(static_cast<const std::int32_t*>(indices));
    if (rows.index_dtype == DType::I64) return run(static_cast<const std::int64_t*>(indices));
    return false;
  };
  if (!rows.plain() || (op != ScatterOp::Set && op != ScatterOp::Add)) return false;
  return core::with_type(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool> && (std::is_integral_v<T> || std::is_floating_point_v<T>)) {
      return op == ScatterOp::Set ? with_index.template operator()<ScatterOp::Set, T>()
                                  : with_index.template operator()<ScatterOp::Add, T>();
    } else {
      return false;
    }
  });
}

// How threads share a scatter. Columns first, so that each element sees its updates in order, as long as no cache line
// has columns of two but in long rows; beside that ranges of the table's rows, but for rows of some elements, where
// picking its own updates takes a thread as long as adding all.
struct Shares {
  std::int64_t across = 1, down = 1;
  std::int64_t columns, rows;  // of each

  Shares(std::int64_t n, std::int64_t table_rows, std::int64_t row_size, std::int64_t size) {
    // Two threads of one machine were slower than one: updates come from memory, of which each leaves parts out.
    constexpr int kFewThreads = 4;
    const std::int64_t row_bytes = row_size * size, own = kOwnBytes / size;
    const int team = base::team_size();
    const int threads = n * row_bytes < 2 * kRowGrain || team < kFewThreads ? 1 : team;
    const bool apart = row_bytes % kOwnBytes == 0 || row_bytes >= 32 * kOwnBytes;
    if (apart) across = std::clamp<std::int64_t>(row_bytes / kOwnBytes, 1, threads);
    if (row_bytes >= kOwnBytes) down = std::min<std::int64_t>(table_rows, threads / across);
    columns = across == 1 ? row_size : ((row_size + across - 1) / across + own - 1) / own * own;
    rows = (table_rows + down - 1) / down;
  }
};

// Of `n` rows the places of those in [low, low + count), without a branch, which a processor could not foresee. How
// many there are.
std::int64_t choose(const std::int64_t* rows, std::int64_t n, std::int64_t low, std::int64_t count,
                    std::int32_t* chosen) {
  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    chosen[taken] = static_cast<std::int32_t>(i);
    // Rows that are dropped are far beyond any as unsigned ones.
    const std::uint64_t row = static_cast<std::uint64_t>(rows[i]) - static_cast<std::uint64_t>(low);
    taken += row < static_cast<std::uint64_t>(count) ? 1 : 0;
  }
  return taken;
}

}  // namespace

void gather_rows(const void* table, std::int64_t row_bytes, const RowNumbers& rows, const void* indices,
                 const void* fill, void* out) {
  const std::int64_t n = rows.size();
  if (n == 0 || row_bytes == 0) return;
  std::unique_ptr<std::byte[]> zeros;
  if (fill == nullptr) zeros = std::make_unique<std::byte[]>(static_cast<std::size_t>(row_bytes));
  const Rows r{static_cast<const std::byte*>(table), fill ? static_cast<const std::byte*>(fill) : zeros.get(),
               row_bytes, row_bytes >= 256 && n * row_bytes >= kStreamedRows};
  auto* to = static_cast<std::byte*>(out);
  if (rows.plain() && gather_plain(r, rows, indices, to)) return;
  const std::int64_t grain = std::max<std::int64_t>(1, kRowGrain / std::max<std::int64_t>(row_bytes, 8));
  base::parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, kFoundTogether> found;
    for (std::int64_t first = begin; first < end; first += kFoundTogether) {
      const std::int64_t last = std::min(first + kFoundTogether, end);
      rows.find(indices, first, last, found.data());
      gather_block(r, found.data(), last - first, to + first * row_bytes);
    }
    if (r.stream) core::finish_streaming();
  });
}

void scatter_rows(ScatterOp op, DType dtype, void* table, std::int64_t table_rows, std::int64_t row_size,
                  const RowNumbers& rows, const void* indices, const void* updates) {
  static constexpr EwOp kOps[] = {EwOp::Convert, EwOp::Add, EwOp::Mul, EwOp::Max, EwOp::Min};
  const EwFn fn = ew_find(kOps[static_cast<std::size_t>(op)], dtype, dtype);
  if (!fn) {
    throw UnimplementedError(str("scatter_rows: dtype = ", dtype_name(dtype), " with operation ", static_cast<int>(op),
                                 "; expected a dtype that has it"));
  }
  const std::int64_t n = rows.size();
  if (n == 0 || row_size == 0) return;
  if (row_size == 1 && scatter_plainly(op, dtype, table, table_rows, rows, indices, updates)) return;
  const std::int64_t size = dtype_size(dtype);
  auto* to = static_cast<std::byte*>(table);
  const auto* from = static_cast<const std::byte*>(updates);
  const Apply apply = short_rows(op, dtype, row_size);
  auto apply_any = [&](const Block& b) {
    if (apply) return apply(to, b);
    b.for_each([&](std::int64_t row, std::int64_t update) {
      if (op == ScatterOp::Set) {
        std::memcpy(to + row * size, b.updates + update * size, static_cast<std::size_t>(b.count * size));
      } else {
        fn(to + row * size, b.updates + update * size, nullptr, to + row * size, b.count);
      }
    });
  };
  const Shares shares(n, table_rows, row_size, size);
  base::parallel_for(shares.across * shares.down, 1, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, kFoundTogether> found;
    std::array<std::int32_t, kFoundTogether> chosen;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t column = task % shares.across * shares.columns, low = task / shares.across * shares.rows;
      const std::int64_t columns = std::min(shares.columns, row_size - column);
      for (std::int64_t first = 0; first < n && columns > 0; first += kFoundTogether) {
        const std::int64_t count = std::min(kFoundTogether, n - first);
        rows.find(indices, first, first + count, found.data());
        Block b{found.data(), nullptr, count, from + first * row_size * size, row_size,
                column,       columns, size,  shares.across * shares.down > 1};
        if (shares.down > 1) {
          b.chosen = chosen.data();
          b.n = choose(found.data(), count, low, shares.rows, chosen.data());
        }
        apply_any(b);
      }
    }
  });
}

}  // namespace tessera::kernels
