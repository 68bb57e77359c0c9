// SPDX-License-Identifier: Apache-2.0
// Attributes of equations. An op declares a plain struct and lists its fields once:
//
//   struct ReduceSum {
//     Dims axes;
//     static constexpr auto fields = std::tuple{field("axes", &ReduceSum::axes)};
//   };
//
// Printing, parsing, equality and hashing come from that list.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "ir/type.h"
#include "tessera/dtype.h"
#include "tessera/host_array.h"
#include "tessera/shape.h"

namespace tessera::ir {

class Graph;
using GraphPtr = std::shared_ptr<const Graph>;

class AttrsBase {
 public:
  virtual ~AttrsBase() = default;
  virtual bool equals(const AttrsBase& other) const = 0;
  virtual std::size_t hash() const = 0;
  /// "axes=(0, 1), keep=true".
  virtual std::string text() const = 0;
};
/// Null for an op without attributes.
using Attrs = std::shared_ptr<const AttrsBase>;

bool equal(const Attrs& a, const Attrs& b);
std::size_t hash_of(const Attrs& a);

template <class P, class T>
struct Field {
  const char* name;
  T P::*member;
};
template <class P, class T>
constexpr Field<P, T> field(const char* name, T P::*member) {
  return {name, member};
}

/// Something opaque (a callback, a custom rule): equal only to itself.
struct Opaque {
  std::shared_ptr<const void> object;
  std::string label;
  bool operator==(const Opaque& o) const { return object == o.object; }
};

// The kinds of field. `field_text` and `parse_field` are inverses for every kind that a text can hold.
std::string field_text(std::int64_t v);
std::string field_text(int v);
std::string field_text(bool v);
std::string field_text(double v);
std::string field_text(DType v);
std::string field_text(const std::string& v);
std::string field_text(const Dims& v);
std::string field_text(const std::vector<Dims>& v);
std::string field_text(const std::vector<bool>& v);
std::string field_text(const HostArray& v);
std::string field_text(const GraphPtr& v);
std::string field_text(const std::vector<GraphPtr>& v);
std::string field_text(const Opaque& v);
std::string field_text(const Types& v);
template <class T>
requires std::is_enum_v<T> std::string field_text(T v) { return to_string(v); }
template <class T>
std::string field_text(const std::optional<T>& v) {
  return v ? field_text(*v) : std::string("none");
}

std::size_t field_hash(std::int64_t v);
std::size_t field_hash(double v);
std::size_t field_hash(const std::string& v);
std::size_t field_hash(const Dims& v);
std::size_t field_hash(const std::vector<Dims>& v);
std::size_t field_hash(const std::vector<bool>& v);
std::size_t field_hash(const HostArray& v);
std::size_t field_hash(const GraphPtr& v);
std::size_t field_hash(const std::vector<GraphPtr>& v);
std::size_t field_hash(const Opaque& v);
std::size_t field_hash(const Types& v);
inline std::size_t field_hash(int v) { return field_hash(static_cast<std::int64_t>(v)); }
inline std::size_t field_hash(bool v) { return field_hash(static_cast<std::int64_t>(v)); }
template <class T>
requires std::is_enum_v<T> std::size_t field_hash(T v) { return field_hash(static_cast<std::int64_t>(v)); }
template <class T>
std::size_t field_hash(const std::optional<T>& v) {
  return v ? field_hash(*v) : std::size_t{77};
}

bool field_equal(const HostArray& a, const HostArray& b);
bool field_equal(const GraphPtr& a, const GraphPtr& b);
bool field_equal(const std::vector<GraphPtr>& a, const std::vector<GraphPtr>& b);
template <class T>
bool field_equal(const T& a, const T& b) {
  return a == b;
}

template <class P>
class AttrsOf final : public AttrsBase {
 public:
  explicit AttrsOf(P v) : value(std::move(v)) {}
  bool equals(const AttrsBase& other) const override {
    const auto* o = dynamic_cast<const AttrsOf*>(&other);
    if (o == nullptr) return false;
    return std::apply([&](auto... f) { return (field_equal(value.*(f.member), o->value.*(f.member)) && ...); },
                      P::fields);
  }
  std::size_t hash() const override {
    std::size_t h = 17;
    std::apply([&](auto... f) { ((h = base::hash_mix(h, field_hash(value.*(f.member)))), ...); }, P::fields);
    return h;
  }
  std::string text() const override {
    std::string out;
    std::apply(
        [&](auto... f) {
          ((out += out.empty() ? "" : ", ", out += f.name, out += '=', out += field_text(value.*(f.member))), ...);
        },
        P::fields);
    return out;
  }
  P value;
};

/// For ops without attributes.
struct NoAttrs {
  static constexpr std::tuple<> fields{};
};

template <class P>
Attrs make_attrs(P p) {
  return std::make_shared<const AttrsOf<P>>(std::move(p));
}
template <>
inline Attrs make_attrs(NoAttrs) {
  return nullptr;
}

/// The typed struct inside; the caller knows the op, so the type is certain.
template <class P>
const P& get(const Attrs& a) {
  if constexpr (std::is_same_v<P, NoAttrs>) {
    static const NoAttrs none;
    return none;
  } else {
    return static_cast<const AttrsOf<P>&>(*a).value;
  }
}

/// The typed struct inside when the attributes are of this kind, else null.
template <class P>
const P* get_if(const Attrs& a) {
  const auto* typed = dynamic_cast<const AttrsOf<P>*>(a.get());
  return typed ? &typed->value : nullptr;
}

}  // namespace tessera::ir
