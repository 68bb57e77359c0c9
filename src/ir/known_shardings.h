// SPDX-License-Identifier: Apache-2.0
// Shardings derived before: layers of a model, and the passes over them, write the same equations again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/op_def.h"

namespace tessera::ir {

/// A table of a thread's last equations and the shardings of their results. Of those that fall into one row the two
/// last ones stay, so it stays small.
class KnownShardings {
 public:
  static KnownShardings& of_thread();

  /// Whether equations of this op are kept. Those that hold programs or functions of the user are not: they would live
  /// as long as the thread.
  static bool keeps(const OpDef& op, const Attrs& attrs);
  /// Sets the shardings of `out` as `derive` does, which is called where the equation is not known. What it throws is
  /// not kept.
  template <class F>
  void set(const PlaceArgs& args, const Attrs& attrs, Types& out, F derive) {
    Row& row = ask(args, attrs);
    if (answer(row, args, attrs, out)) return;
    const std::vector<std::int64_t> question = question_;  // deriving may ask, too
    derive();
    keep(row, question, args, attrs, out);
  }

 private:
  struct Entry {
    std::vector<std::int64_t> question;
    Attrs attrs;
    AbstractMesh mesh;
    std::vector<TypeShardingPtr> out;
  };
  struct Row {
    Entry last, before;
  };
  static constexpr std::size_t kRows = 512;

  Row& ask(const PlaceArgs& args, const Attrs& attrs);
  bool answer(const Row& row, const PlaceArgs& args, const Attrs& attrs, Types& out) const;
  static void keep(Row& row, const std::vector<std::int64_t>& question, const PlaceArgs& args, const Attrs& attrs,
                   const Types& out);

  std::vector<Row> rows_ = std::vector<Row>(kRows);
  std::vector<std::int64_t> question_;  // op, typing and types of the last one that was asked
};

}  // namespace tessera::ir
