// SPDX-License-Identifier: Apache-2.0
#include "program/axis_env.h"

#include <utility>

#include "base/strings.h"
#include "base/thread_own.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {
struct BindingsTag;
std::vector<AxisBinding>& stack() { return base::thread_own<std::vector<AxisBinding>, BindingsTag>(); }
thread_local const ManualMesh* innermost = nullptr;
}  // namespace

const std::vector<AxisBinding>& axis_env() { return stack(); }
const ManualMesh* manual_mesh() { return innermost; }
bool checks_varying() {
  for (auto it = stack().rbegin(); it != stack().rend(); ++it) {
    if (it->mesh) return it->checked;
  }
  return false;
}

MeshAxesScope::MeshAxesScope(ManualMesh mesh, const std::vector<AxisBinding>& bindings)
    : depth_(stack().size()), before_(innermost), mesh_(std::move(mesh)) {
  try {
    stack().insert(stack().end(), bindings.begin(), bindings.end());
  } catch (...) {
    stack().resize(depth_);  // no destructor runs
    throw;
  }
  innermost = &mesh_;
}
MeshAxesScope::~MeshAxesScope() {
  stack().resize(depth_);
  innermost = before_;
}

namespace {
struct RegionAxes {
  std::uint64_t trace;
  Mesh mesh;
  std::size_t depth;
};
struct RegionsTag;
// Oldest first; of the traces that are active on this thread.
std::vector<RegionAxes>& regions() { return base::thread_own<std::vector<RegionAxes>, RegionsTag>(); }
}  // namespace

void bind_region_axes(std::uint64_t trace, const Mesh& mesh, const char* function) {
  for (const auto& r : regions()) {
    if (r.mesh == mesh) return;
  }
  for (const auto& a : mesh.shape_tuple()) {
    for (const auto& b : stack()) {
      if (!b.mesh || b.name != a.name) continue;
      throw ValueError(str(function, ": the mesh axis ", a.name, " is already manual: an enclosing map binds it"));
    }
  }
  regions().push_back({trace, mesh, stack().size()});
  for (const auto& a : mesh.shape_tuple()) stack().push_back({a.name, a.name, a.size, true, false});
}
void unbind_region_axes(std::uint64_t trace) {
  auto& list = regions();
  while (!list.empty() && list.back().trace == trace) {
    stack().resize(list.back().depth);
    list.pop_back();
  }
}

VmapAxisScope::VmapAxisScope(const std::string& name, std::int64_t size) : depth_(stack().size()) {
  if (name.empty()) return;
  internal_ = ops::vmapped_name(name, depth_);
  stack().push_back({name, internal_, size, false, false});
}
VmapAxisScope::~VmapAxisScope() { stack().resize(depth_); }

const AxisBinding& find_axis(const std::string& name, const char* function) {
  for (auto it = stack().rbegin(); it != stack().rend(); ++it) {
    if (it->name == name) return *it;
  }
  std::vector<std::string> bound;
  for (const auto& b : stack()) bound.push_back(b.name);
  throw UnboundAxisError(str(function, ": unbound axis name: ", name, "; the enclosing maps bind ",
                             bound.empty() ? std::string("no names") : base::join(bound)));
}

std::string axis_env_key() {
  std::string key;
  for (const auto& b : stack()) key += str(b.internal, ":", b.size, b.checked ? "c" : "", b.reduced ? "r;" : ";");
  return key;
}

}  // namespace tessera::program
