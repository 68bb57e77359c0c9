// SPDX-License-Identifier: Apache-2.0
// Public functions written as graph fragments: one eager program, or equations of the current trace.
#pragma once

#include <functional>
#include <vector>

#include "program/trace.h"

namespace tessera::program {

using Fragment = std::function<ir::Values(ir::Builder&, const ir::Values&)>;

/// Runs `fragment` on the operands' values. At once it is traced and run as one program (kept for equal graphs).
std::vector<Array> graph_fragment(const char* name, const Loc& loc, const std::vector<Array>& in,
                                  const Fragment& fragment);
/// For fragments whose operands need no common dtype (`ir::Traits::own_dtypes`).
std::vector<Array> graph_fragment_as_given(const char* name, const Loc& loc, const std::vector<Array>& in,
                                           const Fragment& fragment);
/// Whether a place of this type takes a value of that one: of equal dtype, or weak and without changing the place's
/// dtype.
bool takes(const ir::Type& place, const ir::Type& value);
/// The graph with outputs of just these types; converts where `takes` holds.
ir::GraphPtr with_output_types(const ir::GraphPtr& graph, const ir::Types& want);
/// The value as one of this type: converted where dtype or mark differ.
ir::Value under_type(ir::Value v, const ir::Type& want);
/// What rules made of a value that has digits (`arrays::has_digits`) has them too, although rules may lose the weak
/// mark.
ir::Value marked(ir::Value v, const ir::Type& like);

/// For one result.
Array graph_fragment1(const char* name, const Loc& loc, const std::vector<Array>& in,
                      const std::function<ir::Value(ir::Builder&, const ir::Values&)>& fragment);

}  // namespace tessera::program
