// SPDX-License-Identifier: Apache-2.0
// The writer: modules, functions, regions and the operations that all families use.
#include "hlo/export/export.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/sharding/sdy.h"
#include "hlo/text/ast.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
const WriterTable& writers() {
  static const auto* table = [] {
    auto* t = new WriterTable;
    add_elementwise_writers(*t);
    add_special_writers(*t);
    add_shape_writers(*t);
    add_indexing_writers(*t);
    add_product_writers(*t);
    add_linalg_writers(*t);
    add_reduction_writers(*t);
    add_sort_writers(*t);
    add_control_writers(*t);
    add_random_writers(*t);
    add_collective_writers(*t);
    add_manual_writers(*t);
    return t;
  }();
  return *table;
}

std::string clean_name(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0 ? "_" + out : out;
}

// Numbers in the order in which they stand in the text: an operation's before those of its regions.
std::string renumbered(const std::string& text) {
  std::string out;
  std::unordered_map<std::string, std::string> numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (text[at] == '%' && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end > at + 1) {
      auto [it, added] = numbers.try_emplace(text.substr(at, end - at));
      if (added) it->second = str("%", numbers.size() - 1);
      out += it->second;
    } else {
      out += text[at];
    }
    at = end;
  }
  return out;
}

// Operations that MLIR prints with one type when all of theirs are equal.
bool has_one_type(const std::string& name) {
  static const auto& others = *new std::set<std::string>{"stablehlo.reshape", "stablehlo.dynamic_update_slice"};
  return name.starts_with("stablehlo.") && !others.contains(name);
}
}  // namespace

std::int64_t ManualText::total() const {
  std::int64_t n = 1;
  for (auto s : sizes) n *= s;
  return n;
}

std::string names_of(const Texts& t) {
  std::vector<std::string> out;
  for (const auto& x : t) out.push_back(x.name);
  return join(out);
}
std::string types_of(const Texts& t) {
  std::vector<std::string> out;
  for (const auto& x : t) out.push_back(tensor_text(x.type));
  return join(out);
}
std::string signature(const Texts& in, const ir::Types& out) {
  std::vector<std::string> to;
  for (const auto& t : out) to.push_back(tensor_text(t));
  return str("(", types_of(in), ") -> ", out.size() == 1 ? to[0] : str("(", join(to), ")"));
}

Writer::Writer(const ir::Module& module, const TextOptions& options) : module_(module), options_(options) {}

Texts Writer::line(const std::string& text, const ir::Types& out) {
  body_ += pad();
  std::string result;
  if (!out.empty()) {
    result = fresh();
    body_ += out.size() == 1 ? str(result, " = ") : str(result, ":", out.size(), " = ");
  }
  body_ += text;
  body_ += '\n';
  Texts results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    results.push_back({out.size() == 1 ? result : str(result, "#", i), {out[i].dtype, out[i].shape, false}});
  }
  return results;
}

Text Writer::op(const std::string& name, const Texts& in, const ir::Type& out) {
  bool same = has_one_type(name);
  for (const auto& t : in) same = same && t.type.dtype == out.dtype && t.type.shape == out.shape;
  if (name.starts_with("chlo."))
    return line(str(name, " ", names_of(in), " : ", types_of(in), " -> ", tensor_text(out)), out);
  if (same || name == "stablehlo.complex") return line(str(name, " ", names_of(in), " : ", tensor_text(out)), out);
  return line(str(name, " ", names_of(in), " : ", signature(in, {out})), out);
}
Texts Writer::generic(const std::string& name, const Texts& in, const ir::Types& out, const std::string& attributes,
                      const std::string& regions) {
  std::string text = str("\"", name, "\"(", names_of(in), ")");
  if (!attributes.empty()) text += str(" <{", attributes, "}>");
  if (!regions.empty()) text += str(" (", regions, ")");
  return line(str(text, " : ", signature(in, out)), out);
}
Text Writer::generic(const std::string& name, const Texts& in, const ir::Type& out, const std::string& attributes) {
  return generic(name, in, ir::Types{out}, attributes)[0];
}

