// SPDX-License-Identifier: Apache-2.0
// Fused programs as machine code against the same programs by kernels: the same bits.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "engines/cpu/kernels/compiled/code_memory.h"
#include "engines/cpu/kernels/compiled/fragment.h"
#include "engines/cpu/kernels/elementwise/fused.h"
#include "engines/cpu/kernels/reduce_kernels.h"
#include "tessera/config.h"

namespace tessera::kernels {
namespace {

using Bytes = std::vector<std::byte>;

const DType kDTypes[] = {DType::F32, DType::BF16, DType::F16, DType::I32, DType::U32, DType::Bool, DType::F64};

const float kSpecial[] = {0.0F,     -0.0F,     1.0F,   -1.0F,         0.5F,           -0.5F,   2.5F,  0.49999997F,
                          INFINITY, -INFINITY, NAN,    88.7F,         -88.7F,         -103.9F, 89.5F, 1e-40F,
                          -1e-42F,  3e38F,     -3e38F, 2147483648.0F, -2147483648.0F, 4e9F,    1e-8F, 9.99F};

class Data {
 public:
  // A fifth of the elements are at the edges of their range; or all are near one, whose sums and products in another
  // order would be others; or they ascend through the range in which exp is neither zero nor infinite.
  enum class Values : std::uint8_t { Wild, Tame, Ascending };
  explicit Data(unsigned seed, Values values = Values::Wild) : rng_(seed), values_(values) {}

  Bytes operand(DType t, std::int64_t n) {
    std::vector<float> wide(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < wide.size(); ++i) {
      float& v = wide[i];
      v = rng_() % 5 == 0 ? kSpecial[rng_() % std::size(kSpecial)] : static_cast<float>(rng_() % 8001) / 1000 - 4;
      if (values_ == Values::Tame) v = 1 + static_cast<float>(rng_() % 8001) / 40000 - 0.1F;
      if (values_ == Values::Ascending) v = -110.0F + 205.0F * static_cast<float>(i) / static_cast<float>(n);
    }
    Bytes out(static_cast<std::size_t>(n * dtype_size(t)));
    for (std::int64_t i = 0; i < n; ++i) {
      std::byte* to = out.data() + i * dtype_size(t);
      if (t == DType::I32 || t == DType::U32) {
        auto v = static_cast<std::uint32_t>(rng_());
        if (rng_() % 2 == 0) v = v % 80 - 40;
        std::memcpy(to, &v, 4);
      } else if (t == DType::Bool) {
        *to = static_cast<std::byte>(rng_() % 2);
      } else {
        ew_find(EwOp::Convert, DType::F32, t)(&wide[static_cast<std::size_t>(i)], nullptr, nullptr, to, 1);
      }
    }
    return out;
  }
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(rng_() % n); }

 private:
  std::mt19937 rng_;
  Values values_;
};

// Equal bits, but that a NaN may have others: which of two an instruction passes on is the compiler's choice.
std::int64_t first_difference(DType t, const Bytes& a, const Bytes& b) {
  std::int64_t size = dtype_size(t);
  bool floats = is_inexact(t);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(a.size()) / size; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, static_cast<std::size_t>(size)) == 0) continue;
    double x = 0, y = 0;
    ew_find(EwOp::Convert, t, DType::F64)(a.data() + i * size, nullptr, nullptr, &x, 1);
    ew_find(EwOp::Convert, t, DType::F64)(b.data() + i * size, nullptr, nullptr, &y, 1);
    if (floats && std::isnan(x) && std::isnan(y)) continue;
    return i;
  }
  return -1;
}
std::string element(DType t, const Bytes& a, std::int64_t i) {
  double x = 0;
  ew_find(EwOp::Convert, t, DType::F64)(a.data() + i * dtype_size(t), nullptr, nullptr, &x, 1);
  std::ostringstream text;
  text << std::hexfloat << x;
  return text.str();
}

