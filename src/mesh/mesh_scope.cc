// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/strings.h"
#include "base/thread_own.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera {

namespace {

// The levels above the shared start value.
struct LevelsTag;
std::vector<ResourceEnv>& levels() { return base::thread_own<std::vector<ResourceEnv>, LevelsTag>(); }

const ResourceEnv& start_env() {
  static const auto* env = new ResourceEnv;
  return *env;
}

}  // namespace

const ResourceEnv& current_env() { return levels().empty() ? start_env() : levels().back(); }
const Mesh& current_mesh() { return current_env().physical_mesh; }
std::size_t mesh_scope_depth() { return levels().size() + 1; }

std::vector<Mesh> mesh_scope_stack() {
  std::vector<Mesh> out;
  for (const auto& env : levels()) {
    if (!env.physical_mesh.empty()) out.push_back(env.physical_mesh);
  }
  return out;
}

MeshScope::MeshScope(const Mesh& m, const Loc&) : mesh_(m) {
  if (config().disallow_mesh_scope) {
    throw StateError(str("MeshScope: mesh scopes are disabled (config().disallow_mesh_scope); got mesh = ", m));
  }
  levels().push_back(current_env().with_mesh(m));
  depth_ = levels().size();
}

MeshScope::MeshScope(const AnyMesh& m, const Loc&)
    : MeshScope(m.is_concrete() ? m.concrete()
                                : throw StateError(str("MeshScope: ", m,
                                                       " is abstract; abstract meshes cannot be entered "
                                                       "or left, a concrete Mesh is needed"))) {}

MeshScope::~MeshScope() {
  if (levels().size() != depth_) {
    std::fputs("tessera: MeshScope ended out of order, or on another thread than it began\n", stderr);
    std::terminate();
  }
  levels().pop_back();
}

ResourceEnv ResourceEnv::with_mesh(const Mesh& m) const {
  std::vector<std::string> clashes;
  for (const auto& n : m.axis_names()) {
    if (std::ranges::find(other_axes, n) != other_axes.end()) clashes.push_back(n);
  }
  if (!clashes.empty()) {
    throw ValueError(str("with_mesh: mesh = ", m, " shadows the axes ", show_axes(clashes),
                         " of the environment; expected other names"));
  }
  return {m, other_axes};
}

std::vector<std::string> ResourceEnv::physical_resource_axes() const {
  auto names = physical_mesh.axis_names();
  std::vector<std::string> out(names.begin(), names.end());
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> ResourceEnv::resource_axes() const {
  auto out = physical_resource_axes();
  out.insert(out.end(), other_axes.begin(), other_axes.end());
  std::ranges::sort(out);
  return out;
}

std::string to_string(const ResourceEnv& env) { return str("ResourceEnv(mesh=", env.physical_mesh, ")"); }

std::string show_axes(std::vector<std::string> axes) {
  std::ranges::sort(axes);
  std::string out;
  for (const auto& a : axes) out += str(out.empty() ? "`" : ", `", a, "`");
  return out;
}

}  // namespace tessera
