// SPDX-License-Identifier: Apache-2.0
// Random bits, run of counters by run.
#include <array>
#include <vector>

#include "base/thread_pool.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/threefry.h"
#include "ops/define_op.h"
#include "ops/elementwise/random_bits.h"

namespace tessera::cpu {

namespace {

// Counters of a shard: runs of `length` elements, one behind the other in the shard, each from its own counter on.
struct Runs {
  std::int64_t length = 1;
  std::vector<std::uint64_t> first;
};
Runs runs_of(const ops::RandomBits& p) {
  const Shape& whole = p.whole.empty() ? p.shape : p.whole;
  Dims strides = ops::row_strides(whole);
  Runs runs;
  std::size_t d = p.shape.size();
  // The outermost dimension of a run may be cut; those inside are whole.
  while (d > 0) {
    runs.length *= p.shape[--d];
    if (p.shape[d] != whole[d]) break;
  }
  std::uint64_t start = p.offsets.empty() ? 0 : static_cast<std::uint64_t>(ops::flat(p.offsets, strides));
  Shape outer(p.shape.begin(), p.shape.begin() + static_cast<std::ptrdiff_t>(d));
  Dims outer_strides(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(d));
  ops::for_each_position(outer, [&](const Dims& position) {
    runs.first.push_back(start + static_cast<std::uint64_t>(ops::flat(position, outer_strides)));
  });
  return runs;
}

Kernel make_bits(const Request& r) {
  const auto& p = ir::get<ops::RandomBits>(r.attrs);
  Kernel k;
  std::int64_t keys = r.in[0].size() / 2;
  k.cost = 100 + 2.0 * static_cast<double>(r.out[0].size());
  k.run = [=, runs = runs_of(p), bits = static_cast<int>(p.bits)](const void* const* in, void* const* out) {
    const auto* key = static_cast<const std::uint32_t*>(in[0]);
    auto* to = static_cast<char*>(out[0]);
    for (std::int64_t n = 0; n < keys; ++n, key += 2) {
      for (auto first : runs.first) {
        kernels::threefry_bits(key[0], key[1], first, runs.length, bits, to);
        to += runs.length * bits / 8;
      }
    }
  };
  return k;
}

Kernel make_hash(const Request& r) {
  Kernel k;
  std::array<std::int64_t, 4> step{};
  for (std::size_t i = 0; i < step.size(); ++i) step[i] = r.in[i].shape.empty() ? 0 : 1;
  k.cost = 100 + 20.0 * static_cast<double>(r.out[0].size());
  k.run = [step, n = r.out[0].size()](const void* const* in, void* const* out) {
    base::parallel_for(n, 2048, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        auto word = [&](std::size_t j) { return static_cast<const std::uint32_t*>(in[j])[i * step[j]]; };
        auto h = kernels::threefry2x32(word(0), word(1), word(2), word(3));
        static_cast<std::uint32_t*>(out[0])[i] = h[0];
        static_cast<std::uint32_t*>(out[1])[i] = h[1];
      }
    });
  };
  return k;
}

}  // namespace

void add_random_kernels(KernelTable& table) {
  table.add("random_bits", make_bits);
  table.add("threefry2x32", make_hash);
}

}  // namespace tessera::cpu
