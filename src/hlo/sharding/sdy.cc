// SPDX-License-Identifier: Apache-2.0
#include "hlo/sharding/sdy.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "hlo/text/parse.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {

// `item`s with commas between them, up to `close`.
template <class F>
void list_until(Parser& p, const char* close, const F& item) {
  if (p.accept(close)) return;
  do {
    item();
  } while (p.accept(","));
  p.expect(close);
}

// Every position of the mesh has a device of its own; without axes there may be one device, whose number is free.
void check_device_ids(Parser& p, const ir::NamedMesh& m) {
  std::set<std::int64_t> seen(m.device_ids.begin(), m.device_ids.end());
  auto count = static_cast<std::int64_t>(m.device_ids.size());
  if (count != m.size()) p.fail(str("device_ids has ", count, " entries for a mesh of ", m.size()));
  if (seen.size() != m.device_ids.size()) p.fail("device_ids names a device twice");
  bool fits = m.axes.empty() ? *seen.begin() >= 0 && *seen.begin() < kMaxDevices
                             : *seen.begin() == 0 && *seen.rbegin() == count - 1;
  if (!fits) p.fail(str("device_ids must be the numbers from 0 to ", count - 1));
}

ir::NamedMesh mesh_body(Parser& p) {
  ir::NamedMesh m;
  p.expect("[");
  list_until(p, "]", [&] {
    m.axes.push_back(p.string());
    p.expect("=");
    m.sizes.push_back(p.integer());
    bool fits = m.sizes.back() >= 1 && m.sizes.back() <= kMaxDevices;
    if (!fits || m.size() > kMaxDevices) p.fail("a bad size of a mesh axis");
    if (m.axes.back().empty()) p.fail("an axis without a name");
    if (m.axes.size() > 30) p.fail("a mesh of more than 30 axes");
  });
  std::set<std::string> names(m.axes.begin(), m.axes.end());
  if (names.size() != m.axes.size()) p.fail("two axes of a mesh have one name");
  if (p.accept(",")) {
    p.expect("device_ids");
    p.expect("=");
    p.expect("[");
    list_until(p, "]", [&] { m.device_ids.push_back(p.integer()); });
    check_device_ids(p, m);
  }
  return m;
}

ir::SubAxis axis(Parser& p) {
  ir::SubAxis a;
  a.name = p.string();
  if (p.accept(":")) {
    p.expect("(");
    a.pre_size = p.integer();
    p.expect(")");
    a.size = p.integer();
    bool fits = a.pre_size >= 1 && a.size >= 2 && a.pre_size <= kMaxDevices && a.size <= kMaxDevices;
    if (!fits) p.fail("a bad part of an axis");
  }
  return a;
}
std::vector<ir::SubAxis> axis_set(Parser& p) {
  std::vector<ir::SubAxis> out;
  p.expect("=");
  p.expect("{");
  list_until(p, "}", [&] { out.push_back(axis(p)); });
  return out;
}

ir::DimSharding dimension(Parser& p) {
  ir::DimSharding d;
  p.expect("{");
  list_until(p, "}", [&] {
    if (d.open) p.fail("\"?\" stands last");
    d.open = p.accept("?");
    if (!d.open) d.axes.push_back(axis(p));
  });
  auto w = p.word();  // p1
  if (w.empty()) return d;
  if (w[0] != 'p' || w.size() == 1) p.fail("expected a priority");
  for (char c : w.substr(1)) {
    if (c < '0' || c > '9' || d.priority > 1 << 20) p.fail("expected a priority");
    d.priority = d.priority * 10 + (c - '0');
  }
  return d;
}
}  // namespace

ir::NamedMesh parse_mesh(const Source& source, const AstOp& op) {
  const AstAttr* name = op.words.empty() ? op.find("sym_name") : &op.words[0];
  const AstAttr* body = op.words.size() > 1 ? &op.words[1] : op.find("mesh");
  if (name == nullptr || body == nullptr || body->kind != AstAttr::Kind::Dialect) {
    source.fail(op.pos, "sdy.mesh needs a name and axes");
  }
  Parser p(source, body->raw);
  ir::NamedMesh m = mesh_body(p);
  if (!p.at_end()) p.fail("expected the end of the mesh");
  m.name = name->text;
  if (m.name.empty()) source.fail(op.pos, "a mesh without a name");
  return m;
}

