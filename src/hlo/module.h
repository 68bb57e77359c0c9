// SPDX-License-Identifier: Apache-2.0
// A StableHLO module as a graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hlo/text/ast.h"
#include "ir/graph.h"

namespace tessera::hlo {

struct ImportOptions {
  std::string name = "module";  ///< of the file, for messages
  std::int64_t max_memory = 0;  ///< bytes that one value may need; 0: no bound
  std::int64_t max_equations = 1 << 20;
};

/// An axis of a mesh, or a part of one: `"x":(2)4` has size 4, and 2 shards of the axis are more major.
struct SdyAxis {
  std::string name;
  std::int64_t pre_size = 1;
  std::int64_t size = 0;  ///< 0: the whole axis
  bool operator==(const SdyAxis&) const = default;
};
struct SdyMesh {
  std::string name;
  std::vector<std::string> axes;
  Dims sizes;
  Dims device_ids;  ///< empty: 0, 1, 2, …
  std::int64_t size() const;
};
struct SdyDim {
  std::vector<SdyAxis> axes;
  bool open = false;
  std::int64_t priority = 0;
};
struct SdySharding {
  std::string mesh;                ///< name
  std::optional<SdyMesh> inlined;  ///< in place of a name
  std::vector<SdyDim> dims;
  std::vector<SdyAxis> replicated;
  std::vector<SdyAxis> unreduced;
};

/// An argument or a result of @main.
struct Port {
  Elem elem = Elem::F32;  ///< as the text says it; the graph's dtype is `storage(elem)`
  Shape shape;
  std::optional<SdySharding> sdy;
  std::string mhlo;    ///< an `mhlo.sharding` string, or ""
  bool token = false;  ///< not an input of the graph
};

struct ImportedModule {
  std::string name;
  ir::GraphPtr graph;
  std::vector<Port> inputs;  ///< of @main, tokens included
  std::vector<Port> outputs;
  std::vector<SdyMesh> meshes;
  std::int64_t num_partitions = 1;
  std::int64_t num_replicas = 1;
};

/// Throws `FormatError` with line and column for texts that are no module or break a rule of the specification,
/// `UnimplementedError` for what Tessera cannot run, `ResourceExhaustedError` for what goes beyond the bounds.
ImportedModule import_module(const std::string& text, const ImportOptions& options = {});

}  // namespace tessera::hlo
