// SPDX-License-Identifier: Apache-2.0
#include "ir/derive_sharding.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "ir/axis_sets.h"
#include "ir/known_shardings.h"
#include "tessera/error.h"

namespace tessera::ir {

std::string types_text(TypeSpan types) {
  std::string out;
  for (const auto& t : types) out += str(out.empty() ? "" : ", ", to_string(t));
  return out;
}

void refuse_sharding(const PlaceArgs& args, const std::string& what, const std::string& cure) {
  throw ShardingRefusal(str(args.op.name(), ": ", what, "; operands ", types_text(args.in), ". ", cure), args.op,
                        args.in);
}

TypeSharding sharding_of(const Type& t, const AbstractMesh& mesh) {
  if (t.sharding != nullptr) return *t.sharding;
  return {mesh, DimAxes(t.shape.size()), 0, 0};
}

namespace {

std::size_t slot(std::int64_t i) { return static_cast<std::size_t>(i); }

// Numbers of the program take part in any operation and decide nothing.
bool is_scalar(const Type& t) { return t.shape.empty(); }

std::string specs_text(TypeSpan in, const AbstractMesh& mesh) {
  std::string out;
  for (const auto& t : in) {
    if (!is_scalar(t)) out += str(out.empty() ? "" : " and ", spec_text(sharding_of(t, mesh)));
  }
  return out;
}

// --- meshes ---------------------------------------------------------------------------------------------------------

// The mesh over which an equation's types are placed; null where none is typed.
const AbstractMesh* mesh_of(const OpDef& op, TypeSpan in, Typing typing) {
  const AbstractMesh* mesh = nullptr;
  for (const auto& t : in) {
    if (t.sharding == nullptr) continue;
    if (mesh == nullptr) {
      mesh = &t.sharding->mesh;
    } else if (mesh != &t.sharding->mesh && !(*mesh == t.sharding->mesh)) {
      throw ValueError(str(op.name(), ": operands over the meshes ", *mesh, " and ", t.sharding->mesh, ": ",
                           types_text(in), "; expected one mesh"));
    }
  }
  if (mesh != nullptr && typing != Typing::Strict) return mesh;
  const AbstractMesh& current = get_abstract_mesh();
  if (mesh == nullptr) {
    const auto& types = current.axis_types();
    bool some = std::ranges::any_of(types, [](AxisType t) { return t == AxisType::Explicit; });
    return some ? &current : nullptr;
  }
  if (!current.empty() && !(current == *mesh)) {
    throw ValueError(str(op.name(), ": the operands ", types_text(in), " are typed over the mesh ", *mesh,
                         " but the current mesh is ", current, "; expected one mesh, with equal types of axes"));
  }
  return mesh;
}

// --- sums -----------------------------------------------------------------------------------------------------------

bool takes_part(const OpDef& op, std::size_t operand) {
  const int n = op.traits().linear_operands;
  return n < 0 || static_cast<int>(operand) < n;
}

// The axes over which the result is an open sum. The op is linear in the operands that are.
AxisMask unreduced_result(const PlaceArgs& args) {
  const auto& traits = args.op.traits();
  auto over = [&](const Type& t) { return t.sharding != nullptr ? t.sharding->unreduced : 0; };
  AxisMask sums = 0;
  for (const auto& t : args.in) sums |= over(t);
  if (sums == 0) return 0;
  const bool linear = traits.linearity != Linearity::None;
  if (!args.strict() && linear) return sums;
  if (traits.linearity == Linearity::Multi && !traits.elementwise) {
    refuse_sharding(args, "an operand is unreduced, a sum not yet done, which a product of sums cannot take",
                    "Reshard it to a spec without unreduced axes");
  }
  auto cannot = [&] {
    throw UnimplementedError(str(args.op.name(), ": operands ", types_text(args.in),
                                 " are unreduced, sums not yet done, which the op cannot pass through; reshard them to "
                                 "a spec without unreduced axes first"));
  };
  if (!linear || (traits.linearity == Linearity::Multi && !traits.takes_sums)) cannot();
  if (traits.linearity == Linearity::Multi) {
    bool before = false;
    for (const auto& t : args.in) {
      if (over(t) != 0 && before) {
        refuse_sharding(args, "two unreduced operands of an op that is bilinear in them",
                        "Expected one; reshard the other to a spec without unreduced axes");
      }
      before = before || over(t) != 0;
    }
    for (const auto& t : args.in) {
      const AxisMask reduced = t.sharding != nullptr ? t.sharding->reduced : 0;
      if (over(t) != 0 || reduced == sums) continue;
      refuse_sharding(args,
                      str("one operand is unreduced over ", axes_text(axes_of(sums), args.mesh),
                          " and the other is not reduced over the same axes (the op is bilinear)"),
                      str("Reshard the other operand to reduced=", axes_text(axes_of(sums), args.mesh),
                          ", or the sum to a spec without unreduced axes"));
    }
    return sums;
  }
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    // A number beside arrays is what fills them up.
    const bool filler = !traits.elementwise && is_scalar(args.in[i]);
    if (!takes_part(args.op, i) || over(args.in[i]) == sums || filler) continue;
    if (!traits.takes_sums || !args.mesh.auto_axes().empty()) cannot();
    refuse_sharding(args,
                    over(args.in[i]) == 0 ? "one operand is unreduced and another is not"
                                          : "the operands are unreduced over different axes",
                    "Reshard them to one spec: reshard(x, P(...)) completes the sum");
  }
  return sums;
}

// The axes over which the result's gradient stays open.
AxisMask reduced_result(const PlaceArgs& args) {
  AxisMask marks = 0;
  for (const auto& t : args.in) {
    if (t.sharding != nullptr) marks |= t.sharding->reduced;
  }
  if (marks == 0) return 0;
  const auto& traits = args.op.traits();
  if (traits.linearity == Linearity::Multi && !traits.elementwise) return 0;  // products take and drop it
  if (!args.strict() || !traits.elementwise) return marks;
  for (const auto& t : args.in) {
    if (is_scalar(t) || (t.sharding != nullptr && t.sharding->reduced == marks)) continue;
    if (t.sharding != nullptr && t.sharding->unreduced != 0) continue;
    const bool split = t.sharding != nullptr && (t.sharding->split() & marks) != 0;
    refuse_sharding(args,
                    str("an operand is reduced over ", axes_text(axes_of(marks), args.mesh), " and another is ",
                        split ? "split over it" : "replicated over it"),
                    str("Reshard the other operand, so that all are reduced over the same axes"));
  }
  return marks;
}

// --- entries --------------------------------------------------------------------------------------------------------

// The entries of factors, from those of the operands' dimensions.
class Entries {
 public:
  Entries(const PlaceArgs& args, const FactorRule& rule) : args_(args), rule_(rule), entry_(rule.factors.size()) {}

