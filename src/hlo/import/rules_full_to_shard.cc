// SPDX-License-Identifier: Apache-2.0
// Manual computations of the older form (hlo/sharding/shard_marks.h), whose shardings are tiles over any list of
// devices, and others that no mesh of the program can say: every device runs the body on its tiles of whole values.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/import/rules_manual.h"
#include "hlo/sharding/hlo_sharding.h"
#include "hlo/sharding/shard_marks.h"
#include "ops/shape/indexing_ops.h"
#include "tessera/error.h"
#include "tessera/sharding.h"

namespace tessera::hlo {

namespace {
// A sharding's text over n devices.
struct Marked : Tiles {
  Dims manual_id;  // by device: equal for those that manual code does not tell apart
};

Marked one_tile(std::int64_t rank, std::int64_t n) {
  Marked out;
  out.dims.assign(static_cast<std::size_t>(rank), 1);
  out.tile_of.assign(static_cast<std::size_t>(n), 0);
  out.manual_id.assign(static_cast<std::size_t>(n), 0);
  return out;
}

Dims counted(std::int64_t n) {
  Dims out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Marked tiles_of(OpCall& c, const std::string& text, std::int64_t rank, std::int64_t n) {
  using Kind = HloSharding::Kind;
  Marked out = one_tile(rank, n);
  if (text.empty()) return out;
  HloSharding s = parse_hlo_sharding(text);
  if (s.kind == Kind::Manual) out.manual_id = counted(n);
  if (s.kind == Kind::Unreduced) out.addend = out.sum.emplace_back(counted(n));
  if (s.kind != Kind::Tiled) return out;
  const TileAssignment& t = *s.tiles;
  // A scalar has no dimensions; its tiles are all of the last kinds.
  if (t.num_devices() != n || static_cast<std::int64_t>(s.tiled_rank()) != rank) {
    c.fail(str("sharding ", text, " for a value of ", rank, " dimensions on ", n, " devices"));
  }
  out.dims.assign(t.dims().begin(), t.dims().begin() + rank);
  std::vector<std::int64_t> devices = t.to_list();
  std::map<std::int64_t, Dims> groups;  // of devices that differ in their addends alone
  Dims addend(static_cast<std::size_t>(n), 0);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i), same = rest;
    std::int64_t id = 0, scale = 1, part = 0, parts = 1, stride = 1;
    for (std::size_t k = s.last.size(); k-- > 0;) {
      std::int64_t extent = t.dims()[static_cast<std::size_t>(rank) + k];
      if (s.last[k] == HloSharding::Last::Manual) {
        id += scale * (rest % extent);
        scale *= extent;
      } else if (s.last[k] == HloSharding::Last::Unreduced) {
        part += parts * (rest % extent);
        parts *= extent;
        same -= stride * (rest % extent);
      }
      rest /= extent;
      stride *= extent;
    }
    auto d = static_cast<std::size_t>(devices[i]);
    out.tile_of[d] = rest;
    out.manual_id[d] = id;
    addend[d] = part;
    groups[same].push_back(devices[i]);
  }
  if (groups.size() == devices.size()) return out;
  out.addend = std::move(addend);
  for (auto& [number, group] : groups) out.sum.push_back(std::move(group));
  return out;
}

// [tiles, local …] of a whole value.
Value cut(OpCall& c, const Dims& tiles, Value x) {
  Shape split, local;
  Dims order;
  for (std::size_t d = 0; d < tiles.size(); ++d) {
    if (x.shape()[d] % tiles[d] != 0) {
      c.fail(str("dimension ", d, " of extent ", x.shape()[d], " is cut in ", tiles[d], " parts"));
    }
    order.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(tiles[d]);
    split.push_back(x.shape()[d] / tiles[d]);
    local.push_back(split.back());
  }
  std::int64_t n = 1;
  for (std::size_t d = 0; d < tiles.size(); ++d) {
    order.push_back(static_cast<std::int64_t>(2 * d + 1));
    n *= tiles[d];
  }
  local.insert(local.begin(), n);
  return ops::reshape(ops::transpose(ops::reshape(x, split), order), local);
}

// The whole value from [tiles, local …].
Value joined(const Dims& tiles, Value x) {
  Shape split = tiles, whole;
  split.insert(split.end(), x.shape().begin() + 1, x.shape().end());
  Dims order;
  auto rank = static_cast<std::int64_t>(tiles.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    order.push_back(d);
    order.push_back(rank + d);
    whole.push_back(split[static_cast<std::size_t>(d)] * split[static_cast<std::size_t>(rank + d)]);
  }
  return ops::reshape(ops::transpose(ops::reshape(x, split), order), whole);
}

// Rows of dimension 0 in another order; rows may repeat. `order` is i32[k].
Value rows_at(Value x, Value order) {
  ops::Gather g;
  for (std::int64_t d = 1; d < x.rank(); ++d) g.offset_dims.push_back(d);
  g.collapsed_slice_dims = {0};
  g.start_index_map = {0};
  g.slice_sizes = x.shape();
  g.slice_sizes[0] = 1;
  g.mode = ops::IndexMode::PromiseInBounds;
  return ops::gather(x, ops::expand_dims(order, {1}), g);
}

// This device's tile of a value that it has whole.
Value own_tile(OpCall& c, const Tiles& t, Value x) {
  Value tiles = cut(c, t.dims, x);
  if (tiles.shape()[0] == 1) return ops::squeeze(tiles, {0});
  Dims table = t.tile_of;
  for (auto& i : table) i = std::max<std::int64_t>(i, 0);
  Values starts(static_cast<std::size_t>(tiles.rank()), ops::scalar(c.b(), 0, DType::I32));
  starts[0] = device_entry(c, table);
  Dims sizes = tiles.shape();
  sizes[0] = 1;
  return ops::squeeze(ops::dynamic_slice(tiles, starts, sizes), {0});
}
// The same of a value that the body takes unreduced.
Value own_addend(OpCall& c, const Tiles& t, Value x) {
  Value tile = own_tile(c, t, x);
  return t.addend.empty() ? tile : first_addend(device_entry(c, t.addend), tile);
}

constexpr std::int64_t kMostTiles = std::int64_t{1} << 24;

// The whole value of the tiles that devices of one cell hold.
Value gathered_tiles(OpCall& c, const Tiles& t, Value x, const Dims& cells) {
  if (!t.sum.empty()) x = sum_among(c, x, t.sum);
  std::int64_t k = size_of(t.dims);
  std::map<std::int64_t, Dims> device_of;  // by cell, by tile: the first device
  for (std::size_t d = 0; d < cells.size(); ++d) {
    if (t.tile_of[d] < 0) continue;
    auto& list = device_of.try_emplace(cells[d], static_cast<std::size_t>(k), -1).first->second;
    auto& first = list[static_cast<std::size_t>(t.tile_of[d])];
    if (first < 0) first = static_cast<std::int64_t>(d);
  }
  for (const auto& [cell, list] : device_of) {
    if (std::find(list.begin(), list.end(), -1) != list.end()) c.fail("no device has one of the tiles of a result");
  }
  const ManualLevels& levels = *c.scope.levels();
  ops::AllGather everything;
  everything.names = levels.names;
  everything.sizes = levels.sizes;
  bool same = device_of.size() == 1;
  auto tables = same ? std::int64_t{1} : levels.members();
  if (tables * k > kMostTiles) {
    throw ResourceExhaustedError(str(c.importer.source().where(c.op.pos), ": ", k, " tiles of a result on ", tables,
                                     " devices apart; give the mesh the module's devices"));
  }
  std::vector<std::int32_t> numbers;  // by device, by tile
  for (std::size_t d = 0; d < static_cast<std::size_t>(tables); ++d) {
    auto it = device_of.find(cells[d]);
    if (it == device_of.end()) it = device_of.begin();
    numbers.insert(numbers.end(), it->second.begin(), it->second.end());
  }
  Value order = ops::constant(c.b(), HostArray::from(numbers, {tables, k}));
  Value mine = ops::axis_index(c.b(), everything);
  Value zero = ops::scalar(c.b(), 0, DType::I32);
  if (!same) order = ops::dynamic_slice(order, Values{mine, zero}, {1, k});
  Value rows = rows_at(ops::all_gather(ops::expand_dims(x, {0}), everything), ops::squeeze(order, {0}));
  return joined(t.dims, rows);
}

// The body for a device, on whole values and in a map over devices.
Items run_on_tiles(OpCall& c, const std::vector<Tiles>& in, const std::vector<Tiles>& out, const Dims& manual_id) {
  const auto& outer = *c.scope.levels();
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> numbers;
  ManualLevels inside = outer;
  for (std::size_t d = 0; d < manual_id.size(); ++d) {
    auto next = static_cast<std::int64_t>(numbers.size());
    inside.cells[d] = numbers.try_emplace({outer.cells[d], manual_id[d]}, next).first->second;
  }
  auto levels = c.importer.levels(str("cells ", join(inside.cells, ",")), [&] { return inside; });
  const AstRegion& body = c.region(0);
  RegionGraph r = c.importer.manual_region(c.scope, body, levels);
  Values args;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (c.in[i].kind != AstType::Kind::Tensor) continue;
    Value x = c.v(i);
    args.push_back(own_addend(c, in[args.size()], x));
    if (args.back().shape() != body.args[i].type.shape) {
      c.fail(str("operand ", i, " has shards of shape ", args.back().shape(), "; its argument is ",
                 to_string(body.args[i].type)));
    }
  }
  for (const auto& v : values_of(r.captured)) args.push_back(v);
  c.importer.count_equations(static_cast<std::int64_t>(r.graph->eqns.size()), c.op.pos);
  Values results = c.b().inline_graph(*r.graph, args);
  if (results.size() != out.size()) c.fail("gives another number of results");
  Items items = r.out_types;
  std::size_t next = 0;
  for (auto& i : items) {
    i.known = nullptr;
    i.id_size = 0;
    if (i.kind != AstType::Kind::Tensor) continue;
    i.value = gathered_tiles(c, out[next], results[next], outer.cells);
    if (!out[next].sum.empty()) i.value = round_to(i.value, i.elem);
    ++next;
  }
  return items;
}
}  // namespace

