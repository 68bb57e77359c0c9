// SPDX-License-Identifier: Apache-2.0
// Checkpoints of one process: what is saved comes back, bit by bit, wherever it is placed.
#include "tessera/checkpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "support/series.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::random_bits;
using test::TempFolder;

constexpr DType kAll[] = {bool_,  int8,    int16,    int32,   int64,   uint8,     uint16,    uint32,
                          uint64, float16, bfloat16, float32, float64, complex64, complex128};

struct Layer {
  Array w, b;
  std::string activation = "relu";
};
struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Array> norms;
  std::tuple<Array, std::optional<Array>> extra;
};

// A placement of such a shape over some mesh of the devices.
ShardingPtr random_sharding(const EightDevices& on, const Shape& shape, std::mt19937_64& random) {
  const Mesh meshes[] = {on.A(), on.A24(), on.B(), on.C(), on.D(), on.L8()};
  const Mesh& mesh = meshes[random() % std::size(meshes)];
  if (random() % 6 == 0) return SingleDeviceSharding(on.d(static_cast<std::int64_t>(random() % 8)));
  std::vector<std::string> names;
  for (const auto& n : mesh.axis_names()) names.push_back(n);
  std::shuffle(names.begin(), names.end(), random);
  std::vector<std::vector<std::string>> entries(shape.size());
  for (const auto& n : names) {
    if (!shape.empty() && random() % 3 != 0) entries[random() % shape.size()].push_back(n);
  }
  std::vector<SpecEntry> parts;
  for (const auto& e : entries) parts.push_back(e.empty() ? SpecEntry(none) : SpecEntry(e));
  return NamedSharding(mesh, PartitionSpec(parts), {.uneven = true});
}

Shape random_shape(std::mt19937_64& random) {
  static constexpr std::int64_t extents[] = {0, 1, 2, 3, 5, 8, 8, 9, 16, 24, 33};
  Shape out;
  for (std::size_t d = random() % 4; d > 0; --d) out.push_back(extents[random() % std::size(extents)]);
  return out;
}

TEST(Checkpoint, EveryDtypeUnderRandomShardings) {
  EightDevices on;
  TempFolder folder;
  std::mt19937_64 random(20261122);
  const int rounds = 60 / test::case_stride();
  for (int round = 0; round < rounds; ++round) {
    std::map<std::string, Array> tree;
    std::map<std::string, HostArray> values;
    std::vector<ShardingPtr> to;
    std::int64_t bytes = 0;
    for (DType t : kAll) {
      const std::string name = std::string(dtype_name(t)) + (round % 2 == 0 ? "" : " é@/\\\"");
      values[name] = random_bits(t, random_shape(random), random);
      tree[name] = device_put(values[name], random_sharding(on, values[name].shape(), random));
      bytes += values[name].nbytes();
    }
    for (const auto& [name, value] : values) to.push_back(random_sharding(on, value.shape(), random));
    const auto before = checkpoints::io_stats();
    const auto handle = checkpoints::save(folder.path(), round, tree);
    // Each distinct element is written once, however many devices hold it.
    ASSERT_EQ(handle.stats().data_bytes, bytes);
    EXPECT_EQ(checkpoints::io_stats().data_bytes_written - before.data_bytes_written, bytes);
    const auto back = checkpoints::restore(folder.path(), round, tree, {.shardings = to});
    std::size_t i = 0;
    for (const auto& [name, value] : values) {
      EXPECT_TRUE(identical(back.at(name).host(), value)) << name << " " << to_string(value.shape());
      EXPECT_TRUE(*back.at(name).sharding() == *to[i++]);
      EXPECT_TRUE(back.at(name).committed());
    }
    const auto same = checkpoints::restore(folder.path(), round, tree);
    for (const auto& [name, value] : values) {
      EXPECT_TRUE(identical(same.at(name).host(), value)) << name;
      EXPECT_TRUE(*same.at(name).sharding() == *tree.at(name).sharding());
    }
    const HostArrays host = checkpoints::load(folder.path(), round);
    EXPECT_EQ(host.size(), values.size());
    for (const auto& [name, value] : values) EXPECT_TRUE(identical(host.at(name), value)) << name;
    EXPECT_NO_THROW(checkpoints::verify(folder.path(), round));
  }
}

