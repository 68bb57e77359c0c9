// SPDX-License-Identifier: Apache-2.0
// gather: https://openxla.org/stablehlo/spec#gather, with jax.lax.gather's modes.
#include <limits>

#include "ops/reduce/order_statistics.h"
#include "ops/shape/indexing_common.h"
#include "ops/shape/indexing_sharding.h"

namespace tessera::ops {

namespace {

Types infer(TypeSpan in, const Gather& p) {
  check_count("gather", in, 2);
  const Type& x = in[0];
  const Type& indices = in[1];
  check_numbering(numbering(p), x, indices);
  if (static_cast<std::int64_t>(p.slice_sizes.size()) != x.rank()) {
    bad_attr("gather", "slice_sizes",
             str(base::tuple_text(p.slice_sizes), "; expected one entry a dimension of operand 0 ", x.shape));
  }
  bool empty = indices.size() == 0;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    auto n = p.slice_sizes[at(d)];
    bool collapsed = contains(p.collapsed_slice_dims, d);
    if ((collapsed && n != 1) || (contains(p.operand_batching_dims, d) && n > 1)) {
      bad_attr("gather", "slice_sizes",
               str("entry ", d, " is ", n, "; expected 1 for a ", collapsed ? "collapsed" : "batching", " dimension"));
    }
    if (!empty && (n < 0 || n > x.shape[at(d)])) {
      bad_attr("gather", "slice_sizes", str("entry ", d, " is ", n, "; expected 0..", x.shape[at(d)]));
    }
  }
  Shape shape(at(indices.rank() - 1) + p.offset_dims.size());
  std::size_t batch = 0;
  std::size_t window = 0;
  Dims sizes;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (!contains(p.collapsed_slice_dims, d) && !contains(p.operand_batching_dims, d)) {
      sizes.push_back(p.slice_sizes[at(d)]);
    }
  }
  for (std::int64_t d = 0; d < rank(shape); ++d) {
    shape[at(d)] = contains(p.offset_dims, d) ? sizes[window++] : indices.shape[batch++];
  }
  return {Type{x.dtype, shape, x.weak}};
}

FactorRule factors(TypeSpan in, TypeSpan out, const Gather& p) {
  FactorRule r;
  WindowMap map(p, in[0].shape, in[1].shape, out[0].shape);
  auto f =
      window_factors(r, numbering(p), map, in[0].shape, in[1].shape, out[0].shape, Factor::Kind::Pass, Reduction::Sum);
  r.operands = {f.operand, f.indices};
  r.results = {f.window};
  return r;
}

// A window over a whole dimension is a window over the whole of its shard.
Gather remap(const RemapArgs& r, const Gather& p) {
  Gather q = p;
  for (std::size_t d = 0; d < q.slice_sizes.size(); ++d) {
    auto n = static_cast<std::int64_t>(d);
    bool window = !contains(p.collapsed_slice_dims, n) && !contains(p.operand_batching_dims, n);
    if (window && p.slice_sizes[d] == r.global_in[0].shape[d]) q.slice_sizes[d] = r.local_in[0].shape[d];
  }
  return q;
}

Batched batch(Builder&, const BatchArgs& a, const Gather& p) {
  Gather q = p;
  q.offset_dims = shifted(p.offset_dims);
  if (!a.batched[0]) {
    // One array for all: the batch is one more dimension of the indices. Windows of two calls may overlap.
    q.indices_batching_dims = shifted(p.indices_batching_dims);
    q.unique_indices = false;
    return {{gather(a.in[0], a.in[1], q)}, {true}};
  }
  q.collapsed_slice_dims = shifted(p.collapsed_slice_dims);
  q.start_index_map = shifted(p.start_index_map);
  q.operand_batching_dims = shifted(p.operand_batching_dims);
  if (!a.batched[1]) {
    q.offset_dims.insert(q.offset_dims.begin(), 0);
    q.slice_sizes.insert(q.slice_sizes.begin(), a.size);
  } else {
    q.indices_batching_dims = shifted(p.indices_batching_dims);
    q.operand_batching_dims.insert(q.operand_batching_dims.begin(), 0);
    q.indices_batching_dims.insert(q.indices_batching_dims.begin(), 0);
    q.slice_sizes.insert(q.slice_sizes.begin(), a.size == 0 ? 0 : 1);
  }
  return {{gather(a.in[0], a.in[1], q)}, {true}};
}

Values jvp(Builder&, const JvpArgs& a, const Gather& p) {
  if (!a.tangents[0]) return {Value{}};
  Gather q = p;
  q.fill = 0;
  return {gather(a.tangents[0], a.in[1], q)};
}

