// SPDX-License-Identifier: Apache-2.0
// Every op through the engine on one device against its reference.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engines/engine_support.h"
#include "ops/linalg/conv.h"
#include "ops/ops.h"
#include "support/series.h"

namespace tessera::test {
namespace {

BufferPtr random_buffer(runtime::MemoryPool& pool, const ir::Type& t, std::mt19937& random) {
  auto b = pool.allocate(t.nbytes());
  ir::View v{t.dtype, t.shape, b->data()};
  std::uniform_real_distribution<double> real(0.1, 0.9);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (is_inexact(t.dtype)) {
      if (is_complex(t.dtype)) {
        ops::store_complex(v, i, {real(random), real(random)});
      } else {
        ops::store_float(v, i, real(random));
      }
    } else {
      set_element(v, i, static_cast<std::int64_t>(random() % 3));
    }
  }
  return b;
}

double tolerance(DType t) {
  switch (real_dtype(t)) {
    case DType::F16:
      return 4e-3;
    case DType::BF16:
      return 3e-2;
    case DType::F32:
      return 1e-5;
    default:
      return 1e-12;
  }
}

void expect_near(const std::string& what, const ir::Type& t, const void* got, const void* want) {
  ir::View g{t.dtype, t.shape, const_cast<void*>(got)};
  ir::View w{t.dtype, t.shape, const_cast<void*>(want)};
  for (std::int64_t i = 0; i < t.size(); ++i) {
    auto x = element_of(g, i);
    auto y = element_of(w, i);
    if (std::isnan(y.real()) && std::isnan(x.real())) continue;
    if (x == y) continue;
    ASSERT_LE(std::abs(x - y), tolerance(t.dtype) * (1 + std::abs(y)))
        << what << ", element " << i << ": " << x << ", reference " << y;
  }
}

void check(const ir::OpDef& op, const ir::AnySample& sample) {
  std::string what(op.name());
  ir::Builder b;
  ir::Values in;
  for (const auto& t : sample.in) in.push_back(b.input(t));
  ir::Values out = b.add(op, in, sample.attrs);
  auto graph = on_one_device(b.finish(out));
  Client client = client_of(1);
  auto exe = compile(client, graph);
  std::mt19937 random(7);
  auto& pool = *runtime::runtime_of(client).memory;
  std::vector<ShardBuffers> args;
  for (const auto& t : sample.in) args.push_back({random_buffer(pool, t, random)});
  std::vector<ir::View> views;
  for (std::size_t i = 0; i < args.size(); ++i)
    views.push_back({sample.in[i].dtype, sample.in[i].shape, args[i][0]->data()});
  std::vector<ir::View> want;
  ShardBuffers want_memory;
  for (const auto& t : graph->output_types()) {
    want_memory.push_back(pool.allocate(t.nbytes()));
    want.push_back({t.dtype, t.shape, want_memory.back()->data()});
  }
  op.reference(views, want, sample.attrs);
  auto got = exe->run(args);
  auto types = graph->output_types();
  ASSERT_EQ(got.size(), types.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i][0]->nbytes(), types[i].nbytes()) << what;
    expect_near(what, types[i], got[i][0]->data(), want[i].data);
  }
}

TEST(Conformance, EveryOpGivesWhatItsReferenceGives) {
  int samples = 0;
  for (const auto* op : ops::all()) {
    if (!op->has_reference() || op->traits().collective) continue;
    for (const auto& sample : op->samples()) {
      SCOPED_TRACE(std::string(op->name()) + (sample.attrs ? "[" + sample.attrs->text() + "]" : ""));
      check(*op, sample);
      ++samples;
    }
  }
  EXPECT_GT(samples, 50);
}

