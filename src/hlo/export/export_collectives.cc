// SPDX-License-Identifier: Apache-2.0
// Collectives: groups of positions of the whole mesh, with channels where positions are partitions and without where
// they are replicas.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "hlo/export/collective_text.h"
#include "ops/collective/collectives.h"
#include "ops/ops.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

constexpr const char* kChannel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";

Dims strides_of(const ManualText& m) {
  Dims out(m.sizes.size(), 1);
  for (std::size_t a = m.sizes.size(); a-- > 1;) out[a - 1] = out[a] * m.sizes[a];
  return out;
}

}  // namespace

std::vector<Dims> position_groups(const ManualText& m, const std::vector<std::size_t>& axes) {
  Dims strides = strides_of(m);
  auto extend = [&](const Dims& from, std::size_t axis) {
    Dims out;
    for (auto p : from) {
      for (std::int64_t i = 0; i < m.sizes[axis]; ++i) out.push_back(p + i * strides[axis]);
    }
    return out;
  };
  Dims origins{0}, members{0};
  for (std::size_t a = 0; a < m.sizes.size(); ++a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) origins = extend(origins, a);
  }
  for (auto a : axes) members = extend(members, a);
  std::vector<Dims> out;
  for (auto o : origins) {
    out.push_back(members);
    for (auto& p : out.back()) p += o;
  }
  return out;
}
std::string collective_attributes(const Writer& w, const std::string& before, const std::string& after, bool global) {
  std::string channel = w.options().replicas ? "" : str(kChannel, ", ");
  return str(before, channel, after, global && !w.options().replicas ? ", use_global_device_ids" : "");
}

Text position_number(Writer& w) {
  Type number{DType::U32, {}, false};
  const char* id = w.options().replicas ? "stablehlo.replica_id" : "stablehlo.partition_id";
  return w.line(str(id, " : ", tensor_text(number)), number);
}
Text index_along(Writer& w, const ManualText& m, std::size_t axis) {
  Type number{DType::U32, {}, false};
  auto u32 = [&](std::int64_t v) { return w.constant(static_cast<double>(v), DType::U32); };
  Text divisor = u32(strides_of(m)[axis]), size = u32(m.sizes[axis]);
  Text position = position_number(w);
  Text major = w.op("stablehlo.divide", {position, divisor}, number);
  return w.convert(w.op("stablehlo.remainder", {major, size}, number), DType::I32);
}

namespace {
std::string groups_text(const std::vector<Dims>& groups) { return "replica_groups = " + matrix_text(groups); }
std::string reducer_of(Writer& w, ir::Reduction by, DType t) {
  using R = ir::Reduction;
  if (is_bool(t)) return w.reducer(by == R::Sum || by == R::Max || by == R::Or ? "or" : "and", t);
  constexpr std::array names{"add", "multiply", "maximum", "minimum", "and", "or"};  // in the order of the enumeration
  return w.reducer(names[static_cast<std::size_t>(by)], t);
}
}  // namespace