ir::AxisSharding parse_sharding(const Source& source, const AstAttr& a) {
  if (a.kind != AstAttr::Kind::Dialect || !(a.text.empty() || a.text == "sdy.sharding")) {
    source.fail(a.pos, "expected a sharding");
  }
  Parser p(source, a.raw);
  ir::AxisSharding s;
  if (p.accept("@")) {
    s.mesh = p.peek("\"") ? p.string() : std::string(p.word());
    while (p.accept("-")) s.mesh += str("-", p.word());
    if (s.mesh.empty()) p.fail("expected the name of a mesh");
  } else {
    p.expect("mesh");
    p.expect("<");
    s.inlined = mesh_body(p);
    p.expect(">");
  }
  p.expect(",");
  p.expect("[");
  list_until(p, "]", [&] { s.dims.push_back(dimension(p)); });
  std::set<std::string_view> said;
  while (p.accept(",")) {
    auto w = p.word();
    if (w != "replicated" && w != "unreduced") p.fail("expected replicated or unreduced axes");
    if (!said.insert(w).second) p.fail(str(w, " axes stand here twice"));
    (w == "replicated" ? s.replicated : s.unreduced) = axis_set(p);
  }
  if (!p.at_end()) p.fail("expected the end of the sharding");
  return s;
}

std::vector<ir::AxisSharding> parse_shardings(const Source& source, const AstAttr& a) {
  std::vector<ir::AxisSharding> out;
  AstAttr list = a;
  if (a.kind == AstAttr::Kind::Dialect && (a.text.empty() || a.text == "sdy.sharding_per_value")) {
    Parser p(source, a.raw);
    list = p.attribute();
    if (!p.at_end()) p.fail("expected the end of the shardings");
  }
  if (list.kind != AstAttr::Kind::Array) source.fail(a.pos, "expected a list of shardings");
  for (const auto& i : list.items) out.push_back(parse_sharding(source, i));
  return out;
}

const AstAttr* sharding_of_constraint(const AstOp& op) {
  if (op.name != "sdy.sharding_constraint" && op.name != "sdy.reshard") return nullptr;
  const AstAttr* a = op.find("sharding");
  return a == nullptr && !op.words.empty() ? &op.words.back() : a;
}

ops::ShardingConstraint constraint_of(const ir::AxisSharding& s, const ir::NamedMesh& mesh) {
  std::vector<ir::SubAxis> named;
  for (const auto& d : s.dims) named.insert(named.end(), d.axes.begin(), d.axes.end());
  named.insert(named.end(), s.unreduced.begin(), s.unreduced.end());
  auto cut = ir::cut_mesh(mesh, named);
  if (!cut) throw ValueError(str("mesh @", mesh.name, ": parts of an axis do not nest"));
  ops::ShardingConstraint out;
  out.mesh_sizes = cut->sizes;
  out.mesh_names.list = cut->names;
  std::set<std::size_t> used;
  auto parts = [&](const std::vector<ir::SubAxis>& from) {
    Dims axes;
    for (const auto& x : from) {
      for (std::size_t a = 0; a < cut->axes.size(); ++a) {
        bool inside =
            cut->axes[a] == x.name && (x.size == 0 || (cut->pre[a] >= x.pre_size && cut->pre[a] < x.pre_size * x.size));
        if (!inside) continue;
        if (!used.insert(a).second) throw ValueError(str("axis \"", x.name, "\" is used twice"));
        axes.push_back(static_cast<std::int64_t>(a));
      }
    }
    return axes;
  };
  for (const auto& d : s.dims) {
    Dims axes = parts(d.axes);
    if (axes.empty() && d.open) axes = {-1};
    out.dims.push_back(std::move(axes));
  }
  out.unreduced = parts(s.unreduced);
  std::sort(out.unreduced.begin(), out.unreduced.end());
  return out;
}

}  // namespace tessera::hlo
