// SPDX-License-Identifier: Apache-2.0
// Attributes of equations. An op declares a plain struct and lists its fields once:
//
//   struct ReduceSum {
//     Dims axes;
//     static constexpr auto fields = std::tuple{field("axes", &ReduceSum::axes)};
//   };
//
// Printing, parsing, equality and hashing come from that list. An enum among the fields lists its names once, by a
// function that argument-dependent look-up finds: `constexpr std::array enum_names(Mode) { … }`.
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
#include "ir/text_reader.h"
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
  /// Names and values of the fields as strings, in their order.
  virtual std::vector<std::pair<std::string, std::string>> fields(TextForm form = TextForm::Short) const = 0;
  /// "axes=(0, 1), keep=true".
  std::string text(TextForm form = TextForm::Short) const;
};
/// Null for an op without attributes.
using Attrs = std::shared_ptr<const AttrsBase>;

bool equal(const Attrs& a, const Attrs& b);
std::size_t hash_of(const Attrs& a);

template <class P, class T>
struct Field {
  const char* name;
  T P::*member;
  bool rare = false;  ///< omitted from texts where it has its default
};
template <class P, class T>
constexpr Field<P, T> field(const char* name, T P::*member) {
  return {name, member};
}
template <class P, class T>
constexpr Field<P, T> rare_field(const char* name, T P::*member) {
  return {name, member, true};
}

/// Something opaque (a callback, a custom rule): equal only to itself.
struct Opaque {
  std::shared_ptr<const void> object;
  std::string label;
  bool operator==(const Opaque& o) const { return object == o.object; }
};

/// "one of a, b (got c)", for messages.
std::string one_of_names(const char* const* names, std::size_t count, std::string_view got);

// The kinds of field. `read_field` reads what `field_text` writes, but for opaque fields and elided constants.
std::string field_text(std::int64_t v);
std::string field_text(int v);
std::string field_text(bool v);
std::string field_text(double v);
std::string field_text(DType v);
std::string field_text(const std::string& v);
std::string field_text(const Dims& v);
std::string field_text(const std::vector<Dims>& v);
std::string field_text(const std::vector<bool>& v);
std::string field_text(const HostArray& v, TextForm form);  // "f32[2]{1, 2.5}"
std::string field_text(const GraphPtr& v, TextForm form);
std::string field_text(const std::vector<GraphPtr>& v, TextForm form);
std::string field_text(const Opaque& v);
std::string field_text(const Types& v);
template <class T>
requires std::is_enum_v<T> std::string field_text(T v) { return enum_names(v)[static_cast<std::size_t>(v)]; }
template <class T>
std::string field_text(const std::optional<T>& v) {
  return v ? field_text(*v) : std::string("none");
}

void read_field(TextReader& r, std::int64_t& v);
void read_field(TextReader& r, int& v);
void read_field(TextReader& r, bool& v);
void read_field(TextReader& r, double& v);
void read_field(TextReader& r, DType& v);
void read_field(TextReader& r, std::string& v);
void read_field(TextReader& r, Dims& v);
void read_field(TextReader& r, std::vector<Dims>& v);
void read_field(TextReader& r, std::vector<bool>& v);
void read_field(TextReader& r, HostArray& v);
void read_field(TextReader& r, GraphPtr& v);
void read_field(TextReader& r, std::vector<GraphPtr>& v);
void read_field(TextReader& r, Opaque& v);
void read_field(TextReader& r, Types& v);
template <class T>
requires std::is_enum_v<T>
void read_field(TextReader& r, T& v) {
  constexpr auto names = enum_names(T{});
  std::string_view word = r.word();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (word == names[i]) {
      v = static_cast<T>(i);
      return;
    }
  }
  r.fail(one_of_names(names.data(), names.size(), word));
}
template <class T>
void read_field(TextReader& r, std::optional<T>& v) {
  if (!r.accept("none")) read_field(r, v.emplace());
}
/// "(a, b)": calls `read_item` once per item.
template <class F>
void read_items(TextReader& r, const F& read_item) {
  r.expect("(");
  while (!r.accept(")")) {
    read_item();
    if (r.accept(",")) continue;
    r.expect(")");
    break;
  }
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
    if (typeid(other) != typeid(AttrsOf)) return false;
    const auto* o = static_cast<const AttrsOf*>(&other);
    return std::apply([&](auto... f) { return (field_equal(value.*(f.member), o->value.*(f.member)) && ...); },
                      P::fields);
  }
  std::size_t hash() const override {
    std::size_t h = 17;
    std::apply([&](auto... f) { ((h = base::hash_mix(h, field_hash(value.*(f.member)))), ...); }, P::fields);
    return h;
  }
  std::vector<std::pair<std::string, std::string>> fields(TextForm form) const override {
    auto text_of = [&](const auto& v) {
      if constexpr (requires { field_text(v, form); }) {
        return field_text(v, form);
      } else {
        return field_text(v);
      }
    };
    std::vector<std::pair<std::string, std::string>> out;
    auto add = [&](const auto& f) {
      if (f.rare && field_equal(value.*(f.member), P{}.*(f.member))) return;
      out.emplace_back(f.name, text_of(value.*(f.member)));
    };
    std::apply([&](auto... f) { (add(f), ...); }, P::fields);
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

/// What a text leaves out: refused, or as the struct's initializers have it.
enum class MissingFields : std::uint8_t { Refused, Default };

/// Reads "[axes=(0, 1), keep=true]", in any order; nothing for an op without attributes.
template <class P>
Attrs read_attrs(TextReader& r, MissingFields missing) {
  if constexpr (std::is_same_v<P, NoAttrs>) {
    return nullptr;
  } else {
    P value{};
    std::vector<const char*> wanted = std::apply([](auto... f) { return std::vector{f.name...}; }, P::fields);
    r.expect("[");
    while (!r.peek("]")) {
      std::string_view name = r.word();
      auto read = [&](const auto& f) {
        // Equal literals need not have one address.
        if (name != f.name || std::erase_if(wanted, [&](std::string_view w) { return w == name; }) == 0) return false;
        r.expect("=");
        read_field(r, value.*(f.member));
        return true;
      };
      bool known = std::apply([&](auto... f) { return (read(f) || ...); }, P::fields);
      if (!known) r.fail(one_of_names(wanted.data(), wanted.size(), name));
      if (!r.accept(",")) break;
    }
    auto drop = [&](const auto& f) {
      if (f.rare) std::erase_if(wanted, [&](std::string_view w) { return w == f.name; });
    };
    std::apply([&](auto... f) { (drop(f), ...); }, P::fields);
    if (!wanted.empty() && missing == MissingFields::Refused) r.fail(one_of_names(wanted.data(), wanted.size(), ""));
    r.expect("]");
    return make_attrs(std::move(value));
  }
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
  // Compared by type alone, as nothing derives from `AttrsOf`: partitioning asks some ten times for each equation.
  const AttrsBase* base = a.get();
  if (base == nullptr || typeid(*base) != typeid(AttrsOf<P>)) return nullptr;
  return &static_cast<const AttrsOf<P>*>(base)->value;
}

}  // namespace tessera::ir