struct InputSpec {
  DType dtype;
  Access access;
};
struct OutputSpec {
  DType dtype;
  bool per_row;
};
struct Case {
  FusedProgram program;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::string text;

  FusedProgram::Value input(DType t, Access a) {
    inputs.push_back({t, a});
    return program.input(t, a);
  }
  void output(FusedProgram::Value v, bool per_row = false) {
    outputs.push_back({program.dtype(v), per_row});
    per_row ? program.row_output(v) : program.output(v);
  }
};

std::int64_t elements(Access a, std::int64_t outer, std::int64_t inner) {
  switch (a) {
    case Access::Contiguous:
      return outer * inner;
    case Access::RowBroadcast:
      return inner;
    case Access::ColBroadcast:
      return outer;
    default:
      return 1;
  }
}

// Operands and results start at odd places, and around results nothing may change: sanitizers do not see the code.
constexpr std::size_t kGuard = 64;
const std::byte kUntouched{0x77};

Bytes run_guarded(const FusedKernel& kernel, const std::vector<Bytes>& inputs, std::vector<Bytes>& outputs,
                  const std::vector<std::size_t>& sizes, std::int64_t outer, std::int64_t inner, bool stream) {
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& i : inputs) in.push_back(i.data() + kGuard);
  for (auto& o : outputs) out.push_back(o.data() + kGuard);
  kernel.run(in, out, outer, inner, stream);
  Bytes around;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    around.insert(around.end(), outputs[o].begin(), outputs[o].begin() + kGuard);
    around.insert(around.end(), outputs[o].begin() + static_cast<std::ptrdiff_t>(kGuard + sizes[o]), outputs[o].end());
    outputs[o] =
        Bytes(outputs[o].begin() + kGuard, outputs[o].begin() + static_cast<std::ptrdiff_t>(kGuard + sizes[o]));
  }
  return around;
}

std::vector<Bytes> run_case(const FusedKernel& kernel, const Case& c, const std::vector<Bytes>& inputs,
                            std::int64_t outer, std::int64_t inner, bool code, bool stream) {
  ConfigScope scope(&Config::compile_blocks, code);
  std::vector<Bytes> outputs;
  std::vector<std::size_t> sizes;
  for (const auto& o : c.outputs) {
    sizes.push_back(static_cast<std::size_t>((o.per_row ? outer : outer * inner) * dtype_size(o.dtype)));
    outputs.emplace_back(sizes.back() + 2 * kGuard, kUntouched);
  }
  Bytes around = run_guarded(kernel, inputs, outputs, sizes, outer, inner, stream);
  EXPECT_EQ(around, Bytes(around.size(), kUntouched)) << c.text << "\n" << outer << " x " << inner << ": wrote outside";
  return outputs;
}

void compare(const Case& c, std::int64_t outer, std::int64_t inner, std::vector<Bytes> inputs) {
  FusedKernel kernel(c.program);
  for (Bytes& bytes : inputs) bytes.insert(bytes.begin(), kGuard, kUntouched);
  for (bool stream : {false, true}) {
    auto expected = run_case(kernel, c, inputs, outer, inner, false, stream);
    auto got = run_case(kernel, c, inputs, outer, inner, true, stream);
    for (std::size_t o = 0; o < got.size(); ++o) {
      DType t = c.outputs[o].dtype;
      auto i = first_difference(t, expected[o], got[o]);
      ASSERT_LT(i, 0) << c.text << "\n"
                      << outer << " x " << inner << (stream ? ", around the caches" : "") << ", result " << o << " ("
                      << dtype_name(t) << ") at " << i << ": expected " << element(t, expected[o], i) << ", got "
                      << element(t, got[o], i);
    }
  }
}

void compare(const Case& c, std::int64_t outer, std::int64_t inner, Data& data) {
  std::vector<Bytes> inputs;
  for (const auto& i : c.inputs) inputs.push_back(data.operand(i.dtype, elements(i.access, outer, inner)));
  compare(c, outer, inner, std::move(inputs));
}

