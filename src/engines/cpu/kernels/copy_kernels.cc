// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/copy_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "core/stream_copy.h"
#include "engines/cpu/kernels/copy_rows.h"

namespace tessera::kernels {

namespace {

using Byte = unsigned char;

constexpr std::int64_t kGrainBytes = 128 << 10;
// Copies above this size cannot stay in a cache, so their stores go around it and no line is read before it is written.
constexpr std::int64_t kStreamBytes = 8 << 20;
// Shorter rows, whose ends lie in lines that others fill, gain nothing by that.
constexpr std::int64_t kLongRow = 1024;

struct Dim {
  std::int64_t size, dst, src;
};

// A copy in normal form: no extents of one, positive destination strides in decreasing order, mergeable dims merged.
struct Plan {
  Byte* dst;
  const Byte* src;
  std::int64_t item;
  std::vector<Dim> dims;
  std::int64_t total = 1;  // elements
};

Plan normalise(void* dst, std::span<const std::int64_t> ds, const void* src, std::span<const std::int64_t> ss,
               std::span<const std::int64_t> shape, std::int64_t item) {
  Plan p{static_cast<Byte*>(dst), static_cast<const Byte*>(src), item, {}};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    p.total *= shape[i];
    if (shape[i] <= 1) continue;
    Dim d{shape[i], ds[i], ss[i]};
    if (d.dst < 0) {
      p.dst += d.dst * (d.size - 1);
      p.src += d.src * (d.size - 1);
      d.dst = -d.dst;
      d.src = -d.src;
    }
    p.dims.push_back(d);
  }
  std::stable_sort(p.dims.begin(), p.dims.end(), [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
  std::size_t out = 0;
  for (std::size_t i = 1; i < p.dims.size(); ++i) {
    Dim& outer = p.dims[out];
    const Dim& inner = p.dims[i];
    if (outer.dst == inner.dst * inner.size && outer.src == inner.src * inner.size) {
      outer = {outer.size * inner.size, inner.dst, inner.src};
    } else {
      p.dims[++out] = inner;
    }
  }
  if (!p.dims.empty()) p.dims.resize(out + 1);
  return p;
}

// Calls `body(dst, src, n)` for the units [begin, end) of the space that `dims` span, in row-major order: for `n` units
// along the last dimension each time.
template <class Body>
void walk_lines(const Plan& p, std::span<const Dim> dims, std::int64_t begin, std::int64_t end, const Body& body) {
  if (dims.empty()) return begin < end ? body(p.dst, p.src, 1) : void();
  std::vector<std::int64_t> index(dims.size());
  Byte* dst = p.dst;
  const Byte* src = p.src;
  std::int64_t rest = begin;
  for (std::size_t i = dims.size(); i-- > 0;) {
    index[i] = rest % dims[i].size;
    rest /= dims[i].size;
    dst += index[i] * dims[i].dst;
    src += index[i] * dims[i].src;
  }
  const Dim& line = dims.back();
  for (std::int64_t u = begin; u < end;) {
    const std::int64_t n = std::min(line.size - index.back(), end - u);
    body(dst, src, n);
    u += n;
    dst -= index.back() * line.dst;
    src -= index.back() * line.src;
    index.back() = 0;
    for (std::size_t i = dims.size() - 1; i-- > 0;) {
      dst += dims[i].dst;
      src += dims[i].src;
      if (++index[i] < dims[i].size) break;
      index[i] = 0;
      dst -= dims[i].dst * dims[i].size;
      src -= dims[i].src * dims[i].size;
    }
  }
}

// The same with `body(dst, src)`, unit by unit.
template <class Body>
void walk(const Plan& p, std::span<const Dim> dims, std::int64_t begin, std::int64_t end, const Body& body) {
  const Dim step = dims.empty() ? Dim{1, 0, 0} : dims.back();
  walk_lines(p, dims, begin, end, [&](Byte* dst, const Byte* src, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) body(dst + i * step.dst, src + i * step.src);
  });
}

std::int64_t count(std::span<const Dim> dims) {
  std::int64_t n = 1;
  for (const Dim& d : dims) n *= d.size;
  return n;
}

template <class Body>
void for_units(const Plan& p, std::span<const Dim> dims, std::int64_t unit_bytes, const Body& body) {
  std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(unit_bytes, 1));
  base::parallel_for(count(dims), grain,
                     [&](std::int64_t begin, std::int64_t end) { walk(p, dims, begin, end, body); });
}

constexpr std::int64_t kLine = 64;

// True for targets that are better written around the caches, all of whose rows begin with a line.
bool streams_lines(const Plan& p) {
  return p.total * p.item >= kStreamBytes && reinterpret_cast<std::uintptr_t>(p.dst) % kLine == 0 &&
         std::all_of(p.dims.begin(), p.dims.end() - 1, [](const Dim& d) { return d.dst % kLine == 0; });
}

// Makes `n` elements, some at a time, with `make(to, first, count)` in the first-level cache, and writes them around
// the caches. `core::finish_streaming` comes later.
template <class Make>
void stream_elements(Byte* dst, std::int64_t n, std::int64_t size, const Make& make) {
  constexpr std::int64_t kAside = 4096;
  alignas(kLine) Byte aside[kAside];
  const std::int64_t most = kAside / (size * kLine) * kLine;
  for (std::int64_t i = 0; i < n; i += most) {
    const std::int64_t count = std::min(most, n - i);
    make(aside, i, count);
    core::copy_streaming(dst + i * size, aside, count * size);
  }
}

// A tile of a line by a line. Each line of the source is read, and each of the target written, once and whole: lines
// whose strides are a multiple of a page have a few places of the cache together. Lines at `next` are asked for.
// `stream`: those of the target are written around the caches.
template <class T>
void transpose_lines(Byte* dst, std::int64_t ds, const Byte* src, std::int64_t ss, const Byte* next, bool stream) {
  constexpr std::int64_t item = sizeof(T), kTile = kLine / item, kBlock = 16 / item;
  alignas(kLine) Byte tile[kTile * kLine];
  for (std::int64_t c = 0; c < kTile; c += kBlock) {
    for (std::int64_t k = 0; k < kBlock; ++k) __builtin_prefetch(next + (c + k) * ss);
    for (std::int64_t r = 0; r < kTile; r += kBlock) {
      transpose_block<T>(tile + r * kLine + c * item, kLine, src + c * ss + r * item, ss);
    }
  }
  if (stream) return core::scatter_lines(dst, ds, tile, kTile);
  for (std::int64_t r = 0; r < kTile; ++r) std::memcpy(dst + r * ds, tile + r * kLine, kLine);
}

// dst[r * ds + c * item] = src[c * ss + r * item] over one tile; that at `next` comes after it.
template <class T>
void transpose_tile(Byte* dst, std::int64_t ds, const Byte* src, std::int64_t ss, std::int64_t rows, std::int64_t cols,
                    const Byte* next, bool stream) {
  constexpr std::int64_t item = sizeof(T);
  if constexpr (item > 8) {
    for (std::int64_t r = 0; r < rows; ++r) strided_run<T>(dst + r * ds, item, src + r * item, ss, cols);
  } else {
    if (rows == kLine / item && cols == kLine / item) return transpose_lines<T>(dst, ds, src, ss, next, stream);
    constexpr std::int64_t kBlock = 16 / item;
    for (std::int64_t r = 0; r < rows; r += kBlock) {
      const std::int64_t high = std::min(kBlock, rows - r);
      std::int64_t c = 0;
      for (; high == kBlock && c + kBlock <= cols; c += kBlock) {
        transpose_block<T>(dst + r * ds + c * item, ds, src + c * ss + r * item, ss);
      }
      for (std::int64_t k = r; k < r + high; ++k) {
        strided_run<T>(dst + k * ds + c * item, item, src + c * ss + k * item, ss, cols - c);
      }
    }
  }
}

// The source is contiguous along `row`, the destination along the last dim: tiles keep the lines of both in L1. A unit
// is a band of tiles: of rows, so that a thread writes whole lines of neighbouring tiles or, where lines are written
// around the caches in any order, of columns, so that it reads along a few rows of the source.
template <class T>
void transpose(Plan& p, std::size_t row_at) {
  constexpr std::int64_t kTile = std::max<std::int64_t>(8, kLine / static_cast<std::int64_t>(sizeof(T)));
  const bool stream = sizeof(T) <= 8 && streams_lines(p);
  const Dim row = p.dims[row_at];
  const Dim col = p.dims.back();
  p.dims.pop_back();
  p.dims.erase(p.dims.begin() + static_cast<std::ptrdiff_t>(row_at));
  const Dim& across = stream ? col : row;
  const Dim& along = stream ? row : col;
  const std::int64_t bands = (across.size + kTile - 1) / kTile;
  p.dims.push_back({bands, across.dst * kTile, across.src * kTile});
  const std::int64_t unit = kTile * along.size * p.item;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / unit);
  base::parallel_for(count(p.dims), grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t u = begin;
    walk(p, p.dims, begin, end, [&](Byte* dst, const Byte* src) {
      const std::int64_t wide = std::min(kTile, across.size - (u++ % bands) * kTile);
      for (std::int64_t at = 0; at < along.size; at += kTile) {
        const std::int64_t far = std::min(kTile, along.size - at);
        const Byte* from = src + at * along.src;
        const Byte* next = at + 2 * kTile <= along.size ? from + kTile * along.src : from;
        transpose_tile<T>(dst + at * along.dst, row.dst, from, col.src, stream ? far : wide, stream ? wide : far, next,
                          stream);
      }
    });
    if (stream) core::finish_streaming();
  });
}

