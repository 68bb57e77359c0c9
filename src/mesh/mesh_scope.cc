// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <exception>
#include <mutex>

#include "base/strings.h"
#include "base/thread_own.h"
#include "mesh/mesh_state.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera {

namespace {

// The levels above the shared start value.
struct Level {
  ResourceEnv env;
  AbstractMesh axes;
  bool sets_axes = false;
};
struct LevelsTag;
std::vector<Level>& levels() { return base::thread_own<std::vector<Level>, LevelsTag>(); }

// What `set_mesh` set, the last one in force. Those before it stay, to the end of the process: other threads may
// refer to them.
class StartLevels {
 public:
  const Level& last() const { return *last_.load(); }
  void set(Level level) {
    const std::lock_guard lock(mutex_);
    last_ = &all_.emplace_back(std::move(level));
  }

 private:
  std::mutex mutex_;
  std::deque<Level> all_{1};
  std::atomic<const Level*> last_{&all_.front()};
};
StartLevels& start_levels() {
  static auto* const levels = new StartLevels;
  return *levels;
}
const Level& current_level() { return levels().empty() ? start_levels().last() : levels().back(); }

void check_not_traced(const char* function, const Mesh& m) {
  if (mesh::tracing_depth() == 0) return;
  throw ValueError(str(function, ": mesh = ", m,
                       " inside a traced function; call set_mesh outside, and use_abstract_mesh, auto_axes or "
                       "explicit_axes for other types of axes inside"));
}

// Ends a scope of this thread.
void leave(std::size_t depth, const char* scope) {
  if (levels().size() != depth) {
    std::fprintf(stderr, "tessera: %s ended out of order, or on another thread than it began\n", scope);
    std::terminate();
  }
  levels().pop_back();
}

}  // namespace

int& mesh::tracing_depth() {
  static thread_local int depth = 0;
  return depth;
}

bool mesh::axes_are_set() { return current_level().sets_axes; }

const ResourceEnv& current_env() { return current_level().env; }
const AbstractMesh& get_abstract_mesh() { return current_level().axes; }
const Mesh& get_mesh() { return current_mesh(); }
const Mesh& current_mesh() { return current_env().physical_mesh; }
std::size_t mesh_scope_depth() { return levels().size() + 1; }

std::vector<Mesh> mesh_scope_stack() {
  std::vector<Mesh> out;
  if (levels().empty() && !current_mesh().empty()) out.push_back(current_mesh());
  for (const auto& level : levels()) {
    if (!level.env.physical_mesh.empty()) out.push_back(level.env.physical_mesh);
  }
  return out;
}

MeshScope::MeshScope(const Mesh& m, const Loc&) : mesh_(m) {
  if (config().disallow_mesh_scope) {
    throw StateError(str("MeshScope: mesh scopes are disabled (config().disallow_mesh_scope); got mesh = ", m));
  }
  levels().push_back({current_env().with_mesh(m), m.abstract_mesh()});
  depth_ = levels().size();
}

SetMesh::SetMesh(const Mesh& m, const Loc&) : scope_((check_not_traced("set_mesh", m), m)) {
  levels().back().sets_axes = true;
}
void set_mesh(const Mesh& m, const Loc&) {
  check_not_traced("set_mesh", m);
  start_levels().set({ResourceEnv().with_mesh(m), m.abstract_mesh(), true});
}

UseAbstractMesh::UseAbstractMesh(const AbstractMesh& m, const Loc&) {
  const Mesh& devices = current_mesh();
  if (!devices.empty() && !m.empty() && devices.size() != m.size()) {
    throw ValueError(str("use_abstract_mesh: mesh = ", m, " has size ", m.size(), " but the current mesh ", devices,
                         " has ", devices.size(), " devices; expected as many"));
  }
  levels().push_back({current_env(), m, true});
  depth_ = levels().size();
}
UseAbstractMesh::~UseAbstractMesh() { leave(depth_, "UseAbstractMesh"); }

MeshScope::MeshScope(const AnyMesh& m, const Loc&)
    : MeshScope(m.is_concrete() ? m.concrete()
                                : throw StateError(str("MeshScope: ", m,
                                                       " is abstract; abstract meshes cannot be entered "
                                                       "or left, a concrete Mesh is needed"))) {}

MeshScope::~MeshScope() { leave(depth_, "MeshScope"); }

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
