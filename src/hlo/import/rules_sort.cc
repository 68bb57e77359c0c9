// SPDX-License-Identifier: Apache-2.0
// sort. The comparators that JAX writes are read as lists of keys; any other is asked about every pair of elements.
#include <cmath>
#include <map>
#include <optional>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/shared_compositions.h"
#include "ops/reduce/sorting.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
struct Key {
  std::size_t operand = 0;
  bool descending = false;
  bool imaginary = false, real = false;    ///< part of a complex operand
  bool one_zero = false, one_nan = false;  ///< zeros are equal; NaNs are
  bool total = false;                      ///< by IEEE's total order
  bool canonical() const { return one_zero && one_nan; }
  bool same_element(const Key& o) const { return operand == o.operand && imaginary == o.imaginary && real == o.real; }
};

// What a value inside a comparator is.
struct Meaning {
  enum class Kind : std::uint8_t { Unknown, Constant, Element, IsZero, IsNan, Less, Equal };
  Kind kind = Kind::Unknown;
  Key key;
  int side = 0;           // of Element and of what is asked about one: which of the two compared places
  double constant = 0;    // of Constant
  std::vector<Key> keys;  // of Less: lexicographic
};

class Comparator {
 public:
  explicit Comparator(OpCall& c) : c_(c), region_(c.region(0)) {}

  std::optional<std::vector<Key>> keys() {
    for (std::size_t i = 0; i < region_.args.size(); ++i) {
      Meaning m;
      m.kind = Meaning::Kind::Element;
      m.key.operand = i / 2;
      m.side = static_cast<int>(i % 2);
      known_[region_.args[i].name] = m;
    }
    for (const auto& op : region_.ops) {
      if (op.name == "stablehlo.return") {
        const Meaning* m = op.operands.size() == 1 ? find(op.operands[0]) : nullptr;
        if (m == nullptr || m->kind != Meaning::Kind::Less) return std::nullopt;
        return m->keys;
      }
      if (op.results.size() != 1 || op.results[0].count != 1) return std::nullopt;
      known_[op.results[0].name] = meaning(op);
    }
    return std::nullopt;
  }

 private:
  using Kind = Meaning::Kind;
  // Constants may have been moved out of the comparator, as JAX's serialization does.
  const Meaning* find(std::string_view name) {
    auto it = known_.find(name);
    if (it != known_.end()) return &it->second;
    const Item* outer = c_.scope.find(name);
    if (outer == nullptr || !outer->known) return nullptr;
    return &(known_[name] = constant(*outer->known));
  }

  static Meaning constant(const HostArray& a) {
    if (a.size() != 1 || is_complex(a.dtype())) return {};
    Meaning m;
    m.kind = Kind::Constant;
    m.constant = a.astype(DType::F64).to_vector<double>()[0];
    return m;
  }

  Meaning meaning(const AstOp& op) {
    std::vector<const Meaning*> in;
    for (auto name : op.operands) {
      const Meaning* m = find(name);
      if (m == nullptr) return {};
      in.push_back(m);
    }
    if (op.name == "stablehlo.constant") {
      const AstAttr* value = op.find("value");
      if (value == nullptr && !op.words.empty()) value = &op.words[0];
      return value == nullptr ? Meaning{} : constant(c_.importer.elements(*value));
    }
    if ((op.name == "stablehlo.real" || op.name == "stablehlo.imag") && in.size() == 1 &&
        in[0]->kind == Kind::Element) {
      Meaning m = *in[0];
      (op.name == "stablehlo.real" ? m.key.real : m.key.imaginary) = true;
      return m;
    }
    if (op.name == "stablehlo.compare" && in.size() == 2) return comparison(op, *in[0], *in[1]);
    if (op.name == "stablehlo.select" && in.size() == 3) return canonical(*in[0], *in[1], *in[2]);
    if (op.name == "stablehlo.and" && in.size() == 2) return both(*in[0], *in[1]);
    if (op.name == "stablehlo.or" && in.size() == 2) return either(*in[0], *in[1]);
    return {};
  }

