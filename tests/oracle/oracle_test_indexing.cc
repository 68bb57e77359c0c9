// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

namespace {

lax::IndexMode index_mode(const Params& p) {
  const std::string mode = p.text("mode", "fill");
  return mode == "clip"                ? lax::IndexMode::Clip
         : mode == "promise_in_bounds" ? lax::IndexMode::PromiseInBounds
                                       : lax::IndexMode::FillOrDrop;
}

Array gathered(const Arrays& a, const Params& p) {
  const Params n = p.at("dimension_numbers");
  lax::GatherOptions options{.mode = index_mode(p)};
  if (p.has("fill_value")) options.fill_value = p.real("fill_value");
  return lax::gather(a[0], a[1],
                     {n.dims("offset_dims"), n.dims("collapsed_slice_dims"), n.dims("start_index_map"),
                      n.dims("operand_batching_dims"), n.dims("start_indices_batching_dims")},
                     p.dims("slice_sizes"), options);
}

using Scatter = Array (*)(const Operand&, const Operand&, const Operand&, const lax::ScatterDimensionNumbers&,
                          const lax::ScatterOptions&);

Function scattered(Scatter f) {
  return one([f](const Arrays& a, const Params& p) {
    const Params n = p.at("dimension_numbers");
    return f(a[0], a[1], a[2],
             {n.dims("update_window_dims"), n.dims("inserted_window_dims"), n.dims("scatter_dims_to_operand_dims")},
             {.mode = index_mode(p)});
  });
}

TakeMode take_mode(const Params& p) {
  const std::string mode = p.text("mode", "fill");
  return mode == "clip" ? TakeMode::Clip : mode == "wrap" ? TakeMode::Wrap : TakeMode::Fill;
}

IndexItems items(const Arrays& a, const Params& p) {
  IndexItems out;
  for (const Params& i : p.items("index")) {
    if (i.is_integer()) {
      out.emplace_back(i.as_integer());
    } else if (i.is_text()) {
      out.push_back(i.as_text() == "..." ? IndexItem(ellipsis) : IndexItem(newaxis));
    } else if (i.has("slice")) {
      const auto s = i.at("slice").as_optional_integers();
      out.emplace_back(span(s[0], s[1], s[2].value_or(1)));
    } else {
      out.emplace_back(a.at(1 + static_cast<std::size_t>(i.integer("array"))));
    }
  }
  return out;
}

IndexOptions options(const Params& p) {
  IndexOptions o;
  if (p.has("mode")) o.mode = index_mode(p);
  if (p.has("fill_value")) o.fill_value = p.real("fill_value");
  return o;
}

Function updated(Array (IndexUpdate::*f)(const Operand&, const IndexOptions&) const) {
  return one([f](const Arrays& a, const Params& p) { return (at(a[0], items(a, p)).*f)(a.back(), options(p)); });
}

}  // namespace

void add_indexing(Table& t) {
  t["index.get"] = one([](const Arrays& a, const Params& p) { return index(a[0], items(a, p), options(p)); });
  t["index.set"] = updated(&IndexUpdate::set);
  t["index.add"] = updated(&IndexUpdate::add);
  t["index.subtract"] = updated(&IndexUpdate::subtract);
  t["index.multiply"] = updated(&IndexUpdate::multiply);
  t["index.divide"] = updated(&IndexUpdate::divide);
  t["index.power"] = updated(&IndexUpdate::power);
  t["index.min"] = updated(&IndexUpdate::min);
  t["index.max"] = updated(&IndexUpdate::max);
  t["lax.gather"] = one(gathered);
  t["lax.scatter"] = scattered(lax::scatter);
  t["lax.scatter_add"] = scattered(lax::scatter_add);
  t["lax.scatter_sub"] = scattered(lax::scatter_sub);
  t["lax.scatter_mul"] = scattered(lax::scatter_mul);
  t["lax.scatter_min"] = scattered(lax::scatter_min);
  t["lax.scatter_max"] = scattered(lax::scatter_max);
  t["jnp.take"] =
      one([](const Arrays& a, const Params& p) { return take(a[0], a[1], p.maybe_integer("axis"), take_mode(p)); });
  t["jnp.take_along_axis"] = one([](const Arrays& a, const Params& p) {
    return p.has("axis") ? take_along_axis(a[0], a[1], p.integer("axis")) : take_along_axis(ravel(a[0]), a[1], 0);
  });
}

}  // namespace tessera::oracle
