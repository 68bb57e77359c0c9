// SPDX-License-Identifier: Apache-2.0
#include "explicit/ops.h"

namespace tessera::test {

namespace {

std::optional<std::int64_t> bound(const json& slice, std::size_t i) {
  if (i >= slice.size() || slice[i].is_null()) return std::nullopt;
  return slice[i].get<std::int64_t>();
}
IndexItem item_of(const json& j, const Arrays& in) {
  if (j.is_number_integer()) return j.get<std::int64_t>();
  if (j.is_null()) return newaxis;
  if (j.is_string()) return ellipsis;
  if (j.contains("operand")) return in.at(j["operand"].get<std::size_t>());
  const json& s = j.at("slice");
  return span(bound(s, 0), bound(s, 1), bound(s, 2).value_or(1));
}
IndexItems items_of(const Call& c) {
  IndexItems out;
  for (const auto& j : c.params.at("index")) out.push_back(item_of(j, c.in));
  return out;
}

using Update = Array (IndexUpdate::*)(const Operand&, const IndexOptions&) const;
Function update(Update f) {
  return one([f](const Call& c) {
    const json& value = c.params.at("value");
    const Operand v =
        value.is_object() ? Operand(value.at("scalar").get<double>()) : Operand(c.in.at(value.get<std::size_t>()));
    return (at(c.x(), items_of(c)).*f)(v, {.out_sharding = c.out});
  });
}

Dims dims_in(const json& j, const char* name) { return j.contains(name) ? j[name].get<Dims>() : Dims{}; }

using Scatter = Array (*)(const Operand&, const Operand&, const Operand&, const lax::ScatterDimensionNumbers&,
                          const lax::ScatterOptions&);
Function scatter_by(Scatter f) {
  return one([f](const Call& c) {
    const json& d = c.params.at("dimension_numbers");
    return f(c.x(), c.x(1), c.x(2),
             {d.at("update_window_dims"), d.at("inserted_window_dims"), d.at("scatter_dims_to_operand_dims"),
              dims_in(d, "operand_batching_dims"), dims_in(d, "scatter_indices_batching_dims")},
             {});
  });
}

}  // namespace

void add_indexing(Table& t) {
  t["getitem"] = one([](const Call& c) { return index(c.x(), items_of(c)); });
  t["at.get"] = one([](const Call& c) { return at(c.x(), items_of(c)).get({.out_sharding = c.out}); });
  t["at.set"] = update(&IndexUpdate::set);
  t["at.add"] = update(&IndexUpdate::add);
  t["at.subtract"] = update(&IndexUpdate::subtract);
  t["at.multiply"] = update(&IndexUpdate::multiply);
  t["at.divide"] = update(&IndexUpdate::divide);
  t["at.power"] = update(&IndexUpdate::power);
  t["at.min"] = update(&IndexUpdate::min);
  t["at.max"] = update(&IndexUpdate::max);
  t["jnp.take"] = one([](const Call& c) {
    const bool clip = c.has("mode") && c.params.at("mode") == "clip";
    return take(c.x(), c.x(1), c.maybe_integer("axis"), clip ? TakeMode::Clip : TakeMode::Fill);
  });
  t["jnp.take_along_axis"] = one([](const Call& c) { return take_along_axis(c.x(), c.x(1), c.integer("axis")); });
  t["lax.gather"] = one([](const Call& c) {
    const json& d = c.params.at("dimension_numbers");
    return lax::gather(c.x(), c.x(1),
                       {d.at("offset_dims"), d.at("collapsed_slice_dims"), d.at("start_index_map"),
                        dims_in(d, "operand_batching_dims"), dims_in(d, "start_indices_batching_dims")},
                       c.dims("slice_sizes"));
  });
  t["lax.scatter"] = scatter_by(lax::scatter);
  t["lax.scatter_add"] = scatter_by(lax::scatter_add);
}

}  // namespace tessera::test
