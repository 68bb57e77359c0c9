// SPDX-License-Identifier: Apache-2.0
// Replays recorded results of JAX through the public functions, at once and under jit.
#include <gtest/gtest.h>

#include <cstdio>

#include "oracle/table.h"
#include "support/series.h"
#include "tessera/grad.h"
#include "tessera/jit.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera::oracle {

namespace {

const Table& table() {
  static const Table all = [] {
    Table t;
    add_ops(t);
    add_elementwise(t);
    add_shapes(t);
    add_indexing(t);
    add_reductions(t);
    add_products(t);
    add_numpy(t);
    add_linalg(t);
    add_random(t);
    add_nn(t);
    add_control(t);
    add_creation(t);
    add_shaping(t);
    add_statistics(t);
    add_calculus(t);
    add_special(t);
    add_sets(t);
    add_packing(t);
    add_extras(t);
    add_options(t);
    return t;
  }();
  return all;
}

Array number(const HostArray& v) {
  switch (v.dtype()) {
    case DType::Bool:
      return Array(v.span<bool>()[0]);
    case DType::I64:
      return Array(v.span<std::int64_t>()[0]);
    case DType::F64:
      return Array(v.span<double>()[0]);
    default:
      return weak_scalar(v.span<complex128_t>()[0]);
  }
}

/// Weak arrays come from arithmetic on numbers.
Array weak_array(const HostArray& v) {
  Array zero = is_complex(v.dtype()) ? weak_scalar(complex128_t(0)) : is_float(v.dtype()) ? Array(0.0) : Array(0);
  const HostArray wide = v.astype(complex128);
  std::vector<Array> parts;
  for (complex128_t x : wide.span<complex128_t>()) {
    Array element = is_complex(v.dtype()) ? weak_scalar(x)
                    : is_float(v.dtype()) ? Array(x.real())
                                          : Array(static_cast<std::int64_t>(x.real()));
    parts.push_back(element + zero);
  }
  return stack(parts);
}

Array argument(const CaseValue& v) {
  if (v.scalar) return number(v.value);
  return v.weak ? weak_array(v.value) : Array(v.value);
}

Arrays arrays(const std::vector<HostArray>& values) {
  Arrays out;
  for (const auto& v : values) out.emplace_back(v);
  return out;
}

/// Results of floating dtype: those that have derivatives.
Arrays inexact(const Arrays& all) {
  Arrays out;
  for (const auto& a : all) {
    if (is_inexact(a.dtype())) out.push_back(a);
  }
  return out;
}

/// One case: its function of the arrays that travel as inputs; numbers of the program stay numbers.
class Run {
 public:
  explicit Run(const Case& c) : case_(c), function_(table().at(c.fn)) {
    for (const auto& v : c.args) args_.push_back(argument(v));
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (!c.args[i].scalar) inputs_.push_back(i);
    }
  }

  Arrays compute(const Arrays& in) const {
    if (case_.kind == "value") return call(inputs_, in);
    auto f = [this](const Arrays& x) { return inexact(call(case_.wrt, x)); };
    const Arrays cts = arrays(case_.cts), tangents = arrays(case_.tangents);
    auto pull = [&](const Arrays& x) { return std::get<0>(vjp(f, x).second(cts)); };
    if (case_.kind == "vjp") return pull(in);
    if (case_.kind == "jvp") return jvp(f, std::tuple(in), std::tuple(tangents)).second;
    return jvp(pull, std::tuple(in), std::tuple(tangents)).second;
  }

  /// What compute takes.
  Arrays inputs() const {
    Arrays out;
    for (std::size_t i : case_.kind == "value" ? inputs_ : case_.wrt) out.push_back(args_[i]);
    return out;
  }

 private:
  Arrays call(const std::vector<std::size_t>& where, const Arrays& in) const {
    Arrays full = args_;
    for (std::size_t i = 0; i < where.size(); ++i) full[where[i]] = in[i];
    return function_(full, case_.params);
  }

  const Case& case_;
  const Function& function_;
  Arrays args_;
  std::vector<std::size_t> inputs_;
};

std::string compare(const Arrays& got, const Case& c) {
  if (got.size() != c.out.size())
    return std::to_string(got.size()) + " results, recorded " + std::to_string(c.out.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string which = got.size() > 1 ? "result " + std::to_string(i) + ": " : "";
    const std::string d = difference(got[i].host(), c.out[i].value, c.rtol, c.atol, c.zeros);
    if (!d.empty()) return which + d;
    if (c.kind == "value" && !c.out[i].key && !is_bool(got[i].dtype()) && got[i].weak_type() != c.out[i].weak) {
      return which + (c.out[i].weak ? "recorded weakly typed" : "weakly typed, recorded strongly typed");
    }
  }
  return "";
}

/// Empty when the case agrees, at once and under jit.
std::string replay(const Case& c) {
  try {
    const Run run(c);
    const std::string eager = compare(run.compute(run.inputs()), c);
    if (!eager.empty()) return eager;
    const auto jitted = jit([&run](const Arrays& in) { return run.compute(in); });
    const std::string under_jit = compare(jitted(run.inputs()), c);
    return under_jit.empty() ? "" : "under jit: " + under_jit;
  } catch (const std::exception& e) {
    return std::string("threw: ") + e.what();
  }
}

class Oracle : public testing::TestWithParam<const char*> {};

TEST_P(Oracle, AgreesWithRecordedResults) {
  const std::string group = GetParam();
  const std::vector<Case> cases = load(group);
  ASSERT_FALSE(cases.empty());
  std::size_t agreed = 0, replayed = 0;
  const auto [first, stride] = test::case_part();
  for (std::size_t i = first; i < cases.size(); i += stride, ++replayed) {
    const Case& c = cases[i];
    if (!table().contains(c.fn)) {
      ADD_FAILURE() << c.id << ": no such function in the table";
      continue;
    }
    const std::string wrong = replay(c);
    agreed += wrong.empty();
    if (!wrong.empty()) ADD_FAILURE() << c.id << ": " << wrong;
  }
  std::printf("oracle %s: %zu/%zu\n", group.c_str(), agreed, replayed);
}

INSTANTIATE_TEST_SUITE_P(Groups, Oracle,
                         testing::Values("calculus", "contractions", "control", "convert", "creation", "distributions",
                                         "edges", "elementwise", "extras", "fft", "fourier", "indexing", "initializers",
                                         "layers", "linalg", "linear", "nn", "numpy", "options", "packing", "products",
                                         "promotion", "random", "reductions", "sets", "shapes", "shaping", "sorting",
                                         "special", "statistics"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace

}  // namespace tessera::oracle