// Programs of few elements are compiled once they have run often: so often, here.
void few_elements_often(const Case& c, std::int64_t outer, std::int64_t inner, Data& data) {
  if (outer * inner >= 256) return;
  ConfigScope scope(&Config::compile_blocks, true);
  FusedKernel kernel(c.program);
  std::vector<Bytes> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& i : c.inputs) in.push_back(inputs.emplace_back(data.operand(i.dtype, outer * inner)).data());
  for (const auto& o : c.outputs) {
    out.push_back(outputs.emplace_back(static_cast<std::size_t>(outer * inner * dtype_size(o.dtype))).data());
  }
  for (int n = 0; n < 250; ++n) kernel.run(in, out, outer, inner);
}

class Compiled : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_compile())
      GTEST_SKIP() << "no code for this machine's vectors (docs/limits.md, Platform): blocks run by kernels";
  }
};

const char* const kNames[] = {
#define TESSERA_EW(kernel, arity, op) #kernel,
#include "engines/cpu/kernels/elementwise/ew_kernels.def"
};

// Every op that has code, for every pair of dtypes, on operands that are read in every way.
TEST_F(Compiled, EveryOpGivesTheKernelsBits) {
  Data data(1);
  int covered = 0;
  for (int i = 0; i < kNumEwOps; ++i) {
    auto op = static_cast<EwOp>(i);
    for (DType in : kDTypes) {
      for (DType out : kDTypes) {
        if (!compiles(op, in, out)) continue;
        ASSERT_NE(ew_find(op, in, out), nullptr) << kNames[i] << " has code but no kernel for " << dtype_name(in);
        ++covered;
        for (Access second : {Access::Contiguous, Access::Scalar, Access::ColBroadcast, Access::RowBroadcast}) {
          Case c;
          c.text = std::string(kNames[i]) + " " + std::string(dtype_name(in)) + " to " + std::string(dtype_name(out));
          FusedProgram::Value v[3] = {-1, -1, -1};
          for (int k = 0; k < ew_arity(op); ++k) {
            v[k] = c.input(op == EwOp::Select && k == 0 ? DType::Bool : in, k == 1 ? second : Access::Contiguous);
          }
          auto r = c.program.op(op, out, v[0], v[1], v[2]);
          c.output(r);
          // Enough other ops for a block whose functions are called.
          for (DType other : {DType::Bool, DType::F32, DType::I32, DType::BF16}) {
            if (compiles(EwOp::Convert, out, other)) c.output(c.program.op(EwOp::Convert, other, r));
          }
          {
            ConfigScope scope(&Config::compile_blocks, true);
            ASSERT_EQ(FusedKernel(c.program).coverage(3, 1000 + 7).by_kernels, 0) << c.text;
          }
          compare(c, 3, 1000 + 7, data);
          if (HasFatalFailure()) return;
          if (ew_arity(op) == 1) break;
        }
      }
    }
  }
  EXPECT_GT(covered, 100);
}

// Functions of which several vectors are written together: values in order, so that some groups are all in the range of
// normal results, some are all outside and some are both. With sums, which leave them fewer registers.
TEST_F(Compiled, FunctionsGiveTheKernelsBitsAlongTheirRange) {
  constexpr std::int64_t kRows = 3, kColumns = 20000 + 13;
  Data ascending(5, Data::Values::Ascending);
  for (EwOp op : {EwOp::Exp, EwOp::Tanh, EwOp::Logistic, EwOp::Erf, EwOp::Erfc}) {
    for (bool sums : {false, true}) {
      Case c;
      c.text = kNames[static_cast<int>(op)];
      auto x = c.input(DType::F32, Access::Contiguous);
      auto y = c.program.op(op, DType::F32, x);
      c.output(y);
      c.output(c.program.op(op, DType::F32, c.program.op(EwOp::Neg, DType::F32, x)));
      const float small = 0.04F;  // what is steep near zero
      auto slowly = c.program.op(EwOp::Mul, DType::F32, x, c.program.constant(DType::F32, &small));
      c.output(c.program.op(op, DType::F32, slowly));
      if (sums) c.output(c.program.reduce(ReduceOp::Sum, y), true);
      {
        ConfigScope scope(&Config::compile_blocks, true);
        ASSERT_EQ(FusedKernel(c.program).coverage(kRows, kColumns).by_kernels, 0) << c.text;
      }
      compare(c, kRows, kColumns, ascending);
      if (HasFatalFailure()) return;
    }
  }
}