  // select(x == 0, 0, x) and select(x != x, NaN, x): JAX's way to make zeros equal, and NaNs. One with a sign would
  // come first.
  static Meaning canonical(const Meaning& test, const Meaning& constant, const Meaning& x) {
    if (constant.kind != Kind::Constant || x.kind != Kind::Element) return {};
    if (!test.key.same_element(x.key) || test.side != x.side) return {};
    Meaning m = x;
    if (test.kind == Kind::IsZero && constant.constant == 0) {
      m.key.one_zero = true;
    } else if (test.kind == Kind::IsNan && std::isnan(constant.constant) && !std::signbit(constant.constant)) {
      m.key.one_nan = true;
    } else {
      return {};
    }
    return m;
  }

  Meaning comparison(const AstOp& op, const Meaning& x, const Meaning& y) const {
    std::vector<std::string> words;
    for (const auto& w : op.words) words.push_back(c_.word_of(w));
    if (words.empty()) {
      for (const char* name : {"comparison_direction", "compare_type"}) {
        if (const AstAttr* a = op.find(name)) words.push_back(c_.word_of(*a));
      }
    }
    if (words.empty() || x.kind != Kind::Element) return {};
    Meaning m;
    m.key = x.key;
    m.side = x.side;
    if (y.kind == Kind::Constant) {
      if (words[0] == "EQ" && y.constant == 0) m.kind = Kind::IsZero;
      return m;
    }
    if (y.kind != Kind::Element || !x.key.same_element(y.key)) return {};
    if (x.side == y.side) {
      if (words[0] == "NE") m.kind = Kind::IsNan;
      return m;
    }
    if (x.key.one_zero != y.key.one_zero || x.key.one_nan != y.key.one_nan) return {};
    m.key.total = words.size() > 1 && words[1] == "TOTALORDER";
    if (words[0] == "EQ") {
      m.kind = Kind::Equal;
      return m;
    }
    if (words[0] != "LT" && words[0] != "GT") return {};
    m.kind = Kind::Less;
    m.key.descending = (words[0] == "GT") != (x.side == 1);
    m.keys = {m.key};
    return m;
  }

  // equal(k0) and less(k1, …)
  static Meaning both(const Meaning& x, const Meaning& y) {
    const Meaning& equal = x.kind == Kind::Equal ? x : y;
    const Meaning& less = x.kind == Kind::Equal ? y : x;
    if (equal.kind != Kind::Equal || less.kind != Kind::Less) return {};
    Meaning m = less;
    m.kind = Kind::Unknown;
    m.key = equal.key;
    m.side = 7;  // only `either` looks at it
    return m;
  }
  // less(k0) or (equal(k0) and less(k1, …))
  static Meaning either(const Meaning& x, const Meaning& y) {
    const Meaning& less = x.kind == Kind::Less ? x : y;
    const Meaning& rest = x.kind == Kind::Less ? y : x;
    if (less.kind != Kind::Less || less.keys.size() != 1 || rest.kind != Kind::Unknown || rest.side != 7) return {};
    if (!less.keys[0].same_element(rest.key)) return {};
    Meaning m;
    m.kind = Kind::Less;
    m.keys = less.keys;
    m.keys.insert(m.keys.end(), rest.keys.begin(), rest.keys.end());
    return m;
  }

  OpCall& c_;
  const AstRegion& region_;
  std::map<std::string_view, Meaning> known_;
};

// Numbers whose ascending order is the wanted one.
Value sort_key(const Key& k, Value x) {
  if (k.real) x = ops::real(x);
  if (k.imaginary) x = ops::imag(x);
  ir::Builder& b = *x.builder;
  bool by_bits = is_float(x.dtype()) && ((k.total && !k.canonical()) || k.descending);
  if (by_bits) {
    if (k.one_zero || !k.total) {
      x = ops::where(ops::eq(x, ops::scalar(b, 0, x.dtype())), ops::scalar(b, 0, x.dtype()), x);
    }
    if (k.one_nan || !k.total) x = ops::where(ops::ne(x, x), ops::scalar(b, std::nan(""), x.dtype()), x);
    x = total_order(x);
  }
  if (!k.descending) return x;
  return is_bool(x.dtype()) || is_integer(x.dtype()) ? ops::not_(x) : x;
}

