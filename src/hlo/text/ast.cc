// SPDX-License-Identifier: Apache-2.0
#include "hlo/text/ast.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
struct ElemRow {
  std::string_view name;
  DType storage;
  int bits;
};
constexpr std::array<ElemRow, 30> kElems = {{
    {"i1", DType::Bool, 1},
    {"i2", DType::I8, 2},
    {"i4", DType::I8, 4},
    {"i8", DType::I8, 8},
    {"i16", DType::I16, 16},
    {"i32", DType::I32, 32},
    {"i64", DType::I64, 64},
    {"ui2", DType::U8, 2},
    {"ui4", DType::U8, 4},
    {"ui8", DType::U8, 8},
    {"ui16", DType::U16, 16},
    {"ui32", DType::U32, 32},
    {"ui64", DType::U64, 64},
    {"f4E2M1FN", DType::F32, 4},
    {"f6E2M3FN", DType::F32, 6},
    {"f6E3M2FN", DType::F32, 6},
    {"f8E3M4", DType::F32, 8},
    {"f8E4M3", DType::F32, 8},
    {"f8E4M3FN", DType::F32, 8},
    {"f8E4M3FNUZ", DType::F32, 8},
    {"f8E4M3B11FNUZ", DType::F32, 8},
    {"f8E5M2", DType::F32, 8},
    {"f8E5M2FNUZ", DType::F32, 8},
    {"f8E8M0FNU", DType::F32, 8},
    {"f16", DType::F16, 16},
    {"bf16", DType::BF16, 16},
    {"f32", DType::F32, 32},
    {"f64", DType::F64, 64},
    {"complex<f32>", DType::C64, 64},
    {"complex<f64>", DType::C128, 128},
}};
const ElemRow& row(Elem e) { return kElems[static_cast<std::size_t>(e)]; }
}  // namespace

std::string to_string(Elem e) { return std::string(row(e).name); }
std::optional<Elem> elem_named(std::string_view name) {
  for (std::size_t i = 0; i < kElems.size(); ++i) {
    if (name == kElems[i].name) return static_cast<Elem>(i);
  }
  return std::nullopt;
}
DType storage(Elem e) { return row(e).storage; }
int bit_width(Elem e) { return row(e).bits; }
bool is_narrow_int(Elem e) { return e == Elem::I2 || e == Elem::I4 || e == Elem::U2 || e == Elem::U4; }
bool is_narrow_float(Elem e) { return e >= Elem::F4E2M1FN && e <= Elem::F8E8M0FNU; }
Elem elem_of(DType t) {
  for (std::size_t i = 0; i < kElems.size(); ++i) {
    auto e = static_cast<Elem>(i);
    if (kElems[i].storage == t && !is_narrow_int(e) && !is_narrow_float(e)) return e;
  }
  throw TypeError(str("no element type for ", dtype_name(t)));
}

std::string to_string(const AstType& t) {
  if (t.kind == AstType::Kind::Token) return "!stablehlo.token";
  if (t.kind == AstType::Kind::Tuple) return str("tuple<", join(t.parts), ">");
  std::string out = "tensor<";
  for (auto d : t.shape) out += str(d, "x");
  return str(out, to_string(t.elem), ">");
}

const AstAttr* AstAttr::find(std::string_view name) const {
  for (const auto& f : fields) {
    if (f.name == name) return &f.value;
  }
  return nullptr;
}

Source::Source(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {
  if (text_.size() >= (std::size_t{1} << 31)) {
    throw FormatError(str(name_, ": ", text_.size(), " bytes; modules of 2 GB or more are refused"), name_);
  }
  lines_.push_back(0);
  for (auto i = text_.find('\n'); i != std::string::npos; i = text_.find('\n', i + 1)) {
    lines_.push_back(static_cast<Offset>(i + 1));
  }
}
std::int64_t Source::line(Offset pos) const {
  return std::upper_bound(lines_.begin(), lines_.end(), pos) - lines_.begin();
}
std::int64_t Source::column(Offset pos) const {
  return static_cast<std::int64_t>(pos) - static_cast<std::int64_t>(lines_[static_cast<std::size_t>(line(pos) - 1)]) +
         1;
}
std::string Source::where(Offset pos) const { return str(name_, ":", line(pos), ":", column(pos)); }
void Source::fail(Offset pos, const std::string& what) const {
  throw FormatError(str(where(pos), ": ", what), name_, line(pos), column(pos));
}

}  // namespace tessera::hlo
