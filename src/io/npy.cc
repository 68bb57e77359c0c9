// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy, versions 1 to 3: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "io/file.h"
#include "tessera/io.h"

namespace tessera {

namespace {

constexpr const char kMagic[] = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
};

// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    Header h;
    bool seen[3] = {};
    expect('{');
    while (peek() != '}') {
      std::string key = quoted();
      expect(':');
      if (key == "descr") {
        h.descr = quoted();
        seen[0] = true;
      } else if (key == "fortran_order") {
        h.fortran = boolean();
        seen[1] = true;
      } else if (key == "shape") {
        h.shape = tuple();
        seen[2] = true;
      } else {
        fail(str("unknown header key '", key, "'"));
      }
      if (peek() == ',') ++at_;
    }
    if (!seen[0] || !seen[1] || !seen[2]) fail("the header lacks descr, fortran_order or shape");
    return h;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FormatError(str("load_npy: \"", name_, "\" is no .npy file: ", what, " at byte ", at_, " of the header"),
                      name_, 1, static_cast<std::int64_t>(at_) + 1);
  }

 private:
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void expect(char c) {
    if (peek() != c) fail(str("expected '", c, "'"));
    ++at_;
  }
  std::string quoted() {
    char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a quoted word");
    std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail("a quoted word has no end");
    std::string word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return word;
  }
  bool boolean() {
    peek();
    for (bool v : {true, false}) {
      std::string word = v ? "True" : "False";
      if (text_.compare(at_, word.size(), word) == 0) {
        at_ += word.size();
        return v;
      }
    }
    fail("expected True or False");
  }
  Shape tuple() {
    Shape out;
    expect('(');
    while (peek() != ')') {
      if (!std::isdigit(static_cast<unsigned char>(peek()))) fail("expected an extent");
      std::int64_t n = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        if (n > INT64_MAX / 10 - 1) fail("an extent is too large");
        n = n * 10 + (text_[at_++] - '0');
      }
      out.push_back(n);
      if (out.size() > 64) fail("more than 64 dimensions");
      if (peek() == ',') ++at_;
    }
    ++at_;
    return out;
  }

  const std::string& text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

struct Stored {
  DType dtype;
  bool swap;
};

Stored stored_dtype(const std::string& descr, const std::string& name) {
  static const std::pair<const char*, DType> known[] = {
      {"b1", bool_},   {"i1", int8},    {"i2", int16},     {"i4", int32},       {"i8", int64},
      {"u1", uint8},   {"u2", uint16},  {"u4", uint32},    {"u8", uint64},      {"f2", float16},
      {"f4", float32}, {"f8", float64}, {"c8", complex64}, {"c16", complex128}, {"V2", bfloat16}};
  for (const auto& [code, dtype] : known) {
    if (descr.size() > 1 && descr.compare(1, std::string::npos, code) == 0 && std::strchr("<>|=", descr[0])) {
      return {dtype, descr[0] == '>' && dtype_size(dtype) > 1};
    }
  }
  throw TypeError(str("load_npy: \"", name, "\" has elements of NumPy's type '", descr,
                      "'; expected bool, integers, floats or complex numbers"));
}

void swap_bytes(char* data, std::int64_t count, std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

}  // namespace

HostArray parse_npy(const std::string& bytes, const std::string& name) {
  auto bad = [&](const std::string& what) {
    throw FormatError(str("load_npy: \"", name, "\" is no .npy file: ", what), name);
  };
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, 6) != 0) bad("it does not begin with NumPy's mark");
  int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) bad(str("version ", version, "; expected 1, 2 or 3"));
  auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])); };
  std::size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) bad("the header is cut off");
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= static_cast<std::size_t>(byte(10) << 16) | static_cast<std::size_t>(byte(11)) << 24;
  if (bytes.size() - start < length) bad("the header is cut off");
  std::string text = bytes.substr(start, length);
  HeaderParser parser(text, name);
  Header h = parser.parse();
  Stored stored = stored_dtype(h.descr, name);
  std::int64_t count = 0;
  try {
    count = size_of(h.shape);
  } catch (const ValueError&) {
    parser.fail(str("shape ", h.shape, " has too many elements"));
  }
  auto item = dtype_size(stored.dtype);
  auto data_bytes = bytes.size() - start - length;
  if (static_cast<std::size_t>(count) > data_bytes / static_cast<std::size_t>(item)) {
    bad(str("shape ", h.shape, " needs ", count, " elements of ", item, " bytes but ", data_bytes,
            " bytes of data follow"));
  }
  HostArray out(stored.dtype, h.shape);
  const char* from = bytes.data() + start + length;
  if (count > 0 && !h.fortran) std::memcpy(out.data(), from, static_cast<std::size_t>(count * item));
  if (count > 0 && h.fortran) {
    Dims strides(h.shape.size());
    std::int64_t step = item;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      strides[d] = step;
      step *= h.shape[d];
    }
    core::copy_strided(out.data(), core::contiguous_strides(h.shape, item), from, strides, h.shape, item);
  }
  if (stored.swap) {
    std::int64_t width = is_complex(stored.dtype) ? item / 2 : item;
    swap_bytes(static_cast<char*>(out.data()), count * (item / width), width);
  }
  if (is_bool(stored.dtype)) {
    auto* v = static_cast<unsigned char*>(out.data());
    for (std::int64_t i = 0; i < count; ++i) v[i] = v[i] != 0 ? 1 : 0;  // other values are no bool
  }
  return out;
}

namespace io {
std::string npy_bytes(const HostArray& given) {
  HostArray value = given.dtype() == bfloat16 ? given.astype(float32) : given;
  static constexpr const char* codes[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4",
                                          "<u8", "<f2", "",    "<f4", "<f8", "<c8", "<c16"};
  std::string header = str("{'descr': '", codes[static_cast<int>(value.dtype())],
                           "', 'fortran_order': False, 'shape': ", base::tuple_text(value.shape()), ", }");
  // Data begins at a multiple of 64 bytes.
  std::size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.append(total - 10 - header.size() - 1, ' ');
  header += '\n';
  std::string out(kMagic, 6);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  if (value.nbytes() > 0) out.append(static_cast<const char*>(value.data()), static_cast<std::size_t>(value.nbytes()));
  return out;
}
}  // namespace io

HostArray load_npy(const std::string& path) { return parse_npy(io::read_file("load_npy", path), path); }
void save_npy(const std::string& path, const HostArray& value) {
  io::write_file("save_npy", path, io::npy_bytes(value));
}

}  // namespace tessera
