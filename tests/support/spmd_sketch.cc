// SPDX-License-Identifier: Apache-2.0
#include "support/spmd_sketch.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/control/subgraph_structure.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::test {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::string word;
  for (char c : text + separator) {
    if (c == separator) {
      out.push_back(word);
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  return out;
}

std::uint8_t axis_of(const std::string& name, const ir::MeshAxes& mesh) {
  auto it = std::find(mesh.names.begin(), mesh.names.end(), name);
  TESSERA_CHECK(it != mesh.names.end(), str("no axis ", name));
  return static_cast<std::uint8_t>(it - mesh.names.begin());
}

std::string name_of(std::size_t n) {
  std::string out;
  for (++n; n > 0; n = (n - 1) / 26) out.insert(out.begin(), static_cast<char>('a' + (n - 1) % 26));
  return out;
}

}  // namespace

ir::Layout layout(const std::string& text, const ir::MeshAxes& mesh) {
  ir::Layout l;
  if (text.empty()) return l;
  for (const auto& word : split(text, ',')) {
    l.dims.emplace_back();
    if (word == "-" || word == "?") continue;
    for (const auto& axis : split(word, '.')) l.dims.back().push_back(axis_of(axis, mesh));
  }
  return l;
}

ir::MeshAxes mesh_of(const std::string& text) {
  ir::MeshAxes mesh;
  for (const auto& word : split(text, ',')) {
    auto parts = split(word, ':');
    mesh.names.push_back(parts[0]);
    mesh.sizes.push_back(std::stoll(parts[1]));
  }
  return mesh;
}

ir::Module module(ir::Builder& b, const ir::Values& outputs, const ir::MeshAxes& mesh,
                  const std::vector<std::string>& in, const std::vector<std::string>& out, ModuleOptions options) {
  auto lay_out = [&](std::vector<ir::Port>& ports, const std::vector<std::string>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i] != "?") ports[i].layout = layout(texts[i], mesh);
    }
  };
  ir::Module p = ir::module_over(b.finish_shared(outputs), mesh);
  lay_out(p.inputs, in);
  lay_out(p.outputs, out);
  p.uneven = options.uneven;
  p.deterministic = options.deterministic;
  return p;
}

ir::Value constrain(ir::Value x, const std::string& text, const ir::MeshAxes& mesh) {
  ops::ShardingConstraint c;
  c.mesh_sizes = mesh.sizes;
  c.mesh_names.list = mesh.names;
  auto words = split(text, ',');
  ir::Layout l = layout(text, mesh);
  for (std::size_t d = 0; d < words.size(); ++d) {
    c.dims.push_back(words[d] == "?" ? Dims{-1} : Dims(l.dims[d].begin(), l.dims[d].end()));
  }
  return x.builder->add1(ops::def::sharding_constraint, {x}, ir::make_attrs(c));
}

ir::GraphPtr partitioned(const ir::Module& p) {
  ir::verify(*p.graph);
  ir::GraphPtr g = spmd::partition(p, spmd::propagate(p));
  ir::verify(*g);
  return g;
}

std::int64_t bytes(const ir::Module& m) {
  return spmd::comm_plan(*spmd::partition(m, spmd::propagate(m))).bytes_per_device();
}

std::string sketch(const ir::Graph& g, int indent) {
  std::string pad(static_cast<std::size_t>(indent), ' ');
  std::map<ir::ValueId, std::string> names;
  auto declare = [&](ir::ValueId v) {
    names.emplace(v, name_of(names.size()));
    return str(names[v], "@", to_string(g.layout(v), *g.mesh));
  };
  auto list = [&](const std::vector<ir::ValueId>& values, bool declares) {
    std::vector<std::string> words;
    for (auto v : values) words.push_back(declares ? declare(v) : names[v]);
    return join(words, declares ? ", " : " ");
  };
  std::string out = pad + "(" + list(g.inputs, true) + ")\n";
  for (const auto& e : g.eqns) {
    std::string op(e.op->name());
    if (e.op == &ops::def::reshard) {
      const auto& r = ir::get<ops::Reshard>(e.attrs);
      std::vector<std::string> axes;
      for (auto a : r.axes) axes.push_back(g.mesh->names[static_cast<std::size_t>(a)]);
      op = str(ops::to_string(r.kind), axes.empty() ? "" : "(", join(axes, ","), axes.empty() ? "" : ")");
    }
    std::string operands = list(e.in, false);
    std::string results = list(e.out, true);
    out += pad + results + " = " + op + (operands.empty() ? "" : " ") + operands + "\n";
    if (auto control = ops::control_of(e)) {
      for (const auto& body : control->bodies) out += sketch(*body.graph, indent + 2);
    }
  }
  return out + pad + "-> " + list(g.outputs, false) + "\n";
}

std::string output_layouts(const ir::Module& p) {
  auto layouts = spmd::propagate(p);
  std::vector<std::string> out;
  for (auto v : p.graph->outputs) out.push_back(to_string(layouts[static_cast<std::size_t>(v)], *p.mesh));
  return join(out, " ");
}

}  // namespace tessera::test
