// SPDX-License-Identifier: Apache-2.0
#include "program/typed/sharding_cures.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "ir/axis_sets.h"
#include "ir/derive_sharding.h"
#include "ops/shared_attrs.h"
#include "program/program.h"
#include "program/typed/typed_placement.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {

constexpr std::size_t kTried = 48;
constexpr std::size_t kShown = 4;

using ir::TypeShardingPtr;

// The bytes that the program of the cure moves. Throws what derivation and partitioning throw.
std::int64_t price(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs, const ShardingCure& cure) {
  ProgramOptions options;
  std::vector<Array> args;
  for (const auto& t : in) {
    args.push_back(without_data({t.shape, t.dtype}));
    options.in_shardings.push_back(t.sharding != nullptr ? NamedSharding(t.sharding->mesh, spec_of(*t.sharding)).share()
                                                         : nullptr);
  }
  options.name = std::string(op.name());
  Program program(cured(op, in, attrs, cure), std::move(options));
  return program.lower(args)->comm_plan().bytes_per_device();
}

// Whether the functions of the op take `out_sharding`.
bool takes_out_sharding(const ir::OpDef& op) {
  const ir::OpDef* list[] = {&ops::def::dot_general, &ops::def::reshape,         &ops::def::gather,
                             &ops::def::scatter,     &ops::def::scatter_add,     &ops::def::conv_general_dilated,
                             &ops::def::reduce_sum,  &ops::def::broadcast_in_dim};
  return std::ranges::find(list, &op) != std::end(list);
}

// Placements worth a try for one operand: those of the others, and its own without some of its entries.
std::vector<TypeShardingPtr> candidates(const ir::Types& in, std::size_t i) {
  const ir::TypeSharding own =
      ir::sharding_of(in[i], in[i].sharding != nullptr ? in[i].sharding->mesh : AbstractMesh());
  std::vector<TypeShardingPtr> out;
  auto add = [&](TypeShardingPtr s) {
    if (*s == own || std::ranges::find(out, s) != out.end()) return;
    for (std::size_t d = 0; d < s->dims.size(); ++d) {
      if (in[i].shape[d] % s->parts(d) != 0) return;
    }
    out.push_back(s);
  };
  for (const auto& t : in) {
    if (t.sharding != nullptr && t.rank() == in[i].rank()) add(t.sharding);
  }
  if (in[i].sharding == nullptr) return out;
  for (std::size_t d = 0; d < own.dims.size(); ++d) {
    if (own.dims[d].empty()) continue;
    ir::TypeSharding less = own;
    less.dims[d].clear();
    add(ir::intern(less));
    less.dims[d] = own.dims[d];
    less.dims[d].pop_back();
    add(ir::intern(std::move(less)));
  }
  ir::TypeSharding whole = own;
  for (auto& d : whole.dims) d.clear();
  add(ir::intern(whole));
  if (own.marked()) {
    ir::TypeSharding plain = own;
    plain.unreduced = plain.reduced = 0;
    add(ir::intern(plain));
  }
  return out;
}

std::vector<TypeShardingPtr> results(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs) {
  ir::Types out = op.infer(in, attrs);
  ir::derive_shardings(op, in, out, attrs, ir::Typing::Lenient);
  if (out[0].sharding == nullptr) return {};
  std::vector<TypeShardingPtr> list{out[0].sharding};
  auto add = [&](TypeShardingPtr s) {
    if (std::ranges::find(list, s) == list.end()) list.push_back(s);
  };
  add(ir::unsplit(out[0].sharding->mesh, out[0].rank()));
  if (&op != &ops::def::dot_general) return list;
  // A contraction over what both operands are split over may stay open.
  const auto& p = ir::get<ops::DotGeneral>(attrs);
  if (p.lhs_contracting.empty() || in[0].sharding == nullptr) return list;
  ir::TypeSharding sum = *out[0].sharding;
  for (auto d : p.lhs_contracting) {
    sum.unreduced |= ir::mask_of(in[0].sharding->dims[static_cast<std::size_t>(d)]);
  }
  if ((sum.split() & sum.unreduced) == 0) add(ir::intern(sum));
  return list;
}

}  // namespace

ir::GraphPtr cured(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs, const ShardingCure& cure) {
  ir::Builder b;
  ir::Values operands;
  for (const auto& t : in) operands.push_back(b.input(t));
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (cure.operands[i] != nullptr) operands[i] = ops::reshard_to(operands[i], cure.operands[i]);
  }
  const std::size_t own = b.graph().num_values();
  const ir::AxisMask open = cure.out != nullptr ? cure.out->unreduced : 0;
  b.set_typing(cure.out == nullptr ? ir::Typing::Strict : ir::Typing::Lenient);
  b.set_open_axes(open);
  ir::Values out = b.add(op, operands, attrs);
  if (cure.out != nullptr) {
    const auto* have = out[0].type().sharding;
    if (have == nullptr || have->unreduced != open) {
      throw ShardingTypeError(str(op.name(), ": the result is not left unreduced over the axes of ", cure.text));
    }
    out[0] = ops::placed_as(out[0], cure.out, own);
  }
  return b.finish_shared(out);
}

std::vector<ShardingCure> sharding_cures(const ir::OpDef& op, const ir::Types& in, const ir::Attrs& attrs) {
  std::vector<ShardingCure> tried;
  const std::vector<TypeShardingPtr> nothing(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (const auto* s : candidates(in, i)) {
      ShardingCure& c = tried.emplace_back(ShardingCure{nothing});
      c.operands[i] = s;
      c.text = str("reshard(operand ", i, ", ", spec_text(*s), ")");
    }
  }
  if (takes_out_sharding(op)) {
    for (const auto* s : results(op, in, attrs)) {
      tried.push_back({nothing, s, str("out_sharding = ", spec_text(*s)), 0});
    }
  }
  if (tried.size() > kTried) tried.resize(kTried);
  std::vector<ShardingCure> found;
  for (auto& c : tried) {
    try {
      c.bytes = price(op, in, attrs, c);
    } catch (const Error&) {
      continue;  // it does not cure
    }
    found.push_back(std::move(c));
  }
  std::ranges::stable_sort(found, {}, &ShardingCure::bytes);
  if (found.size() > kShown) found.resize(kShown);
  return found;
}

std::string to_string(const std::vector<ShardingCure>& cures) {
  std::string out = cures.empty() ? "" : "\nWhat would do, cheapest first:";
  for (const auto& c : cures) out += str("\n  ", c.text, ": moves ", c.bytes, " bytes a device");
  return out;
}

}  // namespace tessera::program
