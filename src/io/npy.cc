// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy, versions 1 to 3: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/file.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "io/input.h"
#include "io/stored_array.h"
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
    auto once = [&](bool& s, const char* key) {
      if (s) fail(str("'", key, "' is there twice"));
      s = true;
    };
    expect('{');
    while (peek() != '}') {
      std::string key = quoted();
      expect(':');
      if (key == "descr") {
        once(seen[0], "descr");
        h.descr = quoted();
      } else if (key == "fortran_order") {
        once(seen[1], "fortran_order");
        h.fortran = boolean();
      } else if (key == "shape") {
        once(seen[2], "shape");
        h.shape = tuple();
      } else {
        fail(str("unknown header key '", key, "'"));
      }
      if (peek() != '}') expect(',');
    }
    ++at_;
    if (!seen[0] || !seen[1] || !seen[2]) fail("the header lacks descr, fortran_order or shape");
    if (peek() != '\0' || at_ != text_.size()) fail("something follows the dictionary");
    if (!text_.ends_with('\n')) fail("no line break ends the header");
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
      if (peek() != ')' || out.size() == 1) expect(',');  // "(3)" is no tuple
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

// The header's text, of a file that has so many bytes.
std::string header_dict(const io::NextBytes& next, std::uint64_t& size, const std::string& name) {
  auto bad = [&](const std::string& what) {
    throw FormatError(str("load_npy: \"", name, "\" is no .npy file: ", what), name);
  };
  unsigned char head[12] = {};
  if (size < 10) bad(str("it has ", size, " bytes"));
  next(head, 10);
  if (std::memcmp(head, kMagic, 6) != 0) bad("it does not begin with NumPy's mark");
  int version = head[6];
  if (version < 1 || version > 3 || head[7] != 0)
    bad(str("version ", version, ".", int{head[7]}, "; expected 1.0 to 3.0"));
  size -= 10;
  std::size_t length = head[8] | std::size_t{head[9]} << 8;
  if (version > 1) {
    if (size < 2) bad("the header is cut off");
    next(head + 10, 2);
    size -= 2;
    length |= std::size_t{head[10]} << 16 | std::size_t{head[11]} << 24;
  }
  if (size < length) bad("the header is cut off");
  // Longer than any header, and short enough to be read by mistake.
  if (length > std::size_t{1} << 20) bad(str("its header has ", length, " bytes"));
  std::string text(length, '\0');
  next(text.data(), length);
  size -= length;
  return text;
}

}  // namespace

namespace io {

void make_native(void* elements, DType dtype, std::int64_t count, bool swap) {
  std::int64_t item = dtype_size(dtype);
  if (swap) {
    std::int64_t width = is_complex(dtype) ? item / 2 : item;
    swap_bytes(static_cast<char*>(elements), count * (item / width), width);
  }
  if (is_bool(dtype)) {
    auto* v = static_cast<unsigned char*>(elements);
    for (std::int64_t i = 0; i < count; ++i) v[i] = v[i] != 0 ? 1 : 0;  // other values are no bool
  }
}

StoredArray read_npy_header(const NextBytes& next, std::uint64_t file_size, const std::string& name) {
  std::uint64_t size = file_size;
  std::string text = header_dict(next, size, name);
  HeaderParser parser(text, name);
  Header h = parser.parse();
  Stored stored = stored_dtype(h.descr, name);
  std::int64_t count = 0;
  try {
    count = size_of(h.shape);
  } catch (const ValueError&) {
    parser.fail(str("shape ", h.shape, " has too many elements"));
  }
  std::int64_t item = dtype_size(stored.dtype);
  if (size % static_cast<std::uint64_t>(item) != 0 ||
      size / static_cast<std::uint64_t>(item) != static_cast<std::uint64_t>(count)) {
    throw FormatError(str("load_npy: \"", name, "\" is no .npy file: shape ", h.shape, " has ", count, " elements of ",
                          item, " bytes but ", size, " bytes follow the header"),
                      name);
  }
  return {stored.dtype, h.shape, h.fortran, stored.swap, file_size - size};
}

HostArray read_npy(const NextBytes& next, std::uint64_t size, const std::string& name) {
  const StoredArray h = read_npy_header(next, size, name);
  const std::int64_t item = dtype_size(h.dtype);
  HostArray out(h.dtype, h.shape);
  if (out.size() > 0) next(out.data(), static_cast<std::size_t>(out.nbytes()));
  if (out.size() > 0 && h.fortran && h.shape.size() > 1) {
    HostArray rows(h.dtype, h.shape);
    Dims strides(h.shape.size());
    std::int64_t step = item;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      strides[d] = step;
      step *= h.shape[d];
    }
    core::copy_strided(rows.data(), core::contiguous_strides(h.shape, item), out.data(), strides, h.shape, item);
    out = std::move(rows);
  }
  make_native(out.data(), out.dtype(), out.size(), h.swap);
  return out;
}

HostArray as_numpy(const HostArray& value) { return value.dtype() == bfloat16 ? value.astype(float32) : value; }

std::string npy_header(const HostArray& value) {
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
  return out + header;
}

}  // namespace io

namespace {
HostArray from_input(const io::Input& in) {
  std::uint64_t at = 0;
  return io::read_npy(
      [&](void* to, std::size_t n) {
        in.read(at, to, n);
        at += n;
      },
      in.size(), in.name());
}
}  // namespace

HostArray parse_npy(const std::string& bytes, const std::string& name, const Loc&) {
  return from_input(io::Input(bytes, name));
}
HostArray load_npy(const std::string& path, const Loc&) { return from_input(io::Input::open("load_npy", path)); }

void save_npy(const std::string& path, const HostArray& given, const Loc&) {
  io::check_defined("save_npy", "value", given);
  HostArray value = io::as_numpy(given);
  base::write_file("save_npy", path, [&](base::OutputFile& out) {
    std::string header = io::npy_header(value);
    out.write(0, header.data(), header.size());
    out.write(header.size(), value.data(), static_cast<std::size_t>(value.nbytes()));
  });
}

}  // namespace tessera
