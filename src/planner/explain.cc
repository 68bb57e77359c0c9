// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/strings.h"
#include "planner/figures.h"
#include "planner/search.h"

namespace tessera::planner {

namespace {

std::string group_name(const ArgumentGroup& g) {
  std::string out = str(g.arguments.size() == 1 ? "argument " : "arguments ", g.arguments[0]);
  if (g.arguments.size() > 1) out += str(" and ", g.arguments.size() - 1, " more");
  return out + " " + to_string(g.type);
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
std::string mesh_text(const ir::MeshAxes& mesh) {
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) axes.push_back(str(mesh.names[a], "=", mesh.sizes[a]));
  return join(axes, ",");
}
std::string price_text(double step, std::int64_t memory, std::int64_t limit) {
  return str(seconds_text(step), ", ", bytes_text(memory), memory > limit ? " (does not fit)" : "");
}
std::string decision_text(const Decision& d, const SearchResult& r, const MeshPlan& p) {
  return str(p.mesh.names[d.axis], " on dimension ", d.dim, " of ", group_name(r.groups[d.group]), ": ",
             price_text(d.step, d.memory, r.memory_limit));
}

}  // namespace

std::string explain(const SearchResult& r) {
  const MeshPlan& best = r.plans.front();
  std::string out =
      str("mesh ", mesh_text(best.mesh), ": step ", price_text(best.step, best.memory, r.memory_limit), " of ",
          bytes_text(r.memory_limit), "; replicated: ", price_text(r.replicated, r.replicated_memory, r.memory_limit),
          "\n\ndecisions, in order\n");
  for (std::size_t i = 0; i < best.decisions.size(); ++i) {
    out += str("  ", decision_text(best.decisions[i], r, best), "\n");
    for (const auto& d : best.rejected[i]) out += str("    rather than ", decision_text(d, r, best), "\n");
  }
  out += "\nother meshes\n";
  for (std::size_t i = 1; i < r.plans.size(); ++i) {
    out += str("  ", mesh_text(r.plans[i].mesh), ": ", price_text(r.plans[i].step, r.plans[i].memory, r.memory_limit),
               "\n");
  }
  out += str("\n", r.evaluated, " candidates in ", seconds_text(r.seconds), "\n\nannotations\n  sdy.mesh @mesh = <[");
  std::vector<std::string> axes;
  for (std::size_t a = 0; a < best.mesh.sizes.size(); ++a) {
    axes.push_back(str("\"", best.mesh.names[a], "\"=", best.mesh.sizes[a]));
  }
  out += join(axes) + "]>\n";
  for (const auto& g : r.groups) {
    // Arguments of one group may still be propagated to differently where nothing was decided for them.
    std::vector<std::pair<ir::Layout, std::vector<std::size_t>>> by_layout;
    for (auto i : g.arguments) {
      auto it = std::ranges::find(by_layout, best.arguments[i], [](const auto& e) { return e.first; });
      if (it == by_layout.end()) it = by_layout.insert(it, {best.arguments[i], {}});
      it->second.push_back(i);
    }
    for (const auto& [layout, arguments] : by_layout) {
      out += str("  ", arguments.size() == 1 ? "argument " : "arguments ", join(arguments, ","), " ", to_string(g.type),
                 ": ", spec_text(layout, best.mesh), "  sdy.sharding = ", shardy_text(layout, best.mesh), "\n");
    }
  }
  return out;
}

}  // namespace tessera::planner
