// SPDX-License-Identifier: Apache-2.0
// Collectives inside manual computations: groups of devices become axes of the enclosing maps, or groups along them.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/index.h"
#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/named_reducers.h"
#include "hlo/import/narrow.h"
#include "hlo/import/rules_manual.h"
#include "hlo/import/shared_compositions.h"
#include "hlo/sharding/manual_devices.h"
#include "hlo/text/parse.h"
#include "ops/shape/indexing_ops.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
const ManualLevels& levels_of(OpCall& c) {
  if (!c.scope.levels()) {
    throw UnimplementedError("a collective outside any sdy.manual_computation; lower the function with shard_map");
  }
  return *c.scope.levels();
}

std::int64_t channel_of(OpCall& c) {
  const AstAttr* a = c.find("channel_handle");
  if (a == nullptr || a->kind != AstAttr::Kind::Dialect) return 0;
  Parser p(c.importer.source(), a->raw);  // handle = 1, type = 1
  while (!p.at_end() && !p.accept("handle")) {
    if (p.word().empty()) p.fail("expected a handle");
  }
  p.expect("=");
  return p.integer();
}

// By the specification groups name replicas, partitions or devices, as the channel and a flag say. Programs of one
// replica name devices whatever these say.
std::vector<Dims> device_groups(OpCall& c, std::vector<Dims> groups, bool exchange, std::int64_t channel) {
  std::int64_t partitions = c.importer.partitions(), replicas = c.importer.devices() / partitions;
  if (replicas == 1 || c.flag("use_global_device_ids", false)) return groups;
  bool of_partitions = exchange && channel > 0, all_partitions = !exchange && channel > 0;
  std::int64_t units = of_partitions ? partitions : replicas, repeats = of_partitions ? replicas : partitions;
  if (groups.empty()) {
    groups.emplace_back(static_cast<std::size_t>(units));
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  std::vector<Dims> out;
  for (const auto& g : groups) {
    if (all_partitions) out.emplace_back();
    for (std::int64_t k = 0; k < repeats; ++k) {
      if (!all_partitions) out.emplace_back();
      for (auto id : g) {
        if (id < -1 || id >= units) c.fail(str("there is no replica or partition ", id));
        out.back().push_back(id < 0 ? id : of_partitions ? k * partitions + id : id * partitions + k);
      }
    }
  }
  return out;
}

// Groups of devices as groups of members: devices that differ in axes that are not manual do the same.
std::vector<Dims> member_groups(OpCall& c, const std::vector<Dims>& groups, bool pairs) {
  const ManualLevels& levels = levels_of(c);
  std::vector<Dims> out;
  std::set<Dims> seen;
  for (const auto& g : groups) {
    Dims members;
    for (auto device : g) {
      if (device == -1) continue;  // padding of groups of different sizes
      if (device < 0 || device >= static_cast<std::int64_t>(levels.member_of.size())) {
        c.fail(str("there is no device ", device));
      }
      std::int64_t m = levels.member_of[at(device)];
      if (m < 0) c.fail(str("device ", device, " is not in the mesh"));
      if (pairs || std::find(members.begin(), members.end(), m) == members.end()) members.push_back(m);
    }
    if (!members.empty() && seen.insert(members).second) out.push_back(members);
  }
  return out;
}

enum class Order : std::uint8_t { Free, Fixed };

Exchange exchange_of(OpCall& c, Order order, bool exchange = false) {
  auto groups = device_groups(c, c.table_of(c.need("replica_groups")), exchange, channel_of(c));
  return exchange_among(levels_of(c), member_groups(c, groups, false), order == Order::Fixed);
}

// Along all manual axes: the member's number.
Value member(OpCall& c) {
  ops::Collective all;
  all.names = levels_of(c).names;
  all.sizes = levels_of(c).sizes;
  return ops::axis_index(c.b(), all);
}
// An entry for each member.
Value of_member(OpCall& c, const Dims& table) {
  return look_up(member(c), HostArray::from(std::vector<std::int32_t>(table.begin(), table.end())));
}

// --- reductions ------------------------------------------------------------------------------------------------------

// The operands of all instances along a new dimension 0.
Value stacked(Value x, const ops::Collective& over) {
  ops::AllGather p;
  static_cast<ops::Collective&>(p) = over;
  return ops::all_gather(ops::expand_dims(x, {0}), p);
}

// What changes nothing in a reduction of values among which `x` is one.
Value neutral(Value x, const std::string& how) {
  if (how == "add" || how == "xor") return ops::zeros_like(x);
  if (how == "multiply") return ops::full(*x.builder, 1, x.type());
  return x;
}

// Groups of different sizes: everybody gets all operands and takes those of its group.
Value reduced_unevenly(OpCall& c, Value x, const std::string& how, const Exchange& e) {
  Dims labels(at(levels_of(c).members()));
  for (std::size_t g = 0; g < e.groups.size(); ++g) {
    for (auto m : e.groups[g]) labels[at(m)] = static_cast<std::int64_t>(g);
  }
  Value all = stacked(x, e.over);
  std::vector<std::int32_t> numbers(labels.begin(), labels.end());
  Value mine = ops::eq(ops::constant(c.b(), HostArray::from(numbers)), of_member(c, labels));
  Dims dims;
  for (std::int64_t d = 1; d < all.rank(); ++d) dims.push_back(d);
  Value otherwise = ops::broadcast_in_dim(neutral(x, how), all.shape(), dims);
  return reduce_by(how, ops::where(ops::broadcast_in_dim(mine, all.shape(), {0}), all, otherwise), {0});
}

std::string reduction_of(OpCall& c) {
  std::string name = simple_reducer(c.region(0));
  if (name.empty())
    throw UnimplementedError("a collective with a reducer of its own; use add, multiply, maximum or minimum");
  return reducer_for(name, storage(c.region(0).args[0].type.elem));
}

Value reduced(OpCall& c, Value x, const std::string& how, const Exchange& e) {
  if (e.uneven) return reduced_unevenly(c, x, how, e);
  if (e.over.names.list.empty()) return x;
  bool logical = is_bool(x.dtype());
  if (how == "add") return ops::psum(x, e.over);
  if (logical && how == "or") return ops::pmax(x, e.over);
  if (logical && how == "and") return ops::pmin(x, e.over);
  if (!is_complex(x.dtype()) && how == "maximum") return ops::pmax(x, e.over);
  if (!is_complex(x.dtype()) && how == "minimum") return ops::pmin(x, e.over);
  return reduce_by(how, stacked(x, e.over), {0});
}

// Place of each member in its group.
Dims ranks(const Exchange& e, std::int64_t members) {
  Dims out(at(members));
  for (const auto& g : e.groups) {
    for (std::size_t i = 0; i < g.size(); ++i) out[at(g[i])] = static_cast<std::int64_t>(i);
  }
  return out;
}

Value scattered(OpCall& c, Value x, const std::string& how, std::int64_t dim, const Exchange& e) {
  if (e.over.names.list.empty()) return x;
  if (dim < 0 || dim >= x.rank()) c.fail(str("scatter_dimension ", dim, " lies outside the shape"));
  if (how == "add") {
    ops::PsumScatter p;
    static_cast<ops::Collective&>(p) = e.over;
    p.dim = dim;
    return ops::psum_scatter(x, p);
  }
  auto k = static_cast<std::int64_t>(e.groups[0].size());
  Dims sizes = x.shape();
  if (sizes[at(dim)] % k != 0) c.fail(str(sizes[at(dim)], " elements for ", k, " members of a group"));
  sizes[at(dim)] /= k;
  Values starts(at(x.rank()), ops::scalar(c.b(), 0, DType::I32));
  Value rank = of_member(c, ranks(e, levels_of(c).members()));
  starts[at(dim)] = ops::mul(rank, ops::scalar(c.b(), static_cast<double>(sizes[at(dim)]), DType::I32));
  return ops::dynamic_slice(reduced(c, x, how, e), starts, sizes);
}

// --- rules -----------------------------------------------------------------------------------------------------------

template <class F>
Items each(OpCall& c, const F& f) {
  Items out;
  for (std::size_t i = 0; i < c.in.size(); ++i) out.push_back(tensor(c.out(i).elem, f(c.v(i))));
  return out;
}

// Of what sums: narrow integers wrap, narrow floats are rounded.
template <class F>
Items rounded_each(OpCall& c, const F& f) {
  Items out = each(c, f);
  for (auto& i : out) i.value = round_to(i.value, i.elem);
  return out;
}

Items all_reduce(OpCall& c) {
  Exchange e = exchange_of(c, Order::Free);
  std::string how = reduction_of(c);
  return rounded_each(c, [&](Value x) { return reduced(c, x, how, e); });
}
Items reduce_scatter(OpCall& c) {
  Exchange e = exchange_of(c, Order::Fixed);
  std::string how = reduction_of(c);
  std::int64_t dim = c.integer("scatter_dimension");
  return rounded_each(c, [&](Value x) { return scattered(c, x, how, dim, e); });
}
Items all_gather(OpCall& c) {
  ops::AllGather p;
  static_cast<ops::Collective&>(p) = exchange_of(c, Order::Fixed).over;
  p.dim = c.integer("all_gather_dim");
  return each(c, [&](Value x) { return ops::all_gather(x, p); });
}
Items all_to_all(OpCall& c) {
  ops::AllToAll p;
  static_cast<ops::Collective&>(p) = exchange_of(c, Order::Fixed, true).over;
  p.split = c.integer("split_dimension");
  p.concat = c.integer("concat_dimension");
  return each(c, [&](Value x) { return ops::all_to_all(x, p); });
}

Value sent(OpCall& c, Value x, const std::vector<Dims>& pairs) {
  const ManualLevels& levels = levels_of(c);
  if (pairs.empty()) return ops::zeros_like(x);
  if (static_cast<std::int64_t>(pairs.size()) == levels.members() &&
      std::all_of(pairs.begin(), pairs.end(), [](const Dims& p) { return p[0] == p[1]; })) {
    return x;
  }
  return ops::ppermute(x, permutation_of(levels, pairs));
}
Items collective_permute(OpCall& c) {
  auto table = device_groups(c, c.table_of(c.need("source_target_pairs")), true, channel_of(c));
  auto pairs = member_groups(c, table, true);
  for (const auto& p : pairs) {
    if (p.size() != 2) c.fail("source_target_pairs must have two columns");
  }
  return each(c, [&](Value x) { return sent(c, x, pairs); });
}

// The first of each group sends; members of none get zeros.
Items collective_broadcast(OpCall& c) {
  const ManualLevels& levels = levels_of(c);
  auto groups = member_groups(c, device_groups(c, c.table_of(c.need("replica_groups")), true, channel_of(c)), false);
  std::vector<Dims> pairs;
  std::size_t covered = 0;
  for (const auto& g : groups) {
    covered += g.size();
    for (auto m : g) pairs.push_back({g[0], m});
  }
  std::set<std::int64_t> sources;
  ops::Pbroadcast p;
  if (covered == levels.devices.size()) {
    Exchange e = exchange_among(levels, groups, false);
    Dims rank = ranks(e, levels.members());
    for (const auto& g : groups) sources.insert(rank[at(g[0])]);
    static_cast<ops::Collective&>(p) = e.over;
    if (e.over.names.list.empty() || e.over.groups || e.uneven) sources.clear();
  }
  if (sources.size() != 1) return each(c, [&](Value x) { return sent(c, x, pairs); });
  p.source = *sources.begin();
  return each(c, [&](Value x) { return ops::pbroadcast(x, p); });
}

// --- numbers of devices ----------------------------------------------------------------------------------------------

// The axes of the maps whose numbers are (device / stride) % size; none where these are no axes.
ops::Collective axes_of_number(const ManualLevels& levels, std::int64_t stride, std::int64_t size) {
  ops::Collective out;
  for (std::size_t a = levels.strides.size(); a-- > 0 && size > 1;) {
    if (levels.sizes[a] == 1 || levels.strides[a] != stride) continue;
    if (size % levels.sizes[a] != 0) return {};
    out.names.list.insert(out.names.list.begin(), levels.names.list[a]);
    out.sizes.insert(out.sizes.begin(), levels.sizes[a]);
    stride *= levels.sizes[a];
    size /= levels.sizes[a];
  }
  return size == 1 ? out : ops::Collective{};
}

// A number that is said of the device, as the index along axes where it is one. `otherwise` is the same number.
Items numbered(OpCall& c, Item otherwise, std::int64_t stride, std::int64_t size) {
  ops::Collective axes = axes_of_number(levels_of(c), stride, size);
  if (!axes.names.list.empty()) {
    otherwise.value = ops::convert(ops::axis_index(c.b(), axes), otherwise.value.dtype());
  }
  otherwise.id_stride = stride;
  otherwise.id_size = size;
  return {otherwise};
}

// Outside manual computations every value is whole, and the program is that of device 0.
Items device_id(OpCall& c) {
  if (!c.scope.levels() || c.importer.devices() == 1) return c.one(ops::scalar(c.b(), 0, DType::U32));
  const Dims& devices = levels_of(c).devices;
  bool same = true;
  for (std::size_t i = 0; i < devices.size(); ++i) same = same && devices[i] == static_cast<std::int64_t>(i);
  Value v = same ? member(c) : of_member(c, devices);
  return numbered(c, tensor(c.elem(), ops::convert(v, DType::U32)), 1, c.importer.devices());
}

std::int64_t known_number(const Item& item) {
  if (!item.known || item.known->size() != 1 || !is_integer(item.known->dtype())) return 0;
  return item.known->astype(DType::I64).span<std::int64_t>()[0];
}
Items plain(OpCall& c, std::string_view name);

Items divide(OpCall& c) {
  Items out = plain(c, "stablehlo.divide");
  const Item& x = c.operand(0);
  std::int64_t by = x.id_size > 0 ? known_number(c.operand(1)) : 0;
  if (by <= 0 || x.id_size % by != 0) return out;
  return numbered(c, out[0], x.id_stride * by, x.id_size / by);
}
Items remainder(OpCall& c) {
  Items out = plain(c, "stablehlo.remainder");
  const Item& x = c.operand(0);
  std::int64_t by = x.id_size > 0 ? known_number(c.operand(1)) : 0;
  if (by <= 0 || (by < x.id_size && x.id_size % by != 0)) return out;
  return numbered(c, out[0], x.id_stride, std::min(by, x.id_size));
}
Items uniform_convert(OpCall& c) {
  Items out = plain(c, "stablehlo.convert");
  const Item& x = c.operand(0);
  if (x.id_size == 0 || !is_integer(out[0].value.dtype()) || dtype_size(out[0].value.dtype()) < 4) return out;
  return numbered(c, out[0], x.id_stride, x.id_size);
}
// What arithmetic does to any value.
RuleTable& arithmetic() {
  static auto* table = new RuleTable;
  return *table;
}
Items plain(OpCall& c, std::string_view name) { return arithmetic().at(name)(c); }

Items partition_id(OpCall& c) {
  Items device = device_id(c);
  std::int64_t n = c.importer.partitions();
  if (c.importer.devices() == n) return device;
  Item out = tensor(c.elem(), ops::rem(device[0].value, ops::scalar(c.b(), static_cast<double>(n), DType::U32)));
  return device[0].id_size > 0 ? numbered(c, out, 1, n) : Items{out};
}
Items replica_id(OpCall& c) {
  std::int64_t n = c.importer.partitions();
  Item out = tensor(c.elem(), ops::div(device_id(c)[0].value, ops::scalar(c.b(), static_cast<double>(n), DType::U32)));
  return c.scope.levels() ? numbered(c, out, n, c.importer.devices() / n) : Items{out};
}
}  // namespace