Texts write_all_reduce(Writer& w, const Texts& in, const Types& out, const std::vector<Dims>& groups,
                       ir::Reduction by) {
  return w.generic("stablehlo.all_reduce", in, out, collective_attributes(w, "", groups_text(groups), true),
                   reducer_of(w, by, out[0].dtype));
}
Texts write_reduce_scatter(Writer& w, const Texts& in, const Types& out, const std::vector<Dims>& groups,
                           std::size_t dim, ir::Reduction by) {
  std::string rest = str(groups_text(groups), ", scatter_dimension = ", dim, " : i64");
  return w.generic("stablehlo.reduce_scatter", in, out, collective_attributes(w, "", rest, true),
                   reducer_of(w, by, out[0].dtype));
}
Texts write_all_gather(Writer& w, const Texts& in, const Types& out, const std::vector<Dims>& groups, std::size_t dim) {
  return w.generic("stablehlo.all_gather", in, out,
                   collective_attributes(w, str("all_gather_dim = ", dim, " : i64, "), groups_text(groups), true), "");
}
Texts write_all_to_all(Writer& w, const Texts& in, const Types& out, const std::vector<Dims>& groups, std::size_t split,
                       std::size_t concat) {
  std::string rest = str("concat_dimension = ", concat, " : i64, ", groups_text(groups),
                         ", split_count = ", groups[0].size(), " : i64, split_dimension = ", split, " : i64");
  return w.generic("stablehlo.all_to_all", in, out, collective_attributes(w, "", rest, false), "");
}
Texts write_permute(Writer& w, const Texts& in, const Types& out, const std::vector<Dims>& pairs) {
  std::string text = pairs.empty() ? "dense<> : tensor<0x2xi64>" : matrix_text(pairs);
  return w.generic("stablehlo.collective_permute", in, out,
                   collective_attributes(w, "", "source_target_pairs = " + text, false), "");
}
Texts write_ragged(Writer& w, const Texts& in, const Types& out, const std::vector<Dims>& groups) {
  std::string channel = w.options().replicas ? "" : "channel_id = 1 : i64, ";
  return w.line(
      str("stablehlo.custom_call @ragged_all_to_all(", names_of(in), ") {api_version = 4 : i32, backend_config = {",
          channel, groups_text(groups), "}} : ", signature(in, out)),
      out);
}