TEST(Checkpoint, TreesKeepTheirStructure) {
  EightDevices on;
  TempFolder folder;
  std::mt19937_64 random(3);
  auto put = [&](const Shape& shape, const PartitionSpec& spec) {
    return device_put(random_bits(float32, shape, random), NamedSharding(on.A(), spec));
  };
  Model model;
  model.layers.push_back({put({8, 4}, P("x", "y")), put({4}, P("y"))});
  model.layers.push_back({put({4, 16}, P(none, "x")), put({16}, P()), "gelu"});
  model.norms["scale"] = put({8}, P("x"));
  model.norms["a.b"] = put({2}, P());
  model.extra = {put({2, 2, 2}, P("y")), std::nullopt};
  const auto handle = checkpoints::save(folder.path(), 7, model, {.metadata = {{"epoch", "3"}, {"lr", "1e-3 µ"}}});
  handle.wait();
  const auto info = checkpoints::info(folder.path(), 7);
  EXPECT_EQ(info.step, 7);
  EXPECT_EQ(info.metadata.at("lr"), "1e-3 µ");
  std::vector<std::string> names;
  for (const auto& l : info.leaves) names.push_back(l.name);
  EXPECT_EQ(names, tree_paths(model));
  EXPECT_EQ(info.leaves[0].shards, 8);
  EXPECT_EQ(info.leaves[1].shards, 2);

  // A tree without data says what to restore as well as one with it.
  Model like = tree_map(
      [](const Array& a) {
        return without_data({a.shape(), a.dtype(), false, a.sharding()});
      },
      model);
  const Model back = checkpoints::restore(folder.path(), 7, like);
  EXPECT_EQ(back.layers[1].activation, "gelu");
  EXPECT_FALSE(std::get<1>(back.extra).has_value());
  const auto a = tree_leaves(model);
  const auto b = tree_leaves(back);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(identical(a[i].host(), b[i].host())) << names[i];
    EXPECT_TRUE(*a[i].sharding() == *b[i].sharding());
  }
}

TEST(Checkpoint, ScalarsOfTheProgramKeepTheirDigits) {
  TempFolder folder;
  const std::map<std::string, Array> tree{{"i", Array(3)},
                                          {"lr", Array(0.1)},
                                          {"product", jit([](const Array& x) { return x * 0.3; })(Array(0.1))},
                                          {"strong", Array(HostArray::scalar(0.5F))},
                                          {"z", Array(complex64_t(1, 2))}};
  checkpoints::save(folder.path(), 0, tree).wait();
  const auto back = checkpoints::restore(folder.path(), 0, tree);
  const Array wide = device_put(HostArray::scalar(2.0));
  for (const auto& [name, a] : tree) {
    EXPECT_EQ(back.at(name).dtype(), a.dtype()) << name;
    EXPECT_EQ(back.at(name).weak_type(), a.weak_type()) << name;
    EXPECT_FALSE(back.at(name).committed()) << name;
    EXPECT_TRUE(identical((back.at(name) * wide).host(), (a * wide).host())) << name;
  }
  EXPECT_EQ(checkpoints::load(folder.path(), 0).at("lr").dtype(), float32);
}

TEST(Checkpoint, OneArrayIsATree) {
  TempFolder folder;
  const Array x = device_put(HostArray::from<std::int32_t>({1, 2, 3}));
  checkpoints::save(folder.path(), 1, x).wait();
  EXPECT_EQ(checkpoints::info(folder.path(), 1).leaves.at(0).name, "value");
  EXPECT_TRUE(identical(checkpoints::restore(folder.path(), 1, x).host(), x.host()));
  const std::vector<Array> none;
  checkpoints::save(folder.path(), 2, none).wait();
  EXPECT_TRUE(checkpoints::restore(folder.path(), 2, none).empty());
}

