// SPDX-License-Identifier: Apache-2.0
// The general way: patches of the input as rows of a matrix, times the kernel as a matrix.
#include "engines/cpu/kernels/products/conv_loops.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/thread_pool.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/kernels/products/conv_dnnl.h"
#include "engines/cpu/kernels/products/gemm.h"
#include "tessera/shape.h"

namespace tessera::kernels {

namespace {

using Dims = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kPatchBytes = 1 << 20;  // of one block of patches: stays in the second-level cache

Dims pick(const Dims& shape, const Dims& order) {
  Dims r;
  for (std::int64_t d : order) r.push_back(shape[static_cast<std::size_t>(d)]);
  return r;
}

Dims row_major(const Dims& shape, std::int64_t size) {
  Dims strides(shape.size(), size);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Order of dims that puts `first`, then spatial, then `last`.
Dims order_of(std::int64_t first, const Dims& spatial, std::int64_t last) {
  Dims order = {first};
  order.insert(order.end(), spatial.begin(), spatial.end());
  order.push_back(last);
  return order;
}

bool is_identity(const Dims& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

struct Geometry {
  Dims in, kernel, out;      // spatial extents
  std::int64_t features;     // of one patch position
  std::int64_t row_bytes;    // of those
  std::int64_t pixel_bytes;  // of all features of a pixel
};

// The input position of one spatial dim, or -1 outside.
std::int64_t position(const ConvSpec& s, const Geometry& g, std::size_t dim, std::int64_t out, std::int64_t k) {
  std::int64_t at = out * s.strides[dim] - s.pad_low[dim] + k * s.rhs_dilation[dim];
  if (at < 0 || at % s.lhs_dilation[dim] != 0) return -1;
  at /= s.lhs_dilation[dim];
  return at < g.in[dim] ? at : -1;
}

// The patch of output position `o` (row-major) of one image: for each kernel position the features there, or zeros.
void patch(const ConvSpec& s, const Geometry& g, const std::byte* image, std::int64_t o, std::byte* to) {
  std::size_t rank = g.out.size();
  Dims at(rank), k(rank, 0);
  for (std::size_t d = rank; d-- > 0;) {
    at[d] = o % g.out[d];
    o /= g.out[d];
  }
  std::int64_t positions = size_of(g.kernel);
  for (std::int64_t p = 0; p < positions; ++p, to += g.row_bytes) {
    std::int64_t pixel = 0;
    for (std::size_t d = 0; d < rank && pixel >= 0; ++d) {
      std::int64_t x = position(s, g, d, at[d], k[d]);
      pixel = x < 0 ? -1 : pixel * g.in[d] + x;
    }
    if (pixel < 0) {
      std::memset(to, 0, static_cast<std::size_t>(g.row_bytes));
    } else {
      std::memcpy(to, image + pixel * g.pixel_bytes, static_cast<std::size_t>(g.row_bytes));
    }
    for (std::size_t d = rank; d-- > 0;) {
      if (++k[d] < g.kernel[d]) break;
      k[d] = 0;
    }
  }
}

// lhs [batch, spatial, feature], rhs [spatial, feature, out feature], out [batch, spatial, feature], all packed.
void conv_patches(const ConvSpec& s, const Geometry& geometry, std::int64_t batch, std::int64_t all_out_features,
                  const std::byte* lhs, const std::byte* rhs, std::byte* out) {
  std::int64_t size = dtype_size(s.dtype), groups = std::max(s.feature_groups, s.batch_groups);
  std::int64_t out_features = all_out_features / groups;
  std::int64_t positions = size_of(geometry.out), depth = size_of(geometry.kernel) * geometry.features;
  std::int64_t image_bytes = size_of(geometry.in) * geometry.pixel_bytes;
  std::int64_t out_batch = batch / s.batch_groups;
  std::int64_t block = std::clamp<std::int64_t>(kPatchBytes / std::max<std::int64_t>(depth * size, 1), 16, 4096);
  // Enough blocks for all threads, even of one small image.
  block =
      std::clamp<std::int64_t>((out_batch * positions + 2 * base::team_size() - 1) / (2 * base::team_size()), 1, block);
  std::int64_t rows = out_batch * positions, blocks = (rows + block - 1) / block;
  base::parallel_for(groups * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    Bytes patches(static_cast<std::size_t>(block * depth * size));
    for (std::int64_t u = begin; u < end; ++u) {
      std::int64_t group = u / blocks, first = u % blocks * block, n = std::min(block, rows - first);
      std::int64_t batch_at = s.batch_groups > 1 ? group * out_batch : 0;
      std::int64_t feature_at = s.feature_groups > 1 ? group * geometry.row_bytes : 0;
      for (std::int64_t r = 0; r < n; ++r) {
        std::int64_t row = first + r;
        patch(s, geometry, lhs + (batch_at + row / positions) * image_bytes + feature_at, row % positions,
              patches.data() + r * depth * size);
      }
      gemm(s.dtype, s.dtype, false, false, 1, n, out_features, depth, patches.data(), depth, 0,
           rhs + group * out_features * size, all_out_features, 0,
           out + (first * all_out_features + group * out_features) * size, all_out_features, 0, s.fixed_order);
    }
  });
}

// `from` with its dims in another order, packed; the memory itself when nothing changes.
const std::byte* reordered(const void* from, const Dims& shape, const Dims& order, std::int64_t size, Bytes& own) {
  if (is_identity(order)) return static_cast<const std::byte*>(from);
  Dims to = pick(shape, order);
  own.resize(static_cast<std::size_t>(size_of(shape) * size));
  copy_strided(own.data(), row_major(to, size), from, pick(row_major(shape, size), order), to, size);
  return own.data();
}

void conv_general(const ConvSpec& s, const void* lhs, const void* rhs, void* out) {
  std::int64_t size = dtype_size(s.dtype);
  Geometry g;
  g.in = pick(s.lhs_shape, s.lhs.spatial);
  g.kernel = pick(s.rhs_shape, s.rhs.spatial);
  g.out = pick(s.out_shape, s.out.spatial);
  g.features = s.rhs_shape[static_cast<std::size_t>(s.rhs.feature)];
  g.row_bytes = g.features * size;
  g.pixel_bytes = s.lhs_shape[static_cast<std::size_t>(s.lhs.feature)] * size;
  Dims lhs_order = order_of(s.lhs.batch, s.lhs.spatial, s.lhs.feature);
  Dims out_order = order_of(s.out.batch, s.out.spatial, s.out.feature);
  Dims rhs_order = s.rhs.spatial;
  rhs_order.insert(rhs_order.end(), {s.rhs.feature, s.rhs.batch});
  Bytes own_lhs, own_rhs, own_out;
  const std::byte* l = reordered(lhs, s.lhs_shape, lhs_order, size, own_lhs);
  const std::byte* r = reordered(rhs, s.rhs_shape, rhs_order, size, own_rhs);
  bool direct = is_identity(out_order);
  if (!direct) own_out.resize(static_cast<std::size_t>(size_of(s.out_shape) * size));
  std::byte* o = direct ? static_cast<std::byte*>(out) : own_out.data();
  conv_patches(s, g, s.lhs_shape[static_cast<std::size_t>(s.lhs.batch)],
               s.rhs_shape[static_cast<std::size_t>(s.rhs.batch)], l, r, o);
  if (direct) return;
  Dims packed = pick(s.out_shape, out_order);
  copy_strided(out, pick(row_major(s.out_shape, size), out_order), o, row_major(packed, size), packed, size);
}

}  // namespace

void conv(const ConvSpec& spec, const void* lhs, const void* rhs, void* out) {
  std::int64_t n = size_of(spec.out_shape);
  if (n == 0) return;
  if (size_of(spec.lhs_shape) == 0 || size_of(spec.rhs_shape) == 0) {
    std::memset(out, 0, static_cast<std::size_t>(n * dtype_size(spec.dtype)));
    return;
  }
  if (!spec.fixed_order && conv_dnnl(spec, lhs, rhs, out)) return;
  conv_general(spec, lhs, rhs, out);
}

}  // namespace tessera::kernels
