// SPDX-License-Identifier: Apache-2.0
#include "ir/attrs.h"

#include <bit>
#include <charconv>
#include <span>

#include "base/strings.h"
#include "ir/graph.h"
#include "ir/graph_text.h"

namespace tessera::ir {

bool equal(const Attrs& a, const Attrs& b) {
  if (a == b) return true;
  return a && b && a->equals(*b);
}
std::size_t hash_of(const Attrs& a) { return a ? a->hash() : 0; }

std::string AttrsBase::text(TextForm form) const {
  std::string out;
  for (const auto& [name, value] : fields(form)) out += str(out.empty() ? "" : ", ", name, "=", value);
  return out;
}

std::string one_of_names(const char* const* names, std::size_t count, std::string_view got) {
  std::string out = str(count == 1 ? "" : "one of ", base::join(std::span(names, count)));
  return got.empty() ? out : str(out, " (got ", got, ")");
}

std::string field_text(std::int64_t v) { return str(v); }
std::string field_text(int v) { return str(v); }
std::string field_text(bool v) { return v ? "true" : "false"; }
std::string field_text(double v) { return str(v); }
std::string field_text(DType v) { return std::string(dtype_short(v)); }
std::string field_text(const std::string& v) { return quoted_text(v); }
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
std::string field_text(const GraphPtr& v, TextForm form) { return v ? graph_text(*v, "", 4, form) : "none"; }
std::string field_text(const std::vector<GraphPtr>& v, TextForm form) {
  std::string out = "(";
  for (std::size_t i = 0; i < v.size(); ++i) out += (i > 0 ? ", " : "") + field_text(v[i], form);
  return out + ")";
}
std::string field_text(const Types& v) { return str("(", base::join(v), ")"); }
std::string field_text(const Opaque& v) { return v.object ? str("<", v.label, ">") : "none"; }

void read_field(TextReader& r, std::int64_t& v) { v = r.integer(); }
void read_field(TextReader& r, int& v) { v = static_cast<int>(r.integer()); }
void read_field(TextReader& r, bool& v) {
  v = r.accept("true");
  if (!v) r.expect("false");
}
void read_field(TextReader& r, double& v) {
  std::string_view text = r.until(",]) \n");
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size()) r.fail("a number before this");
}
void read_field(TextReader& r, DType& v) {
  std::string_view word = r.word();
  for (int i = 0; i < kNumDTypes; ++i) {
    v = static_cast<DType>(i);
    if (word == dtype_short(v)) return;
  }
  r.fail(str("a dtype (got '", word, "')"));
}
void read_field(TextReader& r, std::string& v) { v = r.quoted(); }
void read_field(TextReader& r, Dims& v) {
  read_items(r, [&] { v.push_back(r.integer()); });
}
void read_field(TextReader& r, std::vector<Dims>& v) {
  read_items(r, [&] { read_field(r, v.emplace_back()); });
}
void read_field(TextReader& r, std::vector<bool>& v) {
  read_items(r, [&] { v.push_back(r.integer() != 0); });
}
void read_field(TextReader& r, GraphPtr& v) {
  if (!r.accept("none")) v = std::make_shared<const Graph>(read_graph(r));
}
void read_field(TextReader& r, std::vector<GraphPtr>& v) {
  read_items(r, [&] { read_field(r, v.emplace_back()); });
}
void read_field(TextReader& r, Types& v) {
  read_items(r, [&] { v.push_back(read_type(r)); });
}
void read_field(TextReader& r, Opaque& v) {
  if (!r.accept("none")) {
    r.fail("none: a function or rule of the process that printed the text cannot be read from it");
  }
  v = {};
}

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
