// SPDX-License-Identifier: Apache-2.0
// Manual regions in the middle of a jitted function.
#include <gtest/gtest.h>

#include "annotate/manual_sharding.h"
#include "program/trace.h"
#include "support/meshes.h"
#include "support/spec_report.h"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

HostArray counted(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  return HostArray::from(v, shape);
}
int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++n;
  return n;
}

struct Manual : ::testing::Test {
  EightDevices e;
  Mesh mesh = make_mesh({2, 4}, {"x", "y"});
  Array x = device_put(counted({8, 8}));
};

TEST_F(Manual, BlocksAndBack) {
  TESSERA_SPEC("T81", "T84");
  auto f = jit([&](Array a) {
    Array block = enable_manual_sharding(a, P("x", "y"), mesh);
    EXPECT_EQ(block.shape(), (Shape{4, 2}));
    EXPECT_EQ(sharding_type(block), ShardingType::MANUAL);
    EXPECT_EQ(op_sharding(block)->hlo_v1(), "{manual}");
    EXPECT_EQ(enable_manual_sharding(a, P(none, none), mesh).shape(), (Shape{8, 8}));
    return disable_manual_sharding(block + 1, P("x", "y"), {8, 8}, mesh);
  });
  Array y = f(x);
  EXPECT_EQ(op_sharding(y)->hlo_v1(), "{devices=[2,4]0,1,2,3,4,5,6,7}");
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y.to_vector<float>()[i], static_cast<float>(i) + 1);
  auto scalar =
      jit([&](Array a) { return disable_manual_sharding(enable_manual_sharding(a, P(), mesh) * 2, P(), {}, mesh); });
  EXPECT_EQ(scalar(Array(3.0F)).item<float>(), 6.0F);
  // Zeros follow the data of an uneven value; on the way back they are cut off.
  Array odd = device_put(counted({7, 5}));
  auto g = jit([&](Array a) {
    Array block = enable_manual_sharding(a, P("x", "y"), mesh);
    EXPECT_EQ(block.shape(), (Shape{4, 2}));
    return std::pair(disable_manual_sharding(block * 2, P("x", "y"), {7, 5}, mesh),
                     disable_manual_sharding(block, P("x", "y"), {8, 8}, mesh));
  });
  auto [back, padded] = g(odd);
  EXPECT_EQ(back.shape(), (Shape{7, 5}));
  EXPECT_EQ(op_sharding(back)->hlo_v1(), "{devices=[2,4]0,1,2,3,4,5,6,7}");
  for (std::size_t i = 0; i < 35; ++i) EXPECT_EQ(back.to_vector<float>()[i], 2.0F * static_cast<float>(i));
  EXPECT_EQ(padded.to_vector<float>()[5], 0.0F);
  EXPECT_EQ(padded.to_vector<float>()[8], 5.0F);
}

TEST_F(Manual, CollectivesNameTheAxesOfTheMesh) {
  TESSERA_SPEC("T81");
  auto f = jit([&](Array a) {
    Array block = enable_manual_sharding(a, P("x", "y"), mesh);
    Array total = psum(sum(block), {"x", "y"});
    Array row = psum(sum(block, 1), "y");
    return std::pair(disable_manual_sharding(block / total, P("x", "y"), {8, 8}, mesh),
                     disable_manual_sharding(row, P("x"), {8}, mesh));
  });
  auto [share, rows] = f(x);
  EXPECT_FLOAT_EQ(share.to_vector<float>()[63], 63.0F / 2016.0F);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(rows.to_vector<float>()[i], 64.0F * static_cast<float>(i) + 28.0F);
  EXPECT_EQ(f.comm_plan(x).count("all_reduce"), 2) << to_string(f.comm_plan(x));
  // What is no block is the same on every device; loops and positions work.
  Array scale = ones({2}) * 3.0F;
  auto g = jit([&](Array a) {
    Array block = enable_manual_sharding(a, P("x", "y"), mesh);
    auto [last, all] = scan([](Array c, Array r) { return std::pair(c + r, c); }, zeros({2}), block);
    Array here = astype(axis_index("y"), float32);
    return std::pair(disable_manual_sharding(reshape(last * scale, {1, 2}), P("x", "y"), {2, 8}, mesh),
                     disable_manual_sharding(block * 0 + here, P("x", "y"), {8, 8}, mesh));
  });
  auto [sums, places] = g(x);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(sums.to_vector<float>()[i], 3.0F * (48.0F + 4.0F * static_cast<float>(i)));
    EXPECT_EQ(places.to_vector<float>()[i], static_cast<float>(i / 2));
  }
}

