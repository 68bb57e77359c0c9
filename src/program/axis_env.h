// SPDX-License-Identifier: Apache-2.0
// What axis names mean on this thread: the bindings of the enclosing maps, innermost last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/collective/collectives.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera::program {

struct AxisBinding {
  std::string name;      ///< as the user wrote it
  std::string internal;  ///< as graphs write it: vmapped names are marked
  std::int64_t size = 1;
  bool mesh = true;      ///< of a mesh map; else of a vmap
  bool checked = false;  ///< the map checks varying types
  bool reduced = false;  ///< some operand of the map is reduced over the axis
  bool operator==(const AxisBinding&) const = default;
};
/// The mesh of the innermost mesh map, and which of its axes bodies may not map again.
struct ManualMesh {
  AbstractMesh mesh;
  std::vector<std::string> manual;
  Dims devices;
};

/// All bindings, innermost last.
const std::vector<AxisBinding>& axis_env();
/// Null where no mesh map encloses.
const ManualMesh* manual_mesh();
/// True inside a map that checks varying types.
bool checks_varying();

/// Binds the manual axes of a mesh map while it lives.
class MeshAxesScope {
 public:
  MeshAxesScope(ManualMesh mesh, const std::vector<AxisBinding>& bindings);
  ~MeshAxesScope();
  MeshAxesScope(const MeshAxesScope&) = delete;
  MeshAxesScope& operator=(const MeshAxesScope&) = delete;

 private:
  std::size_t depth_;
  const ManualMesh* before_;
  ManualMesh mesh_;
};
/// For manual regions without a map: lets collectives name the axes of a mesh until the trace with this id ends. Throws
/// `ValueError` naming `function` where an enclosing map binds one of them.
void bind_region_axes(std::uint64_t trace, const Mesh& mesh, const char* function);
/// What that trace bound; called when it ends.
void unbind_region_axes(std::uint64_t trace);
/// Binds the one name of a vmap while it lives; an empty name binds nothing.
class VmapAxisScope {
 public:
  VmapAxisScope(const std::string& name, std::int64_t size);
  ~VmapAxisScope();
  VmapAxisScope(const VmapAxisScope&) = delete;
  VmapAxisScope& operator=(const VmapAxisScope&) = delete;
  /// The name as the traced graph has it, for ops::BatchName; empty when nothing was bound.
  const std::string& internal() const { return internal_; }

 private:
  std::size_t depth_;
  std::string internal_;
};

/// Groups that do not fit their axis: an error that no shape has a part in.
class AxisGroupsError final : public ValueError {
 public:
  using ValueError::ValueError;
};

/// The binding of a name. Throws `UnboundAxisError` naming `function`.
const AxisBinding& find_axis(const std::string& name, const char* function);
/// Text of all bindings, as part of the key of traced functions.
std::string axis_env_key();

}  // namespace tessera::program
