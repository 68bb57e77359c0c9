// SPDX-License-Identifier: Apache-2.0
// What every op must answer. An op is one `Op<P>` object built from an `OpSpec<P>`; a rule that is left out is a
// compile error, because `Must` has no default constructor, and a deliberate "no" is `Never{"reason"}`.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/factors.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/type.h"
#include "ir/type_sharding.h"

namespace tessera::ir {

class OpDef;

/// In how far an op is linear; tells what may pass partial sums through.
enum class Linearity : std::uint8_t {
  None,
  Joint,  ///< linear in all its (inexact or integer) data operands together: add, reduce_sum, reshape, concatenate
  Multi,  ///< linear in each data operand alone: mul, dot_general
};

/// What becomes of an entry, in a type's sharding, of a dimension that the factors leave whole.
enum class WholeEntry : std::uint8_t {
  Refused,  ///< the operand must be resharded first: sorts, running reductions, decompositions
  Kept,     ///< it stays on the same dimension of the result, where it divides the extent: slices, padding, windows,
            ///< reversals, transforms, concatenations
  Dropped,  ///< the result is unsplit there: arg-reductions
};

/// What an op's arithmetic is measured by, where machines are measured; of element-wise ops, an element of the result.
enum class Work : std::uint8_t {
  Plain,     ///< what the other traits say: an element-wise operation, a product, a reduction, or nothing
  Root,      ///< divisions and square roots: slower than sums and products, and instructions like these
  Exp,       ///< exponentials
  Tanh,      ///< hyperbolic tangents and logistic functions: an exponential and a division
  Function,  ///< logarithms and sines: some ten to thirty instructions
  Special,   ///< powers, inverses of trigonometric functions, error functions: as much as several of these
  Sort,      ///< elements of an operand times the binary logarithm of the line's extent
  TopK,      ///< elements of the operand
  Fft,       ///< as `Sort`, of the larger of operand and result
  Gather,    ///< elements that are picked: of the result
  Scatter,   ///< elements that are written by index: of the last operand
  Scan,      ///< elements that each need the one before
  Conv,      ///< operations of products, which convolutions do at a rate of their own
};

/// Element-wise ops: result element i depends on operand elements i (or on rank-0 operands) alone.
struct Traits {
  bool elementwise = false;
  Linearity linearity = Linearity::None;
  bool effect = false;       ///< never removed, merged or reordered with other effects
  bool collective = false;   ///< communicates along mesh axes
  int linear_operands = -1;  ///< how many leading operands the linearity covers; -1 means all
  bool own_dtypes = false;   ///< operands need no common dtype, and each result has a dtype of its own
  int arity = -1;            ///< operands of an element-wise op without attributes, for readers of `stablehlo`
  /// The StableHLO or CHLO operation that computes the same from the same operands, "stablehlo.add"; comparisons name
  /// their direction, "stablehlo.compare LT". The writer uses it unless it has a rule of its own for the op, the reader
  /// likewise. Null: there is none.
  const char* stablehlo = nullptr;
  bool composite = false;  ///< neither has it: written as a composite "tessera.<name>" of attributes, and read as one
  bool cheap = false;      ///< takes less time to compute again than to store and load
  bool view = false;       ///< each result element is an operand's (or an index), found without arithmetic on values
  bool exact = false;  ///< picks, compares, moves, or computes what IEEE arithmetic fixes: one right answer to the bit
  Work work = Work::Plain;
  bool by_parts = false;  ///< of complex values: sums and products of their parts, no slower than those of reals
  /// What a reduction over dimensions, windows or mesh axes combines elements by.
  std::optional<Reduction> reduction = std::nullopt;
  // In types over explicit axes (ir/derive_sharding.h).
  WholeEntry whole_entry = WholeEntry::Refused;
  bool alike = false;              ///< operands of full rank must have one sharding
  bool takes_sums = false;         ///< some operands may be unreduced beside others that are not, as the op's rule says
  bool casts_mesh = false;         ///< its rule for types gives results the sharding, over another mesh
  const char* activity = nullptr;  ///< what errors call it where that is not the op's name: "sorting"
};

/// Contiguous row-major memory of one operand or result of a kernel.
struct View {
  DType dtype = DType::F32;
  Shape shape;
  void* data = nullptr;
  std::int64_t size() const;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};
using ViewSpan = std::span<const View>;

/// What an op's `remap` learns about the shard that it will compute.
struct RemapArgs {
  TypeSpan global_in, global_out;
  TypeSpan local_in, local_out;
  /// First global element of each shard, per operand (result) and dimension.
  std::span<const Dims> in_offsets, out_offsets;
};

/// Operands of a batched call: dimension 0 of every batched operand is the batch.
struct BatchArgs {
  ValueSpan in;
  const std::vector<bool>& batched;  ///< at least one is set
  std::int64_t size;
};
/// Results of a batching rule; those marked have the batch as dimension 0.
struct Batched {
  Values out;
  std::vector<bool> batched;
};

struct JvpArgs {
  ValueSpan in;        ///< primal operands
  ValueSpan tangents;  ///< empty Value = zero; at least one is set
  ValueSpan out;       ///< primal results, already computed
};

/// Results together with their tangents (empty = zero).
struct Duals {
  Values out;
  Values tangents;
};
struct DualArgs {
  ValueSpan in;        ///< primal operands
  ValueSpan tangents;  ///< empty Value = zero; at least one is set
  bool split;          ///< the results must not be computed from tangents: they are wanted before those are known
};

struct TransposeArgs {
  ValueSpan in;                     ///< operands that are not linear here; empty where linear
  TypeSpan types;                   ///< types of all operands
  const std::vector<bool>& linear;  ///< operands whose cotangent is wanted
  ValueSpan ct;                     ///< cotangents of the results; empty Value = zero
};

/// An equation whose operands or results are split along dimensions that its factors do not let be split.
struct DivideArgs {
  ValueSpan in;
  TypeSpan out;
  std::span<const Layout> operands, results;  ///< as propagation chose them
  const MeshAxes& mesh;
  bool deterministic;  ///< sums and products of floats keep their order
  /// Operand 0 before a reshape that made it one dimension; empty where there was none.
  Value unflattened = {};
  const Layout* unflattened_layout = nullptr;
  /// For `OpSpec::divide_with_maker`: the equation that makes operand 0 of its own only operand, which `in` and
  /// `operands` have in its place.
  const Eqn* maker = nullptr;

