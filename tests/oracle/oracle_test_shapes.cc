// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

namespace {

Arrays from(const Arrays& a, std::size_t first) { return {a.begin() + static_cast<std::ptrdiff_t>(first), a.end()}; }

std::vector<lax::PadDim> padding(const Params& p, const std::string& name) {
  std::vector<lax::PadDim> out;
  for (const Dims& d : p.lists(name)) out.push_back({d.at(0), d.at(1), d.size() > 2 ? d[2] : 0});
  return out;
}

void add_lax_layout(Table& t) {
  t["lax.iota"] =
      one([](const Arrays&, const Params& p) { return iota(p.dtype("dtype"), Shape{p.integer("size")}, 0); });
  t["lax.broadcasted_iota"] = one(
      [](const Arrays&, const Params& p) { return iota(p.dtype("dtype"), p.dims("shape"), p.integer("dimension")); });
  t["lax.broadcast_in_dim"] = one([](const Arrays& a, const Params& p) {
    return broadcast_in_dim(a[0], p.dims("shape"), p.dims("broadcast_dimensions"));
  });
  t["lax.broadcast"] = one([](const Arrays& a, const Params& p) {
    Shape shape = p.dims("sizes");
    shape.insert(shape.end(), a[0].shape().begin(), a[0].shape().end());
    return broadcast_to(a[0], shape);
  });
  t["lax.reshape"] = one([](const Arrays& a, const Params& p) {
    return reshape(p.has("dimensions") ? transpose(a[0], p.dims("dimensions")) : a[0], p.dims("new_sizes"));
  });
  t["lax.transpose"] = one([](const Arrays& a, const Params& p) { return transpose(a[0], p.dims("permutation")); });
  t["lax.squeeze"] = one([](const Arrays& a, const Params& p) { return lax::squeeze(a[0], p.dims("dimensions")); });
  t["lax.expand_dims"] =
      one([](const Arrays& a, const Params& p) { return lax::expand_dims(a[0], p.dims("dimensions")); });
  t["lax.rev"] = one([](const Arrays& a, const Params& p) { return lax::rev(a[0], p.dims("dimensions")); });
  t["lax.pad"] =
      one([](const Arrays& a, const Params& p) { return lax::pad(a[0], a[1], padding(p, "padding_config")); });
  t["lax.concatenate"] =
      one([](const Arrays& a, const Params& p) { return lax::concatenate(a, p.integer("dimension")); });
  t["lax.split"] = [](const Arrays& a, const Params& p) {
    return lax::split(a[0], p.dims("sizes"), p.integer("axis"));
  };
}

void add_lax_slices(Table& t) {
  t["lax.slice"] = one([](const Arrays& a, const Params& p) {
    return lax::slice(a[0], p.dims("start_indices"), p.dims("limit_indices"), p.maybe_dims("strides").value_or(Dims{}));
  });
  t["lax.slice_in_dim"] = one([](const Arrays& a, const Params& p) {
    return lax::slice_in_dim(a[0], p.integer("start_index"), p.integer("limit_index"), p.integer("stride"),
                             p.integer("axis"));
  });
  t["lax.index_in_dim"] = one([](const Arrays& a, const Params& p) {
    return lax::index_in_dim(a[0], p.integer("index"), p.integer("axis"), p.flag("keepdims"));
  });
  t["lax.dynamic_slice"] =
      one([](const Arrays& a, const Params& p) { return lax::dynamic_slice(a[0], from(a, 1), p.dims("slice_sizes")); });
  t["lax.dynamic_update_slice"] =
      one([](const Arrays& a, const Params&) { return lax::dynamic_update_slice(a[0], a[1], from(a, 2)); });
  t["lax.dynamic_slice_in_dim"] = one([](const Arrays& a, const Params& p) {
    return lax::dynamic_slice_in_dim(a[0], a[1], p.integer("slice_size"), p.integer("axis"));
  });
  t["lax.dynamic_index_in_dim"] = one([](const Arrays& a, const Params& p) {
    return lax::dynamic_index_in_dim(a[0], a[1], p.integer("axis"), p.flag("keepdims"));
  });
  t["lax.dynamic_update_slice_in_dim"] = one([](const Arrays& a, const Params& p) {
    return lax::dynamic_update_slice_in_dim(a[0], a[1], a[2], p.integer("axis"));
  });
  t["lax.dynamic_update_index_in_dim"] = one([](const Arrays& a, const Params& p) {
    return lax::dynamic_update_index_in_dim(a[0], a[1], a[2], p.integer("axis"));
  });
}

Array rolled(const Array& x, const Params& p) {
  if (!p.has("axis")) return roll(x, p.integer("shift"));
  const Dims shift = p.dims("shift"), axis = p.dims("axis");
  Array out = x;
  for (std::size_t i = 0; i < axis.size(); ++i) out = roll(out, shift[i], axis[i]);
  return out;
}

void add_numpy_layout(Table& t) {
  t["jnp.broadcast_to"] = one([](const Arrays& a, const Params& p) { return broadcast_to(a[0], p.dims("shape")); });
  t["jnp.reshape"] = one([](const Arrays& a, const Params& p) { return reshape(a[0], p.dims("shape")); });
  t["jnp.ravel"] = unary(ravel);
  t["jnp.transpose"] = one([](const Arrays& a, const Params&) { return transpose(a[0]); });
  t["jnp.swapaxes"] =
      one([](const Arrays& a, const Params& p) { return swapaxes(a[0], p.integer("axis1"), p.integer("axis2")); });
  t["jnp.moveaxis"] =
      one([](const Arrays& a, const Params& p) { return moveaxis(a[0], p.dims("source"), p.dims("destination")); });
  t["jnp.squeeze"] = one([](const Arrays& a, const Params& p) { return squeeze(a[0], p.maybe_dims("axis")); });
  t["jnp.expand_dims"] = one([](const Arrays& a, const Params& p) { return expand_dims(a[0], p.dims("axis")); });
  t["jnp.flip"] = one([](const Arrays& a, const Params& p) { return flip(a[0], p.maybe_dims("axis")); });
  t["jnp.roll"] = one([](const Arrays& a, const Params& p) { return rolled(a[0], p); });
  t["jnp.concatenate"] = one([](const Arrays& a, const Params& p) { return concatenate(a, p.integer("axis")); });
  t["jnp.stack"] = one([](const Arrays& a, const Params& p) { return stack(a, p.integer("axis")); });
  t["jnp.split"] = [](const Arrays& a, const Params& p) {
    const auto axis = p.integer("axis");
    return p.is_list("indices_or_sections") ? split_at(a[0], p.dims("indices_or_sections"), axis)
                                            : split(a[0], p.integer("indices_or_sections"), axis);
  };
  t["jnp.tile"] = one([](const Arrays& a, const Params& p) { return tile(a[0], p.dims("reps")); });
  t["jnp.tril"] = one([](const Arrays& a, const Params& p) { return tril(a[0], p.integer("k", 0)); });
  t["jnp.triu"] = one([](const Arrays& a, const Params& p) { return triu(a[0], p.integer("k", 0)); });
}

}  // namespace

void add_shapes(Table& t) {
  add_lax_layout(t);
  add_lax_slices(t);
  add_numpy_layout(t);
}

}  // namespace tessera::oracle