// `row(dst, src, n)` copies elements of the last dimension.
template <class Row>
void copy_rows(Plan& p, const Row& row) {
  const Dim last = p.dims.back();
  std::vector<Plan> parts{p};
  constexpr std::int64_t kLongest = 4096, kChunk = 1024;
  if (last.size > kLongest) {  // one long strided run has to be cut to be shared
    const std::int64_t whole = last.size / kChunk;
    parts.push_back(p);
    parts[0].dims.back() = {whole, last.dst * kChunk, last.src * kChunk};
    parts[0].dims.push_back({kChunk, last.dst, last.src});
    parts[1].dst += whole * kChunk * last.dst;
    parts[1].src += whole * kChunk * last.src;
    parts[1].dims.back().size = last.size - whole * kChunk;
  }
  for (const Plan& q : parts) {
    const std::int64_t n = q.dims.back().size;
    if (n == 0) continue;
    const std::span<const Dim> outer(q.dims.data(), q.dims.size() - 1);
    const bool stream = last.dst == p.item && n * p.item >= kLongRow && streams_lines(q);
    base::parallel_for(count(outer), std::max<std::int64_t>(1, kGrainBytes / (n * p.item)),
                       [&](std::int64_t begin, std::int64_t end) {
                         walk(q, outer, begin, end, [&](Byte* dst, const Byte* src) {
                           if (!stream) return row(dst, src, n);
                           stream_elements(dst, n, p.item, [&](Byte* to, std::int64_t first, std::int64_t some) {
                             row(to, src + first * last.src, some);
                           });
                         });
                         if (stream) core::finish_streaming();
                       });
  }
}