  void read() {
    for (std::size_t i = 0; i < args_.in.size(); ++i) {
      const Type& t = args_.in[i];
      if (t.sharding == nullptr) continue;
      const auto& tensor = rule_.operands[i];
      for (std::size_t d = 0; d < tensor.size(); ++d) {
        const AxisList& axes = t.sharding->dims[d];
        if (!axes.empty()) read_dim(i, d, tensor[d], axes);
      }
    }
  }

  const AxisList& of(int factor) const { return entry_[slot(factor)]; }
  AxisMask open() const { return open_; }

 private:
  void read_dim(std::size_t i, std::size_t d, const std::vector<int>& factors, const AxisList& axes) {
    if (factors.empty()) return whole(i, d, axes);
    // A dimension of several factors is split along the first.
    const Factor& f = rule_.factors[slot(factors[0])];
    if (f.kind == Factor::Kind::Whole) return whole(i, d, axes);
    if (factors.size() > 1 && f.size % parts_of(axes) != 0) return whole(i, d, axes);
    AxisList& known = entry_[slot(factors[0])];
    const bool again = !known.empty();
    if (again && known != axes) return conflict(f, known, axes);
    known = axes;
    if (f.kind == Factor::Kind::Reduce && again) alike(axes);
  }

  std::int64_t parts_of(const AxisList& axes) const {
    std::int64_t n = 1;
    for (auto a : axes) n *= args_.mesh.axis_sizes()[a];
    return n;
  }

  void whole(std::size_t i, std::size_t d, const AxisList& axes) const {
    if (!args_.strict() || args_.op.traits().whole_entry != WholeEntry::Refused) return;
    std::string what = str("dimension ", d, " of operand ", i, " is sharded over ", axes_text(axes, args_.mesh));
    if (const char* activity = args_.op.traits().activity)
      what = str(activity, " needs an unsharded dimension: ", what);
    refuse_sharding(args_, what,
                    "Expected it unsharded (replicated there): reshard the operand first, or call inside auto_axes");
  }

