// SPDX-License-Identifier: Apache-2.0
// Ops that StableHLO lacks: the writer names them beside their decompositions.
#include "base/strings.h"
#include "hlo/import/import.h"
#include "ir/text_reader.h"
#include "ops/ops.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
// Fields of an op as its attributes print them; nothing where an attribute is of a kind that no field has.
std::optional<std::string> fields_text(OpCall& c, const AstAttr& dict) {
  std::vector<std::string> out;
  for (const auto& f : dict.fields) {
    const AstAttr& v = f.value;
    using Kind = AstAttr::Kind;
    if (v.kind != Kind::Bool && v.kind != Kind::Int && v.kind != Kind::Array && v.kind != Kind::Dense) {
      return std::nullopt;
    }
    std::string text = v.kind == Kind::Bool  ? v.integer != 0 ? "true" : "false"
                       : v.kind == Kind::Int ? str(v.integer)
                                             : base::tuple_text(c.dims_of(v));
    out.push_back(str(f.name, "=", text));
  }
  return str("[", join(out), "]");
}

// The op's results; none when the text does not fit the op.
Values values_of_op(OpCall& c, const std::string& name) {
  const ir::OpDef* op = ops::find(name);
  if (op == nullptr || !op->traits().composite) return {};
  const AstAttr* dict = c.find("composite_attributes");
  std::optional<std::string> text = dict == nullptr ? "[]" : fields_text(c, *dict);
  if (!text) return {};
  try {
    ir::TextReader r(*text, ops::find);
    ir::Attrs attrs = op->read(r, ir::MissingFields::Default);
    if (!attrs && *text != "[]") return {};
    return c.b().add(*op, values_of(c.in), attrs);
  } catch (const ValueError&) {
    return {};
  } catch (const TypeError&) {
    return {};
  }
}
}  // namespace

std::optional<Items> own_composite(OpCall& c, const std::string& name) {
  Values out = values_of_op(c, name);
  if (out.empty() || out.size() != c.op.result_types.size()) return std::nullopt;
  Items items;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const AstType& want = c.out(i);
    if (storage(want.elem) != out[i].dtype() || want.shape != out[i].shape()) return std::nullopt;
    items.push_back(tensor(want.elem, out[i]));
  }
  return items;
}

}  // namespace tessera::hlo