Items manual_among_devices(OpCall& c, const std::vector<Tiles>& in, const std::vector<Tiles>& out,
                           const Dims& manual_id) {
  if (c.scope.levels()) return run_on_tiles(c, in, out, manual_id);
  std::int64_t n = c.importer.devices();
  ir::Builder b;
  Scope scope(b, &c.scope);
  scope.set_levels(c.importer.levels("", [&] { return all_devices(n); }));
  Items args = c.in;
  Values whole;
  for (auto& a : args) {
    if (a.kind != AstType::Kind::Tensor) continue;
    whole.push_back(a.value);
    a.value = b.input(a.value.type());
    a.id_size = 0;
  }
  OpCall inside(c.importer, scope, c.op, args);
  Items items = run_on_tiles(inside, in, out, manual_id);
  for (const auto& v : values_of(scope.captured)) whole.push_back(v);
  Values results = map_over_devices(c.b(), b.finish_shared(values_of(items)), whole, n);
  std::size_t next = 0;
  for (auto& i : items) {
    if (i.kind == AstType::Kind::Tensor) i.value = results[next++];
  }
  return items;
}

namespace {
std::vector<std::string> texts_of(OpCall& c, const char* name, std::size_t count) {
  std::vector<std::string> out;
  for (const auto& i : c.need(name).items) out.push_back(i.text);
  if (out.size() != count) c.fail("needs one sharding for each operand and result");
  return out;
}

// As axes of the grid that all tiles of the text are made of; nothing where they are none.
std::optional<MapPlan> plan_on_grid(OpCall& c, const std::vector<std::string>& in, const std::vector<std::string>& out,
                                    const std::string& mark) {
  const ir::NamedMesh* mesh = c.importer.tile_mesh();
  const auto& outer = c.scope.levels();
  if (mesh == nullptr || (outer && outer->mesh.empty())) return std::nullopt;
  MapPlan plan;
  plan.mesh = mesh;
  plan.cut = *ir::cut_mesh(*mesh, {});
  auto marks = grid_tiles(mark, mesh->size());
  if (!marks) return std::nullopt;
  for (auto a : axes_of(marks->manual, mesh->sizes)) {
    const auto& name = mesh->axes[static_cast<std::size_t>(a)];
    if (!outer || std::find(outer->axes.begin(), outer->axes.end(), name) == outer->axes.end()) {
      plan.manual.push_back(a);
    }
  }
  std::sort(plan.manual.begin(), plan.manual.end());
  auto specs = [&](const std::vector<std::string>& texts, auto rank, std::vector<std::vector<Dims>>& to,
                   std::vector<Dims>& unreduced) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      auto tiles = grid_tiles(texts[i].empty() ? "{replicated}" : texts[i], mesh->size());
      if (!tiles) return false;
      tiles->dims.resize(std::max(tiles->dims.size(), rank(i)));
      if (tiles->dims.size() != rank(i)) return false;
      auto& spec = to.emplace_back();
      for (const auto& d : tiles->dims) {
        spec.push_back(axes_of(d, mesh->sizes));
        for (auto a : spec.back()) {
          if (std::find(plan.manual.begin(), plan.manual.end(), a) == plan.manual.end()) return false;
        }
      }
      Dims& sum = unreduced.emplace_back();
      for (auto a : axes_of(tiles->unreduced, mesh->sizes)) {
        if (std::find(plan.manual.begin(), plan.manual.end(), a) != plan.manual.end()) sum.push_back(a);
      }
    }
    return true;
  };
  bool fits = specs(
                  in, [&](std::size_t i) { return c.v(i).shape().size(); }, plan.in, plan.in_unreduced) &&
              specs(
                  out, [&](std::size_t i) { return c.out(i).shape.size(); }, plan.out, plan.out_unreduced);
  if (!fits) return std::nullopt;
  return plan;
}

