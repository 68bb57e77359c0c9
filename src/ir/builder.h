// SPDX-License-Identifier: Apache-2.0
// Builds a graph equation by equation. Rules and transformations write graphs only through it.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace tessera::ir {

class Builder;

/// A value of the graph that `builder` is making; empty (false) stands for "no value", as a zero tangent does.
struct Value {
  Builder* builder = nullptr;
  ValueId id = -1;

  explicit operator bool() const { return builder != nullptr; }
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  std::int64_t rank() const { return type().rank(); }
  bool operator==(const Value&) const = default;
};
using Values = std::vector<Value>;
using ValueSpan = std::span<const Value>;

/// How a builder sees to shardings over explicit axes in types (ir/derive_sharding.h).
enum class Typing : std::uint8_t {
  Off,      ///< no value has one
  Lenient,  ///< derived; what does not fit is left unsplit (rules of transformations, results of `out_sharding`)
  Strict,   ///< derived; what does not fit is an error (what users write)
};

class Builder {
 public:
  Builder() = default;
  Builder(const Builder&) = delete;  // values point here
  Builder& operator=(const Builder&) = delete;

  /// From the first input whose type has a sharding on, the builder derives those of what it adds, leniently.
  Value input(Type type);
  /// Appends one equation. Checks and infers types by the op's rule; throws what that throws.
  Values add(const OpDef& op, ValueSpan in, Attrs attrs = nullptr);
  Values add(const OpDef& op, std::initializer_list<Value> in, Attrs attrs = nullptr) {
    return add(op, ValueSpan(in.begin(), in.size()), std::move(attrs));
  }
  /// For an op of one result.
  Value add1(const OpDef& op, std::initializer_list<Value> in, Attrs attrs = nullptr) {
    return add(op, ValueSpan(in.begin(), in.size()), std::move(attrs))[0];
  }
  Value add1(const OpDef& op, ValueSpan in, Attrs attrs = nullptr) { return add(op, in, std::move(attrs))[0]; }
  /// Appends an equation whose result types the caller knows (partitioning changes only layouts).
  Values add_typed(const OpDef& op, ValueSpan in, Attrs attrs, Types out);

  /// Copies the equations of `g` with its inputs bound to `args`; returns its outputs. Keeps source lines.
  Values inline_graph(const Graph& g, ValueSpan args);

  /// The reference stays good while the builder lives, whatever is added.
  const Type& type(ValueId v) const { return types_[static_cast<std::size_t>(v)]; }
  const Graph& graph() const { return graph_; }
  Value value(ValueId id) { return {this, id}; }

  Typing typing() const { return typing_; }
  void set_typing(Typing t) { typing_ = t; }
  /// Lenient typing: axes over which sums and contractions of operands that are split alike stay unreduced.
  AxisMask open_axes() const { return open_; }
  void set_open_axes(AxisMask axes) { open_ = axes; }
  /// Gives a value made here another sharding in its type, for what is not read yet.
  void set_sharding(Value v, const TypeSharding* sharding);

  /// Line that following equations get.
  void set_loc(const Loc& loc) { loc_ = loc; }
  const Loc& loc() const { return loc_; }

  /// Partitioned graphs: layout of a value made here (grows the list as values are made).
  void set_mesh(MeshAxesPtr mesh) { graph_.mesh = std::move(mesh); }
  void set_layout(Value v, Layout l);
  const Layout& layout(Value v) const { return graph_.layouts[static_cast<std::size_t>(v.id)]; }

  /// The finished graph with these outputs; the builder must not be used afterwards.
  Graph finish(ValueSpan outputs);
  /// Same, without equations that nobody needs.
  GraphPtr finish_shared(ValueSpan outputs);

 private:
  ValueId fresh(Type type);

  Graph graph_;
  std::deque<Type> types_;  // those of graph_, where they do not move
  Loc loc_;
  Typing typing_ = Typing::Off;
  AxisMask open_ = 0;
};

inline const Type& Value::type() const { return builder->type(id); }

}  // namespace tessera::ir
