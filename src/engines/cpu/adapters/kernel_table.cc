// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/adapters/kernel_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/thread_pool.h"

namespace tessera::cpu {

namespace {

// Element-wise ops may be cut anywhere: their references run over parts of the arrays on all threads.
Kernel parallel_reference(const Request& r) {
  Kernel k;
  k.fast = false;
  std::int64_t n = r.out[0].size();
  auto flat = [&](ir::TypeSpan types) {
    std::vector<std::pair<DType, bool>> out;
    for (const auto& t : types) out.emplace_back(t.dtype, t.shape.empty() && !r.out[0].shape.empty());
    return out;
  };
  k.run = [op = &r.op, attrs = r.attrs, in = flat(r.in), out = flat(r.out), n](const void* const* from,
                                                                               void* const* to) {
    constexpr std::int64_t kGrain = 512;
    base::parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      auto part = [&](std::pair<DType, bool> t, void* data) {
        if (t.second) return ir::View{t.first, {}, data};
        return ir::View{t.first, {end - begin}, static_cast<char*>(data) + begin * dtype_size(t.first)};
      };
      std::vector<ir::View> a;
      std::vector<ir::View> b;
      for (std::size_t i = 0; i < in.size(); ++i) a.push_back(part(in[i], const_cast<void*>(from[i])));
      for (std::size_t i = 0; i < out.size(); ++i) b.push_back(part(out[i], to[i]));
      op->reference(a, b, attrs);
    });
  };
  k.cost = 50.0 * static_cast<double>(n);
  return k;
}

Kernel reference_kernel(const Request& r) {
  if (r.op.traits().elementwise && !r.out.empty() && !r.out[0].shape.empty()) return parallel_reference(r);
  auto views = [](ir::TypeSpan types) {
    std::vector<ir::View> out;
    for (const auto& t : types) out.push_back({t.dtype, t.shape, nullptr});
    return out;
  };
  Kernel k;
  k.fast = false;
  k.run = [op = &r.op, attrs = r.attrs, in = views(r.in), out = views(r.out)](const void* const* from,
                                                                              void* const* to) {
    auto a = in;
    auto b = out;
    for (std::size_t i = 0; i < a.size(); ++i) a[i].data = const_cast<void*>(from[i]);  // views serve both sides
    for (std::size_t i = 0; i < b.size(); ++i) b[i].data = to[i];
    op->reference(a, b, attrs);
  };
  std::int64_t elements = 1;
  for (const auto& t : r.in) elements = std::max(elements, t.size());
  for (const auto& t : r.out) elements = std::max(elements, t.size());
  k.cost = 50.0 * static_cast<double>(elements);
  return k;
}

}  // namespace

Kernel KernelTable::find(const Request& r) const {
  Kernel k;
  if (auto it = makers_.find(r.op.name()); it != makers_.end()) k = it->second(r);
  if (!k.run && !k.shares) k = reference_kernel(r);
  if (k.cost == 0) {
    std::int64_t bytes = 0;
    for (const auto& t : r.in) bytes += t.nbytes();
    for (const auto& t : r.out) bytes += t.nbytes();
    k.cost = 30 + 0.15 * static_cast<double>(bytes);
  }
  return k;
}

const KernelTable& KernelTable::get() {
  static const KernelTable& table = []() -> const KernelTable& {
    auto made = std::make_unique<KernelTable>();
    KernelTable& t = *made;
    add_elementwise_kernels(t);
    add_shape_kernels(t);
    add_reduce_kernels(t);
    add_dot_kernels(t);
    add_line_kernels(t);
    add_random_kernels(t);
    add_sort_kernels(t);
    add_window_kernels(t);
    add_slice_kernels(t);
    add_indexing_kernels(t);
    add_conv_kernels(t);
    add_linalg_kernels(t);
    return *made.release();
  }();
  return table;
}

}  // namespace tessera::cpu