Text Writer::constant(const HostArray& value) {
  // One number is repeated, as it is when texts are read.
  std::string elements = dense_text(value);
  if (value.ndim() > 0 && !elements.starts_with("dense<[") && !elements.starts_with("dense<\"") && value.size() > 0) {
    HostArray one(value.dtype(), Shape{});
    std::memcpy(one.data(), value.data(), static_cast<std::size_t>(dtype_size(value.dtype())));
    return broadcast(constant(one), value.shape(), {});
  }
  ir::Type t{value.dtype(), value.shape(), false};
  std::string name = next_constant_ == 0 ? "%c" : str("%c_", next_constant_ - 1);
  ++next_constant_;
  body_ += str(pad(), name, " = stablehlo.constant ", elements, " : ", tensor_text(t), "\n");
  return {name, t};
}
Text Writer::constant(double value, DType dtype, const Shape& shape) {
  return wide(constant(HostArray::scalar(value).astype(dtype)), shape);
}
Text Writer::convert(const Text& x, DType to) {
  if (x.type.dtype == to) return x;
  return op("stablehlo.convert", {x}, {to, x.type.shape, false});
}
Text Writer::broadcast(const Text& x, const Shape& shape, const Dims& dims) {
  ir::Type out{x.type.dtype, shape, false};
  return line(str("stablehlo.broadcast_in_dim ", x.name, ", dims = [", join(dims), "] : ", signature({x}, {out})), out);
}
Text Writer::wide(const Text& x, const Shape& shape) { return x.type.shape == shape ? x : broadcast(x, shape, {}); }
Text Writer::reshape(const Text& x, const Shape& shape) {
  if (x.type.shape == shape) return x;
  return op("stablehlo.reshape", {x}, {x.type.dtype, shape, false});
}
Text Writer::compare(const Text& x, const Text& y, const std::string& direction, bool total_order) {
  ir::Type out{DType::Bool, x.type.shape, false};
  DType t = x.type.dtype;
  const char* kind = is_float(t) || is_complex(t) ? (total_order && is_float(t) ? "TOTALORDER" : "FLOAT")
                     : is_signed_int(t)           ? "SIGNED"
                                                  : "UNSIGNED";
  return line(
      str("stablehlo.compare ", direction, ", ", x.name, ", ", y.name, ", ", kind, " : ", signature({x, y}, {out})),
      out);
}
Text Writer::select(const Text& which, const Text& yes, const Text& no) {
  return line(
      str("stablehlo.select ", names_of({which, yes, no}), " : ", tensor_text(which.type), ", ", tensor_text(yes.type)),
      yes.type);
}
Text Writer::iota(DType dtype, const Shape& shape, std::int64_t dimension) {
  ir::Type out{dtype, shape, false};
  return line(str("stablehlo.iota dim = ", dimension, " : ", tensor_text(out)), out);
}
Text Writer::slice(const Text& x, const Dims& starts, const Dims& limits, const Dims& strides) {
  std::vector<std::string> parts;
  ir::Type out{x.type.dtype, {}, false};
  for (std::size_t d = 0; d < starts.size(); ++d) {
    parts.push_back(str(starts[d], ":", limits[d], strides[d] == 1 ? std::string() : str(":", strides[d])));
    out.shape.push_back((limits[d] - starts[d] + strides[d] - 1) / strides[d]);
  }
  return line(str("stablehlo.slice ", x.name, " [", join(parts), "] : ", signature({x}, {out})), out);
}

Text Writer::combine(const std::string& how, const Text& x, const Text& y) {
  bool extreme = how == "maximum" || how == "minimum";
  if (!extreme || !is_complex(x.type.dtype)) return op("stablehlo." + how, {x, y}, x.type);
  // As compared by their real parts, then by the imaginary ones.
  const char* before = how == "maximum" ? "GT" : "LT";
  ir::Type part{real_dtype(x.type.dtype), x.type.shape, false};
  auto real = [&](const Text& v) { return op("stablehlo.real", {v}, part); };
  auto imag = [&](const Text& v) { return op("stablehlo.imag", {v}, part); };
  Text xr = real(x), yr = real(y);
  return select(select(compare(xr, yr, "EQ"), compare(imag(x), imag(y), before), compare(xr, yr, before)), x, y);
}
Text Writer::identity(const std::string& how, DType t) {
  double inf = std::numeric_limits<double>::infinity();
  if (how == "add" || how == "or" || how == "xor") return constant(0, t);
  if (how == "multiply") return constant(1, t);
  bool largest = how == "maximum";
  if (how == "and" && is_bool(t)) return constant(1, t);
  if (how == "and") {
    HostArray ones(t, {});
    std::memset(ones.data(), 0xff, static_cast<std::size_t>(ones.nbytes()));
    return constant(ones);
  }
  if (is_bool(t)) return constant(largest ? 0 : 1, t);
  if (is_complex(t)) {
    Text part = constant(largest ? -inf : inf, real_dtype(t));
    return op("stablehlo.complex", {part, part}, {t, {}, false});
  }
  if (is_inexact(t)) return constant(largest ? -inf : inf, t);
  auto bytes = static_cast<std::size_t>(dtype_size(t));
  HostArray extreme(t, {});
  auto* at = static_cast<unsigned char*>(extreme.data());  // little-endian: the sign is in the last byte
  for (std::size_t i = 0; i < bytes; ++i) at[i] = largest ? 0 : 0xff;
  if (is_signed_int(t)) at[bytes - 1] = largest ? 0x80 : 0x7f;
  return constant(extreme);
}

