// SPDX-License-Identifier: Apache-2.0
#include "ir/type_sharding.h"

#include <mutex>
#include <unordered_set>

#include "base/hash.h"
#include "base/strings.h"

namespace tessera::ir {

namespace {

AxisMask mask_of(const AxisList& axes) {
  AxisMask mask = 0;
  for (auto a : axes) mask |= AxisMask{1} << a;
  return mask;
}

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
  for (const auto& d : dims) mask |= mask_of(d);
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

TypeShardingPtr unsplit(const AbstractMesh& mesh, std::int64_t rank) {
  bool some = false;
  for (auto t : mesh.axis_types()) some = some || t == AxisType::Explicit;
  if (!some) return nullptr;
  return intern({mesh, std::vector<AxisList>(static_cast<std::size_t>(rank)), 0, 0});
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
