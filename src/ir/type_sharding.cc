// SPDX-License-Identifier: Apache-2.0
#include "ir/type_sharding.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_set>

#include "base/hash.h"
#include "base/strings.h"
#include "base/thread_own.h"
#include "mesh/mesh_state.h"

namespace tessera::ir {

namespace {

struct Hash {
  std::size_t operator()(const TypeSharding& s) const {
    std::size_t h = base::hash_mix(s.mesh.hash(), (std::size_t{s.unreduced} << 32) | s.reduced);
    for (const auto& d : s.dims) {
      h = base::hash_mix(h, d.size());
      for (auto a : d) h = base::hash_mix(h, a);
    }
    return h;
  }
};

}  // namespace

bool TypeSharding::plain_whole() const { return !marked() && split() == 0; }

AxisMask TypeSharding::split() const {
  AxisMask mask = 0;
  for (const auto& d : dims) {
    for (auto a : d) mask |= AxisMask{1} << a;
  }
  return mask;
}

std::int64_t TypeSharding::parts(std::size_t d) const {
  std::int64_t n = 1;
  for (auto a : dims[d]) n *= mesh.axis_sizes()[a];
  return n;
}

TypeShardingPtr intern(TypeSharding s) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::unordered_set<TypeSharding, Hash>;
  std::lock_guard lock(*mutex);
  return &*known->insert(std::move(s)).first;
}

TypeShardingPtr type_sharding(const Sharding& sharding, std::int64_t rank) {
  if (!mesh::types_in_use().load(std::memory_order_relaxed)) return nullptr;
  const auto* named = dynamic_cast<const NamedSharding*>(&sharding);
  if (named == nullptr) return nullptr;
  const AbstractMesh& mesh = named->mesh().abstract_mesh();
  const auto types = mesh.axis_types();
  auto is_explicit = [&](int a) { return types[static_cast<std::size_t>(a)] == AxisType::Explicit; };
  if (std::ranges::none_of(types, [](AxisType t) { return t == AxisType::Explicit; })) return nullptr;
  TypeSharding s{mesh, DimAxes(static_cast<std::size_t>(rank)), 0, 0};
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    for (int a : named->dim_axes(d)) {
      if (is_explicit(a)) s.dims[d].push_back(static_cast<std::uint8_t>(a));
    }
  }
  for (int a : named->unreduced_axes()) s.unreduced |= is_explicit(a) ? AxisMask{1} << a : 0;
  for (int a : named->reduced_axes()) s.reduced |= is_explicit(a) ? AxisMask{1} << a : 0;
  return intern(std::move(s));
}

namespace {
// Those of the mesh that a thread asked for last, by rank.
struct Unsplit {
  AbstractMesh mesh;
  std::array<TypeShardingPtr, 8> by_rank{};
};
struct UnsplitTag;

TypeShardingPtr new_unsplit(const AbstractMesh& mesh, std::int64_t rank) {
  bool some = false;
  for (auto t : mesh.axis_types()) some = some || t == AxisType::Explicit;
  if (!some) return nullptr;
  return intern({mesh, DimAxes(static_cast<std::size_t>(rank)), 0, 0});
}
}  // namespace

TypeShardingPtr unsplit(const AbstractMesh& mesh, std::int64_t rank) {
  auto& last = base::thread_own<Unsplit, UnsplitTag>();
  const auto r = static_cast<std::size_t>(rank);
  if (r >= last.by_rank.size()) return new_unsplit(mesh, rank);
  if (!(last.mesh == mesh)) last = {mesh, {}};
  if (last.by_rank[r] == nullptr) last.by_rank[r] = new_unsplit(mesh, rank);
  return last.by_rank[r];
}

bool same_sharding(const Type& a, const Type& b) {
  if (a.sharding == b.sharding) return true;
  if (a.sharding != nullptr && b.sharding != nullptr) return false;
  return (a.sharding != nullptr ? a.sharding : b.sharding)->plain_whole();
}

Type with_dim(Type t, std::size_t d, std::int64_t extent, AxisList entry) {
  t.shape.insert(t.shape.begin() + static_cast<std::ptrdiff_t>(d), extent);
  if (t.sharding == nullptr) return t;
  TypeSharding s = *t.sharding;
  s.dims.insert(s.dims.begin() + static_cast<std::ptrdiff_t>(d), std::move(entry));
  t.sharding = intern(std::move(s));
  return t;
}
Type without_dim(Type t, std::size_t d) {
  t.shape.erase(t.shape.begin() + static_cast<std::ptrdiff_t>(d));
  if (t.sharding == nullptr) return t;
  TypeSharding s = *t.sharding;
  s.dims.erase(s.dims.begin() + static_cast<std::ptrdiff_t>(d));
  t.sharding = intern(std::move(s));
  return t;
}

Type tangent_type(const Type& t) { return {t.dtype, t.shape, false, t.sharding}; }
Type cotangent_type(const Type& t) {
  Type out = tangent_type(t);
  if (t.sharding == nullptr || !t.sharding->marked()) return out;
  TypeSharding s = *t.sharding;
  std::swap(s.unreduced, s.reduced);
  out.sharding = intern(std::move(s));
  return out;
}

AxisList axes_of(AxisMask mask) {
  AxisList out;
  for (std::uint8_t a = 0; a < 32; ++a) {
    if (mask >> a & 1) out.push_back(a);
  }
  return out;
}

std::string axes_text(const AxisList& axes, const AbstractMesh& mesh) {
  std::string out;
  for (auto a : axes) out += str(out.empty() ? "" : ",", mesh.shape_tuple()[a].name);
  return axes.size() == 1 ? out : str("(", out, ")");
}

std::string shape_text(const Type& t) {
  std::string out;
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    out += str(d == 0 ? "" : ",", t.shape[d]);
    if (t.sharding == nullptr || t.sharding->dims[d].empty()) continue;
    out += str("@", axes_text(t.sharding->dims[d], t.sharding->mesh));
  }
  return out;
}

std::string marks_text(const TypeSharding& s) {
  std::string out;
  if (s.unreduced != 0) out = str("U:", axes_text(axes_of(s.unreduced), s.mesh));
  if (s.reduced != 0) out += str(out.empty() ? "" : ", ", "R:", axes_text(axes_of(s.reduced), s.mesh));
  return out.empty() ? out : str("{", out, "}");
}

std::string spec_text(const TypeSharding& s) {
  auto names = [&](const AxisList& axes) {
    std::string out;
    for (auto a : axes) out += str(out.empty() ? "'" : ", '", s.mesh.shape_tuple()[a].name, "'");
    return out;
  };
  std::string out = "P(";
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    if (d > 0) out += ", ";
    const auto& axes = s.dims[d];
    out += axes.empty() ? std::string("None") : axes.size() == 1 ? names(axes) : str("(", names(axes), ")");
  }
  auto set = [&](const char* what, AxisMask mask) {
    if (mask != 0) out += str(out.back() == '(' ? "" : ", ", what, "={", names(axes_of(mask)), "}");
  };
  set("unreduced", s.unreduced);
  set("reduced", s.reduced);
  return out + ")";
}

}  // namespace tessera::ir