// Files are safetensors: this library's own reader of them compares the checksums that it knows.
TEST(Checkpoint, FilesAreSafetensors) {
  EightDevices on;
  TempFolder folder;
  std::mt19937_64 random(5);
  std::map<std::string, Array> tree;
  tree["split"] = device_put(random_bits(bfloat16, {8, 4}, random), NamedSharding(on.A(), P("x", "y")));
  tree["whole"] = device_put(random_bits(int64, {70, 70}, random), NamedSharding(on.A(), P()));
  tree["z"] = device_put(random_bits(complex128, {3}, random), NamedSharding(on.A(), P()));
  checkpoints::save(folder.path(), 4, tree).wait();
  const std::string step = checkpoints::step_path(folder.path(), 4);
  const HostArrays file = load_safetensors(step + "/model-00001-of-00001.safetensors");
  EXPECT_EQ(file.size(), 10U);
  EXPECT_TRUE(identical(file.at("whole"), tree["whole"].host()));
  EXPECT_TRUE(identical(file.at("split@2:4,2:4"), tree["split"].host().slice({{2, 4}, {2, 4}})));
  EXPECT_EQ(file.at("z").dtype(), float64);
  EXPECT_EQ(file.at("z").shape(), (Shape{3, 2}));
  const std::string map = test::read_bytes(step + "/model.safetensors.index.json");
  EXPECT_NE(map.find(R"("whole":"model-00001-of-00001.safetensors")"), std::string::npos) << map;
  EXPECT_NE(map.find("\"total_size\":" + std::to_string(64 + 39200 + 48)), std::string::npos) << map;
}

// Every dtype, split and whole, for tools/check_checkpoint.py: TESSERA_CHECKPOINTS_DIR keeps the folder.
TEST(Checkpoint, AFolderForOtherReaders) {
  EightDevices on;
  TempFolder folder;
  const char* keep = std::getenv("TESSERA_CHECKPOINTS_DIR");
  const std::string dir = keep != nullptr ? keep : folder.path();
  std::mt19937_64 random(21);
  std::map<std::string, Array> tree;
  HostArrays expected;
  for (DType t : kAll) {
    const std::string name(dtype_name(t));
    expected[name + ".whole"] = random_bits(t, {3, 5}, random);
    expected[name + ".split"] = random_bits(t, {9, 6}, random);
    expected[name + ".scalar"] = random_bits(t, {}, random);
    expected[name + ".empty"] = HostArray(t, {0, 2});
  }
  for (const auto& [name, value] : expected) {
    const PartitionSpec spec = name.ends_with("split") ? P("x", "y") : P();
    tree[name] = device_put(value, NamedSharding(on.A(), spec, {.uneven = true}));
  }
  checkpoints::save(dir, 1, tree).wait();
  save_npz(dir + "/expected.npz", expected);
  for (const auto& [name, value] : checkpoints::load(dir, 1)) EXPECT_TRUE(identical(value, expected.at(name))) << name;
}

