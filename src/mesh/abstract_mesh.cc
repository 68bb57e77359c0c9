// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "mesh/mesh_state.h"
#include "tessera/error.h"

namespace tessera {

namespace mesh {

std::vector<std::string> checked_names(const AxisNames& names, std::string_view function) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names.values().size(); ++i) {
    const auto& n = names.values()[i];
    if (!n) throw ValueError(str(function, ": axis_names[", i, "] is missing; expected a string"));
    if (std::find(out.begin(), out.end(), *n) != out.end()) {
      throw DuplicateAxisError(str(function, ": axis_names = (", join(out), ", ", *n, ") repeats '", *n,
                                   "' at position ", i, "; expected unique names"));
    }
    out.push_back(*n);
  }
  return out;
}

void check_axis_types(const std::vector<AxisType>& types, std::int64_t ndim, std::string_view function) {
  if (types.empty() || static_cast<std::int64_t>(types.size()) == ndim) return;
  throw ValueError(
      str(function, ": axis_types has ", types.size(), " entries for ", ndim, " axes; expected one for each axis"));
}

std::atomic<bool>& types_in_use() {
  static std::atomic<bool> used{false};
  return used;
}

std::string axis_types_text(std::span<const AxisType> types) {
  if (std::ranges::all_of(types, [](AxisType t) { return t == AxisType::Auto; })) return "";
  std::string out;
  for (auto t : types) out += str(out.empty() ? "" : ", ", to_string(t));
  return str(", axis_types=(", out, types.size() == 1 ? ",)" : ")");
}

AbstractMesh AbstractMeshState::make(std::vector<std::string> names, Shape sizes, bool named,
                                     std::vector<AxisType> types) {
  auto s = std::make_shared<AbstractMeshState>();
  types.resize(sizes.size(), AxisType::Auto);
  if (std::ranges::any_of(types, [](AxisType t) { return t != AxisType::Auto; })) types_in_use() = true;
  s->types = std::move(types);
  if (named) s->names = names;
  std::vector<std::pair<std::string, std::int64_t>> entries;
  s->size = sizes.empty() ? 0 : 1;
  s->hash = base::hash_mix(0, named ? 1 : 2);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::string key = named ? names[i] : str(i);
    s->hash =
        base::hash_mix(base::hash_mix(s->hash, std::hash<std::string>{}(key)), static_cast<std::size_t>(sizes[i]));
    if (s->types[i] != AxisType::Auto) s->hash = base::hash_mix(s->hash, static_cast<std::size_t>(s->types[i]));
    entries.emplace_back(key, sizes[i]);
    s->pairs.push_back({std::move(key), sizes[i]});
    s->size *= sizes[i];
  }
  s->named = named;
  s->sizes = std::move(sizes);
  s->shape = OrderedMap<std::string, std::int64_t>(std::move(entries));
  AbstractMesh m;
  m.state_ = std::move(s);
  return m;
}

namespace {
AbstractMesh checked_abstract(std::vector<std::string> names, const Shape& sizes, bool named,
                              const std::vector<AxisType>& types) {
  check_axis_types(types, rank(sizes), "AbstractMesh");
  std::int64_t n = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1) {
      throw ValueError(
          str("AbstractMesh: axis ", named ? names[i] : str(i), " has size ", sizes[i], "; expected at least 1"));
    }
    if (__builtin_mul_overflow(n, sizes[i], &n)) {
      throw ValueError(str("AbstractMesh: sizes = ", base::tuple_text(sizes), " have a product above 2^63 - 1"));
    }
  }
  return AbstractMeshState::make(std::move(names), sizes, named, types);
}
}  // namespace

}  // namespace mesh

using mesh::AbstractMeshState;

AbstractMesh::AbstractMesh() {
  static const auto* empty = new std::shared_ptr<const AbstractMeshState>(std::make_shared<AbstractMeshState>());
  state_ = *empty;
}
AbstractMesh::AbstractMesh(std::initializer_list<AxisSize> axes, const Loc&)
    : AbstractMesh(std::span<const AxisSize>(axes.begin(), axes.size())) {}
AbstractMesh::AbstractMesh(std::initializer_list<AxisSize> axes, const MeshOptions& options, const Loc&) {
  std::vector<std::string> names;
  Shape sizes;
  for (const auto& a : axes) {
    names.push_back(a.name);
    sizes.push_back(a.size);
  }
  *this = AbstractMesh(sizes, AxisNames(names), options);
}
AbstractMesh::AbstractMesh(std::span<const AxisSize> axes, const Loc&) {
  std::vector<std::optional<std::string>> names;
  Shape sizes;
  for (const auto& a : axes) {
    names.emplace_back(a.name);
    sizes.push_back(a.size);
  }
  *this = AbstractMesh(sizes, AxisNames(std::move(names)));
}
AbstractMesh::AbstractMesh(const Shape& sizes, const AxisNames& axis_names, const Loc&)
    : AbstractMesh(sizes, axis_names, MeshOptions{}) {}