  /// Into how many parts dimension d of operand i is split.
  std::int64_t parts_of(std::size_t i, std::int64_t d) const {
    return parts(operands[i].dims[static_cast<std::size_t>(d)], mesh);
  }
};
/// What is written in place of the equation, and layouts of values in it that their neighbours would not get them.
struct Division {
  Values out;
  std::vector<std::pair<Value, Layout>> layouts = {};
};

/// An equation whose results' types get their shardings over explicit axes.
struct PlaceArgs {
  const OpDef& op;
  TypeSpan in;
  const AbstractMesh& mesh;
  Typing typing;
  AxisMask open = 0;  ///< axes over which a sum of what is split alike stays unreduced (lenient typing)
  bool strict() const { return typing == Typing::Strict; }
};

/// An instance of an op for the property tests.
template <class P>
struct Sample {
  Types in;
  P attrs{};
};
struct AnySample {
  Types in;
  Attrs attrs;
};

struct Never {
  const char* why;
};
struct Linear {};   ///< jvp: apply the op to the tangents (zeros where a tangent is missing)
struct Default {};  ///< batch: from factors and a loop-free rewrite (element-wise ops only); remap: attributes stay
inline constexpr Linear linear{};
inline constexpr Default by_default{};

template <class Fn>
struct Must {
  Must(Never n) : why(n.why) {}        // NOLINT(google-explicit-constructor)
  Must(Linear) : is_linear(true) {}    // NOLINT(google-explicit-constructor)
  Must(Default) : is_default(true) {}  // NOLINT(google-explicit-constructor)
  Must(Fn* f) : call(f) {}             // NOLINT(google-explicit-constructor): picks one of several functions of a name
  template <std::convertible_to<std::function<Fn>> F>
  Must(F f) : call(std::move(f)) {}  // NOLINT(google-explicit-constructor)
  std::function<Fn> call;
  const char* why = nullptr;
  bool is_linear = false;
  bool is_default = false;
};

template <class P>
struct OpSpec {
  const char* name;
  Traits traits = {};
  Must<Types(TypeSpan in, const P&)> infer;
  Must<FactorRule(TypeSpan in, TypeSpan out, const P&)> factors;
  Must<P(const RemapArgs&, const P&)> remap;
  Must<Batched(Builder&, const BatchArgs&, const P&)> batch;
  Must<Values(Builder&, const JvpArgs&, const P&)> jvp;
  Must<Values(Builder&, const TransposeArgs&, const P&)> transpose;
  /// Ops that hold graphs only: results and tangents together, in place of computing the results and then `jvp`.
  std::function<Duals(Builder&, const DualArgs&, const P&)> dual = nullptr;
  /// Ways to write the op as equations that move less where a dimension that `factors` leaves whole is split: a running
  /// sum as running sums of shards and what stands before each. The partitioner takes the one that moves the fewest
  /// bytes, if they are fewer than without; nothing where a way does not apply.
  std::vector<std::function<std::optional<Division>(Builder&, const DivideArgs&, const P&)>> divide = {};
  /// A way to write the op together with the one that makes its operand 0, where all that read that value have such a
  /// way: some elements of a sorted array as a search for them.
  std::function<std::optional<Division>(Builder&, const DivideArgs&, const P&)> divide_with_maker = nullptr;
  /// Sets the shardings of the results' types where they do not follow from the factors alone, or the results come from
  /// graphs that have typed them.
  std::function<void(const PlaceArgs&, Types& out, const P&)> place = nullptr;
  Must<void(ViewSpan in, ViewSpan out, const P&)> reference;
  Must<std::vector<Sample<P>>()> samples;
};

class OpDef {
 public:
  OpDef(const char* name, Traits traits) : name_(name), traits_(traits) {}
  virtual ~OpDef() = default;
  OpDef(const OpDef&) = delete;
  OpDef& operator=(const OpDef&) = delete;

