// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/products/conv_dnnl.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "base/strings.h"
#include "base/thread_own.h"
#include "base/thread_pool.h"
#include "base/verify_mode.h"
#include "dnnl.hpp"
#include "engines/cpu/kernels/products/gemm_leaf.h"
#include "engines/cpu/kernels/products/library_threads.h"
#include "tessera/error.h"

namespace tessera::kernels {

namespace {

using dnnl::memory;
using Dims = std::vector<std::int64_t>;

Dims row_major(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Shape and element strides of an array in oneDNN's order: batch, feature, spatial.
struct Array {
  Dims shape, strides;
};
Array in_order(const Dims& shape, const ConvDims& dims) {
  Dims all = row_major(shape), order = {dims.batch, dims.feature};
  order.insert(order.end(), dims.spatial.begin(), dims.spatial.end());
  Array a;
  for (std::int64_t d : order) {
    a.shape.push_back(shape[static_cast<std::size_t>(d)]);
    a.strides.push_back(all[static_cast<std::size_t>(d)]);
  }
  return a;
}

// A chunk of the work: some batch items and some rows of the first spatial dim of the result.
struct Chunk {
  std::int64_t batch, rows, in_rows, pad_low, pad_high;
  auto operator<=>(const Chunk&) const = default;
};

struct Primitive {
  dnnl::convolution_forward primitive;
  memory::desc src, weights, dst;                 // as the primitive wants them
  memory::desc user_src, user_weights, user_dst;  // as the caller has them
  memory::desc scratch;
};

// With vectors of 32 bytes, by measurement: where many channels meet kernels of several positions, the blocked layout
// is 1.2 to 1.4 times as fast, conversions included; small images, or few channels, take longer in it.
bool prefers_blocked(const ConvSpec& s, const Array& lhs, const Array& rhs, const Array& out) {
  if (has_wide_vectors() || s.feature_groups != 1) return false;
  constexpr std::int64_t kChannels = 64, kKernel = 9, kPositions = 14 * 14;
  auto positions = [](const Array& a) {
    return std::accumulate(a.shape.begin() + 2, a.shape.end(), std::int64_t{1}, std::multiplies<>());
  };
  return lhs.shape[1] >= kChannels && rhs.shape[0] >= kChannels && positions(rhs) >= kKernel &&
         positions(out) >= kPositions;
}

Primitive build(const ConvSpec& spec, const Array& lhs, const Array& rhs, const Array& out, const Chunk& chunk) {
  auto type = spec.dtype == DType::F32 ? memory::data_type::f32 : memory::data_type::bf16;
  Array l = lhs, o = out, w = rhs;
  l.shape[0] = o.shape[0] = chunk.batch;
  l.shape[2] = chunk.in_rows;
  o.shape[2] = chunk.rows;
  // Of one image no stride between images is used, and by a dense one oneDNN knows the layouts that it has code for.
  for (Array* a : {&l, &o}) {
    if (chunk.batch == 1) a->strides[0] = a->shape[2] * a->strides[2];
  }
  if (spec.feature_groups > 1) {
    std::int64_t each = w.shape[0] / spec.feature_groups;
    w.shape[0] = each;
    w.shape.insert(w.shape.begin(), spec.feature_groups);
    w.strides.insert(w.strides.begin(), w.strides[0] * each);
  }
  Primitive p;
  p.user_src = memory::desc(l.shape, type, l.strides);
  p.user_weights = memory::desc(w.shape, type, w.strides);
  p.user_dst = memory::desc(o.shape, type, o.strides);
  // Channels last is a layout that oneDNN computes in; others are worth a conversion to the blocked one.
  const bool channels_last = !prefers_blocked(spec, lhs, rhs, out);
  auto choice = [&](const Array& a, const memory::desc& user) {
    return a.strides[1] == 1 && channels_last ? user : memory::desc(a.shape, type, memory::format_tag::any);
  };
  memory::dims dilation, low = spec.pad_low, high = spec.pad_high;
  for (std::int64_t d : spec.rhs_dilation) dilation.push_back(d - 1);
  low[0] = chunk.pad_low;
  high[0] = chunk.pad_high;
  auto algorithm = spec.allow_winograd ? dnnl::algorithm::convolution_auto : dnnl::algorithm::convolution_direct;
  dnnl::convolution_forward::desc description(dnnl::prop_kind::forward_inference, algorithm, choice(l, p.user_src),
                                              memory::desc(w.shape, type, memory::format_tag::any),
                                              choice(o, p.user_dst), spec.strides, dilation, low, high);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::convolution_forward::primitive_desc pd(description, attributes, onednn_engine());
  p.src = pd.src_desc();
  p.weights = pd.weights_desc();
  p.dst = pd.dst_desc();
  p.scratch = pd.scratchpad_desc();
  p.primitive = dnnl::convolution_forward(pd);
  return p;
}

std::shared_ptr<const Primitive> cached(const ConvSpec& s, const Array& lhs, const Array& rhs, const Array& out,
                                        const Chunk& chunk) {
  static std::shared_mutex mutex;
  static auto& cache = *new std::map<Dims, std::shared_ptr<const Primitive>>;
  constexpr std::size_t kMost = 1024;
  Dims key = {static_cast<std::int64_t>(s.dtype),
              s.feature_groups,
              s.allow_winograd,
              chunk.batch,
              chunk.rows,
              chunk.in_rows,
              chunk.pad_low,
              chunk.pad_high};
  for (const Dims* d : {&lhs.shape, &lhs.strides, &rhs.shape, &rhs.strides, &out.shape, &out.strides, &s.strides,
                        &s.pad_low, &s.pad_high, &s.rhs_dilation}) {
    key.insert(key.end(), d->begin(), d->end());
  }
  {
    std::shared_lock lock(mutex);
    auto it = cache.find(key);
    if (it != cache.end()) return it->second;
  }
  auto made = std::make_shared<const Primitive>(build(s, lhs, rhs, out, chunk));
  std::unique_lock lock(mutex);
  if (cache.size() >= kMost) cache.clear();
  return cache.emplace(std::move(key), std::move(made)).first->second;
}

// Memory of the calling thread that starts at a line of the cache.
std::byte* scratch(std::vector<std::byte>& owner, std::size_t bytes) {
  if (owner.size() < bytes + 64) owner.resize(bytes + 64);
  base::poison(owner.data(), owner.size());
  auto address = reinterpret_cast<std::uintptr_t>(owner.data());
  return owner.data() + (-address & 63);
}

void reorder(const memory::desc& from, const void* a, const memory::desc& to, void* b) {
  dnnl::stream stream(onednn_engine());
  memory source(from, onednn_engine(), const_cast<void*>(a)), target(to, onednn_engine(), b);
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

bool supported(const ConvSpec& s) {
  if (s.dtype != DType::F32 && !(s.dtype == DType::BF16 && has_fast_bf16())) return false;
  if (s.lhs.spatial.empty() || s.lhs.spatial.size() > 3 || s.batch_groups != 1) return false;
  std::int64_t positions = 1;
  for (std::size_t i = 0; i < s.strides.size(); ++i) {
    if (s.lhs_dilation[i] != 1 || s.pad_low[i] < 0 || s.pad_high[i] < 0) return false;
    positions *= s.rhs_shape[static_cast<std::size_t>(s.rhs.spatial[i])];
  }
  // Kernels the size of an image come from gradients of kernels; as matrix products they are faster.
  return positions <= 256;
}

// Input rows and padding for result rows [begin, end); the padding above and below is what falls outside.
Chunk chunk_of(const ConvSpec& s, std::int64_t in_rows, std::int64_t kernel, std::int64_t batch, std::int64_t begin,
               std::int64_t end, std::int64_t& first) {
  std::int64_t reach = (kernel - 1) * s.rhs_dilation[0] + 1;
  std::int64_t low = begin * s.strides[0] - s.pad_low[0];
  std::int64_t high = (end - 1) * s.strides[0] - s.pad_low[0] + reach;
  first = std::clamp<std::int64_t>(low, 0, in_rows);
  std::int64_t last = std::clamp<std::int64_t>(high, first, in_rows);
  return {batch, end - begin, last - first, first - low, high - last};
}

// One call of oneDNN: some batch items, some rows of the image.
struct Task {
  std::shared_ptr<const Primitive> p;
  const void* weights;
  std::int64_t src, dst;  // bytes from the start
};
// The convolution in parts; the weights of each primitive in its own order.
struct Tasks {
  std::vector<Task> list;
  std::map<const Primitive*, std::vector<std::byte>> weights;
};

// How many batch items and rows one task takes: batch items first, rows of the image too when there are fewer of those
// than threads.
std::pair<std::int64_t, std::int64_t> task_extents(std::int64_t batch, std::int64_t rows, std::int64_t threads) {
  std::int64_t batch_chunks = std::min(batch, threads > 1 ? 2 * threads : 1);
  std::int64_t row_chunks = batch_chunks >= threads ? 1 : std::min(rows, (threads + batch_chunks - 1) / batch_chunks);
  return {(batch + batch_chunks - 1) / batch_chunks, (rows + row_chunks - 1) / row_chunks};
}

// The weights in the order that the primitive reads.
const void* weights_for(const Primitive& p, const void* rhs, std::vector<std::byte>& buffer) {
  if (p.weights == p.user_weights) return rhs;
  if (buffer.empty()) reorder(p.user_weights, rhs, p.weights, scratch(buffer, p.weights.get_size()));
  auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return buffer.data() + (-address & 63);
}

// Nothing where a task would read no row of the image.
std::optional<Tasks> tasks_of(const ConvSpec& spec, const Array& l, const Array& w, const Array& o, const void* rhs,
                              std::int64_t threads) {
  std::int64_t size = dtype_size(spec.dtype), batch = o.shape[0], rows = o.shape[2];
  auto [each_batch, each_rows] = task_extents(batch, rows, threads);
  Tasks out;
  std::map<Chunk, std::shared_ptr<const Primitive>> primitives;
  SingleThreadedLibraries single;
  for (std::int64_t b = 0; b < batch; b += each_batch) {
    for (std::int64_t r = 0; r < rows; r += each_rows) {
      std::int64_t first;
      Chunk chunk = chunk_of(spec, l.shape[2], w.shape[2], std::min(each_batch, batch - b), r,
                             std::min(rows, r + each_rows), first);
      if (chunk.in_rows == 0) return std::nullopt;
      auto& p = primitives[chunk];
      if (!p) p = cached(spec, l, w, o, chunk);
      out.list.push_back({p, weights_for(*p, rhs, out.weights[p.get()]),
                          (b * l.strides[0] + first * l.strides[2]) * size,
                          (b * o.strides[0] + r * o.strides[2]) * size});
    }
  }
  return out;
}

void run_task(const Task& t, dnnl::stream& stream, const void* lhs, void* out) {
  auto& src_memory = base::thread_own<std::vector<std::byte>, struct SrcTag>();
  auto& dst_memory = base::thread_own<std::vector<std::byte>, struct DstTag>();
  auto& pad_memory = base::thread_own<std::vector<std::byte>, struct PadTag>();
  const Primitive& p = *t.p;
  const void* src = static_cast<const std::byte*>(lhs) + t.src;
  void* result = static_cast<std::byte*>(out) + t.dst;
  void* dst = result;
  if (p.src != p.user_src) {
    std::byte* own = scratch(src_memory, p.src.get_size());
    reorder(p.user_src, src, p.src, own);
    src = own;
  }
  if (p.dst != p.user_dst) dst = scratch(dst_memory, p.dst.get_size());
  p.primitive.execute(
      stream, {{DNNL_ARG_SRC, memory(p.src, onednn_engine(), const_cast<void*>(src))},
               {DNNL_ARG_WEIGHTS, memory(p.weights, onednn_engine(), const_cast<void*>(t.weights))},
               {DNNL_ARG_DST, memory(p.dst, onednn_engine(), dst)},
               {DNNL_ARG_SCRATCHPAD, memory(p.scratch, onednn_engine(), scratch(pad_memory, p.scratch.get_size()))}});
  stream.wait();
  if (dst != result) reorder(p.dst, dst, p.user_dst, result);
}

}  // namespace

bool conv_dnnl(const ConvSpec& spec, const void* lhs, const void* rhs, void* out) {
  if (!supported(spec)) return false;
  Array l = in_order(spec.lhs_shape, spec.lhs), w = in_order(spec.rhs_shape, spec.rhs),
        o = in_order(spec.out_shape, spec.out);
  std::int64_t threads = base::team_size();
  double work = 2e-9;
  for (std::int64_t e : o.shape) work *= static_cast<double>(e);
  for (std::size_t i = 1; i < w.shape.size(); ++i) work *= static_cast<double>(w.shape[i]);
  if (work < 2e-3) threads = 1;  // a few tens of microseconds
  try {
    auto tasks = tasks_of(spec, l, w, o, rhs, threads);
    if (!tasks) return false;
    auto count = static_cast<std::int64_t>(tasks->list.size());
    base::parallel_for(count, threads > 1 ? 1 : count, [&](std::int64_t begin, std::int64_t end) {
      SingleThreadedLibraries alone;
      alone.need_onednn();
      dnnl::stream stream(onednn_engine());
      for (std::int64_t i = begin; i < end; ++i) run_task(tasks->list[static_cast<std::size_t>(i)], stream, lhs, out);
    });
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented) return false;
    throw StateError(str("conv: oneDNN failed: ", e.what()));
  }
  return true;
}

}  // namespace tessera::kernels