// TESSERA_CHECKPOINT_MB: of another size than 64 MB.
TEST(Checkpoint, AShardIsReadWithoutTheOthers) {
  EightDevices on;
  TempFolder folder;
  const char* megabytes = std::getenv("TESSERA_CHECKPOINT_MB");
  const std::int64_t rows = 128 * (megabytes != nullptr ? std::atoll(megabytes) : 64);
  const std::int64_t columns = 2048;
  std::map<std::string, Array> tree;
  HostArray value(float32, {rows, columns});
  auto v = value.span<float>();
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 2654435761U);
  tree["big"] = device_put(value, NamedSharding(on.L8(), P("x")));
  tree["small"] = device_put(HostArray::from<float>({1, 2, 3}));
  checkpoints::save(folder.path(), 1, tree).wait();

  auto read = [&](const ShardingPtr& sharding) {
    const auto before = checkpoints::io_stats();
    const std::vector<ShardingPtr> to{sharding, nullptr};
    const auto back = checkpoints::restore(folder.path(), 1, tree, {.shardings = to});
    EXPECT_TRUE(identical(back.at("big").host(), value));
    const auto after = checkpoints::io_stats();
    return std::pair(after.data_bytes_read - before.data_bytes_read, after.index_bytes_read - before.index_bytes_read);
  };
  const std::int64_t all = value.nbytes() + 12;
  const std::int64_t most_index = 16384 + all / 1024 + 64;  // headers, indices, a checksum of 4 bytes per 4096
  // Whatever the placement, no byte is read twice: shards of whole rows, and columns of whole blocks.
  for (const auto& spec : {P("x"), P("y"), P(axes("x", "y")), P(none, "y")}) {
    const auto [data, index] = read(NamedSharding(on.A(), spec));
    EXPECT_EQ(data, all) << to_string(spec);
    EXPECT_LE(index, most_index) << to_string(spec);
  }

  // One process of eight: seven eighths of the file are nobody's business here. Its client has the other devices, too.
  auto clients = test::cluster_clients(8, 1);
  std::vector<std::thread> threads;
  const auto before = checkpoints::io_stats();
  std::atomic<int> right{0};
  for (const Client& client : clients) {
    threads.emplace_back([&, client] {
      ClientScope scope(client);
      std::map<std::string, Array> like;
      like["big"] =
          without_data({value.shape(), float32, false, NamedSharding(make_mesh({8}, "x", client.devices()), P("x"))});
      const auto back = checkpoints::restore(folder.path(), 1, like, {.partial = true});
      const auto shard = back.at("big").addressable_shards()[0];
      right += identical(shard.value().host(), value.slice(shard.index()));
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(checkpoints::io_stats().data_bytes_read - before.data_bytes_read, value.nbytes());

  const auto one = checkpoints::io_stats();
  EXPECT_EQ(checkpoints::load(folder.path(), 1, {"small"}).at("small").to_vector<float>()[2], 3);
  EXPECT_EQ(checkpoints::io_stats().data_bytes_read - one.data_bytes_read, 12);
  EXPECT_LT(checkpoints::io_stats().index_bytes_read - one.index_bytes_read, 16384);
}

// Of one stored shard, one restored shard: at most the blocks that its elements are in.
TEST(Checkpoint, APartOfAShardIsReadInBlocks) {
  EightDevices on;
  TempFolder folder;
  std::mt19937_64 random(8);
  const HostArray value = random_bits(float32, {1 << 10, 1 << 12}, random);  // rows of 16 KB
  checkpoints::save(folder.path(), 1, device_put(value)).wait();
  auto read = [&](const PartitionSpec& spec) {
    auto clients = test::cluster_clients(4, 1);
    const auto before = checkpoints::io_stats();
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (const Client& client : clients) {
      threads.emplace_back([&, client] {
        ClientScope scope(client);
        NamedSharding to(make_mesh({4}, "x", client.devices()), spec);
        const Array back = checkpoints::restore(folder.path(), 1, without_data({value.shape(), float32, false, to}));
        const auto shard = back.addressable_shards()[0];
        right += identical(shard.value().host(), value.slice(shard.index()));
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(right, 4);
    return checkpoints::io_stats().data_bytes_read - before.data_bytes_read;
  };
  EXPECT_EQ(read(P("x")), value.nbytes());        // 256 rows each
  EXPECT_EQ(read(P(none, "x")), value.nbytes());  // 4 KB of each row: whole blocks
}

TEST(Checkpoint, ProgressCountsBytes) {
  EightDevices on;
  TempFolder folder;
  const HostArray value(float32, {5 << 20});  // 20 MB
  std::memset(const_cast<void*>(value.data()), 1, static_cast<std::size_t>(value.nbytes()));
  const Array x = device_put(value, NamedSharding(on.L8(), P("x")));
  std::vector<checkpoints::Progress> seen;
  const auto note = [&](const checkpoints::Progress& p) { seen.push_back(p); };
  checkpoints::save(folder.path(), 1, x, {.progress = note}).wait();
  ASSERT_EQ(seen.size(), 8U);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].bytes_done, value.nbytes() / 8 * static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(seen[i].bytes_total, value.nbytes());
    EXPECT_EQ(seen[i].leaf, "value");
  }
  seen.clear();
  checkpoints::restore(folder.path(), 1, x, {.progress = note});
  ASSERT_EQ(seen.size(), 8U);
  EXPECT_EQ(seen.back().bytes_done, value.nbytes());
  // What it throws fails the save, which leaves nothing.
  const auto stop = [](const checkpoints::Progress&) { throw ValueError("enough"); };
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), 2, x, {.progress = stop}).wait(), "enough");
  EXPECT_EQ(test::names_in(folder.path()), (std::vector<std::string>{"step_00000001"}));
}

