// SPDX-License-Identifier: Apache-2.0
// Shards whose memory the host cannot address, of a device that exists in this test alone.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "array/array_impl.h"
#include "runtime/buffer.h"
#include "runtime/completion.h"
#include "tessera/tessera.h"

namespace tessera::runtime {
namespace {

// Memory that is reached by copies on another thread only, each of which begins when `begin` lets it.
class FarMemory final : public DeviceMemory {
 public:
  FarMemory(std::size_t nbytes, std::latch* begin = nullptr) : bytes_(nbytes), begin_(begin) {}
  ~FarMemory() override {
    for (auto& t : threads_) t.join();
  }
  std::string place() const override { return "far:0"; }
  EventPtr copy_to_host(void* to) const override {
    return later([this, to] { std::memcpy(to, bytes_.data(), bytes_.size()); });
  }
  void wait() const override {
    if (fails_) throw StateError("far:0 is lost");
  }
  EventPtr copy_from_host(const void* from) {
    return later([this, from] { std::memcpy(bytes_.data(), from, bytes_.size()); });
  }
  int copies() const { return static_cast<int>(threads_.size()); }
  void fail() { fails_ = true; }

 private:
  EventPtr later(std::function<void()> copy) const {
    if (begin_ != nullptr) begin_->count_down();
    auto done = std::make_shared<Completion>();
    threads_.emplace_back([this, done, copy = std::move(copy)] {
      if (begin_ != nullptr) begin_->wait();
      done->complete(error_of([&] {
        if (fails_) throw StateError("far:0 is lost");
        copy();
      }));
    });
    return done;
  }
  std::vector<char> bytes_;
  std::latch* begin_;
  bool fails_ = false;
  mutable std::vector<std::thread> threads_;
};

std::shared_ptr<FarMemory> far(const std::vector<float>& values) {
  auto memory = std::make_shared<FarMemory>(values.size() * sizeof(float));
  memory->copy_from_host(values.data())->wait();
  return memory;
}
BufferPtr buffer(const std::shared_ptr<FarMemory>& memory, std::size_t floats) {
  return std::make_shared<Buffer>(Buffer::Elsewhere{memory}, static_cast<std::int64_t>(floats * sizeof(float)));
}

TEST(Elsewhere, BuffersSayWhereTheyAre) {
  auto pool = MemoryPool::create();
  auto here = pool->allocate(8);
  auto there = buffer(far({1, 2}), 2);
  EXPECT_EQ(here->elsewhere(), nullptr);
  ASSERT_NE(there->elsewhere(), nullptr);
  EXPECT_EQ(there->elsewhere()->place(), "far:0");
  EXPECT_EQ(there->data(), nullptr);
  EXPECT_EQ(there->nbytes(), 8);
  EXPECT_FALSE(there->exclusive());  // the host must not write there
  EXPECT_TRUE(all_on_host(std::vector<BufferPtr>{here, nullptr}));
  EXPECT_FALSE(all_on_host(std::vector<BufferPtr>{here, there}));
}

TEST(Elsewhere, CopiesAreMadeOnceAndOnlyWhereNeeded) {
  auto pool = MemoryPool::create();
  auto here = pool->allocate(8);
  auto memory = far({3, 4});
  int before = memory->copies();
  std::vector<BufferPtr> shards{here, buffer(memory, 2), nullptr, buffer(memory, 2)};
  auto copied = on_host(shards, *pool);
  ASSERT_EQ(copied.size(), 4U);
  EXPECT_EQ(copied[0], here);
  EXPECT_EQ(copied[2], nullptr);
  EXPECT_EQ(copied[1], copied[3]);
  EXPECT_EQ(memory->copies(), before + 1);
  EXPECT_EQ(static_cast<const float*>(copied[1]->data())[1], 4);
  EXPECT_EQ(pool->stats().live_buffers, 2);
}

// Each copy waits until the other one was asked for: one after the other they would never end.
TEST(Elsewhere, CopiesAreUnderWayTogether) {
  auto pool = MemoryPool::create();
  std::latch both(2);
  std::vector<BufferPtr> shards;
  for (int i = 0; i < 2; ++i) shards.push_back(buffer(std::make_shared<FarMemory>(4, &both), 1));
  auto copied = on_host(shards, *pool);
  EXPECT_EQ(*static_cast<const float*>(copied[1]->data()), 0);
}

TEST(Elsewhere, ACopyThatFailsIsThrown) {
  auto pool = MemoryPool::create();
  auto good = far({1});
  auto bad = far({2});
  bad->fail();
  EXPECT_THROW(on_host(std::vector{buffer(bad, 1), buffer(good, 1)}, *pool), StateError);
  EXPECT_EQ(pool->stats().live_buffers, 0);
}

// What users read of an array goes through the host, wherever its shards are.
class ElsewhereArray : public ::testing::Test {
 protected:
  ElsewhereArray() : scope(Client::cpu({.devices = 2})), rows(make_mesh({2}, {"x"}), P("x")) {}
  Array make(bool by_position, std::vector<std::shared_ptr<FarMemory>>* memories = nullptr) {
    auto storage = std::make_shared<arrays::Storage>();
    for (const auto& values : std::vector<std::vector<float>>{{0, 1, 2, 3}, {4, 5, 6, 7}}) {
      auto memory = far(values);
      if (memories != nullptr) memories->push_back(memory);
      storage->shard_buffers.push_back(buffer(memory, 4));
    }
    return arrays::make(ir::Type{DType::F32, {4, 2}}, rows.share(), std::move(storage), true, !by_position);
  }
  ClientScope scope;
  NamedSharding rows;
};

TEST_F(ElsewhereArray, IsReadThroughTheHost) {
  const std::vector<float> all{0, 1, 2, 3, 4, 5, 6, 7};
  for (bool by_position : {false, true}) {
    Array a = make(by_position);
    EXPECT_EQ(a.to_vector<float>(), all);
    EXPECT_EQ(a.addressable_shards()[1].value().to_vector<float>(), (std::vector<float>{4, 5, 6, 7}));
    EXPECT_NE(to_string(a).find("[6., 7.]"), std::string::npos) << to_string(a);
  }
}

TEST_F(ElsewhereArray, MovesThroughTheHost) {
  NamedSharding columns(make_mesh({2}, {"x"}), P(none, "x"));
  Array moved = device_put(make(false), columns);
  EXPECT_EQ(moved.addressable_shards()[1].value().to_vector<float>(), (std::vector<float>{1, 3, 5, 7}));
  Array swapped = device_put(make(false), NamedSharding(Mesh(DeviceArray({devices()[1], devices()[0]}), "x"), P("x")));
  EXPECT_EQ((swapped * 2.0).to_vector<float>()[7], 14);
}

TEST_F(ElsewhereArray, FailuresAndForeignEnginesSaySo) {
  std::vector<std::shared_ptr<FarMemory>> memories;
  Array lost = make(false, &memories);
  memories[1]->fail();
  EXPECT_THROW(lost.host(), StateError);
  // The CPU engine has no way to it: an engine of its own must run such programs.
  try {
    jit([](const Array& v) { return v * 2.0; })(make(false)).block_until_ready();
    FAIL() << "the CPU engine has read memory elsewhere";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("in the memory of far:0"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tessera::runtime
