// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/strings.h"
#include "planner/figures.h"
#include "planner/search.h"

namespace tessera::planner {

namespace {

std::string group_name(const ValueGroup& g) {
  const std::string more = g.values.size() > 1 ? str(" and ", g.values.size() - 1, " more") : std::string();
  if (g.inside()) return str(g.op, " ", to_string(g.type), " at ", to_string(g.loc), more);
  return str(g.values.size() == 1 ? "argument " : "arguments ", g.arguments[0], more, " ", to_string(g.type));
}

std::string spec_text(const ir::Layout& l, const ir::MeshAxes& mesh) {
  std::string out = "P(";
  for (std::size_t d = 0; d < l.dims.size(); ++d) {
    std::vector<std::string> axes;
    for (auto a : l.dims[d]) axes.push_back("\"" + mesh.names[a] + "\"");
    if (d > 0) out += ", ";
    out += axes.empty() ? "none" : axes.size() == 1 ? axes[0] : "{" + join(axes) + "}";
  }
  return out + ")";
}
std::string shardy_text(const ir::Layout& l, const ir::MeshAxes& mesh) {
  std::vector<std::string> dims;
  for (const auto& axes : l.dims) {
    std::vector<std::string> names;
    for (auto a : axes) names.push_back("\"" + mesh.names[a] + "\"");
    dims.push_back("{" + join(names) + "}");
  }
  return "#sdy.sharding<@mesh, [" + join(dims) + "]>";
}
std::string price_text(const Price& p, std::int64_t limit) {
  return str(seconds_text(p.step), ", ", bytes_text(p.memory), p.memory > limit ? " (does not fit)" : "");
}
std::string line(const std::string& before, const std::string& what, const Price& p, const SearchResult& r) {
  return str(before, what, ": ", price_text(p, r.memory_limit), "\n");
}

// Prices after each decision are of the plan so far, those of what was rejected of the whole plan with it.
std::string decisions_text(const SearchResult& r, const MeshPlan& p) {
  std::string out = str("\ndecisions, in order", p.recomputed.empty() ? "" : " (with nothing computed again)", "\n");
  for (std::size_t i = 0; i < p.decisions.size(); ++i) {
    out += line("  ", decision_text(p.decisions[i], r, p.mesh), p.decisions[i].price, r);
    for (const auto& a : p.rejected[i]) {
      out += line("    rather than ", a.instead ? decision_text(*a.instead, r, p.mesh) : "nothing in its place",
                  a.price, r);
    }
  }
  if (!p.further.empty()) out += "\nwhat would not pay on top\n";
  for (const auto& d : p.further) out += line("  ", decision_text(d, r, p.mesh), d.price, r);
  return out;
}

std::string recomputed_text(const SearchResult& r, const MeshPlan& p) {
  if (p.recomputed.empty()) return "";
  std::string out = line("\ncomputed again rather than kept, which would take", "", p.kept, r);
  for (const auto& v : p.recomputed) {
    const std::string more = v.count > 1 ? str(" and ", v.count - 1, " more") : std::string();
    out += str("  ", v.copies ? "copies in other layouts of " : "", v.op, " ", to_string(v.type),
               v.loc.file != nullptr ? str(" at ", to_string(v.loc)) : std::string(), more, ": ", bytes_text(v.bytes),
               " less for ", seconds_text(v.seconds), "\n");
  }
  return out;
}

// Arguments of one group may still be propagated to differently where nothing was decided for them.
std::string arguments_text(const ValueGroup& g, const MeshPlan& p) {
  std::vector<std::pair<ir::Layout, std::vector<std::size_t>>> by_layout;
  for (auto i : g.arguments) {
    auto it = std::ranges::find(by_layout, p.arguments[i], [](const auto& e) { return e.first; });
    if (it == by_layout.end()) it = by_layout.insert(it, {p.arguments[i], {}});
    it->second.push_back(i);
  }
  std::string out;
  for (const auto& [layout, arguments] : by_layout) {
    out += str("  ", arguments.size() == 1 ? "argument " : "arguments ", join(arguments, ","), " ", to_string(g.type),
               ": ", spec_text(layout, p.mesh), "  sdy.sharding = ", shardy_text(layout, p.mesh), "\n");
  }
  return out;
}

std::string annotations_text(const SearchResult& r, const MeshPlan& p) {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < p.mesh.sizes.size(); ++a) {
    axes.push_back(str("\"", p.mesh.names[a], "\"=", p.mesh.sizes[a]));
  }
  std::string out = "\nannotations\n  sdy.mesh @mesh = <[" + join(axes) + "]>\n";
  for (std::size_t g = 0; g < r.groups.size(); ++g) {
    if (!r.groups[g].inside()) {
      out += arguments_text(r.groups[g], p);
    } else if (p.chosen[g]) {
      out += str("  ", group_name(r.groups[g]), ": with_sharding_constraint(…, ", spec_text(*p.chosen[g], p.mesh),
                 ")  sdy.sharding_constraint ", shardy_text(*p.chosen[g], p.mesh), "\n");
    }
  }
  return out;
}

}  // namespace

std::string mesh_text(const ir::MeshAxes& mesh) {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) axes.push_back(str(mesh.names[a], "=", mesh.sizes[a]));
  return join(axes, ",");
}

std::string decision_text(const Decision& d, const SearchResult& r, const ir::MeshAxes& mesh) {
  const std::string name = group_name(r.groups[d.group]);
  if (d.layout) return str(spec_text(*d.layout, mesh), " for ", name);
  return str(mesh.names[d.axis], " on dimension ", d.dim, " of ", name);
}

std::string explain(const SearchResult& r) {
  const MeshPlan& best = r.plans.front();
  std::string out = str("mesh ", mesh_text(best.mesh), ": step ", price_text(best.price, r.memory_limit), " of ",
                        bytes_text(r.memory_limit), "; replicated: ", price_text(r.replicated, r.memory_limit), "\n");
  out += decisions_text(r, best) + recomputed_text(r, best);
  if (r.plans.size() > 1) out += "\nother meshes\n";
  for (std::size_t i = 1; i < r.plans.size(); ++i) out += line("  ", mesh_text(r.plans[i].mesh), r.plans[i].price, r);
  out += str("\n", r.evaluated, " candidates in ", seconds_text(r.seconds), "\n");
  return out + annotations_text(r, best);
}

}  // namespace tessera::planner
