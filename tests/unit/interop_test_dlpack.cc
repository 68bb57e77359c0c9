// SPDX-License-Identifier: Apache-2.0
// DLPack both ways: whose memory it is, when it is released, what is refused. tests/interop/check_dlpack.py has NumPy,
// PyTorch and JAX at the other end.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "io/dlpack_tensor.h"
#include "tessera/dlpack.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

// A tensor that counts how often it is released.
template <class Managed = DLManagedTensor>
struct Producer {
  Managed managed{};
  std::vector<std::int64_t> shape, strides;
  int released = 0;

  Producer(void* data, DLDataType type, std::vector<std::int64_t> extents, std::vector<std::int64_t> steps = {})
      : shape(std::move(extents)), strides(std::move(steps)) {
    DLTensor& t = managed.dl_tensor;
    t.data = data;
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int>(shape.size());
    t.dtype = type;
    t.shape = shape.data();
    t.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->released; };
  }
  const Managed* get() const { return &managed; }
  Managed* get() { return &managed; }
};

constexpr DLDataType kF32{kDLFloat, 32, 1};

struct Dlpack : ::testing::Test {
  ClientScope eight{Client::cpu({.devices = 8})};
  Mesh mesh = make_mesh({8}, {"x"});
  alignas(64) float values[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

template <class E, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

const void* memory_of(const Array& a) {
  DLManagedTensor* t = to_dlpack(a);
  const void* data = t->dl_tensor.data;
  t->deleter(t);
  return data;
}

TEST_F(Dlpack, SharesRowMajorMemoryAndReleasesItOnceAtTheEnd) {
  Producer<> p(values, kF32, {4, 4});
  {
    Array x = from_dlpack(p.get());
    EXPECT_EQ(x.shape(), (Shape{4, 4}));
    EXPECT_EQ(memory_of(x), values);
    Array y = x + 1.0;
    EXPECT_EQ(y.to_vector<float>()[15], 16.0F);
    EXPECT_EQ(values[15], 15.0F);
    HostArray held = x.host();
    x.delete_();
    EXPECT_EQ(p.released, 0) << "the host array still reads the memory";
    EXPECT_EQ(held.span<float>()[7], 7.0F);
  }
  EXPECT_EQ(p.released, 1);
}

TEST_F(Dlpack, DonationDoesNotWriteToTheProducersMemory) {
  Producer<> p(values, kF32, {16});
  auto twice = jit([](Array x) { return x * 2.0; }, {.donate_argnums = {0}});
  Array x = from_dlpack(p.get());
  Array y = twice(x);
  EXPECT_EQ(y.to_vector<float>()[3], 6.0F);
  EXPECT_EQ(values[3], 3.0F);
  EXPECT_TRUE(x.is_deleted());
  y = Array();
  EXPECT_EQ(p.released, 1);
}

TEST_F(Dlpack, CopiesWhatCannotBeShared) {
  // Transposed, reversed, repeated, and at an address that is no multiple of 64.
  const struct {
    std::size_t from;
    std::vector<std::int64_t> shape, strides;
    std::vector<float> want;
  } cases[] = {{0, {2, 3}, {1, 4}, {0, 4, 8, 1, 5, 9}},
               {5, {3}, {-2}, {5, 3, 1}},
               {7, {2, 2}, {0, 1}, {7, 8, 7, 8}},
               {1, {3}, {1}, {1, 2, 3}}};
  for (const auto& c : cases) {
    Producer<> p(values + c.from, kF32, c.shape, c.strides);
    EXPECT_NE(message_of<ValueError>([&] { from_dlpack(p.get(), false); }).find("copy is false"), std::string::npos);
    EXPECT_EQ(p.released, 0) << "where it throws, the caller has the tensor";
    Array x = from_dlpack(p.get());
    EXPECT_EQ(p.released, 1);
    EXPECT_EQ(x.shape(), Shape(c.shape));
    EXPECT_EQ(x.to_vector<float>(), c.want);
  }
  Producer<> p(values, kF32, {16});
  Array x = from_dlpack(p.get(), true);
  EXPECT_EQ(p.released, 1);
  EXPECT_NE(memory_of(x), values);
}

TEST_F(Dlpack, ByteOffsetsCountFromTheAddress) {
  Producer<> p(values, kF32, {4});
  p.managed.dl_tensor.byte_offset = 16;
  EXPECT_EQ(from_dlpack(p.get()).to_vector<float>(), (std::vector<float>{4, 5, 6, 7}));
}

TEST_F(Dlpack, UnderAShardingEachDeviceHasItsShard) {
  Producer<> p(values, kF32, {8, 2}, {1, 8});  // column-major
  Array x = from_dlpack(p.get(), NamedSharding(mesh, P("x")).share());
  EXPECT_EQ(p.released, 1);
  ASSERT_EQ(x.addressable_shards().size(), 8U);
  EXPECT_EQ(x.addressable_shards()[3].value().to_vector<float>(), (std::vector<float>{3, 11}));
  Producer<> whole(values, kF32, {16});
  Array everywhere = from_dlpack(whole.get(), NamedSharding(mesh, P()).share(), false);
  EXPECT_EQ(memory_of(everywhere), values);
  Producer<> split(values, kF32, {16});
  EXPECT_NE(message_of<ValueError>([&] {
              from_dlpack(split.get(), NamedSharding(mesh, P("x")).share(), false);
            }).find("the sharding splits the tensor"),
            std::string::npos);
  Producer<> odd(values, kF32, {15});
  EXPECT_THROW(from_dlpack(odd.get(), NamedSharding(mesh, P("x")).share()), IndivisibleError);
  EXPECT_EQ(odd.released, 0);
}

TEST_F(Dlpack, EveryDtypeGoesOutAndIn) {
  for (DType dtype : {bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32,
                      float64, complex64, complex128}) {
    HostArray h = HostArray::from<std::int32_t>({0, 1, 2, 3, 4, 5}).reshape({2, 3}).astype(dtype);
    Array x = device_put(h);
    Array back = from_dlpack(to_dlpack(x), false);
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_TRUE(identical(back.host(), h)) << dtype_name(dtype);
    EXPECT_EQ(memory_of(back), memory_of(x)) << dtype_name(dtype);
  }
  Array empty = from_dlpack(to_dlpack(zeros({0, 3})));
  EXPECT_EQ(empty.shape(), (Shape{0, 3}));
  EXPECT_EQ(from_dlpack(to_dlpack(Array(2.5))).item<float>(), 2.5F);
}

TEST_F(Dlpack, WhatIsGivenAwayOutlivesTheArray) {
  Array x = device_put(arange(8) * 1.0, NamedSharding(mesh, P("x")));
  std::vector<DLManagedTensor*> shards;
  for (const Shard& s : x.addressable_shards()) shards.push_back(to_dlpack(s.value()));
  x.delete_();
  x = Array();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const DLTensor& t = shards[i]->dl_tensor;
    ASSERT_EQ(t.ndim, 1);
    EXPECT_EQ(t.shape[0], 1);
    EXPECT_EQ(t.strides[0], 1);
    EXPECT_EQ(static_cast<const float*>(t.data)[0], static_cast<float>(i));
    shards[i]->deleter(shards[i]);
  }
}

TEST_F(Dlpack, WhatIsExportedIsNotReusedByADonation) {
  auto twice = jit([](Array x) { return x * 2.0; }, {.donate_argnums = {0}});
  Array x = device_put(HostArray::from<float>({1, 2, 3}));
  DLManagedTensor* t = to_dlpack(x);
  EXPECT_EQ(twice(x).to_vector<float>()[2], 6.0F);
  EXPECT_EQ(static_cast<const float*>(t->dl_tensor.data)[2], 3.0F);
  t->deleter(t);
}

TEST_F(Dlpack, ACopyIsTheConsumersOwn) {
  Array x = device_put(HostArray::from<float>({1, 2, 3}));
  DLManagedTensorVersioned* t = to_dlpack_versioned(x, true);
  EXPECT_EQ(t->flags, io::kDlpackIsCopied);
  static_cast<float*>(t->dl_tensor.data)[0] = 9;
  t->deleter(t);
  EXPECT_EQ(x.to_vector<float>()[0], 1.0F);
  t = to_dlpack_versioned(x);
  EXPECT_EQ(t->flags, io::kDlpackReadOnly);
  EXPECT_EQ(t->version.major, 1U);
  Array back = from_dlpack(t, false);
  EXPECT_EQ(memory_of(back), memory_of(x));
}

TEST_F(Dlpack, HostArraysShareTheirStorage) {
  HostArray h(float32, {2});
  DLManagedTensor* t = to_dlpack(h);
  static_cast<float*>(t->dl_tensor.data)[1] = 4;
  EXPECT_EQ(h.span<float>()[1], 4.0F);
  t->deleter(t);
  EXPECT_THROW(to_dlpack(HostArray()), ValueError);
}

TEST_F(Dlpack, RefusalsNameWhatIsWrong) {
  auto refused = [&](auto change, const char* want) {
    Producer<> p(values, kF32, {4});
    change(p.managed.dl_tensor);
    std::string message;
    try {
      from_dlpack(p.get());
      ADD_FAILURE() << want;
    } catch (const Error& e) {
      message = e.what();
    }
    EXPECT_NE(message.find(want), std::string::npos) << message;
    EXPECT_EQ(p.released, 0);
  };
  refused([](DLTensor& t) { t.device.device_type = kDLCUDA; }, "device type 2; expected host memory");
  refused([](DLTensor& t) { t.dtype.lanes = 4; }, "4 lanes");
  refused([](DLTensor& t) { t.dtype = {kDLFloat, 8, 1}; }, "8 bits");
  refused([](DLTensor& t) { t.dtype = {kDLOpaqueHandle, 64, 1}; }, "type code 3");
  refused([](DLTensor& t) { t.shape[0] = -1; }, "-1");
  refused([](DLTensor& t) { t.ndim = -1; }, "-1 dimensions");
  refused([](DLTensor& t) { t.shape = nullptr; }, "no shape");
  refused([](DLTensor& t) { t.data = nullptr; }, "no memory");
  EXPECT_NE(message_of<ValueError>([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }).find("tensor is null"),
            std::string::npos);
  Producer<DLManagedTensorVersioned> later(values, kF32, {4});
  later.managed.version = {2, 0};
  EXPECT_NE(message_of<ValueError>([&] { from_dlpack(later.get()); }).find("DLPack 2.0; expected version 1"),
            std::string::npos);
  Array split = device_put(arange(8), NamedSharding(mesh, P("x")));
  EXPECT_NE(message_of<ValueError>([&] { to_dlpack(split); }).find("8 shards"), std::string::npos);
  jit([&](Array x) {
    EXPECT_THROW(to_dlpack(x), ConcretizationError);
    return x;
  })(Array(1.0));
  split.delete_();
  EXPECT_THROW(to_dlpack(split), DeletedArrayError);
  EXPECT_THROW(to_dlpack(Array()), StateError);
  EXPECT_THROW(from_dlpack(static_cast<DLManagedTensor*>(nullptr), ShardingPtr()), ValueError);
}

}  // namespace
}  // namespace tessera
