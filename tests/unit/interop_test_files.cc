// SPDX-License-Identifier: Apache-2.0
// Files read shard by shard: the values of the whole file, and no more bytes than the shards have.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "tessera/sharded_files.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

struct ShardedFiles : ::testing::Test {
  ClientScope eight{Client::cpu({.devices = 8})};
  Mesh mesh = make_mesh({4, 2}, {"x", "y"});
  test::TempFolder folder;
  std::mt19937_64 random{7};

  std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  ShardingPtr split(const PartitionSpec& spec) const { return NamedSharding(mesh, spec).share(); }
};

std::int64_t data_read() { return checkpoints::io_stats().data_bytes_read; }

// Specs that a shape divides by.
const std::vector<std::pair<Shape, PartitionSpec>> kCases = {
    {{8, 6}, P("x", "y")},          {{8, 6}, P(none, "y")},   {{8, 6}, P()}, {{16}, P(SpecEntry{"x", "y"})},
    {{4, 3, 8}, P("x", none, "y")}, {{2, 4, 4}, P("y", "x")}, {{}, P()},     {{0, 4}, P(none, "x")}};

TEST_F(ShardedFiles, HaveTheValuesOfTheWholeFile) {
  int number = 0;
  for (const auto& [shape, spec] : kCases) {
    for (DType dtype : {bool_, int8, uint16, float16, float32, int64, complex64, complex128}) {
      HostArray h = test::random_bits(dtype, shape, random);
      const std::string name = path(std::to_string(number++));
      save_npy(name + ".npy", h);
      save_npz(name + ".npz", {{"a", h}, {"b", HostArray::scalar(1.0F)}});
      std::map<std::string, Array> got{{"npy", load_npy(name + ".npy", split(spec))}};
      got["npz"] = load_npz(name + ".npz", {{"a", split(spec)}}).at("a");
      if (dtype != complex128) {
        save_safetensors(name + ".safetensors", {{"z", HostArray::scalar(1.0F)}, {"a", h}});
        got["safetensors"] = load_safetensors(name + ".safetensors", {{"a", split(spec)}}).at("a");
      }
      for (const auto& [kind, a] : got) {
        EXPECT_TRUE(identical(a.host(), h)) << kind << " " << dtype_name(dtype) << to_string(shape);
        EXPECT_TRUE(a.sharding()->is_equivalent_to(*split(spec), a.ndim())) << kind;
        EXPECT_TRUE(a.committed());
      }
    }
  }
}

// As NumPy writes them: column-major, and with the other byte order.
std::string npy_bytes(const std::string& descr, bool fortran, const Shape& shape, const std::string& elements) {
  std::string dims;
  for (auto d : shape) dims += std::to_string(d) + ",";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (" + dims + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\0", 8);
  out += static_cast<char>(header.size() & 0xffU);
  out += static_cast<char>(header.size() >> 8U);
  return out + header + elements;
}

TEST_F(ShardedFiles, ColumnMajorAndBigEndianFilesAreTurned) {
  for (const auto& [shape, spec] : kCases) {
    for (bool fortran : {false, true}) {
      for (bool big : {false, true}) {
        HostArray h = test::random_bits(int32, shape, random);
        std::string elements(static_cast<const char*>(h.data()), static_cast<std::size_t>(h.nbytes()));
        if (big) {
          for (std::size_t i = 0; i < elements.size(); i += 4)
            std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(i),
                         elements.begin() + static_cast<std::ptrdiff_t>(i) + 4);
        }
        test::write_bytes(path("f.npy"), npy_bytes(big ? ">i4" : "<i4", fortran, shape, elements));
        HostArray whole = load_npy(path("f.npy"));
        EXPECT_TRUE(identical(load_npy(path("f.npy"), split(spec)).host(), whole))
            << to_string(shape) << (fortran ? " column-major" : "") << (big ? " big-endian" : "");
      }
    }
  }
}