// Every element of the source is repeated along the last dimension.
template <class T>
void copy_repeated(Plan& p) {
  const Dim last = p.dims.back();
  p.dims.pop_back();
  const std::int64_t bytes = last.size * p.item;
  if (bytes > kMostRepeated) {
    return for_units(p, p.dims, bytes, [&](Byte* dst, const Byte* src) { fill(dst, src, p.item, last.size); });
  }
  const Dim each = p.dims.empty() ? Dim{1, bytes, 0} : p.dims.back();
  const bool stream = each.dst == bytes && !p.dims.empty() && streams_lines(p);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / bytes);
  base::parallel_for(count(p.dims), grain, [&](std::int64_t begin, std::int64_t end) {
    walk_lines(p, p.dims, begin, end, [&](Byte* dst, const Byte* src, std::int64_t n) {
      if (stream && n * bytes >= kLongRow) {
        return stream_elements(dst, n, bytes, [&](Byte* to, std::int64_t first, std::int64_t some) {
          repeat_each<T>(to, src + first * each.src, each.src, some, last.size);
        });
      }
      if (each.dst == bytes) return repeat_each<T>(dst, src, each.src, n, last.size);
      for (std::int64_t i = 0; i < n; ++i) {
        repeat_each<T>(dst + i * each.dst, src + i * each.src, 0, 1, last.size);
      }
    });
    if (stream) core::finish_streaming();
  });
}

template <class T>
void copy_typed(Plan& p) {
  const Dim last = p.dims.back();
  if (last.dst == p.item) {
    if (last.src == 0) return copy_repeated<T>(p);
    for (std::size_t i = 0; i + 1 < p.dims.size(); ++i) {
      if (p.dims[i].src == p.item) return transpose<T>(p, i);
    }
    if (last.src == -p.item) return copy_rows(p, backwards<T>);
    if (last.src == 2 * p.item) return copy_rows(p, every_other<T>);
  }
  copy_rows(p, [&](Byte* dst, const Byte* src, std::int64_t n) { strided_run<T>(dst, last.dst, src, last.src, n); });
}