  std::string_view name() const { return name_; }
  const Traits& traits() const { return traits_; }

  virtual Types infer(TypeSpan in, const Attrs& a) const = 0;
  virtual FactorRule factors(TypeSpan in, TypeSpan out, const Attrs& a) const = 0;
  /// True when `remap` may change attributes; otherwise shards use the global ones.
  virtual bool remaps() const = 0;
  virtual Attrs remap(const RemapArgs& r, const Attrs& a) const = 0;
  virtual Batched batch(Builder& b, const BatchArgs& args, const Attrs& a) const = 0;
  virtual Values jvp(Builder& b, const JvpArgs& args, const Attrs& a) const = 0;
  virtual Values transpose(Builder& b, const TransposeArgs& args, const Attrs& a) const = 0;
  virtual bool has_dual() const = 0;
  virtual Duals dual(Builder& b, const DualArgs& args, const Attrs& a) const = 0;
  /// How many rules `divide` has.
  virtual std::size_t divisions() const = 0;
  virtual std::optional<Division> divide(std::size_t way, Builder& b, const DivideArgs& args, const Attrs& a) const = 0;
  virtual bool divides_with_maker() const = 0;
  virtual std::optional<Division> divide_with_maker(Builder& b, const DivideArgs& args, const Attrs& a) const = 0;
  /// False where the op has no rule `place` of its own.
  virtual bool place(const PlaceArgs& args, Types& out, const Attrs& a) const = 0;
  virtual bool has_reference() const = 0;
  virtual void reference(ViewSpan in, ViewSpan out, const Attrs& a) const = 0;
  virtual std::vector<AnySample> samples() const = 0;
  /// Attributes, in brackets, as graphs print them.
  virtual Attrs read(TextReader& r, MissingFields missing = MissingFields::Refused) const = 0;
  /// Sub-graphs among the attributes (control flow, calls), in the order of their fields.
  virtual std::vector<GraphPtr> subgraphs(const Attrs& a) const = 0;
  /// Reason given for not having the rule, or null: "infer", "jvp", "transpose", "batch", "reference", "factors".
  virtual const char* never(std::string_view rule) const = 0;

 private:
  const char* name_;
  Traits traits_;
};

namespace detail {
template <class T>
void collect(const T&, std::vector<GraphPtr>&) {}
inline void collect(const GraphPtr& g, std::vector<GraphPtr>& out) {
  if (g) out.push_back(g);
}
inline void collect(const std::vector<GraphPtr>& g, std::vector<GraphPtr>& out) {
  out.insert(out.end(), g.begin(), g.end());
}
[[noreturn]] void no_rule(const OpDef& op, const char* rule, const char* why);
Values linear_jvp(Builder& b, const OpDef& op, const JvpArgs& args, const Attrs& a);
Batched elementwise_batch(Builder& b, const OpDef& op, const BatchArgs& args, const Attrs& a);
}  // namespace detail

template <class P>
class Op final : public OpDef {
 public:
  explicit Op(OpSpec<P> spec) : OpDef(spec.name, spec.traits), spec_(std::move(spec)) {}