Texts Writer::reduce(const Texts& in, const ir::Types& out, const Dims& axes, const std::string& how) {
  DType t = in[0].type.dtype;
  bool extreme = how == "maximum" || how == "minimum";
  Text start = identity(how, t);
  if (extreme && is_complex(t)) {
    return generic("stablehlo.reduce", {in[0], start}, out, "dimensions = " + array_text(axes), reducer(how, t));
  }
  return line(str("stablehlo.reduce(", in[0].name, " init: ", start.name, ") applies stablehlo.", how,
                  " across dimensions = [", join(axes), "] : ", signature({in[0], start}, out)),
              out);
}

std::string Writer::block(const ir::Types& args, const Body& body, const std::string& terminator, std::string* heads) {
  std::string outer = std::move(body_);
  body_.clear();
  Texts in;
  std::vector<std::string> list;
  for (const auto& t : args) {
    in.push_back({str("%arg", next_arg_++), {t.dtype, t.shape, false}});
    list.push_back(str(in.back().name, ": ", tensor_text(t)));
  }
  *heads = join(list);
  ++indent_;
  Texts out = body(in);
  std::string text = str(body_, pad(), terminator);
  if (!out.empty()) text += str(" ", names_of(out), " : ", types_of(out));
  --indent_;
  body_ = std::move(outer);
  return text + "\n";
}

std::string Writer::region(const ir::Types& args, const Body& body) {
  std::string heads;
  std::string text = block(args, body, "stablehlo.return", &heads);
  return str("{\n", heads.empty() ? std::string() : str(pad(), "^bb0(", heads, "):\n"), text, pad(), "}");
}

std::string Writer::reducer(const std::string& how, DType t) {
  ir::Type number{t, {}, false};
  return region({number, number}, [&](const Texts& a) { return Texts{combine(how, a[0], a[1])}; });
}

Texts Writer::while_loop(const Texts& start, const std::function<Text(const Texts&)>& condition,
                         const std::function<Texts(const Texts&)>& body) {
  ir::Types types;
  std::vector<std::string> heads;
  Texts carried;
  for (const auto& s : start) {
    types.push_back(s.type);
    carried.push_back({str("%arg", next_arg_++), s.type});
    heads.push_back(str(carried.back().name, " = ", s.name));
  }
  std::string none;
  std::string test = block(
      {}, [&](const Texts&) { return Texts{condition(carried)}; }, "stablehlo.return", &none);
  std::string step = block(
      {}, [&](const Texts&) { return body(carried); }, "stablehlo.return", &none);
  return line(str("stablehlo.while(", join(heads), ") : ", types_of(start), "\n", pad(), "cond {\n", test, pad(),
                  "} do {\n", step, pad(), "}"),
              types);
}

Texts write_equation(Writer& w, const ir::Eqn& e, const Texts& in, const ir::Types& out) {
  auto writer = writers().find(e.op);
  if (writer == writers().end()) {
    throw UnimplementedError(str("the op ", e.op->name(), " (", to_string(e.loc), ") has no StableHLO form here"));
  }
  return writer->second(w, e, in, out);
}

Texts Writer::inline_graph(const ir::Graph& g, const Texts& args) {
  if (g.mesh) return write_partitioned(*this, g, args);
  std::vector<Text> values(g.num_values());
  for (std::size_t i = 0; i < args.size(); ++i) values[static_cast<std::size_t>(g.inputs[i])] = args[i];
  for (const auto& e : g.eqns) {
    Texts in;
    ir::Types out;
    for (auto v : e.in) in.push_back(values[static_cast<std::size_t>(v)]);
    for (auto v : e.out) out.push_back({g.type(v).dtype, g.type(v).shape, false});
    Texts results = write_equation(*this, e, in, out);
    for (std::size_t i = 0; i < results.size(); ++i) values[static_cast<std::size_t>(e.out[i])] = results[i];
  }
  Texts out;
  for (auto v : g.outputs) out.push_back(values[static_cast<std::size_t>(v)]);
  return out;
}

