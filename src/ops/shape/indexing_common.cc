// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/indexing_common.h"

#include <algorithm>

namespace tessera::ops {

bool contains(const Dims& v, std::int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); }

Numbering numbering(const Gather& p) {
  return {"gather",          "offset_dims",           "collapsed_slice_dims",
          "start_index_map", p.offset_dims,           p.collapsed_slice_dims,
          p.start_index_map, p.operand_batching_dims, p.indices_batching_dims};
}
Numbering numbering(const Scatter& p, const char* op) {
  return {op,
          "update_window_dims",
          "inserted_window_dims",
          "scatter_dims_to_operand_dims",
          p.update_window_dims,
          p.inserted_window_dims,
          p.scatter_dims_to_operand_dims,
          p.operand_batching_dims,
          p.indices_batching_dims};
}

WindowMap::WindowMap(const Gather& p, const Shape& operand, const Shape& indices, const Shape& window) {
  fill(p.offset_dims, p.collapsed_slice_dims, p.operand_batching_dims, operand, indices, window);
}
WindowMap::WindowMap(const Scatter& p, const Shape& operand, const Shape& indices, const Shape& window) {
  fill(p.update_window_dims, p.inserted_window_dims, p.operand_batching_dims, operand, indices, window);
}
void WindowMap::fill(const Dims& offset, const Dims& collapsed, const Dims& batching, const Shape& operand,
                     const Shape& indices, const Shape& window) {
  auto window_rank = rank(indices) - 1 + static_cast<std::int64_t>(offset.size());
  for (std::int64_t d = 0; d < window_rank; ++d) {
    if (!contains(offset, d)) batch_of_window.push_back(d);
  }
  sizes.assign(operand.size(), 1);
  std::size_t next = 0;
  for (std::int64_t d = 0; d < rank(operand); ++d) {
    if (contains(collapsed, d) || contains(batching, d)) continue;
    operand_of_offset.push_back(d);
    sizes[at(d)] = window[at(offset[next++])];
  }
}

namespace {
void check_sorted(const Numbering& n, const char* name, const Dims& dims) {
  if (!std::is_sorted(dims.begin(), dims.end())) {
    bad_attr(n.op, name, str(base::tuple_text(dims), "; expected ascending numbers"));
  }
}
void check_disjoint(const Numbering& n, const char* name, const Dims& dims) {
  for (auto d : n.operand_batching) {
    if (contains(dims, d)) bad_attr(n.op, "operand_batching_dims", str("dimension ", d, " is in ", name, " too"));
  }
}
}  // namespace

void check_numbering(const Numbering& n, const Type& operand, const Type& indices) {
  if (!is_integer(indices.dtype)) {
    throw TypeError(
        str("[", n.op, "] operand 1 (indices) has dtype ", dtype_name(indices.dtype), "; expected an integer dtype"));
  }
  if (indices.rank() < 1) {
    bad_operand(n.op, 1, "indices of rank 0; expected a last dimension that holds the index vectors");
  }
  auto vector_dim = indices.rank() - 1;
  check_axes(n.op, n.window_name, n.window, vector_dim + static_cast<std::int64_t>(n.window.size()));
  check_sorted(n, n.window_name, n.window);
  check_axes(n.op, n.collapsed_name, n.collapsed, operand.rank());
  check_sorted(n, n.collapsed_name, n.collapsed);
  check_axes(n.op, "operand_batching_dims", n.operand_batching, operand.rank());
  check_sorted(n, "operand_batching_dims", n.operand_batching);
  check_axes(n.op, n.map_name, n.map, operand.rank());
  check_axes(n.op, "indices_batching_dims", n.indices_batching, vector_dim);
  check_disjoint(n, n.collapsed_name, n.collapsed);
  check_disjoint(n, n.map_name, n.map);
  if (static_cast<std::int64_t>(n.map.size()) != indices.shape[at(vector_dim)]) {
    bad_attr(n.op, n.map_name,
             str(n.map.size(), " entries for index vectors of ", indices.shape[at(vector_dim)],
                 " components (the last dimension of indices ", indices.shape, ")"));
  }
  if (n.operand_batching.size() != n.indices_batching.size()) {
    bad_attr(n.op, "indices_batching_dims",
             str(n.indices_batching.size(), " entries; expected ", n.operand_batching.size(),
                 ", as many as operand_batching_dims has"));
  }
  for (std::size_t i = 0; i < n.operand_batching.size(); ++i) {
    auto want = operand.shape[at(n.operand_batching[i])];
    auto got = indices.shape[at(n.indices_batching[i])];
    if (want != got) {
      bad_operand(n.op, 1,
                  str("batching dimension ", n.indices_batching[i], " is ", got, "; expected ", want,
                      " (operand 0 dim ", n.operand_batching[i], ")"));
    }
  }
  auto parts = static_cast<std::int64_t>(n.window.size() + n.collapsed.size() + n.operand_batching.size());
  if (parts != operand.rank()) {
    bad_attr(
        n.op, n.window_name,
        str(n.window.size(), " window, ", n.collapsed.size(), " collapsed and ", n.operand_batching.size(),
            " batching dimensions; expected ", operand.rank(), " together, the rank of operand 0 ", operand.shape));
  }
}

