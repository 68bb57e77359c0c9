// SPDX-License-Identifier: Apache-2.0
// Parts of arrays: slices, padding, reversal, concatenation, as strided copies over the thread pool.
#include <algorithm>

#include "core/strided_copy.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/passes/find_windows.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

using core::contiguous_strides;

// A box of one array copied to a box of another.
struct BoxCopy {
  Shape shape;
  Dims from, to;
  std::int64_t read = 0, write = 0;  // bytes from the start of the arrays
  std::int64_t itemsize = 1;

  void operator()(const void* source, void* target) const {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
    kernels::copy_strided(static_cast<char*>(target) + write, to, static_cast<const char*>(source) + read, from, shape,
                          itemsize);
  }
};

BoxCopy whole_copy(const ir::Type& in, const ir::Type& out, const Shape& shape) {
  std::int64_t itemsize = dtype_size(out.dtype);
  return {shape, contiguous_strides(in.shape, itemsize), contiguous_strides(out.shape, itemsize), 0, 0, itemsize};
}

Kernel copying(const BoxCopy& copy) {
  Kernel k;
  k.run = [copy](const void* const* in, void* const* out) { copy(in[0], out[0]); };
  return k;
}

Kernel make_slice(const Request& r) {
  const auto& p = ir::get<ops::StaticSlice>(r.attrs);
  BoxCopy copy = whole_copy(r.in[0], r.out[0], r.out[0].shape);
  for (std::size_t d = 0; d < copy.shape.size(); ++d) {
    copy.read += p.starts[d] * copy.from[d];
    copy.from[d] *= p.strides[d];
  }
  return copying(copy);
}

Kernel make_rev(const Request& r) {
  BoxCopy copy = whole_copy(r.in[0], r.out[0], r.out[0].shape);
  for (auto d : ir::get<ops::Rev>(r.attrs).dimensions) {
    copy.read += (copy.shape[at(d)] - 1) * copy.from[at(d)];
    copy.from[at(d)] = -copy.from[at(d)];
  }
  return copying(copy);
}

Kernel make_pad(const Request& r) {
  const auto& p = ir::get<ops::Pad>(r.attrs);
  BoxCopy copy = whole_copy(r.in[0], r.out[0], r.in[0].shape);
  for (std::size_t d = 0; d < copy.shape.size(); ++d) {
    // Elements that negative padding cuts off are not copied.
    std::int64_t step = p.interior[d] + 1;
    std::int64_t first = p.low[d] >= 0 ? 0 : (-p.low[d] + step - 1) / step;
    std::int64_t room = r.out[0].shape[d] - 1 - p.low[d];
    std::int64_t last = room < 0 ? -1 : std::min(copy.shape[d] - 1, room / step);
    copy.shape[d] = std::max<std::int64_t>(0, last - first + 1);
    copy.read += first * copy.from[d];
    copy.write += (p.low[d] + first * step) * copy.to[d];
    copy.to[d] *= step;
  }
  Kernel k;
  if (std::any_of(p.interior.begin(), p.interior.end(), [](std::int64_t n) { return n != 0; })) {
    k.run = [copy, n = r.out[0].size()](const void* const* in, void* const* out) {
      kernels::fill(out[0], in[1], copy.itemsize, n);
      copy(in[0], out[0]);
    };
    return k;
  }
  // What lies around the operand, so that nothing is written twice: before and after it along each dimension, within it
  // along those before.
  std::vector<BoxCopy> edges;
  BoxCopy edge{r.out[0].shape, Dims(copy.shape.size()), copy.to, 0, 0, copy.itemsize};
  for (std::size_t d = 0; d < copy.shape.size(); ++d) {
    const std::int64_t first = std::clamp<std::int64_t>(p.low[d], 0, r.out[0].shape[d]);
    edge.shape[d] = first;
    edges.push_back(edge);
    edge.shape[d] = r.out[0].shape[d] - first - copy.shape[d];
    edge.write += (first + copy.shape[d]) * copy.to[d];
    edges.push_back(edge);
    edge.write -= copy.shape[d] * copy.to[d];
    edge.shape[d] = copy.shape[d];
  }
  k.run = [copy, edges](const void* const* in, void* const* out) {
    copy(in[0], out[0]);
    for (const BoxCopy& e : edges) e(in[1], out[0]);
  };
  return k;
}

