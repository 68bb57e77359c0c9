// SPDX-License-Identifier: Apache-2.0
#include "explicit/ops.h"

namespace tessera::test {

namespace {

std::vector<std::pair<std::int64_t, std::int64_t>> widths(const json& j) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (const auto& w : j) out.emplace_back(w[0], w[1]);
  return out;
}

Arrays split_at(const Call& c) {
  const json& sections = c.params.at("sections");
  const std::int64_t axis = c.integer("axis", 0);
  if (sections.is_number_integer()) return split(c.x(), sections.get<std::int64_t>(), axis);
  Dims sizes;
  std::int64_t last = 0;
  for (std::int64_t at : sections.get<Dims>()) {
    sizes.push_back(at - last);
    last = at;
  }
  sizes.push_back(c.x().shape(axis) - last);
  return lax::split(c.x(), sizes, axis);
}

// Parts that start at 0 each, then the scalars of the start.
Arrays from(const Arrays& in, std::size_t first) { return {in.begin() + static_cast<std::ptrdiff_t>(first), in.end()}; }

}  // namespace

void add_shapes(Table& t) {
  t["lax.broadcast"] = one([](const Call& c) { return lax::broadcast(c.x(), c.dims("sizes"), c.place()); });
  t["lax.broadcast_in_dim"] = one([](const Call& c) {
    return broadcast_in_dim(c.x(), c.dims("shape"), c.dims("broadcast_dimensions"), c.place());
  });
  t["jnp.broadcast_to"] = one([](const Call& c) { return broadcast_to(c.x(), c.dims("shape"), c.place()); });
  t["jnp.expand_dims"] = one([](const Call& c) { return expand_dims(c.x(), c.dims("axis")); });
  t["lax.squeeze"] = one([](const Call& c) { return lax::squeeze(c.x(), c.dims("dimensions")); });
  t["jnp.squeeze"] = one([](const Call& c) { return squeeze(c.x(), c.maybe_dims("axis")); });
  t["lax.reshape"] = one([](const Call& c) {
    return lax::reshape(c.x(), c.dims("new_sizes"),
                        {.dimensions = c.has("dimensions") ? c.dims("dimensions") : Dims{}, .out_sharding = c.out});
  });
  t["jnp.reshape"] = one([](const Call& c) {
    const bool f = c.has("order") && c.params.at("order") == "F";
    return reshape(c.x(), c.dims("shape"), {.column_major = f, .out_sharding = c.out});
  });
  t["jnp.ravel"] = one([](const Call& c) { return ravel(c.x(), c.place()); });
  t["lax.transpose"] = one([](const Call& c) { return transpose(c.x(), c.dims("permutation")); });
  t["jnp.transpose"] =
      one([](const Call& c) { return c.has("axes") ? transpose(c.x(), c.dims("axes")) : transpose(c.x()); });
  t["jnp.swapaxes"] = one([](const Call& c) { return swapaxes(c.x(), c.integer("axis1"), c.integer("axis2")); });
  t["jnp.moveaxis"] = one([](const Call& c) { return moveaxis(c.x(), c.dims("source"), c.dims("destination")); });
  t["lax.rev"] = one([](const Call& c) { return lax::rev(c.x(), c.dims("dimensions")); });
  t["jnp.flip"] = one([](const Call& c) { return flip(c.x(), c.maybe_dims("axis")); });
  t["jnp.roll"] = one([](const Call& c) { return roll(c.x(), c.integer("shift"), c.maybe_integer("axis")); });
  t["jnp.tile"] = one([](const Call& c) { return tile(c.x(), c.dims("reps")); });
  t["jnp.repeat"] =
      one([](const Call& c) { return repeat(c.x(), c.integer("repeats"), c.maybe_integer("axis"), c.place()); });
  t["jnp.diff"] = one([](const Call& c) { return diff(c.x(), {.axis = c.integer("axis", -1)}); });
  t["jnp.tril"] = one([](const Call& c) { return tril(c.x()); });
  t["jnp.triu"] = one([](const Call& c) { return triu(c.x()); });
  t["jnp.diagonal"] = one([](const Call& c) { return diagonal(c.x()); });

  t["lax.slice"] = one([](const Call& c) {
    return lax::slice(c.x(), c.dims("start_indices"), c.dims("limit_indices"),
                      c.has("strides") ? c.dims("strides") : Dims{});
  });
  t["lax.slice_in_dim"] = one([](const Call& c) {
    return lax::slice_in_dim(c.x(), c.integer("start_index"), c.integer("limit_index"), 1, c.integer("axis", 0));
  });
  t["lax.split"] = [](const Call& c) { return lax::split(c.x(), c.dims("sizes"), c.integer("axis", 0)); };
  t["jnp.split"] = split_at;
  t["lax.dynamic_slice"] =
      one([](const Call& c) { return lax::dynamic_slice(c.x(), from(c.in, 1), c.dims("slice_sizes")); });
  t["lax.dynamic_slice_in_dim"] = one([](const Call& c) {
    return lax::dynamic_slice_in_dim(c.x(), c.x(1), c.integer("slice_size"), c.integer("axis", 0));
  });
  t["lax.dynamic_index_in_dim"] = one([](const Call& c) {
    const bool keep = !c.has("keepdims") || c.flag("keepdims");
    return lax::dynamic_index_in_dim(c.x(), c.x(1), c.integer("axis", 0), keep);
  });
  t["lax.dynamic_update_slice"] =
      one([](const Call& c) { return lax::dynamic_update_slice(c.x(), c.x(1), from(c.in, 2)); });
  t["lax.dynamic_update_slice_in_dim"] =
      one([](const Call& c) { return lax::dynamic_update_slice_in_dim(c.x(), c.x(1), c.x(2), c.integer("axis")); });

  t["lax.concatenate"] = one([](const Call& c) { return lax::concatenate(c.in, c.integer("dimension")); });
  t["jnp.concatenate"] = one([](const Call& c) { return concatenate(c.in, c.integer("axis", 0)); });
  t["jnp.stack"] = one([](const Call& c) { return stack(c.in, c.integer("axis", 0)); });
  t["jnp.vstack"] = one([](const Call& c) { return vstack(c.in); });
  t["jnp.meshgrid"] = [](const Call& c) { return meshgrid(c.in); };
  t["jnp.unstack"] = [](const Call& c) { return unstack(c.x(), c.integer("axis", 0)); };
  t["lax.pad"] = one([](const Call& c) {
    std::vector<lax::PadDim> dims;
    for (const auto& d : c.params.at("padding_config")) dims.push_back({d[0], d[1], d[2]});
    return c.in.size() > 1 ? lax::pad(c.x(), c.x(1), dims) : lax::pad(c.x(), 0, dims);
  });
  t["jnp.pad"] = one([](const Call& c) { return pad(c.x(), widths(c.params.at("pad_width"))); });
}

}  // namespace tessera::test