TEST_F(Manual, OneRegionAfterTheOther) {
  // The second region reads a global result of the first, and a block of it.
  auto f = jit([&](Array a) {
    Array block = enable_manual_sharding(a, P("x", "y"), mesh);
    Array doubled = block * 2;
    Array mean_of_all = mean(disable_manual_sharding(doubled, P("x", "y"), {8, 8}, mesh));
    return disable_manual_sharding(doubled - mean_of_all, P("x", "y"), {8, 8}, mesh);
  });
  auto got = f(x).to_vector<float>();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(got[i], 2.0F * static_cast<float>(i) - 63.0F);
  EXPECT_EQ(count(f.trace(x).text(), "shard_map["), 2) << f.trace(x).text();
  // Regions that do not meet are maps of their own.
  auto apart = jit([&](Array a, Array b) {
    Array p = disable_manual_sharding(enable_manual_sharding(a, P("x", none), mesh) + 1, P("x", none), {8, 8}, mesh);
    Array q = disable_manual_sharding(enable_manual_sharding(b, P("y", none), mesh) + 2, P("y", none), {8, 8}, mesh);
    return std::pair(p, q);
  });
  EXPECT_EQ(count(apart.trace(x, x).text(), "shard_map["), 2);
  EXPECT_EQ(apart(x, x).second.to_vector<float>()[5], 7.0F);
}

TEST_F(Manual, Gradients) {
  auto manual = [&](Array a) {
    Array block = enable_manual_sharding(a, P("x", "y"), mesh);
    return sum(disable_manual_sharding(block * block, P("x", "y"), {8, 8}, mesh));
  };
  auto got = jit([&](Array a) { return grad(manual)(a); })(x).to_vector<float>();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], 2.0F * static_cast<float>(i));
}

TEST_F(Manual, Refusals) {
  TESSERA_SPEC("T82", "T83", "T85", "T86", "T87");
  set_global_mesh(std::nullopt);
  auto run = [&](const std::function<Array(Array)>& f) { jit([&](Array a) { return f(a); })(x); };
  EXPECT_ERROR(ValueError, enable_manual_sharding(x, P("x", "y"), mesh), "enable_manual_sharding", "inside jit");
  EXPECT_ERROR(ValueError, run([&](Array a) { return enable_manual_sharding(a, P("x", "y")); }), "mesh",
               "global mesh is not set");
  EXPECT_ERROR(ValueError, run([&](Array a) { return enable_manual_sharding(a, P("x"), mesh); }), "partition_spec", "1",
               "2");
  EXPECT_ERROR(ValueError, run([&](Array a) { return enable_manual_sharding(a, P("q", none), mesh); }),
               "partition_spec", "q");
  EXPECT_ERROR(ValueError, run([&](Array a) {
                 return enable_manual_sharding(enable_manual_sharding(a, P("x", "y"), mesh), P("x", none), mesh);
               }),
               "x", "already manual");
  for (const Shape& full : {Shape{16, 16}, Shape{8, 4}, Shape{8}}) {
    EXPECT_ERROR(ValueError, run([&](Array a) {
                   return disable_manual_sharding(enable_manual_sharding(a, P("x", "y"), mesh), P("x", "y"), full,
                                                  mesh);
                 }),
                 "full_shape", to_string(full), "(4, 2)");
  }
  EXPECT_ERROR(ValueError, run([&](Array a) {
                 return disable_manual_sharding(a, P("x", "y"), {8, 8}, mesh);
               }),
               "disable_manual_sharding", "none", "manual");
  EXPECT_ERROR(ValueError, run([&](Array a) {
                 return disable_manual_sharding(mark_sharding(a * 2, mesh, P("x", "y")), P("x", "y"), {8, 8}, mesh);
               }),
               "disable_manual_sharding", "{devices=[2,4]0,1,2,3,4,5,6,7}", "manual");
  EXPECT_ERROR(ValueError, jit([&](Array a) { return std::pair(a, enable_manual_sharding(a, P("x", "y"), mesh)); })(x),
               "output 1", "disable_manual_sharding");
  EXPECT_ERROR(ValueError, run([&](Array a) { return annotate::full_to_shard_shape(a + 1, {}); }), "not sharded");
  set_global_mesh(mesh);
  EXPECT_NO_THROW(run([&](Array a) {
    return disable_manual_sharding(enable_manual_sharding(a, P("x", "y")) + 1, P("x", "y"), {8, 8});
  }));
  set_global_mesh(std::nullopt);
  auto in_map =
      shard_map([&](Array a) { return enable_manual_sharding(a, P("x", "y"), mesh); }, mesh, P("x", "y"), P("x", "y"));
  EXPECT_ERROR(ValueError, in_map(x), "x", "already manual");
}