// Rows and spaces that end anywhere in a vector, of every dtype that is loaded and stored.
TEST_F(Compiled, EveryTailGivesTheKernelsBits) {
  Data data(4);
  ConfigScope scope(&Config::compile_blocks, true);
  for (DType t : kDTypes) {
    if (!compiles(t)) continue;
    for (std::int64_t tail = 0; tail <= 2 * vector_bytes() / 4; ++tail) {
      Case c;
      c.text = "tail " + std::to_string(tail) + " of " + std::string(dtype_name(t));
      auto x = c.input(t, Access::Contiguous);
      auto y = c.input(t, Access::RowBroadcast);
      auto z = c.program.op(EwOp::Max, t, c.program.op(EwOp::Add, t, x, y), x);
      c.output(z);
      c.output(c.program.op(EwOp::Convert, DType::Bool, z));
      compare(c, 1, 256 + tail, data);
      if (compiles(ReduceOp::Sum, t)) {
        c.output(c.program.reduce(ReduceOp::Sum, z), true);
        c.output(c.program.op(EwOp::Sub, t, x, c.program.reduce(ReduceOp::Max, z)));
      }
      compare(c, 3, 96 + tail, data);
      if (HasFatalFailure()) return;
      EXPECT_GE(FusedKernel(c.program).coverage(3, 96 + tail).by_code, 1) << c.text;
    }
  }
}

// The tests run again with narrower vectors than the machine has (cmake/TesseraTests.cmake).
TEST(Vectors, AreNoWiderThanTheEnvironmentAllows) {
  const char* most = std::getenv("TESSERA_VECTOR_BYTES");
  constexpr int kWidest = 64;  // that kernels are written for
  EXPECT_LE(vector_bytes(), most == nullptr ? kWidest : std::max(16, std::atoi(most)));
}