Kernel make_concatenate(const Request& r) {
  auto d = at(ir::get<ops::Concatenate>(r.attrs).dimension);
  std::vector<BoxCopy> copies;
  std::int64_t begin = 0;
  for (const auto& t : r.in) {
    BoxCopy copy = whole_copy(t, r.out[0], t.shape);
    copy.write = begin * copy.to[d];
    begin += t.shape[d];
    copies.push_back(std::move(copy));
  }
  Kernel k;
  k.run = [copies](const void* const* in, void* const* out) {
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i](in[i], out[0]);
  };
  return k;
}

Kernel make_halo_shift(const Request& r) {
  const auto& p = ir::get<HaloShift>(r.attrs);
  const auto d = at(p.dimension);
  Shape edge_shape(r.in[1].shape.begin() + 1, r.in[1].shape.end());
  if (r.in[1].shape[0] != 1) return {};  // an array of several parts is the reference's
  BoxCopy own = whole_copy(r.in[0], r.out[0], r.in[0].shape);
  BoxCopy edge = whole_copy({r.in[1].dtype, edge_shape}, r.out[0], edge_shape);
  own.shape[d] -= edge_shape[d];
  if (p.by > 0) {
    own.read = p.by * own.from[d];
    edge.write = own.shape[d] * edge.to[d];
  } else {
    own.write = -p.by * own.to[d];
  }
  Kernel k;
  k.run = [own, edge](const void* const* in, void* const* out) {
    own(in[0], out[0]);
    edge(in[1], out[0]);
  };
  return k;
}

// Byte offset of a window that begins at computed places, moved inside where it is not.
struct WindowStart {
  std::vector<DType> dtypes;
  Dims room, strides;

  WindowStart(ir::TypeSpan starts, const Shape& full, const Shape& window, Dims s) : strides(std::move(s)) {
    for (std::size_t d = 0; d < full.size(); ++d) {
      dtypes.push_back(starts[d].dtype);
      room.push_back(full[d] - window[d]);
    }
  }
  std::int64_t operator()(const void* const* starts) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < room.size(); ++d) {
      ir::View v{dtypes[d], {}, const_cast<void*>(starts[d])};
      // Numbers beyond 63 bits are far outside.
      auto start = is_unsigned_int(v.dtype)
                       ? static_cast<std::int64_t>(std::min<std::uint64_t>(ops::load_uint(v, 0), INT64_MAX))
                       : ops::load_int(v, 0);
      offset += std::clamp<std::int64_t>(start, 0, room[d]) * strides[d];
    }
    return offset;
  }
};

Kernel make_dynamic_slice(const Request& r) {
  BoxCopy copy = whole_copy(r.in[0], r.out[0], r.out[0].shape);
  WindowStart start(r.in.subspan(1), r.in[0].shape, r.out[0].shape, copy.from);
  Kernel k;
  k.run = [copy, start](const void* const* in, void* const* out) {
    copy(static_cast<const char*>(in[0]) + start(in + 1), out[0]);
  };
  return k;
}

Kernel make_dynamic_update_slice(const Request& r) {
  BoxCopy copy = whole_copy(r.in[1], r.out[0], r.in[1].shape);
  WindowStart start(r.in.subspan(2), r.in[0].shape, r.in[1].shape, copy.to);
  Kernel k;
  k.in_place = 1;
  k.run = [copy, start, bytes = r.out[0].nbytes()](const void* const* in, void* const* out) {
    if (out[0] != in[0]) kernels::copy_bytes(out[0], in[0], bytes);
    copy(in[1], static_cast<char*>(out[0]) + start(in + 2));
  };
  return k;
}

}  // namespace

void add_slice_kernels(KernelTable& table) {
  table.add("slice", make_slice);
  table.add("rev", make_rev);
  table.add("pad", make_pad);
  table.add("concatenate", make_concatenate);
  table.add(halo_shift().name(), make_halo_shift);
  table.add("dynamic_slice", make_dynamic_slice);
  table.add("dynamic_update_slice", make_dynamic_update_slice);
}

}  // namespace tessera::cpu