// Addends are those of devices that run the body apart.
void check_addends(OpCall& c, const Tiles& t, const Dims& manual_id) {
  for (const auto& group : t.sum) {
    std::set<std::int64_t> ids;
    for (auto d : group) ids.insert(manual_id[static_cast<std::size_t>(d)]);
    if (ids.size() != group.size()) c.fail("a value unreduced among devices that the computation does not tell apart");
  }
}

Items manual_shards(OpCall& c) {
  auto in_texts = texts_of(c, "in_shardings", c.in.size());
  auto out_texts = texts_of(c, "out_shardings", c.op.result_types.size());
  if (c.region(0).args.size() != c.in.size()) c.fail("needs one argument for each operand");
  std::int64_t n = c.importer.devices();
  const auto& outer = c.scope.levels();
  const ir::NamedMesh* mesh = c.importer.tile_mesh();
  if (outer && !outer->mesh.empty() && (mesh == nullptr || outer->mesh != mesh->name)) {
    throw UnimplementedError("SPMDFullToShardShape inside sdy.manual_computation; lower the function with Shardy");
  }
  std::string manual = c.word("manual");
  if (manual.empty()) manual = "{manual}";
  HloSharding marks = parse_hlo_sharding(manual);
  bool says = std::find(marks.last.begin(), marks.last.end(), HloSharding::Last::Manual) != marks.last.end();
  if (marks.kind != HloSharding::Kind::Manual && !says) c.fail("the mark says nothing of manual devices");
  auto rank = static_cast<std::int64_t>(marks.tiled_rank());  // of the mark's text: only its last kinds matter here
  if (auto plan = plan_on_grid(c, in_texts, out_texts, manual)) return manual_map(c, std::move(*plan));
  if (outer && !outer->mesh.empty()) {
    throw UnimplementedError("tiles that differ between devices of the manual computation outside; use Shardy");
  }
  std::vector<Tiles> in, out;
  for (std::size_t i = 0; i < c.in.size(); ++i) in.push_back(tiles_of(c, in_texts[i], c.v(i).rank(), n));
  for (std::size_t i = 0; i < out_texts.size(); ++i) {
    out.push_back(tiles_of(c, out_texts[i], static_cast<std::int64_t>(c.out(i).shape.size()), n));
  }
  Dims manual_id = tiles_of(c, manual, rank, n).manual_id;
  for (const auto* list : {&in, &out}) {
    for (const auto& t : *list) check_addends(c, t, manual_id);
  }
  return manual_among_devices(c, in, out, manual_id);
}