  Types infer(TypeSpan in, const Attrs& a) const override { return spec_.infer.call(in, get<P>(a)); }
  FactorRule factors(TypeSpan in, TypeSpan out, const Attrs& a) const override {
    if (spec_.factors.is_default) return FactorRule::pointwise(in, out);
    return spec_.factors.call ? spec_.factors.call(in, out, get<P>(a)) : FactorRule::whole(in, out);
  }
  bool remaps() const override { return static_cast<bool>(spec_.remap.call); }
  Attrs remap(const RemapArgs& r, const Attrs& a) const override {
    return spec_.remap.call ? make_attrs(spec_.remap.call(r, get<P>(a))) : a;
  }
  Batched batch(Builder& b, const BatchArgs& args, const Attrs& a) const override {
    if (spec_.batch.is_default) return detail::elementwise_batch(b, *this, args, a);
    if (!spec_.batch.call) detail::no_rule(*this, "batch", spec_.batch.why);
    return spec_.batch.call(b, args, get<P>(a));
  }
  Values jvp(Builder& b, const JvpArgs& args, const Attrs& a) const override {
    if (spec_.jvp.is_linear) return detail::linear_jvp(b, *this, args, a);
    if (!spec_.jvp.call) detail::no_rule(*this, "jvp", spec_.jvp.why);
    return spec_.jvp.call(b, args, get<P>(a));
  }
  Values transpose(Builder& b, const TransposeArgs& args, const Attrs& a) const override {
    if (!spec_.transpose.call) detail::no_rule(*this, "transpose", spec_.transpose.why);
    return spec_.transpose.call(b, args, get<P>(a));
  }
  bool has_dual() const override { return static_cast<bool>(spec_.dual); }
  Duals dual(Builder& b, const DualArgs& args, const Attrs& a) const override {
    if (!spec_.dual) detail::no_rule(*this, "dual", "the op holds no graph");
    return spec_.dual(b, args, get<P>(a));
  }
  std::size_t divisions() const override { return spec_.divide.size(); }
  std::optional<Division> divide(std::size_t way, Builder& b, const DivideArgs& args, const Attrs& a) const override {
    return spec_.divide[way](b, args, get<P>(a));
  }
  bool divides_with_maker() const override { return static_cast<bool>(spec_.divide_with_maker); }
  std::optional<Division> divide_with_maker(Builder& b, const DivideArgs& args, const Attrs& a) const override {
    return spec_.divide_with_maker(b, args, get<P>(a));
  }
  bool place(const PlaceArgs& args, Types& out, const Attrs& a) const override {
    if (spec_.place) spec_.place(args, out, get<P>(a));
    return static_cast<bool>(spec_.place);
  }
  bool has_reference() const override { return static_cast<bool>(spec_.reference.call); }
  void reference(ViewSpan in, ViewSpan out, const Attrs& a) const override {
    if (!spec_.reference.call) detail::no_rule(*this, "reference", spec_.reference.why);
    spec_.reference.call(in, out, get<P>(a));
  }
  std::vector<AnySample> samples() const override {
    std::vector<AnySample> out;
    if (!spec_.samples.call) return out;
    for (auto& s : spec_.samples.call()) out.push_back({s.in, make_attrs(s.attrs)});
    return out;
  }
  Attrs read(TextReader& r, MissingFields missing) const override { return read_attrs<P>(r, missing); }
  std::vector<GraphPtr> subgraphs(const Attrs& a) const override {
    std::vector<GraphPtr> out;
    std::apply([&](auto... f) { (detail::collect(get<P>(a).*(f.member), out), ...); }, P::fields);
    return out;
  }
  const char* never(std::string_view rule) const override {
    if (rule == "batch") return spec_.batch.why;
    if (rule == "jvp") return spec_.jvp.why;
    if (rule == "transpose") return spec_.transpose.why;
    if (rule == "reference") return spec_.reference.why;
    if (rule == "factors") return spec_.factors.why;
    return nullptr;
  }

 private:
  OpSpec<P> spec_;
};

}  // namespace tessera::ir
