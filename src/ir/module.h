// SPDX-License-Identifier: Apache-2.0
// A program with its meshes and the shardings at its boundary: what tracing and the readers of StableHLO make, and what
// the writers, the partitioner and the engines take.
//
// Shardings name axes of the module's meshes, in Shardy's words. `place` finds the mesh whose axes all of them are
// products of, and gives every port its layout on it; partitioning needs no more than that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "tessera/axis_type.h"

namespace tessera::ir {

/// An axis of a mesh, or a part of one: `"x":(2)4` has size 4, and 2 shards of the axis are more major.
struct SubAxis {
  std::string name;
  std::int64_t pre_size = 1;
  std::int64_t size = 0;  ///< 0: the whole axis
  bool operator==(const SubAxis&) const = default;
};

struct NamedMesh {
  std::string name;               ///< in texts
  std::vector<std::string> axes;  ///< names
  Dims sizes;
  Dims device_ids;  ///< of positions; empty: 0, 1, 2, …
  enum class Origin : std::uint8_t {
    Named,     ///< a mesh that users named
    Numbered,  ///< a mesh of users whose axes have numbers for names
    Tiles      ///< the axes of a sharding that has none
  };
  Origin origin = Origin::Named;
  bool uneven = false;                    ///< shardings over it may split unevenly
  std::vector<AxisType> axis_types = {};  ///< of the public mesh; none: all `Auto`
  std::int64_t size() const { return size_of(sizes); }
  bool operator==(const NamedMesh&) const = default;
};

struct DimSharding {
  std::vector<SubAxis> axes;  ///< major first
  bool open = false;          ///< further axes may split it
  std::int64_t priority = 0;
  bool operator==(const DimSharding&) const = default;
};

/// How a value is split over the axes of a mesh.
struct AxisSharding {
  std::string mesh;                  ///< name
  std::optional<NamedMesh> inlined;  ///< in place of a name
  std::vector<DimSharding> dims;
  std::vector<SubAxis> replicated;  ///< axes that may not split it
  std::vector<SubAxis> unreduced;   ///< axes over which it is a sum of what devices hold
  bool operator==(const AxisSharding&) const = default;
};

/// An input or an output; its type is the graph's.
struct Port {
  std::string name;                      ///< of an argument, for messages
  std::optional<AxisSharding> sharding;  ///< as users or a text gave it
  std::string tiles;                     ///< an HLO sharding that no axes can express; else ""
  std::string element;                   ///< the text's element type where the graph's dtype is wider ("i4"); else ""
  bool donated = false;                  ///< an argument whose memory results may take
  std::string memory_kind;               ///< "pinned_host"; empty: the device's default
  std::string memory_layout;             ///< "{0,1}", as callers want to see it, minor to major; empty: row-major
  std::optional<Layout> layout;          ///< on `Module::mesh`; nullopt: for propagation to choose
};

struct Module {
  std::string name = "module";
  GraphPtr graph;
  std::vector<NamedMesh> meshes;
  std::vector<Port> inputs, outputs;
  /// Places of tokens among the arguments and results of a text, which order its effects and are no ports.
  std::vector<std::size_t> token_inputs, token_outputs;
  std::int64_t num_partitions = 1;
  std::int64_t num_replicas = 1;

  // Once placed.
  MeshAxesPtr mesh;                             ///< the coarsest whose axes make those of all meshes
  std::vector<std::optional<DimAxes>> axes_of;  ///< by mesh, then axis: axes of `mesh`, major first
  bool uneven = false;         ///< dimensions may be split that their axes do not divide (decision D12)
  bool deterministic = false;  ///< partial sums in a fixed order (decision D13)
  bool divides = true;         ///< equations may be written by the rules of `OpSpec::divide`; tests turn it off

  std::int64_t num_devices() const { return num_partitions * num_replicas; }
  const NamedMesh* find_mesh(const std::string& mesh_name) const;
  /// The axes of `mesh` that a placed mesh of these axes is made of, or null.
  const DimAxes* find_axes(const Dims& sizes, const std::vector<std::string>& names) const;
  /// The name of a mesh like this one, which is added where there is none. Its own name counts for nothing.
  std::string add_mesh(NamedMesh m);
  /// The module of another graph over the same mesh, with free ports.
  Module with_graph(GraphPtr other) const;
};

/// A module with free ports, for one device.
Module module_of(GraphPtr graph);
/// A module over one mesh whose axes are the program's own.
Module module_over(GraphPtr graph, const MeshAxes& mesh);

/// Whether partitioning gives the same for both: all that it reads agrees.
bool partitions_alike(const Module& a, const Module& b);

/// A mesh whose axes are cut so that every part of an axis that a sharding names is one of its own.
struct CutMesh {
  std::vector<std::string> names;  ///< "x", or "x:2" for the part of x below its first 2 shards
  Dims sizes;
  std::vector<std::string> axes;  ///< by part: the axis
  Dims pre;                       ///< by part: shards of the axis that are more major
};
/// Nothing where the parts of an axis do not nest. Throws `ValueError` for axes that the mesh lacks.
std::optional<CutMesh> cut_mesh(const NamedMesh& mesh, const std::vector<SubAxis>& named);

/// Finds `mesh` and `axes_of`: every mesh over `total` positions that nests with those before it takes part. Then gives
/// the ports that have a sharding over one of these meshes their layouts. Axis names of users' meshes become those of
/// `mesh`. Returns whether all meshes over `total` positions took part.
bool place(Module& m, std::int64_t total);

}  // namespace tessera::ir
