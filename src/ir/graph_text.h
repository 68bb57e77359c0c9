// SPDX-License-Identifier: Apache-2.0
// The text of graphs, written and read:
//
//   main(a:f32[8,4]@[x, -], b:f32[4,6]@[-, -]) mesh(x=2) {
//     c:f32[8,6]@[x, -] = dot_general[…] a b
//     return c }
//
// Values are named a, b, …, z, aa, … in order of definition; "~" marks weak types. The mesh and the layouts are those
// of partitioned graphs. Source lines have no text, nor have functions of this process (callbacks, rules of custom
// derivatives): a graph that holds one is printed, but cannot be read.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/text_reader.h"

namespace tessera::ir {

std::string graph_text(const Graph& g, const std::string& name, int indent, TextForm form);
/// `to_string`, with all elements of all constants: text that `parse_graph` reads.
std::string full_text(const Graph& g, const std::string& name = "main");

/// The graph of a text; its values are numbered in order of definition. Throws `ValueError` naming the line where the
/// text is none of a graph, where it elides a constant, and where an equation breaks the op's rules.
Graph parse_graph(std::string_view text, OpLookup find);

// --- parts -------------------------------------------------------------------------------------------------------
/// "f32[8,4]~".
Type read_type(TextReader& r);
/// A graph without a name, as fields hold them.
Graph read_graph(TextReader& r);

class ValueNames {
 public:
  const std::string& operator()(ValueId v);

 private:
  std::map<ValueId, std::string> names_;
};
std::string eqn_text(const Graph& g, const Eqn& e, ValueNames& name, TextForm form);

}  // namespace tessera::ir
