// SPDX-License-Identifier: Apache-2.0
// Manual computations of the older form (hlo/shard_marks.h), whose shardings are tiles over devices, and programs whose
// collectives stand outside any manual computation. Both are batched over devices as rules_manual.cc does it.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/strings.h"
#include "hlo/import.h"
#include "hlo/member_collective.h"
#include "hlo/shard_marks.h"
#include "ops/graph_rules.h"
#include "tessera/error.h"
#include "tessera/sharding.h"

namespace tessera::hlo {

namespace {
// A sharding's text over n devices.
struct Tiles {
  Dims dims;       // of the value
  Dims tile_of;    // by device, row-major
  Dims manual_id;  // by device: equal for those that manual code does not tell apart
};

Tiles one_tile(std::int64_t rank, std::int64_t n) {
  return {Dims(static_cast<std::size_t>(rank), 1), Dims(static_cast<std::size_t>(n), 0),
          Dims(static_cast<std::size_t>(n), 0)};
}

// "{devices=[…]… last_tile_dims={manual, replicated}}" without the last words, which go to `kinds`.
std::string without_kinds(std::string text, std::vector<std::string>& kinds) {
  auto at = text.find(" last_tile_dims={");
  if (at != std::string::npos) {
    std::string word;
    for (char ch : text.substr(at + 17)) {
      if (ch >= 'a' && ch <= 'z') {
        word += ch;
      } else if (!word.empty()) {
        kinds.push_back(std::exchange(word, {}));
      }
      if (ch == '}') break;
    }
    text = text.substr(0, at) + "}";
  }
  return text;
}

Tiles tiles_of(OpCall& c, const std::string& text, std::int64_t rank, std::int64_t n) {
  Tiles out = one_tile(rank, n);
  if (text.empty()) return out;
  std::vector<std::string> kinds;
  TileAssignment t = TileAssignment::parse(without_kinds(text, kinds));
  if (t.kind() == TileAssignment::Kind::Manual) std::iota(out.manual_id.begin(), out.manual_id.end(), 0);
  if (!t.is_tiled()) return out;
  if (t.replicate_last()) kinds = {"replicated"};
  // A bare number has no dimensions; its tiles are all of the last kinds.
  if (kinds.size() > t.dims().size()) c.fail(str("sharding ", text, " names more last dimensions than it has"));
  auto tiled = static_cast<std::int64_t>(t.dims().size() - kinds.size());
  if (t.num_devices() != n || tiled != rank) {
    c.fail(str("sharding ", text, " for a value of ", rank, " dimensions on ", n, " devices"));
  }
  out.dims.assign(t.dims().begin(), t.dims().begin() + rank);
  std::vector<std::int64_t> devices = t.to_list();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t id = 0, scale = 1;
    for (std::size_t k = kinds.size(); k-- > 0;) {
      std::int64_t extent = t.dims()[static_cast<std::size_t>(rank) + k];
      if (kinds[k] == "manual") {
        id += scale * (rest % extent);
        scale *= extent;
      }
      rest /= extent;
    }
    auto d = static_cast<std::size_t>(devices[i]);
    out.tile_of[d] = rest;
    out.manual_id[d] = id;
  }
  return out;
}

// The members inside: every member outside becomes as many as manual code tells apart.
struct Inside {
  std::shared_ptr<const ManualLevels> levels;
  std::int64_t each = 1;  // new members of one outside
};
Inside inside_of(OpCall& c, const Dims& manual_id) {
  auto n = static_cast<std::int64_t>(manual_id.size());
  const auto& outer = c.scope.levels();
  if (outer && !outer->mesh.empty()) {
    throw UnimplementedError("SPMDFullToShardShape inside sdy.manual_computation; lower the function with Shardy");
  }
  Dims outside = outer ? outer->member_of : Dims(static_cast<std::size_t>(n), 0);
  std::int64_t outer_members = outer ? static_cast<std::int64_t>(outer->devices.size()) : 1;
  if (static_cast<std::int64_t>(outside.size()) != n) c.fail("names another number of devices than its surroundings");
  std::vector<std::vector<std::int64_t>> firsts(static_cast<std::size_t>(outer_members));  // by member: first devices
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> rank_of;
  for (std::int64_t d = 0; d < n; ++d) {
    std::int64_t m = outside[static_cast<std::size_t>(d)];
    if (m < 0) c.fail("names a device that its surroundings do not");
    auto& list = firsts[static_cast<std::size_t>(m)];
    auto [it, fresh] = rank_of.try_emplace({m, manual_id[static_cast<std::size_t>(d)]}, list.size());
    if (fresh) list.push_back(d);
  }
  Inside out;
  out.each = static_cast<std::int64_t>(firsts[0].size());
  auto levels = std::make_shared<ManualLevels>();
  levels->count = (outer ? outer->count : 0) + 1;
  for (const auto& list : firsts) {
    if (static_cast<std::int64_t>(list.size()) != out.each) c.fail("tells different numbers of devices apart");
    levels->devices.insert(levels->devices.end(), list.begin(), list.end());
  }
  for (std::int64_t d = 0; d < n; ++d) {
    std::int64_t m = outside[static_cast<std::size_t>(d)];
    levels->member_of.push_back(m * out.each + rank_of.at({m, manual_id[static_cast<std::size_t>(d)]}));
  }
  out.levels = levels;
  return out;
}

// By new member: its tile, which must not depend on the member outside.
Dims tile_by_member(const Tiles& t, const Inside& in) {
  Dims out(static_cast<std::size_t>(in.each));
  const Dims& devices = in.levels->devices;
  for (std::size_t m = 0; m < devices.size(); ++m) {
    std::size_t j = m % static_cast<std::size_t>(in.each);
    std::int64_t tile = t.tile_of[static_cast<std::size_t>(devices[m])];
    if (m < static_cast<std::size_t>(in.each)) out[j] = tile;
    if (out[j] != tile) {
      throw UnimplementedError("tiles that differ between devices of the manual computation outside; use Shardy");
    }
  }
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

// One member for each tile.
Dims member_by_tile(OpCall& c, const Dims& tile_of_member, std::int64_t tiles) {
  Dims out(static_cast<std::size_t>(tiles), -1);
  for (std::size_t m = 0; m < tile_of_member.size(); ++m) {
    auto& at = out[static_cast<std::size_t>(tile_of_member[m])];
    if (at < 0) at = static_cast<std::int64_t>(m);
  }
  if (std::find(out.begin(), out.end(), -1) != out.end()) c.fail("no device has one of the tiles of a result");
  return out;
}

std::vector<std::string> texts_of(OpCall& c, const char* name, std::size_t count) {
  std::vector<std::string> out;
  for (const auto& i : c.need(name).items) out.push_back(i.text);
  if (out.size() != count) c.fail("needs one sharding for each operand and result");
  return out;
}

Items manual_shards(OpCall& c) {
  auto in_texts = texts_of(c, "in_shardings", c.in.size());
  auto out_texts = texts_of(c, "out_shardings", c.op.result_types.size());
  const AstRegion& body = c.region(0);
  if (body.args.size() != c.in.size()) c.fail("needs one argument for each operand");
  std::int64_t n = c.importer.devices();
  // Only the last kinds matter here, so the rank is that of the text.
  std::string manual = c.word("manual");
  std::vector<std::string> kinds;
  TileAssignment marks = TileAssignment::parse(without_kinds(manual.empty() ? "{manual}" : manual, kinds));
  if (marks.is_tiled() && kinds.empty() && !marks.replicate_last()) c.fail("the mark says nothing of manual devices");
  auto rank = static_cast<std::int64_t>(marks.dims().size() - std::min(kinds.size(), marks.dims().size()));
  Inside inside = inside_of(c, tiles_of(c, manual.empty() ? "{manual}" : manual, rank, n).manual_id);
  RegionGraph r = c.importer.manual_region(c.scope, body, inside.levels);

  Values in;
  ops::Flags batched;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    Tiles t = tiles_of(c, in_texts[i], c.v(i).rank(), n);
    Value tiles = cut(c, t.dims, c.v(i));
    in.push_back(ops::rows_at(tiles, tile_by_member(t, inside)));
    Shape local(in.back().shape().begin() + 1, in.back().shape().end());
    if (local != body.args[i].type.shape) {
      c.fail(str("operand ", i, " has pieces of shape ", local, "; the text says ", to_string(body.args[i].type)));
    }
    batched.push_back(true);
  }
  in.push_back(member_numbers(c, inside.each));
  batched.push_back(true);
  for (const auto& v : values_of(r.captured)) {
    in.push_back(v);
    batched.push_back(false);
  }
  c.importer.count_equations(static_cast<std::int64_t>(r.graph->eqns.size()), c.op.pos);
  ir::Batched out = ops::batch_inline(c.b(), *r.graph, in, batched, inside.each);
  if (out.out.size() != out_texts.size()) c.fail("gives another number of results");
  Items items = r.out_types;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value v = out.batched[i] ? out.out[i] : ops::repeat_in_front(out.out[i], inside.each);
    Tiles t = tiles_of(c, out_texts[i], v.rank() - 1, n);
    std::int64_t tiles = size_of(t.dims);
    items[i].known = nullptr;
    items[i].value = joined(t.dims, ops::rows_at(v, member_by_tile(c, tile_by_member(t, inside), tiles)));
  }
  return items;
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
  explicit Search(const AstModule& ast) {
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
      if (is_collective(op.name)) return true;
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
};
}  // namespace

