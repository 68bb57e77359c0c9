// SPDX-License-Identifier: Apache-2.0
#include "ir/attrs.h"

#include <bit>

#include "base/strings.h"
#include "ir/graph.h"

namespace tessera::ir {

bool equal(const Attrs& a, const Attrs& b) {
  if (a == b) return true;
  return a && b && a->equals(*b);
}
std::size_t hash_of(const Attrs& a) { return a ? a->hash() : 0; }

std::string field_text(std::int64_t v) { return str(v); }
std::string field_text(int v) { return str(v); }
std::string field_text(bool v) { return v ? "true" : "false"; }
std::string field_text(double v) { return str(v); }
std::string field_text(DType v) { return std::string(dtype_short(v)); }
std::string field_text(const std::string& v) { return str("\"", v, "\""); }
std::string field_text(const Dims& v) { return base::tuple_text(v); }
std::string field_text(const std::vector<Dims>& v) {
  std::string out = "(";
  for (std::size_t i = 0; i < v.size(); ++i) out += (i > 0 ? ", " : "") + base::tuple_text(v[i]);
  return out + ")";
}
std::string field_text(const std::vector<bool>& v) {
  std::string out = "(";
  for (std::size_t i = 0; i < v.size(); ++i) out += str(i > 0 ? ", " : "", v[i] ? 1 : 0);
  return out + ")";
}
std::string field_text(const HostArray& v) { return v.size() <= 16 ? to_string(v) : str("<", v.size(), " elements>"); }
std::string field_text(const GraphPtr& v) { return v ? to_string(*v, "", 4) : "none"; }
std::string field_text(const std::vector<GraphPtr>& v) {
  std::string out = "[";
  for (std::size_t i = 0; i < v.size(); ++i) out += (i > 0 ? ", " : "") + field_text(v[i]);
  return out + "]";
}
std::string field_text(const Types& v) { return str("(", base::join(v), ")"); }
std::string field_text(const Opaque& v) { return str("<", v.label, ">"); }

std::size_t field_hash(std::int64_t v) { return base::hash_mix(3, static_cast<std::size_t>(v)); }
std::size_t field_hash(double v) { return base::hash_mix(5, std::bit_cast<std::uint64_t>(v)); }
std::size_t field_hash(const std::string& v) { return std::hash<std::string>{}(v); }
std::size_t field_hash(const Dims& v) { return base::hash_range(7, v); }
std::size_t field_hash(const std::vector<Dims>& v) {
  std::size_t h = 11;
  for (const auto& d : v) h = base::hash_range(h, d);
  return h;
}
std::size_t field_hash(const std::vector<bool>& v) { return std::hash<std::vector<bool>>{}(v); }
std::size_t field_hash(const HostArray& v) {
  std::size_t h = base::hash_range(static_cast<std::size_t>(v.dtype()), v.shape());
  std::string_view bytes(static_cast<const char*>(v.data()), static_cast<std::size_t>(v.nbytes()));
  return base::hash_mix(h, std::hash<std::string_view>{}(bytes));
}
std::size_t field_hash(const GraphPtr& v) { return v ? hash_of(*v) : 0; }
std::size_t field_hash(const std::vector<GraphPtr>& v) {
  std::size_t h = 13;
  for (const auto& g : v) h = base::hash_mix(h, field_hash(g));
  return h;
}
std::size_t field_hash(const Types& v) {
  std::size_t h = 23;
  for (const auto& t : v) h = base::hash_mix(base::hash_range(h, t.shape), static_cast<std::size_t>(t.dtype));
  return h;
}
std::size_t field_hash(const Opaque& v) { return std::hash<const void*>{}(v.object.get()); }

bool field_equal(const HostArray& a, const HostArray& b) { return identical(a, b); }
bool field_equal(const GraphPtr& a, const GraphPtr& b) { return a == b || (a && b && equal(*a, *b)); }
bool field_equal(const std::vector<GraphPtr>& a, const std::vector<GraphPtr>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!field_equal(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace tessera::ir
