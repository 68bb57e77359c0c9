// SPDX-License-Identifier: Apache-2.0
// The text form of a mesh: a header, then counts, sizes, names (each with its length in front, so that any text may be
// a name), device ids and, where an axis is not `Auto`, the types of the axes.
#include <charconv>

#include "base/strings.h"
#include "mesh/mesh_state.h"
#include "tessera/error.h"

namespace tessera {

namespace {

constexpr std::string_view kHeader = "tessera-mesh-1";
constexpr std::size_t kMaxRank = 64;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void expect(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail(str("\"", word, "\""));
    at_ += word.size();
  }
  std::int64_t number() {
    std::int64_t v = 0;
    auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (r.ec != std::errc()) fail("a number");
    at_ = static_cast<std::size_t>(r.ptr - text_.data());
    return v;
  }
  std::string name(std::size_t length) {
    if (length > text_.size() - at_) fail("a name as long as its length says");
    at_ += length;
    return std::string(text_.substr(at_ - length, length));
  }
  std::size_t count(std::size_t limit, const char* what) {
    std::int64_t n = number();
    if (n < 0 || static_cast<std::uint64_t>(n) > limit) fail(str(what, " in 0..", limit));
    return static_cast<std::size_t>(n);
  }
  std::size_t left() const { return text_.size() - at_; }
  [[noreturn]] void fail(const std::string& expected) const {
    throw FormatError(str("deserialize_mesh: column ", at_ + 1, ": expected ", expected), "", 1,
                      static_cast<std::int64_t>(at_ + 1));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string serialize(const Mesh& m) {
  std::string out = str(kHeader, m.has_names() ? " named " : " unnamed ", m.ndim());
  for (std::int64_t i = 0; i < m.ndim(); ++i) {
    const auto& axis = m.shape_tuple()[static_cast<std::size_t>(i)];
    out += str(" ", axis.size);
    if (m.has_names()) out += str(" ", axis.name.size(), ":", axis.name);
  }
  out += str(" ", m.size());
  for (const auto& d : m.devices_flat()) out += str(" ", d.id());
  if (mesh::axis_types_text(m.axis_types()).empty()) return out;
  out += " types";
  for (auto t : m.axis_types()) out += str(" ", static_cast<int>(t));
  return out;
}

Mesh deserialize_mesh(std::string_view text, const Client& client, const Loc&) {
  Reader in(text);
  in.expect(kHeader);
  bool named = text.substr(kHeader.size(), 7) == " named ";
  in.expect(named ? " named " : " unnamed ");
  std::size_t n = in.count(kMaxRank, "a number of axes");
  Shape shape;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) {
    in.expect(" ");
    shape.push_back(static_cast<std::int64_t>(in.count(INT32_MAX, "an axis size")));
    if (!named) continue;
    in.expect(" ");
    std::size_t length = in.count(text.size(), "a length");
    in.expect(":");
    names.push_back(in.name(length));
  }
  in.expect(" ");
  std::size_t count = in.count(in.left(), "a number of devices");
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    in.expect(" ");
    devices.push_back(client.device(in.number()));
  }
  MeshOptions options;
  if (in.left() != 0) {
    in.expect(" types");
    for (std::size_t i = 0; i < n; ++i) {
      in.expect(" ");
      options.axis_types.push_back(static_cast<AxisType>(in.count(2, "a type of an axis")));
    }
  }
  if (in.left() != 0) in.fail("the end of the text");
  if (n == 0 && count == 0) return Mesh();
  if (size_of(shape) != static_cast<std::int64_t>(count)) in.fail(str(size_of(shape), " devices"));
  if (!named) return Mesh(DeviceArray(std::move(devices), std::move(shape)), std::nullopt, options);
  return Mesh(DeviceArray(std::move(devices), std::move(shape)), names, options);
}

}  // namespace tessera
