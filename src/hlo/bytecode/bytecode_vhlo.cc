// SPDX-License-Identifier: Apache-2.0
// What the dialect VHLO encodes: attributes and types of StableHLO with a version each, all of them the first so far.
#include "base/strings.h"
#include "hlo/bytecode/bytecode_values.h"

namespace tessera::hlo {

namespace {
struct NumberRow {
  std::uint64_t code;
  TypeNode::Kind kind;
  int width;
  const char* text;
};
using TypeKind = TypeNode::Kind;
constexpr NumberRow kNumbers[] = {
    {0, TypeKind::Integer, 1, "i1"},
    {2, TypeKind::Float, 16, "bf16"},
    {3, TypeKind::Float, 16, "f16"},
    {4, TypeKind::Float, 32, "f32"},
    {5, TypeKind::Float, 64, "f64"},
    {6, TypeKind::Float, 8, "f8E4M3FN"},
    {7, TypeKind::Float, 8, "f8E5M2"},
    {9, TypeKind::Index, 64, "index"},
    {10, TypeKind::Integer, 4, "i4"},
    {11, TypeKind::Integer, 8, "i8"},
    {12, TypeKind::Integer, 16, "i16"},
    {13, TypeKind::Integer, 32, "i32"},
    {14, TypeKind::Integer, 64, "i64"},
    {15, TypeKind::Unsigned, 4, "ui4"},
    {16, TypeKind::Unsigned, 8, "ui8"},
    {17, TypeKind::Unsigned, 16, "ui16"},
    {18, TypeKind::Unsigned, 32, "ui32"},
    {19, TypeKind::Unsigned, 64, "ui64"},
    {22, TypeKind::Other, 0, "!stablehlo.token"},
    {27, TypeKind::Float, 8, "f8E4M3FNUZ"},
    {28, TypeKind::Float, 8, "f8E5M2FNUZ"},
    {29, TypeKind::Float, 8, "f8E4M3B11FNUZ"},
    {31, TypeKind::Integer, 2, "i2"},
    {32, TypeKind::Unsigned, 2, "ui2"},
    {33, TypeKind::None, 0, "none"},
    {34, TypeKind::Float, 19, "tf32"},
    {35, TypeKind::Float, 8, "f8E4M3"},
    {36, TypeKind::Float, 8, "f8E3M4"},
    {37, TypeKind::Float, 4, "f4E2M1FN"},
    {38, TypeKind::Float, 6, "f6E2M3FN"},
    {39, TypeKind::Float, 6, "f6E3M2FN"},
    {40, TypeKind::Float, 8, "f8E8M0FNU"},
};
}  // namespace

void BytecodeValues::vhlo_type(TypeNode& to, ByteCursor& c) {
  std::uint64_t code = c.varint();
  for (const auto& row : kNumbers) {
    if (row.code == code) return number_type(to, row.kind, row.width, row.text);
  }
  switch (code) {
    case 1:
      to.text = str("complex<", type(type_number(c)).text, ">");
      return;
    case 8:
      return function_type(to, c);
    case 20:
      return tensor_type(to, c, false);
    case 21:
      return tensor_type(to, c, true);
    case 23:
      to.text = str("tuple<", type_list(c), ">");
      return;
    case 24:
    case 30:
      c.fail("quantized types are not supported");
    case 25:
      c.fail("unranked tensors are not supported");
    case 42:
      to.text = str("!stablehlo.future<", type_list(c), ">");
      return;
    default:
      c.fail(str("VHLO types of code ", code, " are not read"));
  }
}

void BytecodeValues::read_word(AttrNode& to, ByteCursor& c, std::string_view name,
                               std::initializer_list<std::string_view> words) {
  to.kind = AttrNode::Kind::Word;
  to.name = name;
  std::uint64_t i = c.varint();
  if (i >= words.size() || words.begin()[i].empty()) c.fail(str("there is no ", name, " ", i));
  to.text = std::string(words.begin()[i]);
}

void BytecodeValues::vhlo_attr(AttrNode& to, ByteCursor& c) {
  using Kind = AttrNode::Kind;
  std::uint64_t code = c.varint();
  switch (code) {
    case 1:
      return read_list(to, c);
    case 2:
      to.kind = Kind::Bool;
      to.integer = c.varint() != 0;
      return;
    case 3:
      return read_word(to, c, "comparison_direction", {"EQ", "NE", "GE", "GT", "LE", "LT"});
    case 4:
      return read_word(to, c, "comparison_type", {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"});
    case 5:  // of custom calls: text says its number
      to.kind = Kind::Text;
      to.text = str(c.varint() & 0xFF, " : i32");
      return;
    case 6:
      return read_dict(to, c);
    case 7:
      return read_word(to, c, "fft_type", {"FFT", "IFFT", "RFFT", "IRFFT"});
    case 8:
      return read_float(to, c);
    case 9:
      return read_integer(to, c);
    case 11:
      return read_word(to, c, "precision", {"DEFAULT", "HIGH", "HIGHEST"});
    case 12:
      return read_word(to, c, "rng_algorithm", {"DEFAULT", "THREE_FRY", "PHILOX"});
    case 13:
      return read_word(to, c, "rng_distribution", {"", "UNIFORM", "NORMAL"});
    case 14:
      to.kind = Kind::String;
      to.text = std::string(tables_.string(c));
      return;
    case 15:
      to.kind = Kind::Elements;
      to.type = type_number(c);
      to.text = std::string(c.bytes(c.varint()));
      return;
    case 16:
      return read_word(to, c, "transpose", {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"});
    case 17:
      to.kind = Kind::Type;
      to.type = type_number(c);
      return;
    case 19:
      return read_word(to, c, "result_accuracy_mode", {"DEFAULT", "HIGHEST", "TOLERANCE"});
    default:
      return vhlo_part(to, c, code);
  }
}

namespace {
std::string bracketed(ByteCursor& c) {
  std::string out = "[";
  for (std::size_t n = c.count(); n > 0; --n) {
    if (out.size() > 1) out += ", ";
    out += str(c.signed_varint());
  }
  return out + "]";
}
}  // namespace

void BytecodeValues::vhlo_part(AttrNode& to, ByteCursor& c, std::uint64_t code) {
  to.kind = AttrNode::Kind::Part;
  switch (code) {
    case 10: {
      to.name = "stablehlo.output_operand_alias";
      std::string outputs = bracketed(c);
      std::int64_t operand = c.signed_varint();
      to.text = str("output_tuple_indices = ", outputs, ", operand_index = ", operand,
                    ", operand_tuple_indices = ", bracketed(c));
      return;
    }
    case 18:
      to.name = "stablehlo.bounds";
      to.text = bracketed(c);
      return;
    case 20: {
      to.name = "stablehlo.result_accuracy";
      bool exact = c.signed_varint() == 0;  // the tolerances are doubles, all bits 0 where they are not given
      exact = c.signed_varint() == 0 && exact;
      exact = c.signed_varint() == 0 && exact;
      const AttrNode& mode = attr(attr_number(c));
      if (exact && mode.text == "DEFAULT") {
        to.kind = AttrNode::Kind::Unit;  // left out by operations
        return;
      }
      to.text = str("mode = #stablehlo.result_accuracy_mode<", mode.text.substr(0, 20), ">");
      return;
    }
    default:
      mesh_part(to, c, code);
  }
}

void BytecodeValues::mesh_part(AttrNode& to, ByteCursor& c, std::uint64_t code) {
  switch (code) {
    case 21: {  // stands within an axis_ref alone
      to.kind = AttrNode::Kind::Text;
      std::int64_t before = c.signed_varint();
      to.text = str("(", before, ")", c.signed_varint());
      return;
    }
    case 22: {
      to.name = "stablehlo.axis_ref";
      to.text = str("name = ", text(attr_number(c)));
      if (c.varint() != 0) to.text += str(", sub_axis_info = ", text(attr_number(c)));
      return;
    }
    case 23: {
      to.name = "stablehlo.replica_group_mesh_axes";
      std::uint32_t mesh = attr_number(c);
      bool named = attr(mesh).kind == AttrNode::Kind::String;  // of a symbol
      to.text = str("mesh = ", named ? "@" : "", text(mesh), ", axes = ");
      to.text += text(attr_number(c));
      return;
    }
    case 24: {
      to.name = "stablehlo.mesh_axis";
      to.text = str("name = ", text(attr_number(c)));
      to.text += str(", size = ", c.signed_varint());
      return;
    }
    case 25: {
      to.name = "stablehlo.mesh";
      to.text = str("axes = ", text(attr_number(c)));
      bool given = false;
      std::uint64_t devices = c.flagged(given);
      if (given) {
        attr(devices, c);
        to.text += str(", device_ids = ", text(static_cast<std::uint32_t>(devices)));
      }
      return;
    }
    default:
      c.fail(str("VHLO attributes of code ", code, " are not read"));
  }
}

}  // namespace tessera::hlo