namespace {
const ManualText& map_of(const Writer& w, const Eqn& e) {
  if (w.manual() == nullptr) {
    throw UnimplementedError(str("the op ", e.op->name(), " (", to_string(e.loc),
                                 ") stands outside of every map; StableHLO text has collectives inside maps"));
  }
  return *w.manual();
}
std::size_t axis_of(const ManualText& m, const std::string& name) {
  auto at = std::find(m.names.begin(), m.names.end(), name);
  if (at == m.names.end()) {
    throw UnimplementedError(str("StableHLO text of a collective over \"", ops::plain_name(name),
                                 "\", which is no axis of the enclosing map's mesh"));
  }
  return static_cast<std::size_t>(at - m.names.begin());
}
std::vector<std::size_t> axes_of(const ManualText& m, const ops::Collective& p) {
  std::vector<std::size_t> out;
  for (const auto& n : p.names.list) out.push_back(axis_of(m, n));
  return out;
}
std::vector<Dims> groups_of(const ManualText& m, const ops::Collective& p) {
  auto devices = position_groups(m, axes_of(m, p));
  if (!p.groups) return devices;
  std::vector<Dims> out;
  for (const auto& d : devices) {
    for (const auto& g : *p.groups) {
      Dims row;
      for (auto i : g) row.push_back(d[static_cast<std::size_t>(i)]);
      out.push_back(row);
    }
  }
  return out;
}
Texts all_reduce(Writer& w, const Eqn& e, const Texts& in, const Types& out, ir::Reduction by) {
  return write_all_reduce(w, in, out, groups_of(map_of(w, e), ir::get<ops::Collective>(e.attrs)), by);
}
Texts psum(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return all_reduce(w, e, in, out, ir::Reduction::Sum);
}
Texts pmax(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return all_reduce(w, e, in, out, ir::Reduction::Max);
}
Texts pmin(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return all_reduce(w, e, in, out, ir::Reduction::Min);
}
Texts all_gather(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::AllGather>(e.attrs);
  return write_all_gather(w, in, out, groups_of(map_of(w, e), p), static_cast<std::size_t>(p.dim));
}
Texts psum_scatter(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::PsumScatter>(e.attrs);
  return write_reduce_scatter(w, in, out, groups_of(map_of(w, e), p), static_cast<std::size_t>(p.dim),
                              ir::Reduction::Sum);
}
Texts all_to_all(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::AllToAll>(e.attrs);
  auto groups = groups_of(map_of(w, e), p);
  if (p.group_size() == 1) return in;
  return write_all_to_all(w, in, out, groups, static_cast<std::size_t>(p.split), static_cast<std::size_t>(p.concat));
}
Texts ppermute(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& m = map_of(w, e);
  const auto& p = ir::get<ops::Ppermute>(e.attrs);
  auto axes = axes_of(m, p);
  std::sort(axes.begin(), axes.end());
  std::vector<Dims> pairs;
  for (const auto& group : position_groups(m, axes)) {
    for (const auto& pair : p.pairs) {
      pairs.push_back({group[static_cast<std::size_t>(pair[0])], group[static_cast<std::size_t>(pair[1])]});
    }
  }
  return write_permute(w, in, out, pairs);
}
Texts pbroadcast(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Pbroadcast>(e.attrs);
  auto groups = groups_of(map_of(w, e), p);
  for (auto& g : groups) {
    auto source = g.begin() + static_cast<std::ptrdiff_t>(p.source);
    std::rotate(g.begin(), source, source + 1);
  }
  return w.generic("stablehlo.collective_broadcast", in, out, collective_attributes(w, "", groups_text(groups), false),
                   "");
}
Texts ragged(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return write_ragged(w, in, out, groups_of(map_of(w, e), ir::get<ops::Collective>(e.attrs)));
}

// Axes that are automatic here have no number of their own: the arithmetic goes where they are manual, too.
Text index_of_axis(Writer& w, const ManualText& m, std::size_t axis) {
  std::vector<std::string> rest;
  for (std::size_t a = 0; a < m.names.size(); ++a) {
    if (!m.manual[a]) rest.push_back(str("\"", m.names[a], "\""));
  }
  if (rest.empty() || !w.options().shardy) return index_along(w, m, axis);
  if (m.sizes[axis] == 1) return w.constant(0, DType::I32);
  std::string mesh = w.mesh_for(m.names, m.sizes);
  ManualText all = m;
  all.manual.assign(m.names.size(), true);
  std::string heads;
  w.enter(all);
  std::string body = w.block(
      {}, [&](const Texts&) { return Texts{index_along(w, all, axis)}; }, "sdy.return", &heads);
  w.leave();
  return w.line(str("sdy.manual_computation() in_shardings=[] out_shardings=[<@", mesh, ", []>] manual_axes={",
                    join(rest), "} () {\n", body, w.pad(), "} : () -> tensor<i32>"),
                Type{DType::I32, {}, false});
}
Texts axis_index(Writer& w, const Eqn& e, const Texts&, const Types& out) {
  const ManualText m = map_of(w, e);
  const auto& p = ir::get<ops::Collective>(e.attrs);
  Text sum;
  std::int64_t step = 1;
  for (std::size_t i = p.names.list.size(); i-- > 0;) {
    Text index = index_of_axis(w, m, axis_of(m, p.names.list[i]));
    if (step != 1) {
      index = w.op("stablehlo.multiply", {index, w.constant(static_cast<double>(step), DType::I32)}, index.type);
    }
    sum = sum.name.empty() ? index : w.op("stablehlo.add", {sum, index}, out[0]);
    step *= p.sizes[i];
  }
  return {sum.name.empty() ? w.constant(0, DType::I32) : sum};
}
}  // namespace

void add_collective_writers(WriterTable& t) {
  t[&def::psum] = psum;
  t[&def::pmax] = pmax;
  t[&def::pmin] = pmin;
  t[&def::all_gather] = all_gather;
  t[&def::psum_scatter] = psum_scatter;
  t[&def::all_to_all] = all_to_all;
  t[&def::ppermute] = ppermute;
  t[&def::pbroadcast] = pbroadcast;
  t[&def::ragged_all_to_all] = ragged;
  t[&def::axis_index] = axis_index;
  t[&def::pvary] = same;
  t[&def::no_derivative] = same;
}

}  // namespace tessera::hlo