TEST_F(Manual, AsHloText) {
  TESSERA_SPEC("T74", "T89");
  Array marked = mark_sharding(x, mesh, P("x", "y"));
  std::string text = annotated_hlo([&](Array a) { return mark_sharding(2.0F * a, mesh, P("y", "x")); }, marked);
  EXPECT_NE(text.find("f32[8,8] parameter(0), sharding={devices=[2,4]0,1,2,3,4,5,6,7}"), std::string::npos) << text;
  std::size_t product = text.find("mul(");
  ASSERT_NE(product, std::string::npos) << text;
  std::size_t call = text.find("f32[8,8] custom-call(f32[8,8] %");
  EXPECT_GT(call, product) << text;
  EXPECT_NE(text.find("custom_call_target=\"Sharding\", sharding={devices=[4,2]0,4,1,5,2,6,3,7}", call),
            std::string::npos);
  EXPECT_EQ(count(text, "custom-call"), 1) << text;
  EXPECT_NE(annotated_hlo([](Array a) { return a + 1; }, x).find("parameter(0)\n"), std::string::npos);

  text = annotated_hlo(
      [&](Array a) {
        return disable_manual_sharding(enable_manual_sharding(a, P("x", "y"), mesh) + 1, P("x", "y"), {8, 8}, mesh);
      },
      x);
  std::size_t at = 0;
  for (const char* step :
       {"custom_call_target=\"Sharding\", sharding={devices=[2,4]0,1,2,3,4,5,6,7}", "f32[4,2] custom-call(f32[8,8] %",
        "custom_call_target=\"SPMDFullToShardShape\", sharding={manual}", "f32[4,2] add(f32[4,2] %",
        "custom_call_target=\"Sharding\", sharding={manual}", "f32[8,8] custom-call(f32[4,2] %",
        "custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[2,4]0,1,2,3,4,5,6,7}"}) {
    at = text.find(step, at);
    ASSERT_NE(at, std::string::npos) << step << " is missing in\n" << text;
  }
}

TEST_F(Manual, TheMark) {
  TESSERA_SPEC("T88");
  program::Trace trace;
  Array in = trace.input(ir::Type{DType::F32, {4, 2}});
  EXPECT_ERROR(ValueError, annotate::mark_manual_sharding(in), "data");
  EXPECT_ERROR(ValueError, annotate::mark_manual_sharding(Array(1.0F)), "data");
  Array block = enable_manual_sharding(in, P("x", "y"), mesh) + 1;
  Array marked = annotate::mark_manual_sharding(block);
  EXPECT_EQ(sharding_type(marked), ShardingType::MANUAL);
  EXPECT_EQ(static_cast<int>(*sharding_type(marked)), 4);
  EXPECT_NE(ir::to_string(trace.builder().graph()).find("mark_manual[sharding=\"{manual}\"]"), std::string::npos)
      << ir::to_string(trace.builder().graph());
}

}  // namespace
}  // namespace tessera::test
