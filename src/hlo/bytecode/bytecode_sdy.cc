// SPDX-License-Identifier: Apache-2.0
// What Shardy's dialect encodes: meshes, shardings and their parts.
#include "base/strings.h"
#include "hlo/bytecode/bytecode_values.h"

namespace tessera::hlo {

// A list of attributes, each as it stands within another one.
std::string BytecodeValues::parts(ByteCursor& c, std::string_view open, std::string_view close) {
  std::string out(open);
  for (std::size_t n = c.count(); n > 0; --n) {
    if (out.size() > open.size()) out += ", ";
    out += inside(attr_number(c));
    bound(out);
  }
  return out += close;
}

namespace {
std::string signed_list(ByteCursor& c) {
  std::string out;
  for (std::size_t n = c.count(); n > 0; --n) out += str(out.empty() ? "" : ", ", c.signed_varint());
  return out;
}
}  // namespace

void BytecodeValues::sdy_attr(AttrNode& to, ByteCursor& c) {
  to.kind = AttrNode::Kind::Part;
  std::uint64_t code = c.varint();
  switch (code) {
    case 0:
      to.name = "sdy.manual_axes";
      to.text = parts(c, "{", "}");
      return;
    case 1: {
      to.name = "sdy.mesh_axis";
      std::string name = quoted(tables_.string(c));
      to.text = str(name, "=", c.signed_varint());
      return;
    }
    case 2: {
      to.name = "sdy.mesh";
      to.text = parts(c, "[", "]");
      std::string devices = signed_list(c);
      if (!devices.empty()) to.text += str(", device_ids=[", devices, "]");
      return;
    }
    case 3: {
      to.name = "sdy.sub_axis_info";
      std::int64_t before = c.signed_varint();
      to.text = str("(", before, ")", c.signed_varint());
      return;
    }
    case 4: {
      to.name = "sdy.axis_ref";
      to.text = quoted(tables_.string(c));
      bool part = false;
      std::uint64_t i = c.flagged(part);
      if (part) {
        attr(i, c);
        to.text += str(":", inside(static_cast<std::uint32_t>(i)));
      }
      return;
    }
    case 11:
      to.name = "sdy.axis_ref_list";
      to.text = parts(c, "{", "}");
      return;
    case 12:
      to.name = "sdy.list_of_axis_ref_lists";
      to.text = parts(c, "[", "]");
      return;
    default:
      return sdy_sharding(to, c, code);
  }
}

void BytecodeValues::sdy_sharding(AttrNode& to, ByteCursor& c, std::uint64_t code) {
  switch (code) {
    case 5: {  // of one dimension
      to.name = "sdy.dimension_sharding";
      to.text = parts(c, "{", "");
      if (c.byte() == 0) to.text += to.text.size() > 1 ? ", ?" : "?";
      to.text += "}";
      bool has = false;
      std::uint64_t priority = c.flagged(has);
      if (has) to.text += str("p", priority);
      return;
    }
    case 6:
    case 15:
    case 17: {
      to.name = "sdy.sharding";
      const AttrNode& mesh = attr(attr_number(c));
      bool inlined = mesh.kind == AttrNode::Kind::Part;
      to.text = inlined ? str("mesh<", mesh.text, ">") : printed(mesh);
      to.text += parts(c, ", [", "]");
      std::string replicated = parts(c, "", ""), unreduced = code == 6 ? "" : parts(c, "", "");
      if (!replicated.empty()) to.text += str(", replicated={", replicated, "}");
      if (!unreduced.empty()) to.text += str(", unreduced={", unreduced, "}");
      if (code == 17 && c.signed_varint() != 0) c.fail("unreduced axes of another reduction than a sum");
      return;
    }
    case 7:
    case 16:
      to.name = "sdy.sharding_per_value";
      for (std::size_t n = c.count(); n > 0; --n) {
        to.text += str(to.text.empty() ? "[<" : ", <", inside(attr_number(c)), ">");
        bound(to.text);
      }
      to.text += to.text.empty() ? "[]" : "]";
      return;
    case 8:
    case 9:
    case 10:
      return sdy_rule(to, c);
    default:
      c.fail(str("Shardy's attributes of code ", code, " are not read"));
  }
}

// How an operation may be split. Rules of custom calls say nothing that this library does not find itself, so their
// factors are not written out.
void BytecodeValues::sdy_rule(AttrNode& to, ByteCursor& c) {
  to.name = "sdy.op_sharding_rule";
  c.bytes(c.remaining());
}

}  // namespace tessera::hlo
