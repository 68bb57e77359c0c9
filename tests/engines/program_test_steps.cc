// SPDX-License-Identifier: Apache-2.0
// Reversals and slices with strides, which blocks read where they lie: which do, and random programs of them under
// random shardings beside the references.
#include <gtest/gtest.h>

#include <random>

#include "engines/cpu/passes/fuse.h"
#include "engines/engine_support.h"
#include "ops/ops.h"
#include "support/engine_programs.h"
#include "support/graphs.h"
#include "support/random_graphs.h"
#include "support/series.h"
#include "support/spmd_simulator.h"
#include "support/spmd_sketch.h"

namespace tessera::test {
namespace {

using ir::Value;
using ir::Values;

std::size_t groups(const Shape& shape, const std::function<Value(Value)>& body) {
  const ir::GraphPtr g =
      make_graph({{DType::F32, shape}}, [&](ir::Builder&, const Values& v) { return Values{body(v[0])}; });
  return cpu::fusion_groups(*on_one_device(*g), true).size();
}

TEST(Steps, JoinTheBlocksThatReadThem) {
  EXPECT_EQ(groups({40, 64}, [](Value x) { return ops::exp(ops::rev(x, {1})); }), 1U);
  EXPECT_EQ(groups({40, 64}, [](Value x) { return ops::exp(ops::rev(x, {0})); }), 1U);
  EXPECT_EQ(groups({40, 64}, [](Value x) { return ops::exp(ops::slice(x, {0, 1}, {40, 64}, {1, 2})); }), 1U);
  EXPECT_EQ(groups({40, 64},
                   [](Value x) {
                     return ops::slice(x, {0, 0}, {40, 64}, {1, 2}) * ops::slice(x, {0, 1}, {40, 64}, {1, 2});
                   }),
            1U);
  EXPECT_EQ(groups({64, 8}, [](Value x) { return ops::exp(ops::rev(x, {1})); }), 2U) << "its lines are short";
  EXPECT_EQ(groups({40, 64}, [](Value x) { return ops::exp(ops::rev(ops::exp(x), {1})); }), 2U)
      << "what a block makes is not in memory";
  EXPECT_EQ(groups({40, 64}, [](Value x) { return ops::rev(x, {1}); }), 1U);
}

class StepWriter {
 public:
  StepWriter(std::uint64_t seed, const ir::MeshAxes& mesh) : rng_(seed), mesh_(mesh) {
    constexpr std::array kDTypes = {DType::F32,  DType::F64, DType::I32, DType::I8,
                                    DType::BF16, DType::C64, DType::C128};
    dtype_ = kDTypes[at(below(std::ssize(kDTypes)))];
    const std::int64_t outer = below(4);
    for (std::int64_t d = 0; d < outer; ++d) shape_.push_back(1 + below(9));
    shape_.push_back(below(4) == 0 ? 4 * (1 + below(6)) : 16 + below(120));
  }

  RandomProgram run() {
    Value sum = term();
    for (std::int64_t n = below(3); n >= 0; --n) sum = below(2) == 0 ? sum + term() : term() - sum;
    Values out{sum};
    if (!is_complex(dtype_) && below(3) == 0) out.push_back(ops::reduce_max(sum, {sum.type().rank() - 1}));
    RandomProgram p;
    p.module = ir::module_over(b_.finish_shared(out), mesh_);
    for (std::size_t i = 0; i < layouts_.size(); ++i) p.module.inputs[i].layout = layouts_[i];
    for (auto v : p.module.graph->inputs) p.args.push_back(random_array(rng_, p.module.graph->type(v)));
    p.expected = evaluate(*p.module.graph, p.args);
    p.tolerance = 1e-5;
    return p;
  }

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n)); }
  Value input(const Shape& shape) {
    layouts_.push_back(random_layout(rng_, shape, mesh_, true));
    return b_.input({dtype_, shape});
  }

  // An array as it lies, backwards along some dimensions, or every second or third element and fewer.
  Value term() {
    switch (below(4)) {
      case 0:
        return input(shape_);
      case 1: {
        Dims dimensions;
        for (std::size_t d = 0; d < shape_.size(); ++d) {
          if (below(2) == 0) dimensions.push_back(static_cast<std::int64_t>(d));
        }
        return ops::rev(input(shape_), dimensions);
      }
      default: {
        Shape shape;
        Dims starts, limits, strides;
        for (std::int64_t extent : shape_) {
          strides.push_back(below(2) == 0 ? 1 : 1 + below(4));
          starts.push_back(below(3));
          limits.push_back(starts.back() + (extent - 1) * strides.back() + 1);
          shape.push_back(limits.back() + below(3));
        }
        return ops::slice(input(shape), starts, limits, strides);
      }
    }
  }

  std::mt19937_64 rng_;
  const ir::MeshAxes& mesh_;
  DType dtype_ = DType::F32;
  Shape shape_;
  ir::Builder b_;
  std::vector<ir::Layout> layouts_;
};

TEST(Steps, RandomProgramsAgreeWithTheReferences) {
  std::vector<ir::MeshAxes> meshes = test_meshes();
  meshes.insert(meshes.begin(), {{1}, {"x"}});
  const int stride = case_stride();
  for (const ir::MeshAxes& mesh : meshes) {
    for (std::uint64_t seed = 0; seed < 80; seed += static_cast<std::uint64_t>(stride)) {
      const RandomProgram p = StepWriter(seed, mesh).run();
      ASSERT_EQ(disagreement(p), "") << "seed " << seed << " on " << mesh.sizes.size() << " axes";
    }
  }
}

}  // namespace
}  // namespace tessera::test