Values transpose_rule(Builder& b, const TransposeArgs& t, const Gather& p) {
  Scatter s = inverse_of(p);
  s.onto_zeros = true;
  return {scatter_add(zeros(b, t.types[0]), t.in[1], t.ct[0], s), Value{}};
}

void store_fill(const View& out, std::int64_t k, const std::optional<double>& fill) {
  switch (wide_kind(out.dtype)) {
    case Wide::Bool:
      return store_bool(out, k, fill.value_or(1) != 0);
    case Wide::Float:
      return store_float(out, k, fill.value_or(std::numeric_limits<double>::quiet_NaN()));
    case Wide::Complex:
      return store_complex(out, k, fill ? complexd(*fill) : complexd(std::numeric_limits<double>::quiet_NaN(), 0));
    case Wide::Int:
      return store_int(
          out, k,
          fill ? static_cast<std::int64_t>(*fill)
               : -1 - static_cast<std::int64_t>((~std::uint64_t{0} >> 1) >> (64 - dtype_size(out.dtype) * 8)));
    case Wide::Uint:
      return store_int(out, k, fill ? static_cast<std::int64_t>(*fill) : -1);
  }
}

void reference(ViewSpan in, ViewSpan out, const Gather& p) {
  WindowMap map(p, in[0].shape, in[1].shape, out[0].shape);
  walk_windows(numbering(p), map, p.mode, in[0], in[1], out[0].shape, [&](std::int64_t k, std::int64_t i) {
    if (i < 0) {
      store_fill(out[0], k, p.fill);
    } else {
      copy_element(out[0], k, in[0], i);
    }
  });
}

std::vector<Sample<Gather>> gather_samples() {
  auto f = [](Shape s) { return Type{DType::F32, std::move(s)}; };
  auto i = [](Shape s) { return Type{DType::I32, std::move(s)}; };
  return {
      // x[tokens]: rows
      {{f({6, 4}), i({8, 1})}, {{1}, {0}, {0}, {}, {}, {1, 4}, IndexMode::Clip}},
      {{f({6, 4}), i({2, 4, 1})}, {{2}, {0}, {0}, {}, {}, {1, 4}, IndexMode::FillOrDrop, 0.0}},
      // single elements, columns in front, partial windows
      {{f({6, 4}), i({8, 2})}, {{}, {0, 1}, {0, 1}, {}, {}, {1, 1}, IndexMode::Clip}},
      {{f({4, 6}), i({8, 1})}, {{0}, {1}, {1}, {}, {}, {4, 1}, IndexMode::Clip}},
      {{f({8, 6}), i({4, 2})}, {{1, 2}, {}, {1, 0}, {}, {}, {3, 6}, IndexMode::Clip}},
      {{f({8, 6}), i({4, 2})}, {{0, 2}, {}, {0, 1}, {}, {}, {3, 2}, IndexMode::FillOrDrop, 2.0}},
      // take_along_axis
      {{f({4, 6}), i({4, 3, 1})}, {{}, {1}, {1}, {0}, {0}, {1, 1}, IndexMode::Clip}},
      {{f({4, 6, 2}), i({3, 4, 1})}, {{2}, {1}, {1}, {0}, {1}, {1, 1, 2}, IndexMode::PromiseInBounds}},
      {{Type{DType::BF16, {6, 4}}, Type{DType::U8, {4, 1}}}, {{1}, {0}, {0}, {}, {}, {1, 4}, IndexMode::Clip}},
  };
}

}  // namespace

TESSERA_DEFINE_OP(gather, Gather,
                  {
                      .name = "gather",
                      .traits = {.exact = true, .work = ir::Work::Gather},
                      .infer = infer,
                      .factors = factors,
                      .remap = remap,
                      .batch = batch,
                      .jvp = jvp,
                      .transpose = transpose_rule,
                      .divide = {gather_by_shards, gather_by_routes},
                      .divide_with_maker = gather_of_sorted,
                      .place = place_gather,
                      .reference = reference,
                      .samples = gather_samples,
                  });

Value gather(Value x, Value indices, const Gather& p) { return x.builder->add1(def::gather, {x, indices}, attrs(p)); }

Scatter inverse_of(const Gather& p) {
  return Scatter{p.offset_dims,           p.collapsed_slice_dims,  p.start_index_map,
                 p.operand_batching_dims, p.indices_batching_dims, p.mode,
                 p.unique_indices};
}

}  // namespace tessera::ops