bool has_bare_collectives(const AstModule& ast, const std::string& function) { return Search(ast).in(function); }

std::shared_ptr<const ManualLevels> all_devices(std::int64_t n) {
  auto levels = std::make_shared<ManualLevels>();
  levels->count = 1;
  levels->devices.resize(static_cast<std::size_t>(n));
  std::iota(levels->devices.begin(), levels->devices.end(), 0);
  levels->member_of = levels->devices;
  return levels;
}

ir::GraphPtr of_first_device(const ir::Graph& g, std::int64_t n) {
  ir::Builder b;
  Values in;
  for (std::size_t i = 0; i + 1 < g.inputs.size(); ++i) in.push_back(b.input(g.type(g.inputs[i])));
  ops::Flags batched(in.size(), false);
  in.push_back(ops::iota(b, DType::I32, {n}, 0));
  batched.push_back(true);
  ir::Batched out = ops::batch_inline(b, g, in, batched, n);
  for (std::size_t i = 0; i < out.out.size(); ++i) {
    if (out.batched[i]) out.out[i] = ops::squeeze(ops::slice_in_dim(out.out[i], 0, 1, 0), {0});
  }
  return b.finish_shared(out.out);
}

void add_full_to_shard_rules(RuleTable& t) { t[kManualShards] = manual_shards; }

}  // namespace tessera::hlo
