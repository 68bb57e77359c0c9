// SPDX-License-Identifier: Apache-2.0
#include "ir/graph_text.h"

#include <algorithm>

#include "base/strings.h"
#include "ir/op_def.h"
#include "tessera/error.h"

namespace tessera::ir {

// --- written ---------------------------------------------------------------------------------------------------------

std::string to_string(const Type& t) {
  return str(dtype_short(t.dtype), "[", shape_text(t), "]", t.sharding != nullptr ? marks_text(*t.sharding) : "",
             t.weak ? "~" : "");
}

const std::string& ValueNames::operator()(ValueId v) {
  auto [it, fresh] = names_.try_emplace(v);
  if (fresh) {
    for (auto n = static_cast<std::int64_t>(names_.size()); n > 0; n = (n - 1) / 26) {
      it->second.insert(it->second.begin(), static_cast<char>('a' + (n - 1) % 26));
    }
  }
  return it->second;
}

namespace {
std::string declare(const Graph& g, ValueId v, ValueNames& name) {
  std::string out = str(name(v), ":", g.type(v));
  if (g.mesh && !g.layouts.empty()) out += str("@", to_string(g.layout(v), *g.mesh));
  return out;
}
std::string mesh_text(const MeshAxes& mesh) {
  std::string out;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
    out += str(a > 0 ? ", " : "", name_text(mesh.names[a]), "=", mesh.sizes[a]);
  }
  return str(" mesh(", out, ")");
}
}  // namespace

std::string eqn_text(const Graph& g, const Eqn& e, ValueNames& name, TextForm form) {
  std::string out;
  for (std::size_t i = 0; i < e.out.size(); ++i) out += (i > 0 ? ", " : "") + declare(g, e.out[i], name);
  if (!e.out.empty()) out += " = ";
  out += e.op->name();
  if (e.attrs) out += str("[", e.attrs->text(form), "]");
  for (auto v : e.in) out += " " + name(v);
  return out;
}

std::string graph_text(const Graph& g, const std::string& name, int indent, TextForm form) {
  ValueNames names;
  std::string pad(static_cast<std::size_t>(indent), ' ');
  std::string out = name + "(";
  for (std::size_t i = 0; i < g.inputs.size(); ++i) out += (i > 0 ? ", " : "") + declare(g, g.inputs[i], names);
  out += str(")", g.mesh ? mesh_text(*g.mesh) : "", " {\n");
  for (const auto& e : g.eqns) out += pad + "  " + eqn_text(g, e, names, form) + "\n";
  out += pad + "  return";
  for (auto v : g.outputs) out += " " + names(v);
  return out + " }";
}
std::string to_string(const Graph& g, const std::string& name, int indent) {
  return graph_text(g, name, indent, TextForm::Short);
}
std::string full_text(const Graph& g, const std::string& name) { return graph_text(g, name, 0, TextForm::Full); }

// --- read ------------------------------------------------------------------------------------------------------------

Type read_type(TextReader& r) {
  Type t;
  read_field(r, t.dtype);
  r.expect("[");
  while (!r.accept("]")) {
    t.shape.push_back(r.integer());
    if (t.shape.back() < 0) r.fail("a length that is not negative before");
    if (!r.accept(",")) {
      r.expect("]");
      break;
    }
  }
  t.weak = r.accept("~");
  return t;
}

namespace {
class GraphReader {
 public:
  explicit GraphReader(TextReader& r) : r_(r) {}

  Graph read() {
    r_.expect("(");
    // The mesh is named behind the inputs, whose layouts name its axes.
    TextReader ahead = r_;
    skip_inputs(ahead);
    if (ahead.accept("mesh")) g_.mesh = std::make_shared<const MeshAxes>(mesh(ahead));
    if (!r_.accept(")")) {
      g_.inputs = declarations();
      r_.expect(")");
    }
    if (r_.accept("mesh")) mesh(r_);
    r_.expect("{");
    while (true) {
      TextReader line = r_;
      std::string_view word = r_.word();
      if (word == "return") break;
      equation(word, line);
    }
    g_.outputs = uses();
    r_.expect("}");
    return std::move(g_);
  }

