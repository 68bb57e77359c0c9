// SPDX-License-Identifier: Apache-2.0
// Slow, clear evaluation of graphs by the ops' references: what engines are checked against.
#pragma once

#include <span>
#include <vector>

#include "ir/op_def.h"
#include "tessera/host_array.h"

namespace tessera::ops {

/// Outputs of `g` for these inputs. Throws `ValueError` when an input does not have its type, and what references
/// throw.
std::vector<HostArray> interpret(const ir::Graph& g, std::span<const HostArray> in);
/// Results of one op.
std::vector<HostArray> interpret(const ir::OpDef& op, std::span<const HostArray> in, const ir::Attrs& attrs);
/// The same, between the views that a reference gets.
void interpret(const ir::Graph& g, ir::ViewSpan in, ir::ViewSpan out);

ir::View view_of(HostArray& a);
HostArray copy_of(const ir::View& v);

}  // namespace tessera::ops