// What every reduction gives, for rows of any length.
TEST_F(Compiled, EveryReductionGivesTheKernelsBits) {
  Data wild(2), tame(2, Data::Values::Tame);
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min}) {
    for (DType t : {DType::F32, DType::I32, DType::U32, DType::BF16}) {
      for (std::int64_t inner :
           {96, 97, 100, 103, 127, 128, 1024, 1025, 4096, 4096 + 16, 4096 + 31, 4096 + 32, 5003, 9000}) {
        Case c;
        c.text = "reduction " + std::to_string(static_cast<int>(op)) + " of " + std::string(dtype_name(t));
        auto x = c.input(t, Access::Contiguous);
        auto y = c.program.op(EwOp::Neg, t, x);
        auto r = c.program.reduce(op, y);
        auto s = c.program.reduce(op, x);
        c.output(r, true);
        c.output(c.program.op(EwOp::Add, t, r, s), true);
        c.output(c.program.op(EwOp::Sub, t, x, r));
        compare(c, 5, inner, wild);
        compare(c, 5, inner, tame);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Maxima and minima are tried in a way that ignores NaN and the signs of zeros: rows in which one element, or two side
// by side, make the difference, at every place of a row.
TEST_F(Compiled, ExtremaOfRowsGiveTheKernelsBitsWhereOneElementMatters) {
  const std::pair<float, float> kMatter[] = {{NAN, NAN},   {-NAN, 1},         {NAN, 0.0F},           {0.0F, 0.0F},
                                             {-0.0F, 0},   {0.0F, -0.0F},     {-0.0F, -0.0F},        {1e-40F, -1e-40F},
                                             {-0.0F, NAN}, {NAN, INFINITY},   {INFINITY, -INFINITY}, {-INFINITY, NAN},
                                             {7.0F, 7.0F}, {-INFINITY, -8.0F}};
  const std::int64_t columns = 3 * (4 * vector_bytes() / 4) + 3 * vector_bytes() / 4 + 3;
  Data data(7, Data::Values::Tame);
  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min}) {
    const float towards = op == ReduceOp::Max ? -1.0F : 1.0F;  // all others lie there, so that a zero is the extremum
    enum class Also { Nothing, TheOther, Keep };  // the other extremum, or a value that the next pass needs
    for (Also also : {Also::Nothing, Also::TheOther, Also::Keep}) {
      Case c;
      c.text = op == ReduceOp::Max ? "maximum" : "minimum";
      auto x = c.input(DType::F32, Access::Contiguous);
      const float one = 1;
      if (also == Also::Keep) x = c.program.op(EwOp::Div, DType::F32, x, c.program.constant(DType::F32, &one));
      auto r = c.program.reduce(op, x);
      c.output(r, true);
      c.output(c.program.op(EwOp::Sub, DType::F32, x, r));
      if (also == Also::TheOther) {
        c.output(c.program.reduce(op == ReduceOp::Max ? ReduceOp::Min : ReduceOp::Max, x), true);
      }
      const std::int64_t rows = columns * static_cast<std::int64_t>(std::size(kMatter));
      Bytes bytes = data.operand(DType::F32, rows * columns);
      auto* values = reinterpret_cast<float*>(bytes.data());
      for (std::int64_t i = 0; i < rows * columns; ++i) values[i] *= towards;
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto& [first, second] = kMatter[static_cast<std::size_t>(i / columns)];
        const std::int64_t at = i % columns;
        values[i * columns + at] = first;
        if (at + 1 < columns) values[i * columns + at + 1] = second;
      }
      {
        ConfigScope scope(&Config::compile_blocks, true);
        ASSERT_EQ(FusedKernel(c.program).coverage(rows, columns).by_code, 1) << c.text;
      }
      compare(c, rows, columns, {bytes});
      if (HasFatalFailure()) return;
    }
  }
}

// Random programs over all dtypes, accesses and phases.
class Random {
 public:
  explicit Random(unsigned seed) : data_(seed) {}

  Case make() {
    Case c;
    c_ = &c;
    values_.clear();
    auto inputs = 1 + data_.below(4);
    for (unsigned i = 0; i < inputs; ++i) {
      Access a = i == 0 ? Access::Contiguous : static_cast<Access>(data_.below(4));
      values_.push_back({c.input(dtype(), a), a == Access::Contiguous || a == Access::RowBroadcast});
      c.text += "v" + std::to_string(values_.back().v) + " = input " + std::string(dtype_name(c.inputs.back().dtype)) +
                " " + std::to_string(static_cast<int>(a)) + "\n";
    }
    auto steps = 2 + data_.below(30);
    for (unsigned i = 0; i < steps; ++i) step();
    auto results = 1 + data_.below(4);
    for (unsigned i = 0; i < results; ++i) {
      auto last = values_[values_.size() - 1 - data_.below(std::min<std::size_t>(values_.size(), 6))];
      bool row = !last.full && data_.below(2) == 0;
      c.output(last.v, row);
      c.text += (row ? "row result v" : "result v") + std::to_string(last.v) + "\n";
    }
    return c;
  }
  Data& data() { return data_; }