std::string Writer::private_function(const std::string& name, const std::string& key, const Texts& args,
                                     const ir::Types& out, const Body& body) {
  // Inside a map the same function may name other devices.
  std::string full = str(name, " ", key, " ", signature(args, out));
  if (const auto* m = manual()) {
    for (std::size_t a = 0; a < m->names.size(); ++a) full += str(" ", m->names[a], m->sizes[a], m->manual[a]);
  }
  auto found = called_.find(full);
  if (found != called_.end()) return found->second;
  std::string clean = clean_name(name);
  int n = names_[clean]++;
  std::string unique = n == 0 ? clean : str(clean, "_", n - 1);
  ir::Types in;
  for (const auto& a : args) in.push_back(a.type);
  functions_ += function(unique, in, false, body);
  called_.emplace(full, unique);
  return unique;
}
Texts Writer::call(const std::string& name, const std::string& key, const Texts& args, const ir::Types& out,
                   const Body& body) {
  std::string callee = private_function(name, key, args, out, body);
  return line(str(indent_ == 2 ? "call @" : "func.call @", callee, "(", names_of(args), ") : ", signature(args, out)),
              out);
}
namespace {
// Fields of an equation as a dictionary of MLIR. Empty lists are left out: the reader takes a field's default.
std::string dictionary(const ir::Attrs& attrs) {
  std::vector<std::string> out;
  if (!attrs) return "";
  for (auto [name, text] : attrs->fields()) {
    if (text == "()") continue;
    if (text.starts_with('(')) {
      text = str("array<i64: ", text.substr(1, text.find_last_not_of(",)")), ">");
    } else if (text != "true" && text != "false") {
      text += " : i64";
    }
    out.push_back(str(name, " = ", text));
  }
  return join(out);
}
}  // namespace
Texts Writer::composite(const ir::Eqn& e, const Texts& args, const ir::Types& out, const Body& body) {
  return composite(*e.op, dictionary(e.attrs), args, out, body);
}
Texts Writer::composite(const ir::OpDef& op, const std::string& attributes, const Texts& args, const ir::Types& out,
                        const Body& body) {
  TESSERA_CHECK(op.traits().composite, str(op.name(), " is not read as a composite"));
  std::string name = str("tessera.", op.name());
  std::string callee = private_function(name, attributes, args, out, body);
  std::string dict = attributes.empty() ? "" : str("composite_attributes = {", attributes, "}, ");
  return line(str("stablehlo.composite \"", name, "\" ", names_of(args), " {", dict, "decomposition = @", callee,
                  "} : ", signature(args, out)),
              out);
}
Texts Writer::call(const ir::GraphPtr& g, const std::string& name, const Texts& args) {
  if (g->mesh) return inline_graph(*g, args);
  auto& same_hash = graphs_[ir::hash_of(*g)];
  auto found = std::find_if(same_hash.begin(), same_hash.end(), [&](const auto& x) { return ir::equal(*x.first, *g); });
  if (found == same_hash.end()) found = same_hash.insert(found, {g, str("graph ", num_graphs_++)});
  std::string key = found->second;
  return call(name, key, args, g->output_types(), [&](const Texts& in) { return inline_graph(*g, in); });
}

std::string Writer::port_attributes(const std::vector<ir::Port>& ports, std::size_t i, bool result) {
  std::vector<std::string> attrs;
  if (result) attrs.push_back(str("jax.result_info = \"result", ports.size() > 1 ? str("[", i, "]") : "", "\""));
  const ir::Port* p = i < ports.size() && !options_.replicas ? &ports[i] : nullptr;
  std::string tiles = p != nullptr ? p->tiles : "";
  if (p != nullptr && p->donated) attrs.push_back("jax.buffer_donor = true");
  if (p != nullptr && p->sharding && options_.shardy) {
    meshes_used_.insert(p->sharding->mesh);
    attrs.push_back(str("sdy.sharding = #sdy.sharding", to_string(*p->sharding)));
  } else if (p != nullptr && p->sharding) {
    auto axes = constraint_of(*p->sharding, *module_.find_mesh(p->sharding->mesh));
    if (!axes.unreduced.empty()) {
      throw UnimplementedError("unreduced values in HLO's shardings; write Shardy's");
    }
    tiles = hlo_sharding_text(axes.mesh_sizes, axes.dims);
  }
  if (!tiles.empty()) attrs.push_back(str("mhlo.sharding = \"", tiles, "\""));
  return attrs.empty() ? std::string() : str(" {", join(attrs), "}");
}