Items sort_by_keys(OpCall& c, const std::vector<Key>& keys, std::int64_t dimension) {
  bool stable = c.flag("is_stable", false);
  Values operands = values_of(c.in);
  Values all;
  bool plain = true;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    all.push_back(sort_key(keys[i], operands[keys[i].operand]));
    plain = plain && all.back() == operands[keys[i].operand] && keys[i].operand == i;
  }
  auto count = static_cast<std::int64_t>(keys.size());
  Values sorted;
  if (plain) {
    sorted = ops::sort(operands, dimension, count, stable);
  } else {
    all.insert(all.end(), operands.begin(), operands.end());
    sorted = ops::sort(all, dimension, count, stable);
    sorted.erase(sorted.begin(), sorted.begin() + count);
  }
  Items out;
  for (std::size_t i = 0; i < sorted.size(); ++i) out.push_back(tensor(c.in[i].elem, sorted[i]));
  return out;
}

// The place of an element is how many come before it: those that the comparator puts in front, and of those that it
// does not tell apart the earlier ones.
Items sort_by_pairs(OpCall& c, std::int64_t dimension) {
  GraphPtr precedes = c.function_of_numbers(c.region(0), "a comparator", 2 * c.in.size(), 1);
  Values moved;
  for (const auto& v : values_of(c.in)) moved.push_back(ops::move_dim(v, dimension, v.rank() - 1));
  Shape shape = moved[0].shape();
  std::int64_t n = shape.back();
  Shape pairs = shape;
  pairs.push_back(n);
  c.importer.check_type({DType::I32, pairs, false}, c.op.pos);
  auto last = static_cast<std::int64_t>(pairs.size()) - 1;
  Dims row, column;  // element i of a pair along the last but one dimension, j along the last
  for (std::int64_t d = 0; d < last; ++d) row.push_back(d);
  column = row;
  column.back() = last;
  Values forward, backward;
  for (const auto& v : moved) {
    Value i = ops::broadcast_in_dim(v, pairs, row), j = ops::broadcast_in_dim(v, pairs, column);
    forward.push_back(j);  // does j come before i?
    forward.push_back(i);
    backward.push_back(i);
    backward.push_back(j);
  }
  Value before = map_graph(*precedes, forward)[0], behind = map_graph(*precedes, backward)[0];
  Value earlier = ops::lt(ops::iota(c.b(), DType::I32, pairs, last), ops::iota(c.b(), DType::I32, pairs, last - 1));
  Value tie = ops::and_(ops::not_(ops::or_(before, behind)), earlier);
  Value place = ops::reduce_sum(ops::convert(ops::or_(before, tie), DType::I32), {last});
  Value from = ops::iota(c.b(), DType::I32, shape, last - 1);
  Value order = ops::sort(Values{place, from}, last - 1, 1, true)[1];
  Items out;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    Value v = ops::take_along(moved[i], order, last - 1);
    out.push_back(tensor(c.in[i].elem, ops::move_dim(v, last - 1, dimension)));
  }
  return out;
}

Items sort(OpCall& c) {
  if (c.in.empty()) c.fail("has no operands");
  std::int64_t dimension = c.integer_or("dimension", -1);
  if (dimension < 0) dimension += c.v(0).rank();
  if (dimension < 0 || dimension >= c.v(0).rank()) c.fail("dimension lies outside the shape");
  for (const auto& v : values_of(c.in)) {
    if (v.shape() != c.v(0).shape()) c.fail("operands have different shapes");
  }
  if (c.region(0).args.size() != 2 * c.in.size()) c.fail("the comparator must take two numbers an operand");
  if (auto keys = Comparator(c).keys()) return sort_by_keys(c, *keys, dimension);
  return sort_by_pairs(c, dimension);
}
}  // namespace

void add_sort_rules(RuleTable& t) { t["stablehlo.sort"] = sort; }

}  // namespace tessera::hlo