 private:
  struct Known {
    FusedProgram::Value v;
    bool full;
  };
  DType dtype() {
    const DType mostly[] = {DType::F32, DType::F32, DType::F32, DType::F32,  DType::BF16,
                            DType::F16, DType::I32, DType::U32, DType::Bool, DType::F64};
    return mostly[data_.below(std::size(mostly))];
  }
  // Some value of the dtype, converted where there is none.
  Known of(DType t) {
    std::vector<Known> fitting;
    for (const Known& k : values_) {
      if (c_->program.dtype(k.v) == t) fitting.push_back(k);
    }
    if (!fitting.empty() && data_.below(8) != 0) return fitting[data_.below(fitting.size())];
    if (data_.below(4) == 0) {
      Bytes one = data_.operand(t, 1);
      return {c_->program.constant(t, one.data()), false};
    }
    Known k = values_[data_.below(values_.size())];
    if (c_->program.dtype(k.v) == t) return k;
    return {c_->program.op(EwOp::Convert, t, k.v), k.full};
  }
  void step() {
    DType t = dtype();
    if (data_.below(6) == 0) {
      auto op = static_cast<ReduceOp>(data_.below(4));
      Known x = of(t);
      if (x.full && find_reduce(op, t).row != nullptr) {
        auto r = c_->program.reduce(op, x.v);
        values_.push_back({r, false});
        c_->text += "v" + std::to_string(r) + " = reduce" + std::to_string(static_cast<int>(op)) + " v" +
                    std::to_string(x.v) + "\n";
      }
      return;
    }
    auto op = static_cast<EwOp>(data_.below(kNumEwOps));
    DType out = ew_find(op, t, t) != nullptr ? t : DType::Bool;
    if (op == EwOp::Convert || ew_find(op, t, out) == nullptr) return;
    Known v[3] = {{-1, false}, {-1, false}, {-1, false}};
    bool full = false;
    for (int k = 0; k < ew_arity(op); ++k) {
      v[k] = of(op == EwOp::Select && k == 0 ? DType::Bool : t);
      full |= v[k].full;
    }
    auto r = c_->program.op(op, out, v[0].v, v[1].v, v[2].v);
    values_.push_back({r, full});
    c_->text += "v" + std::to_string(r) + " = " + kNames[static_cast<int>(op)] + " " + std::string(dtype_name(t)) +
                " v" + std::to_string(v[0].v) + " v" + std::to_string(v[1].v) + " v" + std::to_string(v[2].v) + "\n";
  }

  Data data_;
  Case* c_ = nullptr;
  std::vector<Known> values_;
};

TEST_F(Compiled, RandomProgramsGiveTheKernelsBits) {
  const std::pair<std::int64_t, std::int64_t> spaces[] = {{1, 300},  {3, 117}, {7, 133},  {40, 100},
                                                          {2, 1024}, {9, 777}, {1, 5000}, {3, 4137},
                                                          {20, 97},  {1, 1},   {1, 9},    {5, 40}};
  ConfigScope scope(&Config::compile_blocks, true);  // also where sanitizers leave it off
  std::int64_t by_code = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Random random(seed);
    Case c = random.make();
    c.text = "seed " + std::to_string(seed) + "\n" + c.text;
    auto [outer, inner] = spaces[seed % std::size(spaces)];
    few_elements_often(c, outer, inner, random.data());
    compare(c, outer, inner, random.data());
    if (HasFatalFailure()) return;
    by_code += FusedKernel(c.program).coverage(outer, inner).by_code;
  }
  EXPECT_GT(by_code, 100);
}

// Blocks that are little but calls of functions gain nothing as code.
TEST_F(Compiled, BlocksOfCallsStayWithTheKernels) {
  ConfigScope scope(&Config::compile_blocks, true);
  for (EwOp function : {EwOp::Atanh, EwOp::Log, EwOp::Sin}) {
    for (int others : {1, 2, 3, 6}) {
      FusedProgram p;
      auto x = p.input(DType::F32, Access::Contiguous);
      auto y = p.op(function, DType::F32, x);
      for (int i = 0; i < others; ++i) y = p.op(EwOp::Mul, DType::F32, y, x);
      p.output(y);
      auto covered = FusedKernel(std::move(p)).coverage(1, 4096);
      EXPECT_EQ(covered.by_code, others >= 3 ? 1 : 0) << others;
      EXPECT_EQ(covered.by_kernels == 0, others >= 3) << others;
    }
  }
}

