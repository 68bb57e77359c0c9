// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/mesh_axis_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/strings.h"
#include "hlo/sharding/sdy.h"
#include "hlo/text/parse.h"

namespace tessera::hlo {

namespace {
constexpr const char* kGroups = "stablehlo.replica_group_mesh_axes";

// The fields of #stablehlo.kind<name = value, …>; inside another attribute its kind may be left out.
class Fields {
 public:
  Fields(const Source& source, const AstAttr& a, const std::string& kind) : source_(source), of_(a) {
    if (a.kind != AstAttr::Kind::Dialect || !(a.text.empty() || a.text == kind)) {
      source.fail(a.pos, str("expected #", kind, "<…>"));
    }
    Parser p(source, a.raw);
    do {
      std::string name(p.word());
      p.expect("=");
      if (name == "sub_axis_info") {
        part_.emplace();
        p.expect("(");
        part_->pre_size = p.integer();
        p.expect(")");
        part_->size = p.integer();
      } else {
        values_.insert_or_assign(name, p.attribute());
      }
    } while (p.accept(","));
    if (!p.at_end()) p.fail("expected the end of the attribute");
  }
  const AstAttr* find(const std::string& name) const {
    auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second;
  }
  const AstAttr& need(const std::string& name, AstAttr::Kind kind) const {
    const AstAttr* a = find(name);
    if (a == nullptr || a->kind != kind) source_.fail(of_.pos, str("\"", name, "\" is missing, or of another kind"));
    return *a;
  }
  const std::optional<ir::SubAxis>& part() const { return part_; }

 private:
  const Source& source_;
  const AstAttr& of_;
  std::map<std::string, AstAttr> values_;
  std::optional<ir::SubAxis> part_;
};

ir::NamedMesh inline_mesh(const OpCall& c, const AstAttr& a) {
  const Source& source = c.importer.source();
  Fields fields(source, a, "stablehlo.mesh");
  ir::NamedMesh m;
  std::int64_t devices = 1;
  for (const auto& item : fields.need("axes", AstAttr::Kind::Array).items) {
    Fields axis(source, item, "stablehlo.mesh_axis");
    m.axes.push_back(axis.need("name", AstAttr::Kind::String).text);
    m.sizes.push_back(axis.need("size", AstAttr::Kind::Int).integer);
    bool fits = m.sizes.back() >= 1 && m.sizes.back() <= kMaxDevices / devices;
    if (!fits) source.fail(item.pos, "a bad size of a mesh axis");
    devices *= m.sizes.back();
    if (std::count(m.axes.begin(), m.axes.end(), m.axes.back()) > 1) {
      source.fail(item.pos, "two axes of a mesh have one name");
    }
  }
  if (const AstAttr* ids = fields.find("device_ids")) {
    m.device_ids = c.dims_of(*ids);
    if (m.device_ids.size() != static_cast<std::size_t>(devices)) {
      source.fail(ids->pos, str("device_ids has ", m.device_ids.size(), " entries for a mesh of ", devices));
    }
    for (auto id : m.device_ids) {
      if (id < 0 || id >= kMaxDevices) source.fail(ids->pos, str("there is no device ", id));
    }
  }
  return m;
}

// An axis, or a part of one, as digits of a position in the mesh: position / stride % size.
struct Digit {
  std::int64_t stride;
  std::int64_t size;
};

Digit digit_of(const Source& source, const ir::NamedMesh& mesh, const AstAttr& a) {
  Fields fields(source, a, "stablehlo.axis_ref");
  const std::string& name = fields.need("name", AstAttr::Kind::String).text;
  std::int64_t stride = 1;
  for (std::size_t i = mesh.axes.size(); i-- > 0;) {
    std::int64_t size = mesh.sizes[i];
    if (mesh.axes[i] != name) {
      stride *= size;
      continue;
    }
    if (!fields.part()) return {stride, size};
    const ir::SubAxis& part = *fields.part();
    bool fits = part.pre_size >= 1 && part.size >= 1 && part.pre_size <= size && part.size <= size &&
                size % (part.pre_size * part.size) == 0;
    if (!fits) source.fail(a.pos, str("an axis of ", size, " has no part (", part.pre_size, ")", part.size));
    return {stride * (size / (part.pre_size * part.size)), part.size};
  }
  source.fail(a.pos, str("the mesh has no axis \"", name.substr(0, 60), "\""));
}
}  // namespace

bool is_mesh_axis_groups(const AstAttr& a) { return a.kind == AstAttr::Kind::Dialect && a.text == kGroups; }

std::vector<Dims> mesh_axis_groups(const OpCall& c, const AstAttr& a) {
  const Source& source = c.importer.source();
  Fields fields(source, a, kGroups);
  const AstAttr* where = fields.find("mesh");
  if (where == nullptr) source.fail(a.pos, "\"mesh\" is missing");
  ir::NamedMesh mesh;
  if (where->kind == AstAttr::Kind::Symbol) {
    const ir::NamedMesh* named = c.importer.mesh(where->text);
    if (named == nullptr) source.fail(where->pos, str("there is no mesh @", where->text.substr(0, 60)));
    mesh = *named;
  } else {
    mesh = inline_mesh(c, *where);
  }
  std::vector<Digit> digits;
  std::size_t members = 1;
  for (const auto& axis : fields.need("axes", AstAttr::Kind::Array).items) {
    digits.push_back(digit_of(source, mesh, axis));
    members *= static_cast<std::size_t>(digits.back().size);
    if (members > static_cast<std::size_t>(mesh.size())) source.fail(axis.pos, "an axis is named twice");
  }
  std::map<std::int64_t, Dims> groups;  // by their first position
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    std::int64_t first = p, rank = 0;
    for (const auto& d : digits) {
      std::int64_t digit = p / d.stride % d.size;
      first -= digit * d.stride;
      rank = rank * d.size + digit;
    }
    Dims& group = groups[first];
    group.resize(members, -1);
    std::int64_t& member = group[static_cast<std::size_t>(rank)];
    if (member != -1) source.fail(a.pos, "an axis is named twice");
    member = mesh.device_ids.empty() ? p : mesh.device_ids[static_cast<std::size_t>(p)];
  }
  std::vector<Dims> out;
  for (auto& [first, group] : groups) {
    if (std::find(group.begin(), group.end(), -1) != group.end()) source.fail(a.pos, "an axis is named twice");
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace tessera::hlo
