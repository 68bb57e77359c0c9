// SPDX-License-Identifier: Apache-2.0
// Copies a graph into a builder, equation by equation. Passes say what they write differently; which new value stands
// for which old one, source lines, types, and the layouts of partitioned graphs are minded here.
//
// A pass from graph to graph:
//   ir::Builder b;
//   ir::Rewriter r(b, graph);
//   r.add_inputs();
//   r.walk([&](const ir::Eqn& e, const ir::Values& in) {
//     return e.op == &def::neg ? ir::Values{…} : r.copy(e, in);
//   });
//   return r.finish("name of the pass");
//
// A graph in the middle of another: `bind` its inputs to values of the builder, `walk`, and read `outputs`. A pass that
// takes some equations only, or in another order, calls `copy(e)` for each instead of `walk`. A pass that recurses
// copies with the attributes that `with_bodies` gives it.
#pragma once

#include <functional>
#include <vector>

#include "ir/builder.h"

namespace tessera::ir {

class Rewriter {
 public:
  /// New values of the results of an equation with these new operands; one a result.
  using Rule = std::function<Values(const Eqn& e, const Values& in)>;

  /// Writes what stands for `from` into `to`. Both must outlive this.
  Rewriter(Builder& to, const Graph& from) : to_(to), from_(from), now_(from.num_values()), before_(to.loc()) {}
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  /// The inputs of the old graph become inputs of the builder, and its mesh that of the builder.
  void add_inputs();
  /// From here on `value` stands for the old value `v`; empty ones are allowed as long as no copy reads them.
  void bind(ValueId v, Value value) { now_[static_cast<std::size_t>(v)] = value; }
  /// One by one; throws `InternalError` where the counts differ.
  void bind(std::span<const ValueId> old, ValueSpan values);

  /// What stands for an old value; empty where nothing does.
  Value operator[](ValueId v) const { return now_[static_cast<std::size_t>(v)]; }
  Values of(std::span<const ValueId> old) const;
  Values outputs() const { return of(from_.outputs); }

  /// The equation with other operands, and other attributes that give results of the same types, on its own line. Binds
  /// nothing.
  Values copy(const Eqn& e, ValueSpan in, Attrs attrs);
  Values copy(const Eqn& e, ValueSpan in) { return copy(e, in, e.attrs); }
  /// The equation on what stands for its operands; binds its results.
  void copy(const Eqn& e);
  /// All equations in order: `rule` writes each, and its results stand for the old ones. While it runs, the builder's
  /// line is that of the equation, or the line that was set before where the equation has none.
  void walk(const Rule& rule);
  /// All equations as they are.
  void walk();

  /// The new graph without equations that nobody needs, verified where `after_pass` does; the builder is used up.
  GraphPtr finish(const char* pass);

 private:
  Loc line_of(const Eqn& e) const { return e.loc.file ? e.loc : before_; }

  Builder& to_;
  const Graph& from_;
  Values now_;  // by old value
  Loc before_;  // the builder's line when this was made
};

/// The equations marked in `keep` as a graph of their own, from values of `g` to values of `g`. What they read must be
/// among `inputs` or made by them.
GraphPtr part_of(const Graph& g, std::span<const ValueId> inputs, const std::vector<bool>& keep,
                 std::span<const ValueId> outputs);

/// Takes out the equations whose results nobody needs (effects stay) and numbers values in order of definition, so that
/// equal programs get equal graphs. In place: a graph that is so already costs a look.
void prune(Graph& g);

}  // namespace tessera::ir