bool is_collective(std::string_view name) {
  for (const char* known : {"stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.reduce_scatter",
                            "stablehlo.all_to_all", "stablehlo.collective_permute", "stablehlo.collective_broadcast"}) {
    if (name == known) return true;
  }
  return false;
}

// Whether one of the operations, or of those that they call, is a collective outside manual computations.
class Search {
 public:
  Search(const AstModule& ast, bool replicas) : replicas_(replicas) {
    for (const auto& f : ast.functions) functions_[f.name] = &f;
  }
  bool in(const std::string& function) {
    auto it = functions_.find(function);
    if (it == functions_.end() || !seen_.insert(function).second) return false;
    return in(it->second->body.ops);
  }

 private:
  bool in(const std::vector<AstOp>& ops) {
    for (const auto& op : ops) {
      if (is_collective(op.name) || custom_call_target(op) == "ragged_all_to_all") return true;
      if (replicas_ && op.name == "stablehlo.replica_id") return true;
      if (op.name == "sdy.manual_computation" || op.name == "stablehlo.custom_call") continue;
      for (const auto& r : op.regions) {
        if (in(r.ops)) return true;
      }
      const AstAttr* callee = op.find("callee");
      if (callee == nullptr && op.name == "func.call" && !op.words.empty()) callee = &op.words[0];
      if (callee != nullptr && in(callee->text)) return true;
    }
    return false;
  }
  std::map<std::string, const AstFunction*> functions_;
  std::set<std::string> seen_;
  bool replicas_;
};
}  // namespace

bool runs_on_each_device(const AstModule& ast, const std::string& function, bool replicas) {
  return Search(ast, replicas).in(function);
}

void add_full_to_shard_rules(RuleTable& t) { t[kManualShards] = manual_shards; }

}  // namespace tessera::hlo
