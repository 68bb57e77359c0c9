// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernel_table.h"

#include <algorithm>

namespace tessera::cpu {

namespace {

Kernel reference_kernel(const Request& r) {
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
  static const KernelTable table = [] {
    KernelTable t;
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
    return t;
  }();
  return table;
}

}  // namespace tessera::cpu