  void conflict(const Factor& f, const AxisList& known, const AxisList& axes) const {
    if (!args_.strict()) return;
    const bool sum = f.kind == Factor::Kind::Reduce;
    const bool batch = args_.op.traits().linearity == Linearity::Multi && !args_.op.traits().elementwise;
    refuse_sharding(args_,
                    str(sum     ? "contracting dimensions are sharded differently, over "
                        : batch ? "batch dimensions are sharded differently, over "
                                : "broadcasting: one dimension is sharded differently, over ",
                        axes_text(known, args_.mesh), " and over ", axes_text(axes, args_.mesh), " (",
                        specs_text(args_.in, args_.mesh), ")"),
                    sum ? "Reshard an operand so that the contracting dimensions agree, or give out_sharding="
                        : "Reshard an operand so that the dimensions agree");
  }

  // Two operands split alike along a dimension that is summed.
  void alike(const AxisList& axes) {
    if (!args_.strict()) {
      const AxisMask own = mask_of(axes);
      if ((own & ~args_.open) == 0) open_ |= own;
      return;
    }
    refuse_sharding(args_,
                    str("contracting dimensions are both sharded over ", axes_text(axes, args_.mesh),
                        ", so the result's placement is ambiguous"),
                    "Give out_sharding=: a spec, or one that is unreduced over these axes");
  }

  const PlaceArgs& args_;
  const FactorRule& rule_;
  DimAxes entry_;
  AxisMask open_ = 0;
};

// A sum of one operand over a split dimension may stay open, too, also over some of its axes.
AxisMask open_sums(const PlaceArgs& args, const FactorRule& rule, const Entries& entries) {
  AxisMask open = entries.open();
  if (args.open == 0 || args.op.traits().linearity == Linearity::Multi) return open;
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].kind != Factor::Kind::Reduce || rule.factors[f].reduction != Reduction::Sum) continue;
    open |= mask_of(entries.of(static_cast<int>(f))) & args.open;
  }
  return open;
}

// --- what needs no factors ------------------------------------------------------------------------------------------

// Whether no operand is split, unreduced or reduced.
bool all_whole(const PlaceArgs& args) {
  return std::ranges::all_of(
      args.in, [&](const Type& t) { return t.sharding == nullptr || t.sharding == unsplit(args.mesh, t.rank()); });
}

// Of an element-wise op whose operands carry no marks: the one sharding of all that are split; null where there are
// several.
TypeShardingPtr only_sharding(const PlaceArgs& args, std::int64_t rank) {
  const TypeShardingPtr whole = unsplit(args.mesh, rank);
  TypeShardingPtr one = whole;
  for (const auto& t : args.in) {
    if (t.sharding == nullptr || t.sharding == one) continue;
    if (t.sharding->marked()) return nullptr;
    if (t.sharding == whole || is_scalar(t)) continue;
    if (one != whole) return nullptr;
    one = t.sharding;
  }
  return one;
}

// The shardings of most results: those of the operands, or none. False where factors decide.
bool derive_plainly(const PlaceArgs& args, Types& out) {
  if (args.op.traits().elementwise && !args.op.traits().alike) {
    const TypeShardingPtr one = only_sharding(args, out[0].rank());
    for (auto& t : out) t.sharding = one;
    return one != nullptr;
  }
  if (!all_whole(args)) return false;
  for (auto& t : out) t.sharding = unsplit(args.mesh, t.rank());
  return true;
}

void check_alike(const PlaceArgs& args) {
  const Type* first = nullptr;
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    const Type& t = args.in[i];
    if (is_scalar(t)) continue;
    if (first == nullptr) {
      first = &t;
      continue;
    }
    if (t.rank() != first->rank()) continue;
    if (t.sharding == first->sharding || sharding_of(t, args.mesh) == sharding_of(*first, args.mesh)) continue;
    refuse_sharding(args, str("operands must have the same shardings, got ", specs_text(args.in, args.mesh)),
                    "Reshard them to one spec");
  }
}

}  // namespace