std::string Writer::function(const std::string& name, const ir::Types& in, bool is_public, const Body& body) {
  std::string outer = std::move(body_);
  int indent = indent_, next = next_, next_arg = next_arg_, next_constant = next_constant_;
  body_.clear();
  indent_ = 2;
  next_ = next_arg_ = next_constant_ = 0;
  auto narrow = [&](const std::vector<ir::Port>& ports, std::size_t i) {
    return is_public && !options_.replicas && i < ports.size() ? ports[i].element : std::string();
  };
  auto type_text = [&](const ir::Type& t, const std::string& element) {
    return element.empty() ? tensor_text(t) : tensor_text(t.shape, element);
  };
  Texts args;
  std::vector<std::string> heads, results;
  for (std::size_t i = 0; i < in.size(); ++i) {
    args.push_back({str("%arg", next_arg_++), {in[i].dtype, in[i].shape, false}});
    std::string elem = narrow(module_.inputs, i);
    std::string type = type_text(in[i], elem);
    heads.push_back(str(args.back().name, ": ", type, is_public ? port_attributes(module_.inputs, i, false) : ""));
    if (!elem.empty()) {
      std::string wide = tensor_text(in[i]);
      args.back() = line(str("stablehlo.convert ", args.back().name, " : (", type, ") -> ", wide), in[i]);
    }
  }
  Texts out = body(args);
  std::vector<std::string> types;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string elem = narrow(module_.outputs, i);
    types.push_back(type_text(out[i].type, elem));
    results.push_back(str(types.back(), is_public ? port_attributes(module_.outputs, i, true) : ""));
    if (!elem.empty()) {
      std::string from = tensor_text(out[i].type);
      out[i] =
          line(str("stablehlo.convert ", out[i].name, " ", kExact, " : (", from, ") -> ", types.back()), out[i].type);
    }
  }
  std::string arrow = results.size() == 1 && !is_public ? results[0] : str("(", join(results), ")");
  std::string returned = out.empty() ? std::string() : str(" ", names_of(out), " : ", join(types));
  std::string text = str("  func.func ", is_public ? "public" : "private", " @", name, "(", join(heads), ")",
                         results.empty() ? std::string() : str(" -> ", arrow), " {\n",
                         renumbered(str(body_, "    return", returned, "\n")), "  }\n");
  body_ = std::move(outer);
  indent_ = indent;
  next_ = next;
  next_arg_ = next_arg;
  next_constant_ = next_constant;
  return text;
}

std::string Writer::main_function(const ir::Graph& g) {
  if (!options_.replicas || g.mesh) {
    return function("main", g.mesh ? shard_types(g) : g.input_types(), true,
                    [&](const Texts& in) { return inline_graph(g, in); });
  }
  const ir::Eqn* map = g.eqns.size() == 1 && g.eqns[0].op == &ops::def::shard_map ? &g.eqns[0] : nullptr;
  if (map == nullptr || map->in != g.inputs || map->out != g.outputs) {
    throw UnimplementedError(
        "StableHLO text for replicas: the program is more than one pmap or shard_map over its arguments; write it for "
        "partitions");
  }
  const auto& p = ir::get<ops::ShardMap>(map->attrs);
  if (p.manual.size() != p.mesh_sizes.size()) {
    throw UnimplementedError("StableHLO text for replicas: the map leaves axes automatic; write it for partitions");
  }
  enter({p.mesh_names.list, p.mesh_sizes, std::vector<bool>(p.mesh_sizes.size(), true)});
  std::string text =
      function("main", p.body->input_types(), true, [&](const Texts& in) { return inline_graph(*p.body, in); });
  leave();
  return text;
}

std::string Writer::text() {
  std::string main = main_function(*module_.graph);
  std::int64_t devices = module_.num_devices();
  std::string text =
      str("module @", clean_name(module_.name),
          " attributes {mhlo.num_partitions = ", options_.replicas ? 1 : module_.num_partitions,
          " : i32, mhlo.num_replicas = ", options_.replicas ? devices : module_.num_replicas, " : i32} {\n");
  if (options_.shardy) {
    for (const auto& m : module_.meshes) {
      if (meshes_used_.contains(m.name)) text += str("  ", to_string(m), "\n");
    }
  }
  return str(text, main, functions_, "}\n");
}

std::string Writer::mesh_for(const std::vector<std::string>& names, const Dims& sizes) {
  auto same = [&](const ir::NamedMesh& m) { return m.axes == names && m.sizes == sizes && m.device_ids.empty(); };
  auto found = std::ranges::find_if(module_.meshes, same);
  std::string name = found == module_.meshes.end() ? module_.add_mesh({"", names, sizes, {}}) : found->name;
  meshes_used_.insert(name);
  return name;
}

std::string export_module(const ir::Module& module, const TextOptions& options) {
  return Writer(module, options).text();
}

}  // namespace tessera::hlo