TEST_F(ShardedFiles, ReadTheBytesOfTheShardsAlone) {
  HostArray h = test::random_bits(float32, {64, 32}, random);
  save_npy(path("a.npy"), h);
  save_safetensors(path("a.safetensors"), {{"a", h}, {"b", test::random_bits(float64, {512, 64}, random)}});
  const std::int64_t bytes = 64 * 32 * 4;
  auto read_by = [&](const std::function<void()>& f) {
    const std::int64_t before = data_read();
    f();
    return data_read() - before;
  };
  for (const PartitionSpec& spec : {P("x"), P(none, "y"), P("x", "y"), P()}) {
    EXPECT_EQ(read_by([&] { load_npy(path("a.npy"), split(spec)); }), bytes);
    EXPECT_EQ(read_by([&] { load_safetensors(path("a.safetensors"), {{"a", split(spec)}}); }), bytes);
  }
  // Four processes of two devices, one after the other: each reads what its two devices hold.
  auto clients = test::cluster_clients(4, 2);
  const std::pair<PartitionSpec, std::int64_t> parts[] = {
      {P("x"), bytes / 4}, {P("x", "y"), bytes / 4}, {P(none, "y"), bytes}, {P(none, "x"), bytes / 4}};
  for (const Client& client : clients) {
    ClientScope scope(client);
    Mesh all = make_mesh({4, 2}, {"x", "y"}, client.devices());
    for (const auto& [spec, want] : parts) {
      const ShardingPtr sharding = NamedSharding(all, spec).share();
      EXPECT_EQ(read_by([&] { load_npy(path("a.npy"), sharding); }), want) << to_string(spec);
      Array a;
      EXPECT_EQ(read_by([&] { a = load_safetensors(path("a.safetensors"), {{"a", sharding}}).at("a"); }), want);
      for (const Shard& s : a.addressable_shards()) {
        EXPECT_TRUE(identical(s.value().host(), h.slice(s.index())));
      }
    }
  }
}

TEST_F(ShardedFiles, TreesTakeTheirLeavesByPath) {
  std::map<std::string, Array> like{{"w", device_put(zeros({8, 4}), NamedSharding(mesh, P("x", "y")))},
                                    {"b", device_put(zeros({4}), NamedSharding(mesh, P("y")))}};
  std::map<std::string, Array> values{{"w", like.at("w") + 2.0}, {"b", like.at("b") + 3.0}};
  save_safetensors(path("m.safetensors"), named_leaves(values));
  auto got = load_safetensors_like(path("m.safetensors"), like);
  for (const auto& [name, a] : got) {
    EXPECT_TRUE(identical(a.host(), values.at(name).host())) << name;
    EXPECT_TRUE(a.sharding()->is_equivalent_to(*like.at(name).sharding(), a.ndim())) << name;
  }
}

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST_F(ShardedFiles, RefusalsNameTheFileAndTheReason) {
  save_npy(path("a.npy"), HostArray::from<float>({1, 2, 3}));
  save_npz(path("a.npz"), {{"a", HostArray::from<float>({1, 2, 3})}});
  save_safetensors(path("a.safetensors"), {{"a", HostArray::from<float>({1, 2, 3})}});
  EXPECT_THROW(load_npy(path("a.npy"), split(P("x"))), IndivisibleError);
  EXPECT_THROW(load_npz(path("a.npz"), {{"a", split(P("x", "y"))}}), ValueError);
  EXPECT_NE(message_of([&] { load_npy(path("a.npy"), ShardingPtr()); }).find("sharding is null"), std::string::npos);
  EXPECT_NE(message_of([&] {
              load_npz(path("a.npz"), {{"c", split(P())}});
            }).find("no array \"c\"; it has \"a\""),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              load_safetensors(path("a.safetensors"), {{"c", split(P())}});
            }).find("no array \"c\"; it has \"a\""),
            std::string::npos);
  EXPECT_NE(message_of([&] { load_npy(path("none.npy"), split(P())); }).find("none.npy"), std::string::npos);
  EXPECT_NE(message_of([&] { load_npy(folder.path(), split(P())); }).find("no regular file"), std::string::npos);
  std::map<std::string, Array> other{{"a", device_put(zeros({4}), split(P("x")))}};
  EXPECT_NE(
      message_of([&] { load_safetensors_like(path("a.safetensors"), other); }).find("has shape (3,); expected (4,)"),
      std::string::npos);
  std::map<std::string, Array> ints{{"a", device_put(zeros({3}, int32), split(P()))}};
  EXPECT_NE(
      message_of([&] { load_safetensors_like(path("a.safetensors"), ints); }).find("has dtype float32; expected int32"),
      std::string::npos);
}

TEST_F(ShardedFiles, FilesCutAnywhereAreRefused) {
  HostArray h = test::random_bits(float32, {8, 2}, random);
  save_npy(path("a.npy"), h);
  save_npz(path("a.npz"), {{"a", h}});
  save_safetensors(path("a.safetensors"), {{"a", h}});
  for (const char* kind : {"npy", "npz", "safetensors"}) {
    const std::string bytes = test::read_bytes(path(std::string("a.") + kind));
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      test::write_bytes(path("cut"), bytes.substr(0, n));
      auto load = [&] {
        if (std::string(kind) == "npy") load_npy(path("cut"), split(P("x")));
        if (std::string(kind) == "npz") load_npz(path("cut"), {{"a", split(P("x"))}});
        if (std::string(kind) == "safetensors") load_safetensors(path("cut"), {{"a", split(P("x"))}});
      };
      EXPECT_THROW(load(), FormatError) << kind << " cut at " << n;
    }
  }
}

}  // namespace
}  // namespace tessera
