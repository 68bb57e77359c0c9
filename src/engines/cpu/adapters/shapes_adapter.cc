// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without changing them.
#include <algorithm>

#include "core/strided_copy.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

Kernel share() {
  Kernel k;
  k.shares = true;
  return k;
}

// The result read through strides of the operand; the same memory where the elements already lie in that order.
Kernel strided(const Request& r, Dims from) {
  std::int64_t itemsize = dtype_size(r.out[0].dtype);
  const Shape& shape = r.out[0].shape;
  Dims to = core::contiguous_strides(shape, itemsize);
  bool same = r.in[0].size() == r.out[0].size();
  for (std::size_t d = 0; d < shape.size(); ++d) same = same && (shape[d] == 1 || from[d] == to[d]);
  if (same) return share();
  Kernel k;
  if (r.in[0].size() == 1) {
    k.run = [itemsize, n = r.out[0].size()](const void* const* in, void* const* out) {
      kernels::fill(out[0], in[0], itemsize, n);
    };
    return k;
  }
  k.run = [=](const void* const* in, void* const* out) {
    kernels::copy_strided(out[0], to, in[0], from, shape, itemsize);
  };
  return k;
}

Kernel make_broadcast(const Request& r) {
  const auto& p = ir::get<ops::BroadcastInDim>(r.attrs);
  Dims own = core::contiguous_strides(r.in[0].shape, dtype_size(r.in[0].dtype));
  Dims from(r.out[0].shape.size());
  for (std::size_t i = 0; i < p.dims.size(); ++i) {
    if (r.in[0].shape[i] != 1) from[at(p.dims[i])] = own[i];
  }
  return strided(r, from);
}

Kernel make_transpose(const Request& r) {
  const auto& p = ir::get<ops::Transpose>(r.attrs);
  Dims own = core::contiguous_strides(r.in[0].shape, dtype_size(r.in[0].dtype));
  Dims from;
  for (auto d : p.permutation) from.push_back(own[at(d)]);
  return strided(r, from);
}

}  // namespace

void add_shape_kernels(KernelTable& table) {
  for (const char* name : {"reshape", "sharding_constraint", "optimization_barrier", "backward_barrier",
                           "bitcast_convert_type", "stop_gradient"})
    table.add(name, [](const Request&) { return share(); });
  table.add("broadcast_in_dim", make_broadcast);
  table.add("transpose", make_transpose);
}

}  // namespace tessera::cpu