void walk_windows(const Numbering& n, const WindowMap& map, IndexMode mode, const View& operand, const View& indices,
                  const Shape& window, const std::function<void(std::int64_t, std::int64_t)>& body) {
  Dims index_strides = row_strides(indices.shape);
  Dims strides = row_strides(operand.shape);
  std::int64_t k = 0;
  for_each_position(window, [&](const Dims& position) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < map.batch_of_window.size(); ++i) {
      first += position[at(map.batch_of_window[i])] * index_strides[i];
    }
    Dims start(operand.shape.size(), 0);
    bool inside = true;
    for (std::size_t c = 0; c < n.map.size(); ++c) {
      auto d = at(n.map[c]);
      auto last = operand.shape[d] - map.sizes[d];
      auto index = is_unsigned_int(indices.dtype)
                       ? static_cast<std::int64_t>(std::min<std::uint64_t>(
                             load_uint(indices, first + static_cast<std::int64_t>(c)), std::uint64_t{1} << 62))
                       : load_int(indices, first + static_cast<std::int64_t>(c));
      inside = inside && index >= 0 && index <= last;
      start[d] =
          mode == IndexMode::FillOrDrop ? index : std::clamp<std::int64_t>(index, 0, std::max<std::int64_t>(last, 0));
    }
    for (std::size_t i = 0; i < n.operand_batching.size(); ++i) {
      start[at(n.operand_batching[i])] = position[at(map.batch_of_window[at(n.indices_batching[i])])];
    }
    for (std::size_t i = 0; i < map.operand_of_offset.size(); ++i) {
      start[at(map.operand_of_offset[i])] += position[at(n.window[i])];
    }
    body(k++, inside || mode != IndexMode::FillOrDrop ? flat(start, strides) : -1);
  });
}

WindowFactors window_factors(FactorRule& r, const Numbering& n, const WindowMap& map, const Shape& operand,
                             const Shape& indices, const Shape& window, Factor::Kind batch, Reduction reduction) {
  WindowFactors out{FactorRule::Tensor(operand.size()), FactorRule::Tensor(indices.size()),
                    FactorRule::Tensor(window.size())};
  for (std::size_t i = 0; i + 1 < indices.size(); ++i) {
    auto found = std::find(n.indices_batching.begin(), n.indices_batching.end(), static_cast<std::int64_t>(i));
    bool paired = found != n.indices_batching.end();
    int f = r.add(indices[i], paired ? Factor::Kind::Pass : batch, reduction);
    out.indices[i] = {f};
    out.window[at(map.batch_of_window[i])] = {f};
    if (paired) out.operand[at(n.operand_batching[at(found - n.indices_batching.begin())])] = {f};
  }
  out.indices.back() = {r.add(indices.back(), Factor::Kind::Whole)};
  for (std::size_t i = 0; i < map.operand_of_offset.size(); ++i) {
    auto d = at(map.operand_of_offset[i]);
    auto w = at(n.window[i]);
    bool full = operand[d] == window[w];
    int f = r.add(operand[d], full ? Factor::Kind::Pass : Factor::Kind::Whole);
    out.operand[d] = {f};
    out.window[w] = {full ? f : r.add(window[w], Factor::Kind::Whole)};
  }
  for (auto d : n.collapsed) out.operand[at(d)] = {r.add(operand[at(d)], Factor::Kind::Whole)};
  return out;
}

Value inside_window(Builder& b, const Shape& shape, const Dims& low, const Shape& window) {
  const Shape full(shape.begin(), shape.end());  // new equations move the types of those before
  Value inside;
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (window[d] == full[d]) continue;
    Value i = iota(b, DType::I64, {full[d]}, 0);
    auto bound = [&](std::int64_t n) { return scalar(b, static_cast<double>(n), DType::I64); };
    Value line = and_(ge(i, bound(low[d])), lt(i, bound(low[d] + window[d])));
    Value here = broadcast_in_dim(line, full, {static_cast<std::int64_t>(d)});
    inside = inside ? and_(inside, here) : here;
  }
  return inside;
}

}  // namespace tessera::ops
