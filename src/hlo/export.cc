// SPDX-License-Identifier: Apache-2.0
#include "hlo/export.h"

#include <cctype>

#include "base/strings.h"
#include "hlo/ast.h"
#include "ops/attrs.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
const WriterTable& writers() {
  static const auto* table = [] {
    auto* t = new WriterTable;
    add_elementwise_writers(*t);
    add_shape_writers(*t);
    add_structure_writers(*t);
    return t;
  }();
  return *table;
}

std::string hex_of(const HostArray& a) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "\"0x";
  const auto* bytes = static_cast<const unsigned char*>(a.data());
  for (std::int64_t i = 0; i < a.nbytes(); ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out + "\"";
}

// The elements between dense< and >.
std::string elements_of(const HostArray& a) {
  if (a.size() == 0) return "";
  if (!is_bool(a.dtype())) return hex_of(a);
  std::string out;
  std::int64_t i = 0;
  std::function<void(std::size_t)> level = [&](std::size_t d) {
    if (d == a.shape().size()) {
      out += static_cast<const bool*>(a.data())[i++] ? "true" : "false";
      return;
    }
    out += '[';
    for (std::int64_t k = 0; k < a.shape()[d]; ++k) {
      if (k > 0) out += ", ";
      level(d + 1);
    }
    out += ']';
  };
  level(0);
  return out;
}

std::string axis_text(const SdyAxis& a) {
  if (a.size == 0) return str("\"", a.name, "\"");
  return str("\"", a.name, "\":(", a.pre_size, ")", a.size);
}
std::string axes_text(const std::vector<SdyAxis>& axes) {
  std::vector<std::string> out;
  for (const auto& a : axes) out.push_back(axis_text(a));
  return join(out);
}
}  // namespace

std::string tensor_text(const ir::Type& t) {
  return to_string(AstType{AstType::Kind::Tensor, elem_of(t.dtype), t.shape, {}});
}

std::string to_string(const SdyMesh& m) {
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < m.axes.size(); ++i) axes.push_back(str("\"", m.axes[i], "\"=", m.sizes[i]));
  std::string ids = m.device_ids.empty() ? "" : str(", device_ids=", base::list_text(m.device_ids));
  return str("sdy.mesh @", m.name, " = <[", join(axes), "]", ids, ">");
}
std::string to_string(const SdySharding& s) {
  std::vector<std::string> dims;
  for (const auto& d : s.dims) {
    std::string axes = axes_text(d.axes);
    if (d.open) axes += axes.empty() ? "?" : ", ?";
    dims.push_back(str("{", axes, "}", d.priority > 0 ? str("p", d.priority) : std::string()));
  }
  std::string rest;
  if (!s.replicated.empty()) rest += str(", replicated={", axes_text(s.replicated), "}");
  if (!s.unreduced.empty()) rest += str(", unreduced={", axes_text(s.unreduced), "}");
  return str("<@", s.mesh, ", [", join(dims), "]", rest, ">");
}

Writer::Writer(const ExportOptions& options) : options_(options) {}

Texts Writer::ops(const std::string& name, const Texts& in, const ir::Types& out, const std::string& attributes,
                  const std::string& regions) {
  std::string result = fresh();
  std::vector<std::string> names, from, to;
  for (const auto& t : in) {
    names.push_back(t.name);
    from.push_back(tensor_text(t.type));
  }
  for (const auto& t : out) to.push_back(tensor_text(t));
  body_ += std::string(static_cast<std::size_t>(indent_) * 2, ' ');
  if (!out.empty()) body_ += out.size() == 1 ? str(result, " = ") : str(result, ":", out.size(), " = ");
  body_ += str("\"", name, "\"(", join(names), ")");
  if (!attributes.empty()) body_ += str(" <{", attributes, "}>");
  if (!regions.empty()) body_ += str(" (", regions, ")");
  body_ += str(" : (", join(from), ") -> ", out.size() == 1 ? to[0] : str("(", join(to), ")"), "\n");
  Texts results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    results.push_back({out.size() == 1 ? result : str(result, "#", i), out[i]});
  }
  return results;
}
Text Writer::op(const std::string& name, const Texts& in, const ir::Type& out, const std::string& attributes) {
  return ops(name, in, {out}, attributes)[0];
}

Text Writer::constant(const HostArray& value) {
  ir::Type t{value.dtype(), value.shape(), false};
  return op("stablehlo.constant", {}, t, str("value = dense<", elements_of(value), "> : ", tensor_text(t)));
}
Text Writer::constant(double value, DType dtype, const Shape& shape) {
  HostArray one = HostArray::scalar(value).astype(dtype);
  return wide(constant(one), shape);
}
Text Writer::convert(const Text& x, DType to) {
  if (x.type.dtype == to) return x;
  return op("stablehlo.convert", {x}, {to, x.type.shape, false});
}
Text Writer::broadcast(const Text& x, const Shape& shape, const Dims& dims) {
  std::string list = dims.empty() ? "array<i64>" : str("array<i64: ", join(dims), ">");
  return op("stablehlo.broadcast_in_dim", {x}, {x.type.dtype, shape, false}, str("broadcast_dimensions = ", list));
}
Text Writer::wide(const Text& x, const Shape& shape) { return x.type.shape == shape ? x : broadcast(x, shape, {}); }
Text Writer::reshape(const Text& x, const Shape& shape) {
  if (x.type.shape == shape) return x;
  return op("stablehlo.reshape", {x}, {x.type.dtype, shape, false});
}
Text Writer::compare(const Text& x, const Text& y, const std::string& direction) {
  return op("stablehlo.compare", {x, y}, {DType::Bool, x.type.shape, false},
            str("comparison_direction = #stablehlo<comparison_direction ", direction, ">"));
}