 private:
  static void skip_inputs(TextReader& r) {
    int open = 1;
    while (open > 0 && !r.at_end()) {
      r.until("()");
      open += r.accept("(") ? 1 : r.accept(")") ? -1 : 0;
    }
  }
  static MeshAxes mesh(TextReader& r) {
    MeshAxes out;
    read_items(r, [&] {
      out.names.push_back(r.name());
      r.expect("=");
      out.sizes.push_back(r.integer());
    });
    if (out.sizes.size() > 32) r.fail("at most 32 axes before");
    return out;
  }

  // `line`: where the equation's first word begins, which is the op's name where there are no results.
  void equation(std::string_view word, const TextReader& line) {
    Eqn e;
    if (r_.accept(":")) {
      e.out.push_back(declare(word));
      if (r_.accept(",")) std::ranges::copy(declarations(), std::back_inserter(e.out));
      r_.expect("=");
    } else {
      r_ = line;
    }
    e.op = &r_.op(r_.until(" [\n"));
    e.attrs = e.op->read(r_);
    e.in = uses();
    g_.eqns.push_back(std::move(e));
  }

  std::vector<ValueId> declarations() {
    std::vector<ValueId> out;
    do {
      std::string_view name = r_.word();
      r_.expect(":");
      out.push_back(declare(name));
    } while (r_.accept(","));
    return out;
  }
  // Behind the colon.
  ValueId declare(std::string_view name) {
    auto id = static_cast<ValueId>(g_.types.size());
    if (name.empty() || !values_.emplace(name, id).second) r_.fail(str("a new name before this, got '", name, "'"));
    g_.types.push_back(read_type(r_));
    if (g_.mesh) {
      r_.expect("@");
      g_.layouts.push_back(layout());
    }
    return id;
  }
  Layout layout() {
    Layout l;
    r_.expect("[");
    while (!r_.accept("]")) {
      AxisList& axes = l.dims.emplace_back();
      if (!r_.accept("-")) {
        do axes.push_back(axis());
        while (r_.accept("."));
      }
      if (r_.accept(",")) continue;
      r_.expect("]");
      break;
    }
    auto mask = [&](AxisMask& m) {
      do m |= AxisMask{1} << axis();
      while (r_.accept(","));
    };
    if (r_.accept("partial(")) {
      mask(l.partial);
      r_.expect(":");
      read_field(r_, l.reduction);
      r_.expect(")");
    }
    if (r_.accept("vary(")) {
      mask(l.vary);
      r_.expect(")");
    }
    return l;
  }
  std::uint8_t axis() {
    std::string name = r_.name();
    auto it = std::ranges::find(g_.mesh->names, name);
    if (it == g_.mesh->names.end()) r_.fail(str("an axis of the mesh before this, got '", name, "'"));
    return static_cast<std::uint8_t>(it - g_.mesh->names.begin());
  }
  // The operands on the rest of this line.
  std::vector<ValueId> uses() {
    std::vector<ValueId> out;
    for (std::string_view name = r_.word_on_line(); !name.empty(); name = r_.word_on_line()) {
      auto it = values_.find(name);
      if (it == values_.end()) r_.fail(str("a value defined above before this, got '", name, "'"));
      out.push_back(it->second);
    }
    return out;
  }

  TextReader& r_;
  Graph g_;
  std::map<std::string, ValueId, std::less<>> values_;
};
}  // namespace

Graph read_graph(TextReader& r) { return GraphReader(r).read(); }

Graph parse_graph(std::string_view text, OpLookup find) {
  TextReader r(text, find);
  r.word();  // the graph's name
  Graph g = read_graph(r);
  if (!r.at_end()) r.fail("the end");
  try {
    verify(g);
  } catch (const InternalError& e) {
    throw ValueError(str("graph text: ", e.what()));
  }
  return g;
}

}  // namespace tessera::ir