// The ops that have no kernel of their own, so that none comes to be slow unseen. Each is rare, made of a user's
// function, or a special function whose elements cost more than the way to them (those run on all threads).
TEST(Conformance, OnlyTheseOpsRunByTheirReferences) {
  std::set<std::string> slow;
  for (const auto* op : ops::all()) {
    static const std::set<std::string_view> programs{"cond",       "while",           "scan",
                                                     "checkpoint", "custom_jvp_call", "custom_vjp_call"};
    if (!op->has_reference() || op->traits().effect || programs.contains(op->name())) continue;
    for (const auto& sample : op->samples()) {
      ir::Builder b;
      ir::Values in;
      for (const auto& t : sample.in) in.push_back(b.input(t));
      auto graph = on_one_device(b.finish(b.add(*op, in, sample.attrs)));
      if (compile(client_of(1), graph)->text().find(", reference)") != std::string::npos) {
        slow.emplace(op->name());
      }
    }
  }
  EXPECT_EQ(slow, (std::set<std::string>{"argmax",
                                         "argmin",
                                         "max",
                                         "min",          // of complex numbers, or into narrow indices
                                         "integer_pow",  // to the power 0
                                         "select_n",     // of more than two cases
                                         "bessel_i0e",
                                         "bessel_i1e",
                                         "igamma",
                                         "igamma_grad_a",
                                         "igammac",
                                         "polygamma",
                                         "random_gamma_grad",
                                         "regularized_incomplete_beta",
                                         "zeta",
                                         "reduce_precision",  //
                                         "reduce_window",     // with a reducer of more than one op, over short windows
                                         "reduce_xor",
                                         "select_and_gather_add",
                                         "constant",
                                         "pure_callback"}));
}

// Attributes of convolutions, transforms and decompositions in the dtypes that their kernels convert or treat apart.
TEST(Conformance, ConvolutionsAndDecompositionsOfOtherDtypes) {
  int checked = 0;
  for (const auto* op : {&ops::def::conv_general_dilated, &ops::def::fft, &ops::def::triangular_solve, &ops::def::qr,
                         &ops::def::lu, &ops::def::cholesky}) {
    for (const auto& sample : op->samples()) {
      for (DType t : {DType::F64, DType::BF16, DType::F16, DType::I32, DType::U8, DType::C64, DType::C128}) {
        ir::AnySample s = sample;
        for (auto& type : s.in) type.dtype = t;
        try {
          op->infer(s.in, s.attrs);
        } catch (const Error&) {
          continue;  // not a legal dtype of this op
        }
        SCOPED_TRACE(std::string(op->name()) + " " + std::string(dtype_name(t)) + " " + s.attrs->text());
        check(*op, s);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(Conformance, ConvolutionsIntoAnotherDtype) {
  for (auto [from, to] : {std::pair{DType::BF16, DType::F32}, {DType::F32, DType::BF16}, {DType::I8, DType::I32}}) {
    ops::Conv p{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}};
    p.preferred = to;
    SCOPED_TRACE(std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
    check(ops::def::conv_general_dilated, {{{from, {2, 4, 7, 6}}, {from, {5, 4, 3, 3}}}, ir::make_attrs(p)});
  }
}

// The samples' attributes on larger operands of the dtypes that have kernels.
TEST(Conformance, ElementwiseOpsOfEveryDtypeAndLargeSizes) {
  int number = 0;
  for (const auto* op : ops::all()) {
    if (!op->traits().elementwise || !op->has_reference()) continue;
    for (const auto& sample : op->samples()) {
      for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I8, DType::U16, DType::I64,
                      DType::C64, DType::Bool}) {
        ir::AnySample s = sample;
        bool changed = false;
        for (auto& type : s.in) {
          if (type.dtype == sample.in.back().dtype) {
            type.dtype = t;
            changed = true;
          }
          if (!type.shape.empty()) type.shape = {3, 1237};
        }
        if (!changed) continue;
        try {
          op->infer(s.in, s.attrs);
        } catch (const Error&) {
          continue;  // not a legal dtype of this op
        }
        if (number++ % test::case_stride() != 0) continue;
        SCOPED_TRACE(std::string(op->name()) + " " + std::string(dtype_name(t)));
        check(*op, s);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test