TEST(Checkpoint, StepsAreThoseThatAreComplete) {
  TempFolder folder;
  const Array x = device_put(HostArray::from<float>({1}));
  EXPECT_EQ(checkpoints::latest_step(folder.path() + "/none"), std::nullopt);
  EXPECT_EQ(checkpoints::all_steps(folder.path()), std::vector<std::int64_t>{});
  for (std::int64_t step : {5L, 100L, 12345678901L, 20L}) checkpoints::save(folder.path(), step, x).wait();
  for (const char* other :
       {"step_00000007", "step_7", "step_00000008x", "other", ".step_00000009.tmp-0123456789abcdef"}) {
    std::filesystem::create_directories(folder.path() + "/" + other);
  }
  test::write_bytes(folder.path() + "/step_00000030", "a file");
  EXPECT_EQ(checkpoints::all_steps(folder.path()), (std::vector<std::int64_t>{5, 20, 100, 12345678901L}));
  EXPECT_EQ(checkpoints::latest_step(folder.path()), 12345678901L);
  checkpoints::remove(folder.path(), 12345678901L);
  EXPECT_EQ(checkpoints::latest_step(folder.path()), 100);
  EXPECT_ERROR(ValueError, checkpoints::remove(folder.path(), 7), "step 7");
  // What is no checkpoint is in nobody's way, and nobody's loss.
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), 7, x), "step = 7", "there already", "checkpoints::remove");
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), 30, x), "step = 30", "there already");
  EXPECT_EQ(test::read_bytes(folder.path() + "/step_00000030"), "a file");
}

TEST(Checkpoint, MistakesAreNamed) {
  EightDevices on;
  TempFolder folder;
  const Array x = device_put(HostArray::from<float>({1, 2, 3}));
  std::map<std::string, Array> tree{{"w", x}};
  checkpoints::save(folder.path(), 3, tree).wait();
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), -1, x), "checkpoints::save: step = -1");
  EXPECT_ERROR(ValueError, checkpoints::save("", 1, x), "dir is empty");
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), 3, x), "step = 3 is there already");
  Array gone = x + 1;
  gone.delete_();
  EXPECT_ERROR(DeletedArrayError, checkpoints::save(folder.path(), 4, std::map<std::string, Array>{{"gone", gone}}),
               "leaf \"gone\"", "deleted");
  EXPECT_ERROR(StateError, checkpoints::save(folder.path(), 4, std::vector<Array>(1)), "leaf \"[0]\"", "uninitialised");
  EXPECT_ERROR(ConcretizationError, jit([&](const Array& a) {
                 checkpoints::save(folder.path(), 4, a);
                 return a;
               })(x),
               "traced");
  EXPECT_ERROR(ValueError,
               checkpoints::save(folder.path(), 4, std::map<std::string, Array>{{"__metadata__", x}}).wait(),
               "__metadata__", "choose another");
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), 4, std::map<std::string, Array>{{"\xff", x}}).wait(),
               "UTF-8");
  // A '.' in a key alone is fine.
  EXPECT_NO_THROW(checkpoints::save(folder.path(), 5, std::map<std::string, Array>{{"a.b", x}, {"a", x}}).wait());
  std::map<std::string, std::map<std::string, Array>> clash{{"a", {{"b.c", x}}}, {"a.b", {{"c", x}}}};
  EXPECT_ERROR(ValueError, checkpoints::save(folder.path(), 6, clash).wait(), "two leaves \"a.b.c\"");
  EXPECT_EQ(checkpoints::all_steps(folder.path()), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(test::names_in(folder.path()).size(), 2U);

  EXPECT_ERROR(ValueError, checkpoints::restore(folder.path(), 4, tree), "no checkpoint of step 4", "steps 3, 5");
  EXPECT_ERROR(ValueError, checkpoints::restore(folder.path() + "/none", 4, tree), "it has none");
  const std::map<std::string, Array> other{{"v", x}};
  EXPECT_ERROR(ValueError, checkpoints::restore(folder.path(), 3, other), "step_00000003", "no leaf \"v\"", "\"w\"");
  const std::map<std::string, Array> less;
  EXPECT_ERROR(ValueError, checkpoints::restore(folder.path(), 3, less), "has the leaf \"w\"", "partial");
  EXPECT_NO_THROW(checkpoints::restore(folder.path(), 3, less, {.partial = true}));
  std::map<std::string, Array> wrong{{"w", device_put(HostArray(float32, {4}))}};
  EXPECT_ERROR(ValueError, checkpoints::restore(folder.path(), 3, wrong), "leaf \"w\"", "shape (3,)", "expected (4,)");
  wrong["w"] = device_put(HostArray(bfloat16, {3}));
  EXPECT_ERROR(TypeError, checkpoints::restore(folder.path(), 3, wrong), "leaf \"w\"", "dtype float32",
               "expected bfloat16", "astype");
  EXPECT_ERROR(IndivisibleError,
               checkpoints::restore(folder.path(), 3, tree, {.shardings = {NamedSharding(on.L8(), P("x"))}}),
               "checkpoints::restore", "leaf \"w\"", "3", "8");
  EXPECT_ERROR(ValueError, checkpoints::restore(folder.path(), 3, tree, {.shardings = {nullptr, nullptr}}),
               "2 elements for a tree of 1");
  EXPECT_ERROR(ValueError, checkpoints::load(folder.path(), 3, {"nothing"}), "no leaf \"nothing\"");
  EXPECT_TRUE(identical(tree.at("w").host(), x.host()));
}

