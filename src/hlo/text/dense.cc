// SPDX-License-Identifier: Apache-2.0
#include "hlo/text/dense.h"

#include <cstring>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/text/literals.h"

namespace tessera::hlo {

namespace {
int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Bytes that one element takes in hexadecimal form.
std::size_t stored_bytes(Elem e) { return static_cast<std::size_t>((bit_width(e) + 7) / 8); }

template <class T>
void put(HostArray& a, std::int64_t i, T v) {
  static_cast<T*>(a.data())[i] = v;
}

}  // namespace

void store_integer(HostArray& a, std::int64_t i, std::int64_t v) {
  switch (dtype_size(a.dtype())) {
    case 1:
      return put(a, i, static_cast<std::int8_t>(v));
    case 2:
      return put(a, i, static_cast<std::int16_t>(v));
    case 4:
      return put(a, i, static_cast<std::int32_t>(v));
    default:
      return put(a, i, v);
  }
}
void store_float(HostArray& a, std::int64_t i, double v) {
  switch (a.dtype()) {
    case DType::F16:
      return put(a, i, float16_t(static_cast<float>(v)));
    case DType::BF16:
      return put(a, i, bfloat16_t(static_cast<float>(v)));
    case DType::F32:
      return put(a, i, static_cast<float>(v));
    default:
      return put(a, i, v);
  }
}

namespace {
// Writes element after element.
class Filler {
 public:
  Filler(const Source& source, HostArray& to, Elem elem) : source_(source), to_(to), elem_(elem) {}

  void number(Parser& p) {
    if (next_ >= to_.size()) p.fail("more elements than the type has");
    if (is_complex(to_.dtype())) return complex(p);
    if (is_float(to_.dtype())) return store_float(to_, next_++, to_float(source_, p.literal(), elem_));
    if (elem_ == Elem::Bool && p.accept("true")) return store_integer(to_, next_++, 1);
    if (elem_ == Elem::Bool && p.accept("false")) return store_integer(to_, next_++, 0);
    store_integer(to_, next_++, to_integer(source_, p.literal(), elem_));
  }

 private:
  void complex(Parser& p) {
    Elem part = elem_ == Elem::C64 ? Elem::F32 : Elem::F64;
    p.expect("(");
    double re = to_float(source_, p.literal(), part);
    p.expect(",");
    double im = to_float(source_, p.literal(), part);
    p.expect(")");
    if (to_.dtype() == DType::C64) {
      put(to_, next_++, complex64_t(static_cast<float>(re), static_cast<float>(im)));
    } else {
      put(to_, next_++, complex128_t(re, im));
    }
  }

  const Source& source_;
  HostArray& to_;
  Elem elem_;
  std::int64_t next_ = 0;
};

void list(Parser& p, Filler& fill, const Shape& shape, std::size_t depth) {
  if (depth == shape.size()) return fill.number(p);
  p.expect("[");
  std::int64_t n = 0;
  if (!p.peek("]")) {
    do {
      list(p, fill, shape, depth + 1);
      ++n;
    } while (p.accept(","));
  }
  if (!p.accept("]")) p.fail("expected \",\" or \"]\" between elements");
  if (n != shape[depth]) p.fail(str("a list of ", n, " where the type has ", shape[depth]));
}

void from_bytes(HostArray& out, Elem e, const std::vector<std::uint8_t>& bytes) {
  std::size_t width = stored_bytes(e);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const std::uint8_t* at = bytes.data() + static_cast<std::size_t>(i) * width;
    if (is_narrow_float(e)) {
      put(out, i, decode_narrow(e, *at));
    } else if (is_narrow_int(e)) {
      int shift = 8 - bit_width(e);
      auto high = static_cast<std::uint8_t>(*at << shift);
      bool is_signed = e == Elem::I2 || e == Elem::I4;
      store_integer(out, i, is_signed ? static_cast<std::int8_t>(high) >> shift : high >> shift);
    } else if (e == Elem::Bool) {
      store_integer(out, i, *at != 0);
    } else {
      std::memcpy(static_cast<std::uint8_t*>(out.data()) + static_cast<std::size_t>(i) * width, at, width);
    }
  }
}

// Hexadecimal digits between `begin` and `end`; `header` leading bytes (a resource's alignment) are dropped.
HostArray from_hex(const Source& source, Raw raw, const AstType& t, std::size_t header) {
  auto text = source.text().substr(raw.begin, raw.end - raw.begin);
  if (text.substr(0, 2) != "0x" || text.size() % 2 != 0) {
    source.fail(raw.begin, "expected \"0x\" and an even number of hexadecimal digits");
  }
  text.remove_prefix(2);
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) source.fail(raw.begin + 2 + static_cast<Offset>(2 * i), "expected hexadecimal digits");
    bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  if (bytes.size() < header) source.fail(raw.begin, "the resource is too short");
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  auto count = static_cast<std::size_t>(size_of(t.shape));
  std::size_t width = stored_bytes(t.elem);
  if (t.elem == Elem::Bool && header == 0 && bytes.size() == (count + 7) / 8) {  // booleans are packed, low bit first
    bool all = bytes.size() == 1 && bytes[0] == 0xff;
    HostArray out(DType::Bool, all ? Shape{} : t.shape);
    for (std::int64_t i = 0; i < out.size(); ++i) {
      store_integer(out, i, all || (bytes[static_cast<std::size_t>(i / 8)] >> (i % 8) & 1));
    }
    return out;
  }
  bool one = bytes.size() == width && count != 1;
  if (!one && bytes.size() != count * width) {
    source.fail(raw.begin,
                str(bytes.size(), " bytes for a constant of type ", to_string(t), " that has ", count * width));
  }
  HostArray out(storage(t.elem), one ? Shape{} : t.shape);
  from_bytes(out, t.elem, bytes);
  return out;
}
}  // namespace

HostArray spread(const HostArray& a, const Shape& shape) {
  if (a.ndim() != 0 || shape.empty()) return a;
  return HostArray(HostArrayView{a.dtype(), shape, Dims(shape.size(), 0), a.data()});
}

HostArray dense_elements(const Source& source, const AstModule& module, const AstAttr& a) {
  if (a.type.kind != AstType::Kind::Tensor) source.fail(a.pos, "elements need a tensor type");
  const AstType& t = a.type;
  if (a.kind == AstAttr::Kind::Resource) {
    auto it = module.resources.find(a.text);
    if (it == module.resources.end()) source.fail(a.pos, str("there is no resource \"", a.text.substr(0, 60), "\""));
    return from_hex(source, it->second, t, 4);
  }
  if (a.kind != AstAttr::Kind::Dense) source.fail(a.pos, "expected dense<…>");
  Parser p(source, a.raw);
  if (p.at_end()) {
    if (size_of(t.shape) != 0) source.fail(a.pos, "no elements for a type that has some");
    return HostArray(storage(t.elem), t.shape);
  }
  if (p.peek("\"")) return from_hex(source, {p.position() + 1, p.closing_quote()}, t, 0);
  bool one = !p.peek("[");
  if (!one) {
    // Lists cannot name more elements than they have characters: the type alone asks for no memory.
    if (size_of(t.shape) > static_cast<std::int64_t>(a.raw.end - a.raw.begin)) {
      source.fail(a.pos, "fewer elements than the type has");
    }
  }
  HostArray out(storage(t.elem), one ? Shape{} : t.shape);
  Filler fill(source, out, t.elem);
  list(p, fill, out.shape(), 0);
  if (!p.at_end()) p.fail("text behind the elements");
  return out;
}

}  // namespace tessera::hlo
