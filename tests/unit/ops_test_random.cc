// SPDX-License-Identifier: Apache-2.0
// Numbers recorded from JAX 0.10.2 with jax.random.key(42).
#include <gtest/gtest.h>

#include "ops/elementwise/random_bits.h"
#include "ops/transform/interpret.h"
#include "tests/support/graphs.h"

namespace tessera::ops {
namespace {

const Type kKey{DType::U32, {2}};

std::vector<std::uint32_t> u32(const std::function<Value(Builder&, Value key)>& make) {
  auto g = test::make_graph({kKey}, [&](Builder& b, const Values& v) { return Values{make(b, v[0])}; });
  return interpret(*g, std::vector<HostArray>{HostArray::from<std::uint32_t>({0, 42})})[0].to_vector<std::uint32_t>();
}

TEST(Random, BitsOfAllWidthsAreJaxs) {
  EXPECT_EQ(u32([](Builder&, Value k) {
              return random_bits(k, 32, {2, 3});
            }),
            (std::vector<std::uint32_t>{2098992034, 2919706841, 2646866425, 2409546199, 1935504149, 2516274904}));
  EXPECT_EQ(u32([](Builder&, Value k) { return random_bits(k, 32, {}); }), (std::vector<std::uint32_t>{2098992034}));
  EXPECT_EQ(u32([](Builder&, Value k) { return convert(random_bits(k, 8, {5}), DType::U32); }),
            (std::vector<std::uint32_t>{162, 217, 249, 215, 21}));
  EXPECT_EQ(u32([](Builder&, Value k) { return convert(random_bits(k, 16, {2}), DType::U32); }),
            (std::vector<std::uint32_t>{5026, 12505}));
  auto g = test::make_graph({kKey}, [](Builder&, const Values& v) { return Values{random_bits(v[0], 64, {2})}; });
  auto out = interpret(*g, std::vector<HostArray>{HostArray::from<std::uint32_t>({0, 42})})[0];
  EXPECT_EQ(out.to_vector<std::uint64_t>(), (std::vector<std::uint64_t>{7871734211187709741U, 276886910877598708U}));
}

TEST(Random, KeysAreJaxs) {
  EXPECT_EQ(u32([](Builder&, Value k) { return random_split(k, {3}); }),
            (std::vector<std::uint32_t>{1832780943, 270669613, 64467757, 2916123636, 2465931498, 255383827}));
  EXPECT_EQ(u32([](Builder& b, Value k) { return random_fold_in(k, scalar(b, 7, DType::I32)); }),
            (std::vector<std::uint32_t>{2547012911, 1371500959}));
}

TEST(Random, ErrorsNameTheKey) {
  try {
    def::random_bits.infer(std::vector<Type>{Type{DType::U32, {3}}}, ir::make_attrs(RandomBits{32, {2}}));
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("[random_bits] operand 0: keys of shape (3,); expected a last dimension of 2"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::ops