TEST(CheckpointManager, KeepsTheNewestAndThePeriodic) {
  TempFolder folder;
  const Array x = device_put(HostArray::from<float>({1, 2}));
  CheckpointManager manager(folder.path(), {.max_to_keep = 2, .keep_period = 10, .save_interval_steps = 2});
  std::vector<std::int64_t> saved;
  for (std::int64_t step = 0; step <= 25; ++step) {
    if (manager.save(step, x + static_cast<float>(step))) saved.push_back(step);
  }
  manager.wait();
  EXPECT_EQ(saved.size(), 13U);
  EXPECT_EQ(manager.all_steps(), (std::vector<std::int64_t>{0, 10, 20, 22, 24}));
  EXPECT_EQ(manager.latest_step(), 24);
  EXPECT_EQ(test::names_in(folder.path()).size(), 5U);
  EXPECT_EQ(manager.restore(x).to_vector<float>(), (std::vector<float>{25, 26}));
  EXPECT_EQ(manager.restore(x, 10).to_vector<float>(), (std::vector<float>{11, 12}));
  EXPECT_FALSE(manager.save(24, x));
  EXPECT_FALSE(manager.save(27, x));
  EXPECT_TRUE(manager.save(27, x, {}, true));
  manager.wait();
  EXPECT_EQ(manager.all_steps(), (std::vector<std::int64_t>{0, 10, 20, 24, 27}));
}

TEST(CheckpointManager, GoesOnWhereAnotherOneEnded) {
  TempFolder folder;
  const Array x = device_put(HostArray::from<float>({1, 2}));
  const std::string dir = folder.path() + "/runs/7";
  {
    CheckpointManager manager(dir, {.async = false});
    EXPECT_EQ(manager.latest_step(), std::nullopt);
    EXPECT_ERROR(ValueError, manager.restore(x), "has no checkpoint");
    EXPECT_TRUE(manager.save(3, x, {{"seed", "9"}}));
    EXPECT_EQ(manager.latest_step(), 3);
  }
  std::filesystem::create_directories(dir + "/.step_00000004.tmp-0123456789abcdef/sub");
  std::filesystem::create_directories(dir + "/.step_00000001.deleted-0123456789abcdef");
  std::filesystem::create_directories(dir + "/.cache");
  CheckpointManager manager(dir);
  EXPECT_EQ(test::names_in(dir), (std::vector<std::string>{".cache", "step_00000003"}));
  EXPECT_EQ(manager.latest_step(), 3);
  EXPECT_FALSE(manager.should_save(3));
  EXPECT_TRUE(manager.should_save(4));
  EXPECT_EQ(checkpoints::info(manager.directory(), 3).metadata.at("seed"), "9");
  EXPECT_TRUE(identical(manager.restore(x).host(), x.host()));
  EXPECT_ERROR(ValueError, CheckpointManager(dir, {.max_to_keep = 0}), "max_to_keep = 0");
  EXPECT_ERROR(ValueError, CheckpointManager(dir, {.save_interval_steps = -1}), "save_interval_steps = -1");
  EXPECT_ERROR(ValueError, CheckpointManager(dir + "/step_00000003/checkpoint.json"), "checkpoint.json");
}

}  // namespace
}  // namespace tessera
