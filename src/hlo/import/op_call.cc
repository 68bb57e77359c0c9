// SPDX-License-Identifier: Apache-2.0
// What one operation's rule asks for: operands, attributes, regions.
#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/mesh_axis_groups.h"
#include "hlo/text/parse.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
constexpr std::int64_t kMostListed = std::int64_t{1} << 22;

// Extents and what is counted along them are smaller (`Importer::check_type`), so that sums and products of two stay
// within 64 bits.
std::int64_t small(const Source& source, Offset pos, std::int64_t n) {
  if (n > kMostAlong || n < -kMostAlong) source.fail(pos, str(n, " is beyond what a dimension can have"));
  return n;
}
}  // namespace

void OpCall::fail(const std::string& what) const {
  importer.source().fail(op.pos, str(op.name, ": ", what, importer.origin(op)));
}
const Item& OpCall::operand(std::size_t i) const {
  if (i >= in.size()) fail(str("expected more than ", in.size(), " operands"));
  return in[i];
}
Value OpCall::v(std::size_t i) const {
  const Item& item = operand(i);
  if (item.kind != AstType::Kind::Tensor) fail(str("operand ", i, " is no tensor"));
  return item.value;
}
const AstType& OpCall::out(std::size_t i) const {
  if (i >= op.result_types.size()) fail(str("expected a type for result ", i));
  return op.result_types[i];
}
const AstAttr& OpCall::need(std::string_view name) const {
  const AstAttr* a = find(name);
  if (a == nullptr) fail(str("attribute \"", name, "\" is missing"));
  return *a;
}
void OpCall::check_operands(std::size_t count) const {
  if (in.size() != count) fail(str("has ", in.size(), " operands; expected ", count));
}
const AstRegion& OpCall::region(std::size_t i) const {
  if (i >= op.regions.size()) fail(str("expected a region, number ", i));
  return op.regions[i];
}

Dims OpCall::dims_of(const AstAttr& a) const {
  auto checked = [&](std::int64_t n) { return small(importer.source(), a.pos, n); };
  if (a.kind == AstAttr::Kind::Dense) {
    if (!is_integer(storage(a.type.elem)) && !is_bool(storage(a.type.elem))) {
      importer.source().fail(a.pos, str("expected integers, got ", to_string(a.type)));
    }
    // One value for all asks for no memory in the text.
    if (size_of(a.type.shape) > kMostListed) {
      importer.source().fail(a.pos,
                             str("a list of ", size_of(a.type.shape), "; no attribute needs more than ", kMostListed));
    }
    Dims out = importer.elements(a).astype(DType::I64).to_vector<std::int64_t>();
    for (auto n : out) checked(n);
    return out;
  }
  if (a.kind == AstAttr::Kind::Dialect) {
    Parser p(importer.source(), a.raw);
    Dims out;
    while (!p.at_end()) {
      out.push_back(checked(p.integer()));
      if (!p.accept(",") && !p.at_end()) p.fail("expected \",\"");
    }
    return out;
  }
  if (a.kind != AstAttr::Kind::Array) importer.source().fail(a.pos, "expected a list of integers");
  Dims out;
  for (const auto& i : a.items) {
    if (i.kind != AstAttr::Kind::Int && i.kind != AstAttr::Kind::Bool) {
      importer.source().fail(i.pos, "expected an integer");
    }
    out.push_back(checked(i.integer));
  }
  return out;
}

std::vector<Dims> OpCall::table_of(const AstAttr& a) const {
  std::vector<Dims> out;
  if (a.kind == AstAttr::Kind::Dense) {
    const Shape& shape = a.type.shape;
    if (shape.size() != 2) importer.source().fail(a.pos, "expected a table of two dimensions");
    Dims all = dims_of(a);
    auto width = static_cast<std::size_t>(shape[1]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i) {
      out.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i * width),
                       all.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    }
    return out;
  }
  if (is_mesh_axis_groups(a)) return mesh_axis_groups(*this, a);
  if (a.kind != AstAttr::Kind::Array) importer.source().fail(a.pos, "expected a table of integers");
  for (const auto& row : a.items) out.push_back(dims_of(row));
  return out;
}

Dims OpCall::dims(std::string_view name) const { return dims_of(need(name)); }
Dims OpCall::dims_or(std::string_view name, const Dims& otherwise) const {
  const AstAttr* a = find(name);
  return a ? dims_of(*a) : otherwise;
}
std::int64_t OpCall::integer(std::string_view name) const {
  const AstAttr& a = need(name);
  if (a.kind != AstAttr::Kind::Int) importer.source().fail(a.pos, str(name, " must be an integer"));
  return small(importer.source(), a.pos, a.integer);
}
std::int64_t OpCall::integer_or(std::string_view name, std::int64_t otherwise) const {
  return find(name) ? integer(name) : otherwise;
}
bool OpCall::flag(std::string_view name, bool otherwise) const {
  const AstAttr* a = find(name);
  if (a == nullptr) return otherwise;
  bool known = a->kind == AstAttr::Kind::Unit || a->kind == AstAttr::Kind::Bool || a->kind == AstAttr::Kind::Int;
  if (!known) importer.source().fail(a->pos, str(name, " must be true or false"));
  return a->kind == AstAttr::Kind::Unit || a->integer != 0;
}
std::string OpCall::word_of(const AstAttr& a) const {
  if (a.kind == AstAttr::Kind::Word || a.kind == AstAttr::Kind::String || a.kind == AstAttr::Kind::Symbol)
    return a.text;
  if (a.kind == AstAttr::Kind::Dialect) {
    Parser p(importer.source(), a.raw);
    std::string last;
    while (!p.at_end()) {
      auto w = p.word();
      if (w.empty()) p.fail("expected a word");
      last = std::string(w);
    }
    return last;
  }
  importer.source().fail(a.pos, "expected a word");
}
std::string OpCall::word(std::string_view name) const {
  const AstAttr* a = find(name);
  return a ? word_of(*a) : std::string();
}

Items OpCall::inlined_region(const char* what) {
  RegionGraph r = importer.region(scope, region(0), what);
  Values args = values_of(in);
  for (const auto& v : values_of(r.captured)) args.push_back(v);
  return shaped_like(r.out_types, b().inline_graph(*r.graph, args));
}
HostArray OpCall::known(std::size_t i) const {
  if (!operand(i).known) {
    throw UnimplementedError(str(importer.source().where(op.pos), ": ", op.name, ": operand ", i,
                                 " must be a constant of the program: shapes are fixed when it is read"));
  }
  return *operand(i).known;
}
Dims OpCall::known_dims(std::size_t i) const {
  Dims out = known(i).astype(DType::I64).to_vector<std::int64_t>();
  for (auto n : out) small(importer.source(), op.pos, n);
  return out;
}
GraphPtr OpCall::function_of_numbers(const AstRegion& r, const char* what, std::size_t args,
                                     std::size_t results) const {
  if (r.args.size() != args) fail(str(what, " takes ", r.args.size(), " numbers; expected ", args));
  RegionGraph g = importer.region(scope, r, what);
  if (!g.captured.empty())
    throw UnimplementedError(str(what, " that uses values from outside; pass them as further operands"));
  if (g.graph->inputs.size() != args || g.graph->outputs.size() != results) {
    fail(str(what, " gives ", g.graph->outputs.size(), " numbers; expected ", results));
  }
  return g.graph;
}

}  // namespace tessera::hlo
