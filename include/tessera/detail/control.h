// SPDX-License-Identifier: Apache-2.0
// What the templates of tessera/control.h call.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/function.h"
#include "tessera/operand.h"
#include "tessera/tree.h"

namespace tessera::detail {

/// Whether `pred` (a scalar of any dtype) is not zero. Throws `ValueError` unless it has rank 0.
Array branch_predicate(const Operand& pred);
/// An integer scalar as an int32 index of `count` branches; the nearest one where it is outside. Throws `TypeError` for
/// other dtypes, `ValueError` unless it has rank 0.
Array branch_index(const Operand& index, std::size_t count);
std::vector<Array> cond_leaves(const Array& which, const std::vector<LeafFn>& branches,
                               const std::vector<Array>& operands, const Loc& loc);
std::vector<Array> while_leaves(const LeafFn& cond, const LeafFn& body, const std::vector<Array>& init, const Loc& loc);
/// `body`: (carry, slice of each x) -> (carry, y). Returns the final carry, then the stacked ys.
std::vector<Array> scan_leaves(const LeafFn& body, const std::vector<Array>& init, const std::vector<Array>& xs,
                               std::int64_t length, bool reverse, const Loc& loc);
std::vector<Array> associative_scan_leaves(const LeafFn& combine, const std::vector<Array>& elems, std::int64_t axis,
                                           bool reverse, const Loc& loc);

std::vector<Array> checkpoint_leaves(const LeafFn& f, const std::vector<Array>& args, const Loc& loc);

/// Throws `TypeError` where a function gives a tree of another structure (sizes, keys, static members) than `expected`.
void check_structure(const char* function, const char* what, const TreeDef& given, const TreeDef& expected);

/// Of several functions whose results have one structure: `first` is the tree that one of them gave.
template <class R, class Flat>
LeafFn checked_branch(const Flat& flat, std::shared_ptr<R>* first, const char* function) {
  return [flat, first, function](const std::vector<Array>& in) {
    std::vector<Array> out = flat(in);
    if (*first) {
      check_structure(function, "a branch", tree_structure(flat.like()), tree_structure(**first));
    } else {
      *first = flat.like_ptr();
    }
    return out;
  };
}
/// A function from a carry to such a carry again.
template <class T, class Flat>
LeafFn checked_step(const Flat& flat, const T& init, const char* function) {
  return [flat, &init, function](const std::vector<Array>& in) {
    std::vector<Array> out = flat(in);
    check_structure(function, "the carry that the body returns", tree_structure(flat.like()), tree_structure(init));
    return out;
  };
}

template <class F, class C, class X>
inline constexpr bool is_scan_step = false;
template <class F, class C, class X>
requires takes<F, C, X>
inline constexpr bool is_scan_step<F, C, X> = requires(std::decay_t<std::invoke_result_t<const F&, C, X>> r) {
  r.second;
  requires std::is_same_v<decltype(r.first), C>;
};

}  // namespace tessera::detail