// Any item size: byte runs through memcpy.
void copy_items(Plan& p) {
  for_units(p, p.dims, p.item,
            [&](Byte* dst, const Byte* src) { std::memcpy(dst, src, static_cast<std::size_t>(p.item)); });
}

void copy_runs(Plan& p, bool stream) {
  std::int64_t run = p.dims.back().size * p.item;
  p.dims.pop_back();
  if (p.dims.empty()) return copy_bytes(p.dst, p.src, run, stream);
  stream = run >= kLongRow && (stream || run * count(p.dims) >= kStreamBytes);
  if (run > kGrainBytes && count(p.dims) < 2 * base::num_threads()) {
    walk(p, p.dims, 0, count(p.dims), [&](Byte* dst, const Byte* src) { copy_bytes(dst, src, run, stream); });
    return;
  }
  std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(run, 1));
  base::parallel_for(count(p.dims), grain, [&](std::int64_t begin, std::int64_t end) {
    if (!stream) {
      const Dim step = p.dims.back();
      return walk_lines(p, p.dims, begin, end, [&](Byte* dst, const Byte* src, std::int64_t n) {
        copy_lines(dst, step.dst, src, step.src, run, n);
      });
    }
    walk(p, p.dims, begin, end, [&](Byte* dst, const Byte* src) { core::copy_streaming(dst, src, run); });
    core::finish_streaming();
  });
}

}  // namespace

void copy_bytes(void* dst, const void* src, std::int64_t bytes, bool stream) {
  if (bytes <= 0) return;
  auto* to = static_cast<Byte*>(dst);
  const auto* from = static_cast<const Byte*>(src);
  if (bytes <= kGrainBytes) {
    if (stream) return copy_streaming(to, from, bytes);
    return core::copy_block(to, from, bytes);
  }
  stream = stream || bytes >= kStreamBytes;
  base::parallel_for((bytes + kLine - 1) / kLine, kGrainBytes / kLine, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t at = begin * kLine;
    std::int64_t n = std::min(bytes, end * kLine) - at;
    if (stream) {
      copy_streaming(to + at, from + at, n);
    } else {
      core::copy_block(to + at, from + at, n);
    }
  });
}

void copy_streaming(void* dst, const void* src, std::int64_t bytes) {
  core::copy_streaming(dst, src, bytes);
  core::finish_streaming();
}

void copy_strided(void* dst, std::span<const std::int64_t> dst_strides_bytes, const void* src,
                  std::span<const std::int64_t> src_strides_bytes, std::span<const std::int64_t> shape,
                  std::int64_t itemsize, bool stream) {
  Plan p = normalise(dst, dst_strides_bytes, src, src_strides_bytes, shape, itemsize);
  if (p.total == 0) return;
  if (p.dims.empty()) {
    std::memcpy(dst, src, static_cast<std::size_t>(itemsize));
    return;
  }
  const Dim& last = p.dims.back();
  if (last.dst == itemsize && last.src == itemsize) return copy_runs(p, stream);
  switch (itemsize) {
    case 1:
      return copy_typed<std::uint8_t>(p);
    case 2:
      return copy_typed<std::uint16_t>(p);
    case 4:
      return copy_typed<std::uint32_t>(p);
    case 8:
      return copy_typed<std::uint64_t>(p);
    case 16:
      return copy_typed<Item<16>>(p);
    default:
      return copy_items(p);
  }
}

void fill(void* dst, const void* value, std::int64_t itemsize, std::int64_t n) {
  if (n <= 0) return;
  auto* to = static_cast<Byte*>(dst);
  const auto* v = static_cast<const Byte*>(value);
  bool same = std::all_of(v, v + itemsize, [&](Byte b) { return b == v[0]; });
  auto part = [&](std::int64_t begin, std::int64_t end) {
    Byte* at = to + begin * itemsize;
    std::int64_t bytes = (end - begin) * itemsize;
    if (same) {
      std::memset(at, v[0], static_cast<std::size_t>(bytes));
      return;
    }
    // Doubling up to a block that stays in L1, then that block again and again.
    std::int64_t block = itemsize * std::max<std::int64_t>(1, 4096 / itemsize);
    std::int64_t have = std::min(itemsize, bytes);
    std::memcpy(at, v, static_cast<std::size_t>(have));
    while (have < bytes) {
      std::int64_t more = std::min({have, block, bytes - have});
      std::memcpy(at + have, at, static_cast<std::size_t>(more));
      have += more;
    }
  };
  std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / itemsize);
  if (n <= grain) return part(0, n);
  base::parallel_for(n, grain, part);
}

}  // namespace tessera::kernels