// Whole vectors, aligned: stores that go around the caches.
TEST_F(Compiled, StoresAroundTheCachesGiveTheSame) {
  Data data(3);
  for (DType t : {DType::F32, DType::BF16, DType::I32}) {
    constexpr std::int64_t kRows = 9, kColumns = 1024;
    FusedProgram p;
    auto x = p.input(t, Access::Contiguous);
    p.output(p.op(EwOp::Mul, t, p.op(EwOp::Add, t, x, p.reduce(ReduceOp::Max, x)), x));
    FusedKernel kernel(std::move(p));
    Bytes in = data.operand(t, kRows * kColumns);
    auto bytes = static_cast<std::size_t>(kRows * kColumns * dtype_size(t));
    Bytes results[2];
    for (bool stream : {false, true}) {
      Bytes memory(bytes + 64);
      auto start = (reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64;
      auto* to = reinterpret_cast<std::byte*>(start);
      const void* from[] = {in.data()};
      void* out[] = {to};
      ConfigScope scope(&Config::compile_blocks, true);
      kernel.run(from, out, kRows, kColumns, stream);
      results[stream ? 1 : 0] = Bytes(to, to + bytes);
    }
    EXPECT_LT(first_difference(t, results[0], results[1]), 0) << dtype_name(t);
  }
}

// Memory of code is not writable, and no memory is writable and executable.
TEST_F(Compiled, CodeIsNeverWritable) {
  // oneDNN has such memory, where it has run before.
  auto writable_code = [] {
    int count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) count += line.find(" rwx") != std::string::npos ? 1 : 0;
    return count;
  };
  const int others = writable_code();
  const std::uint8_t code[] = {0xC3};
  auto memory = CodeMemory::make(code);
  ASSERT_NE(memory, nullptr);
  reinterpret_cast<void (*)()>(const_cast<void*>(memory->start()))();
  EXPECT_EQ(writable_code(), others);
  std::ifstream maps("/proc/self/maps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    auto permissions = line.substr(line.find(' ') + 1, 4);
    auto start = std::stoull(line, nullptr, 16);
    auto end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    auto at = reinterpret_cast<std::uintptr_t>(memory->start());
    if (at < start || at >= end) continue;
    found = true;
    EXPECT_EQ(permissions, "r-xp");
  }
  EXPECT_TRUE(found);
}

TEST_F(Compiled, NoCodeWhereTheSystemRefusesMemory) {
  const std::uint8_t code[] = {0xC3};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit none = before;
  none.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  auto memory = CodeMemory::make(code);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(Compiled, EqualProgramsShareTheirCode) {
  auto program = [](float factor) {
    FusedProgram p;
    auto x = p.input(DType::F32, Access::Contiguous);
    p.output(p.op(EwOp::Mul, DType::F32, p.op(EwOp::Add, DType::F32, x, x), p.constant(DType::F32, &factor)));
    return p;
  };
  ConfigScope scope(&Config::compile_blocks, true);
  FusedKernel a(program(2)), b(program(2)), c(program(3));
  EXPECT_EQ(a.plan(), b.plan());
  EXPECT_NE(a.plan(), c.plan());
  EXPECT_EQ(a.coverage(1, 1000).by_code, 1);
  EXPECT_EQ(a.coverage(1, 1000).by_kernels, 0);
  EXPECT_EQ(a.coverage(1, 100).by_code, 0) << "few elements, which have not run often";
  const float in[100] = {3};
  float out[100];
  for (int n = 0; n < 1000; ++n) {
    const void* from = in;
    void* to = out;
    b.run({&from, 1}, {&to, 1}, 1, 100);
    ASSERT_EQ(out[0], 12.0F);
  }
  EXPECT_EQ(a.coverage(1, 100).by_code, 1);
  config().compile_blocks = false;
  EXPECT_EQ(a.coverage(1, 1000).by_code, 0);
}

}  // namespace
}  // namespace tessera::kernels