AbstractMesh::AbstractMesh(const Shape& sizes, const AxisNames& axis_names, const MeshOptions& options, const Loc&) {
  auto names = mesh::checked_names(axis_names, "AbstractMesh");
  if (axis_names.given() && names.size() != sizes.size()) {
    throw ValueError(str("AbstractMesh: sizes has ", sizes.size(), " entries but axis_names has ", names.size(),
                         "; expected as many names as sizes"));
  }
  *this = mesh::checked_abstract(std::move(names), sizes, axis_names.given(), options.axis_types);
}
AbstractMesh AbstractMesh::unnamed(const Shape& sizes, const Loc&) { return AbstractMesh(sizes, std::nullopt); }

std::span<const std::string> AbstractMesh::axis_names() const& { return state_->names; }
bool AbstractMesh::has_names() const { return state_->named; }
std::int64_t AbstractMesh::ndim() const { return rank(state_->sizes); }
const Shape& AbstractMesh::axis_sizes() const& { return state_->sizes; }
const OrderedMap<std::string, std::int64_t>& AbstractMesh::shape() const& { return state_->shape; }
std::span<const AxisSize> AbstractMesh::shape_tuple() const& { return state_->pairs; }
std::int64_t AbstractMesh::size() const { return state_->size; }
std::optional<int> AbstractMesh::axis_index(const AxisRef& axis) const {
  if (!axis.is_name()) {
    if (axis.number() < 0 || axis.number() >= ndim()) return std::nullopt;
    return static_cast<int>(axis.number());
  }
  for (std::size_t i = 0; i < state_->names.size(); ++i) {
    if (state_->names[i] == axis.name()) return static_cast<int>(i);
  }
  return std::nullopt;
}
std::int64_t AbstractMesh::axis_size(const AxisRef& axis, const Loc&) const {
  if (auto i = axis_index(axis)) return state_->sizes[static_cast<std::size_t>(*i)];
  std::string known;
  if (has_names()) {
    known = str("one of the axes (", join(axis_names()), ")");
  } else {
    known = str("an axis number in 0..", ndim() - 1);
  }
  throw ValueError(str("axis_size: axis = ", to_string(axis), " is not in the mesh; expected ", known));
}
bool AbstractMesh::operator==(const AbstractMesh& other) const {
  return state_ == other.state_ || (state_->hash == other.state_->hash && state_->named == other.state_->named &&
                                    state_->pairs == other.state_->pairs && state_->types == other.state_->types);
}
std::span<const AxisType> AbstractMesh::axis_types() const& { return state_->types; }
namespace {
std::vector<std::string> axes_of_type(const AbstractMesh& m, AxisType wanted) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < m.axis_types().size(); ++i) {
    if (m.axis_types()[i] == wanted) out.push_back(m.shape_tuple()[i].name);
  }
  return out;
}
bool all_of_type(const AbstractMesh& m, AxisType wanted) {
  return m.ndim() > 0 && std::ranges::all_of(m.axis_types(), [&](AxisType t) { return t == wanted; });
}
}  // namespace
std::vector<std::string> AbstractMesh::explicit_axes() const { return axes_of_type(*this, AxisType::Explicit); }
std::vector<std::string> AbstractMesh::auto_axes() const { return axes_of_type(*this, AxisType::Auto); }
std::vector<std::string> AbstractMesh::manual_axes() const { return axes_of_type(*this, AxisType::Manual); }
bool AbstractMesh::are_all_axes_explicit() const { return all_of_type(*this, AxisType::Explicit); }
bool AbstractMesh::are_all_axes_auto() const { return all_of_type(*this, AxisType::Auto); }
bool AbstractMesh::are_all_axes_manual() const { return all_of_type(*this, AxisType::Manual); }
AbstractMesh AbstractMesh::update_axis_types(const AxisTypes& types, const Loc&) const {
  std::vector<AxisType> all = state_->types;
  for (const auto& [name, type] : types) {
    auto i = axis_index(name);
    if (!i) {
      throw ValueError(str("update_axis_types: the axis '", name, "' is not in the mesh ", *this,
                           "; expected one of the axes (", join(axis_names()), ")"));
    }
    all[static_cast<std::size_t>(*i)] = type;
  }
  return AbstractMeshState::make(state_->names, state_->sizes, state_->named, std::move(all));
}
std::size_t AbstractMesh::hash() const { return state_->hash; }

std::string to_string(const AxisRef& a) { return a.is_name() ? str("'", a.name(), "'") : str(a.number()); }

std::string to_string(const AbstractMesh& m) {
  std::string out = "AbstractMesh((";
  bool first = true;
  for (const auto& a : m.shape_tuple()) {
    if (!first) out += ", ";
    first = false;
    out += m.has_names() ? str("('", a.name, "', ", a.size, ")") : str("(", a.name, ", ", a.size, ")");
  }
  return str(out, m.ndim() == 1 ? ",)" : ")", mesh::axis_types_text(m.axis_types()), ")");
}

}  // namespace tessera
