// SPDX-License-Identifier: Apache-2.0
// Short problems for the partitioner, and short texts of what it answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "spmd/spmd.h"

namespace tessera::test {

/// Layout from a text of one entry a dimension: "x, -, y.z"; "" for rank 0.
ir::Layout layout(const std::string& text, const ir::MeshAxes& mesh);

/// Mesh from "x:4, y:2".
ir::MeshAxes mesh_of(const std::string& text);

struct ModuleOptions {
  bool uneven = false;
  bool deterministic = false;
};
/// A placed module: `in` and `out` are layouts as above, "?" leaves one free. Constraints name the program's own mesh.
ir::Module module(ir::Builder& b, const ir::Values& outputs, const ir::MeshAxes& mesh,
                  const std::vector<std::string>& in, const std::vector<std::string>& out = {},
                  ModuleOptions options = {});
/// The constraint op on a mesh that is the program's; an entry "?" leaves its dimension open.
ir::Value constrain(ir::Value x, const std::string& text, const ir::MeshAxes& mesh);

ir::GraphPtr partitioned(const ir::Module& p);
/// What a device receives under the layouts that propagation chooses.
std::int64_t bytes(const ir::Module& m);
/// Like to_string, without attributes and types:
///   (a@[x, -], b@[-, y])
///   c@[x, y] = dot_general a b
///   d@[x, -] = all_gather(y) c
///   -> d
std::string sketch(const ir::Graph& g, int indent = 0);
/// Layouts of the outputs that propagation chooses, joined by ' '.
std::string output_layouts(const ir::Module& p);

}  // namespace tessera::test