Items ragged_all_to_all(OpCall& c) {
  c.check_operands(6);
  const AstAttr* config = c.find("backend_config");
  if (config == nullptr) config = c.find("mhlo.backend_config");
  const AstAttr* groups = config == nullptr ? nullptr : config->find("replica_groups");
  if (groups == nullptr) c.fail("has no replica_groups");
  const AstAttr* channel = config->find("channel_id");
  auto list = device_groups(c, c.table_of(*groups), true, channel == nullptr ? 0 : channel->integer);
  Exchange e = exchange_among(levels_of(c), member_groups(c, list, false), true);
  if (e.over.names.list.empty()) {  // everybody with oneself
    e.over.names = levels_of(c).names;
    e.over.sizes = levels_of(c).sizes;
    e.over.groups = e.groups;
  }
  return c.one(ops::ragged_all_to_all(values_of(c.in), e.over));
}

Value device_entry(OpCall& c, const Dims& table) { return of_member(c, table); }
Value sum_among(OpCall& c, Value x, ops::Groups groups) {
  return reduced(c, x, reducer_for("add", x.dtype()), exchange_among(levels_of(c), std::move(groups), false));
}

void add_collective_rules(RuleTable& t) {
  t["stablehlo.all_reduce"] = all_reduce;
  t["stablehlo.all_gather"] = all_gather;
  t["stablehlo.reduce_scatter"] = reduce_scatter;
  t["stablehlo.all_to_all"] = all_to_all;
  t["stablehlo.collective_permute"] = collective_permute;
  t["stablehlo.collective_broadcast"] = collective_broadcast;
  t["stablehlo.partition_id"] = partition_id;
  t["stablehlo.replica_id"] = replica_id;
  for (auto [name, rule] : {std::pair<std::string_view, Rule>{"stablehlo.divide", divide},
                            {"stablehlo.remainder", remainder},
                            {"stablehlo.convert", uniform_convert}}) {
    arithmetic()[name] = t.at(name);
    t[name] = rule;
  }
}

}  // namespace tessera::hlo