std::string Writer::region(const ir::Types& args, const std::function<Texts(const Texts&)>& body) {
  std::string outer = std::move(body_);
  body_.clear();
  Texts in;
  std::vector<std::string> heads;
  for (const auto& t : args) {
    in.push_back({fresh(), t});
    heads.push_back(str(in.back().name, ": ", tensor_text(t)));
  }
  ++indent_;
  Texts out = body(in);
  std::vector<std::string> names, types;
  for (const auto& t : out) {
    names.push_back(t.name);
    types.push_back(tensor_text(t.type));
  }
  std::string pad(static_cast<std::size_t>(indent_) * 2, ' ');
  std::string text = "{\n";
  if (!args.empty()) text += str(pad.substr(2), "^bb0(", join(heads), "):\n");
  text += str(body_, pad, "\"stablehlo.return\"(", join(names), ") : (", join(types), ") -> ()\n", pad.substr(2), "}");
  --indent_;
  body_ = std::move(outer);
  return text;
}

std::string Writer::reducer(const std::string& name, DType t) {
  ir::Type number{t, {}, false};
  return region({number, number}, [&](const Texts& a) { return Texts{op("stablehlo." + name, a, number)}; });
}

Texts Writer::inline_graph(const ir::Graph& g, const Texts& args) {
  std::vector<Text> values(g.num_values());
  for (std::size_t i = 0; i < args.size(); ++i) values[static_cast<std::size_t>(g.inputs[i])] = args[i];
  for (const auto& e : g.eqns) {
    auto writer = writers().find(e.op);
    if (writer == writers().end()) {
      throw UnimplementedError(str("the op ", e.op->name(), " (", to_string(e.loc), ") has no StableHLO form here"));
    }
    Texts in;
    ir::Types out;
    for (auto v : e.in) in.push_back(values[static_cast<std::size_t>(v)]);
    for (auto v : e.out) out.push_back({g.type(v).dtype, g.type(v).shape, false});
    Texts results = writer->second(*this, e, in, out);
    for (std::size_t i = 0; i < results.size(); ++i) values[static_cast<std::size_t>(e.out[i])] = results[i];
  }
  Texts out;
  for (auto v : g.outputs) out.push_back(values[static_cast<std::size_t>(v)]);
  return out;
}

Texts Writer::call(const ir::Graph& g, const std::string& name, const Texts& args) {
  std::string clean;
  for (char c : name) clean += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  std::string unique = str(clean, "_", names_[clean]++);
  functions_ += function(g, unique, false);
  ir::Types out;
  for (const auto& t : g.output_types()) out.push_back({t.dtype, t.shape, false});
  return ops("func.call", args, out, str("callee = @", unique));
}

std::string Writer::function(const ir::Graph& g, const std::string& name, bool is_public) {
  std::string outer = std::move(body_);
  int indent = indent_;
  body_.clear();
  indent_ = 2;
  Texts args;
  std::vector<std::string> heads, types, names, results;
  auto mark = [&](const std::vector<std::optional<SdySharding>>& s, std::size_t i) {
    return is_public && i < s.size() && s[i] ? str(" {sdy.sharding = #sdy.sharding", to_string(*s[i]), "}") : "";
  };
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const auto& t = g.type(g.inputs[i]);
    args.push_back({str("%arg", i), {t.dtype, t.shape, false}});
    heads.push_back(str(args.back().name, ": ", tensor_text(t), mark(options_.inputs, i)));
  }
  Texts out = inline_graph(g, args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    names.push_back(out[i].name);
    types.push_back(tensor_text(out[i].type));
    results.push_back(str(tensor_text(out[i].type), mark(options_.outputs, i)));
  }
  std::string text =
      str("  func.func ", is_public ? "public" : "private", " @", name, "(", join(heads), ") -> (", join(results),
          ") {\n", body_, "    return", names.empty() ? "" : str(" ", join(names), " : ", join(types)), "\n  }\n");
  body_ = std::move(outer);
  indent_ = indent;
  return text;
}

std::string Writer::module(const ir::Graph& g) {
  std::string main = function(g, "main", true);
  std::string text = str("module @", options_.name, " attributes {mhlo.num_partitions = ", options_.num_partitions,
                         " : i32, mhlo.num_replicas = 1 : i32} {\n");
  for (const auto& m : options_.meshes) text += str("  ", to_string(m), "\n");
  return str(text, main, functions_, "}\n");
}

// The mesh with these axes; made where there is none yet.
std::string Writer::mesh_for(const ops::ShardingConstraint& c) {
  std::vector<std::string> axes;
  std::string names = c.mesh_names + ",";
  for (std::size_t at = 0; at < names.size();) {
    auto end = names.find(',', at);
    axes.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  for (const auto& m : options_.meshes) {
    if (m.axes == axes && m.sizes == c.mesh_sizes) return m.name;
  }
  SdyMesh m;
  m.name = options_.meshes.empty() ? "mesh" : str("mesh_", options_.meshes.size());
  m.axes = axes;
  m.sizes = c.mesh_sizes;
  options_.meshes.push_back(m);
  return m.name;
}

std::string export_module(const ir::Graph& graph, const ExportOptions& options) {
  return Writer(options).module(graph);
}

}  // namespace tessera::hlo