AxisList kept_entry(const PlaceArgs& args, const AxisList& axes, std::int64_t before, std::int64_t now) {
  if (axes.empty() || before == now) return axes;
  std::int64_t parts = 1;
  for (auto a : axes) parts *= args.mesh.axis_sizes()[a];
  if (now % parts == 0) return axes;
  if (!args.strict()) return {};
  const char* activity = args.op.traits().activity;
  refuse_sharding(args,
                  str(activity != nullptr ? activity : "it",
                      " changes the extent of a sharded dimension: one of extent ", before, " sharded over ",
                      axes_text(axes, args.mesh), " gets the extent ", now, ", which is not divisible by ", parts),
                  "Reshard the operand so that the dimension is unsharded");
}

void set_sharding(const PlaceArgs& args, Type& out, TypeSharding s) {
  AxisMask used = 0;
  bool twice = false;
  for (auto& axes : s.dims) {
    if ((used & mask_of(axes)) != 0) {
      twice = true;
      if (!args.strict()) axes.clear();
    }
    used |= mask_of(axes);
  }
  // An axis over which blocks differ can neither be summed over nor hold equal blocks.
  s.unreduced &= ~used;
  s.reduced &= ~(used | s.unreduced);
  if (!twice || !args.strict()) {
    out.sharding = intern(std::move(s));
    return;
  }
  Type illegal = out;
  TypeSharding shown = s;
  illegal.sharding = &shown;
  refuse_sharding(args,
                  str("the result would be illegally sharded, ", to_string(illegal), ": one axis in two dimensions"),
                  "Reshard an operand, or give out_sharding= where the function takes it");
}

void derive_by_factors(const PlaceArgs& args, Types& out, const Attrs& attrs) {
  if (derive_plainly(args, out)) return;
  const TypeSpan in = args.in;
  const auto& traits = args.op.traits();
  if (traits.alike && args.strict()) check_alike(args);
  for (auto& t : out) t.sharding = nullptr;
  const AxisMask unreduced = unreduced_result(args);
  const FactorRule rule = args.op.factors(in, out, attrs);
  Entries entries(args, rule);
  entries.read();
  const AxisMask reduced = reduced_result(args);
  const bool moved = traits.whole_entry == WholeEntry::Kept;
  for (std::size_t k = 0; k < out.size(); ++k) {
    TypeSharding s{args.mesh, DimAxes(out[k].shape.size()), unreduced | open_sums(args, rule, entries), reduced};
    const bool like_first = moved && !in.empty() && in[0].sharding != nullptr && in[0].rank() == out[k].rank();
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      const auto& factors = rule.results[k][d];
      if (!factors.empty()) s.dims[d] = entries.of(factors[0]);
      if (!like_first || !s.dims[d].empty()) continue;
      s.dims[d] = kept_entry(args, in[0].sharding->dims[d], in[0].shape[d], out[k].shape[d]);
    }
    set_sharding(args, out[k], std::move(s));
  }
}

void keep_inferred(const PlaceArgs& args, Types& out) {
  for (auto& t : out) {
    if (t.sharding == nullptr || t.sharding->dims.size() != t.shape.size()) t.sharding = unsplit(args.mesh, t.rank());
  }
}

namespace {
void derive_or_recall(const PlaceArgs& args, Types& out, const Attrs& attrs) {
  auto derive = [&] {
    if (!args.op.place(args, out, attrs)) derive_by_factors(args, out, attrs);
  };
  if (args.in.empty() || args.op.traits().elementwise || !KnownShardings::keeps(args.op, attrs)) return derive();
  KnownShardings::of_thread().set(args, attrs, out, derive);
}
}  // namespace

void derive_shardings(const OpDef& op, TypeSpan in, Types& out, const Attrs& attrs, Typing typing, AxisMask open) {
  if (op.traits().casts_mesh) return;
  const AbstractMesh* mesh = mesh_of(op, in, typing);
  if (mesh == nullptr) return;
  const PlaceArgs args{op, in, *mesh, typing, open};
  // Most equations: element-wise, operands of one sharding.
  if (op.traits().elementwise && !in.empty() && in[0].sharding != nullptr && !in[0].sharding->marked()) {
    const auto* one = in[0].sharding;
    if (std::ranges::all_of(in, [&](const Type& t) { return t.sharding == one; }) &&
        std::ranges::all_of(out, [&](const Type& t) { return t.shape.size() == one->dims.size(); })) {
      for (auto& t : out) t.sharding = one;
      return;
    }
  }
  try {
    derive_or_recall(args, out, attrs);
  } catch (ShardingRefusal& refusal) {
    refusal.attrs = attrs;
    throw;
  }
}

}  // namespace tessera::ir
