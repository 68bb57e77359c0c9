// SPDX-License-Identifier: Apache-2.0
// Checkpoints that were damaged, mixed up or made to mislead: refused with the file and the leaf, never other values.
// TESSERA_FUZZ_SECONDS makes the fuzzer run that many seconds of processor time, TESSERA_FUZZ_SEED mutates differently.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>

#include "io/checkpoint/index.h"
#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "support/paths.h"
#include "support/series.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::random_bits;
using test::read_bytes;
using test::TempFolder;
using test::write_bytes;
using Tree = std::map<std::string, Array>;

Tree sharded_tree(const EightDevices& on, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tree out;
  out["bias"] = device_put(random_bits(bfloat16, {6}, random), NamedSharding(on.A(), P()));
  out["flags"] = device_put(random_bits(bool_, {11}, random), NamedSharding(on.A(), P("x"), {.uneven = true}));
  out["w"] = device_put(random_bits(float32, {64, 48}, random), NamedSharding(on.A(), P("x", "y")));
  out["z"] = device_put(random_bits(complex64, {5, 3}, random), NamedSharding(on.A(), P()));
  return out;
}

// Two processes' files, so that there is more than one.
void save_from_two(const std::string& dir, std::int64_t step, std::uint64_t seed) {
  auto clients = test::cluster_clients(2, 4);
  std::vector<std::thread> threads;
  for (const Client& c : clients) {
    threads.emplace_back([&, c] {
      ClientScope scope(c);
      std::mt19937_64 random(seed);
      const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, c.devices());
      Tree out;
      out["bias"] = device_put(random_bits(bfloat16, {6}, random), NamedSharding(mesh, P()));
      out["flags"] = device_put(random_bits(bool_, {11}, random), NamedSharding(mesh, P("x"), {.uneven = true}));
      out["w"] = device_put(random_bits(float32, {64, 48}, random), NamedSharding(mesh, P("x", "y")));
      out["z"] = device_put(random_bits(complex64, {5, 3}, random), NamedSharding(mesh, P()));
      checkpoints::save(dir, step, out).wait();
    });
  }
  for (auto& t : threads) t.join();
}

const std::vector<std::string> kFiles{"checkpoint.json",
                                      "model-00001-of-00002.crc32",
                                      "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.crc32",
                                      "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"};

struct Damaged {
  EightDevices on;
  TempFolder folder;
  Tree tree = sharded_tree(on, 1);
  std::string step;
  std::map<std::string, std::string> files;

  Damaged() {
    save_from_two(folder.path(), 1, 1);
    step = checkpoints::step_path(folder.path(), 1) + "/";
    EXPECT_EQ(test::names_in(step), kFiles);
    for (const auto& f : kFiles) files[f] = read_bytes(step + f);
  }
  void repair(const std::string& f) const {
    std::filesystem::remove_all(step + f);
    write_bytes(step + f, files.at(f));
  }
  // The message, or nothing where the restore succeeds; then every value must be right.
  std::string restore() const {
    try {
      const Tree back = checkpoints::restore(folder.path(), 1, tree);
      for (const auto& [name, a] : tree) EXPECT_TRUE(identical(back.at(name).host(), a.host())) << name;
      return {};
    } catch (const ValueError& e) {
      return e.what();
    }
  }
};

TEST(CheckpointDamage, EveryFlippedBitIsNoticed) {
  Damaged d;
  ASSERT_EQ(d.restore(), "");
  std::mt19937_64 random(6);
  const int flips = 3000 / test::case_stride();
  for (int i = 0; i < flips; ++i) {
    const std::string& f = kFiles[static_cast<std::size_t>(i) % kFiles.size()];
    std::string bytes = d.files.at(f);
    const std::size_t at = random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    write_bytes(d.step + f, bytes);
    const std::string error = d.restore();
    EXPECT_NE(error, "") << f << " byte " << at;
    // A checksum that differs is one of two files' fault.
    const std::string stem = f.substr(0, f.rfind('.'));
    EXPECT_NE(error.find(stem), std::string::npos) << f << ": " << error;
    EXPECT_THROW(checkpoints::verify(d.folder.path(), 1), FormatError) << f << " byte " << at;
    d.repair(f);
  }
  EXPECT_EQ(d.restore(), "");
}

TEST(CheckpointDamage, FilesThatAreCutLongerOrMissing) {
  Damaged d;
  std::mt19937_64 random(7);
  for (const auto& f : kFiles) {
    const std::string& bytes = d.files.at(f);
    std::set<std::size_t> lengths{0, 1, 7, 8, 9, bytes.size() - 1};
    for (int i = 0; i < 24; ++i) lengths.insert(random() % bytes.size());
    for (std::size_t n : lengths) {
      write_bytes(d.step + f, bytes.substr(0, n));
      EXPECT_TRUE(test::has(d.restore(), {f})) << f << " of " << n << " bytes: " << d.restore();
      if (f.starts_with("model-")) {
        EXPECT_TRUE(test::has(d.restore(), {"leaf \"", "truncated"})) << d.restore();
      }
    }
    write_bytes(d.step + f, bytes + "x");
    EXPECT_TRUE(test::has(d.restore(), {f})) << d.restore();
    std::filesystem::remove(d.step + f);
    const std::string missing = d.restore();
    if (f == "checkpoint.json") {
      EXPECT_TRUE(test::has(missing, {"no checkpoint of step 1"})) << missing;
    } else {
      EXPECT_TRUE(test::has(missing, {f, "No such file"})) << missing;
    }
    if (f.starts_with("model-")) {
      EXPECT_TRUE(test::has(missing, {"checkpoints::restore: leaf \""})) << missing;
    }
    // What is there in its place is no file to read: a pipe would wait for ever.
    std::filesystem::create_directory(d.step + f);
    EXPECT_NE(d.restore(), "") << f;
    std::filesystem::remove(d.step + f);
    ASSERT_EQ(::mkfifo((d.step + f).c_str(), 0600), 0);
    EXPECT_NE(d.restore(), "") << f;
    std::filesystem::remove(d.step + f);
    d.repair(f);
  }
  EXPECT_EQ(d.restore(), "");
}

TEST(CheckpointDamage, FilesOfAnotherCheckpointAreNoticed) {
  Damaged d;
  save_from_two(d.folder.path(), 2, 2);  // the same tree with other values: every size is the same
  const std::string other = checkpoints::step_path(d.folder.path(), 2) + "/";
  for (const auto& f : kFiles) {
    const std::string bytes = read_bytes(other + f);
    if (bytes == d.files.at(f)) continue;  // names of tensors and files
    write_bytes(d.step + f, bytes);
    EXPECT_NE(d.restore(), "") << f;
    d.repair(f);
  }
  write_bytes(d.step + "checkpoint.json", read_bytes(other + "checkpoint.json"));
  EXPECT_TRUE(test::has(d.restore(), {"is the index of step 2", "expected 1"})) << d.restore();
  // Two files under each other's names.
  d.repair("checkpoint.json");
  write_bytes(d.step + kFiles[2], d.files.at(kFiles[4]));
  EXPECT_TRUE(test::has(d.restore(), {"leaf \"", kFiles[2]})) << d.restore();
}

TEST(CheckpointDamage, ARestoreThatFailsLeavesNoMemory) {
  Damaged d;
  const Client client = Client::cpu({.devices = 1, .memory_limit = 40 << 10});
  ClientScope scope(client);
  std::string bytes = d.files.at(kFiles[4]);
  bytes[bytes.size() - 5] ^= 1;
  write_bytes(d.step + kFiles[4], bytes);
  Tree like;
  for (const auto& [name, a] : d.tree) like[name] = without_data({a.shape(), a.dtype()});
  for (int i = 0; i < 30; ++i) {
    EXPECT_THROW(checkpoints::restore(d.folder.path(), 1, like), FormatError);
    d.repair(kFiles[4]);
    const Tree back = checkpoints::restore(d.folder.path(), 1, like);
    for (const auto& [name, a] : d.tree) EXPECT_TRUE(identical(back.at(name).host(), a.host()));
    write_bytes(d.step + kFiles[4], bytes);
  }
}

// --- indices that mislead --------------------------------------------------------------------------------------------

// Gives a changed index its checksum again, as somebody who means it would.
std::string sealed(const std::string& json) {
  const std::string mark = ",\"~crc32\":\"";
  const std::string before = json.substr(0, json.rfind(mark));
  const std::uint32_t crc = io::crc32_of(before);
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08x", crc);
  return before + mark + digits + "\"}\n";
}
std::string replaced(std::string s, const std::string& from, const std::string& to) {
  const std::size_t at = s.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << s;
  return at == std::string::npos ? s : s.replace(at, from.size(), to);
}

TEST(CheckpointDamage, AnIndexThatMisleadsIsRefused) {
  Damaged d;
  const std::string index = d.files.at("checkpoint.json");
  ASSERT_EQ(sealed(index), index);
  struct Case {
    std::string from, to, word;
  };
  const std::vector<Case> cases{
      {"\"format\":\"tessera-checkpoint\"", "\"format\":\"other\"", "format"},
      {"\"version\":1", "\"version\":2", "version is 2"},
      {"\"block_bytes\":4096", "\"block_bytes\":0", "block_bytes"},
      {"\"step\":1", "\"step\":-1", "step is no count"},
      {"\"step\":1", "\"step\":1.0", "step is no count"},
      {"\"step\":1", "\"step\":1,\"step\":1", "twice"},
      {"\"name\":\"model-00001-of-00002.safetensors\"", "\"name\":\"../other.safetensors\"", "no name of a file"},
      {"\"name\":\"model-00001-of-00002.safetensors\"", "\"name\":\"/etc/passwd\"", "no name of a file"},
      {"\"name\":\"model-00001-of-00002.safetensors\"", "\"name\":\"a\\u0000b\"", "no name of a file"},
      {"\"name\":\"model-00001-of-00002.safetensors\"", "\"name\":\"..\"", "no name of a file"},
      {"\"name\":\"model-00001-of-00002.safetensors\"", "\"name\":\"model-00002-of-00002.safetensors\"", "twice"},
      {"\"name\":\"model-00001-of-00002.safetensors\"", "\"name\":\"checkpoint.json\"", "twice"},
      {"\"name\":\"w\"", "\"name\":\"z\"", "the leaf \"z\" twice"},
      {"\"dtype\":\"float32\"", "\"dtype\":\"float31\"", "float31"},
      {"\"dtype\":\"float32\"", "\"dtype\":\"float64\"", "elements of float32"},
      {"\"shape\":[64,48]", "\"shape\":[64,49]", "leaf \"w\""},
      {"\"shape\":[64,48]", "\"shape\":[64,47]", "leaf \"w\""},
      {"\"shape\":[64,48]", "\"shape\":[9223372036854775807,9223372036854775807]", "too many elements"},
      {"\"shape\":[64,48]", "\"shape\":[4611686018427387904,1]", "too many bytes"},
      {"\"shape\":[64,48]", "\"shape\":[18446744073709551615,48]", "no count"},
      {"\"shape\":[64,48]", "\"shape\":[64,48,1]", "not inside"},
      {"\"shape\":[64,48]", "\"shape\":\"64\"", "no list"},
      {"\"shape\":[16,24]", "\"shape\":[16,25]", "leaf \"w\""},
      {"\"shape\":[16,24]", "\"shape\":[15,24]", "leaf \"w\""},
      {"\"shape\":[16,24]", "\"shape\":[9223372036854775807,24]", "not inside"},
      {"\"start\":[0,24]", "\"start\":[0,0]", "overlap"},
      {"\"start\":[0,24]", "\"start\":[0,9223372036854775807]", "not inside"},
      {"\"start\":[0,24]", "\"start\":[0,-1]", "no count"},
      {"\"file\":1", "\"file\":2", "file 2 of 2"},
      {"\"file\":1", "\"file\":18446744073709551615", "no count"},
      {"\"header_bytes\":", "\"header_bytes\":1", "bytes"},
      {"\"weak\":false", "\"weak\":0", "no bool"},
      {"\"metadata\":{}", "\"metadata\":{\"a\":1}", "no string"},
      {"\"metadata\":{}", "\"metadata\":[[[[[[[[[[]]]]]]]]]]", "metadata is no object"},
      {"\"metadata\":{}", "\"metadata\":" + std::string(200'000, '[') + std::string(200'000, ']'),
       "metadata is no object"},
      {"\"metadata\":{}", "\"metadata\":" + std::string(200'000, '['), "JSON"},
      {"\"leaves\":[", "\"leaves\":[{},", "lacks"},
      {"\"files\":[", "\"files\":[{},", "lacks"},
      {"\"leaves\":[", "\"leaves\":[[", "JSON"},
  };
  for (const auto& c : cases) {
    write_bytes(d.step + "checkpoint.json", sealed(replaced(index, c.from, c.to)));
    const std::string error = d.restore();
    EXPECT_TRUE(test::has(error, {"checkpoints::restore", c.word}))
        << c.from << " -> " << c.to.substr(0, 100) << ": " << error;
    EXPECT_TRUE(test::has(error, {"checkpoint.json"})) << error;
    EXPECT_THROW(checkpoints::info(d.folder.path(), 1), FormatError) << c.to;
  }
  // Offsets: each is one too few, too many, or beyond all bounds.
  std::size_t at = 0;
  int offsets = 0;
  while ((at = index.find("\"offset\":", at + 1)) != std::string::npos) {
    const std::size_t from = at + 9;
    const std::size_t end = index.find_first_not_of("0123456789", from);
    const std::uint64_t value = std::stoull(index.substr(from, end - from));
    for (const std::string& other : {std::to_string(value - 1), std::to_string(value + 1), std::string("0"),
                                     std::string("9223372036854775807"), std::string("1e3")}) {
      write_bytes(d.step + "checkpoint.json", sealed(index.substr(0, from) + other + index.substr(end)));
      EXPECT_TRUE(test::has(d.restore(), {"checkpoint.json"})) << other << ": " << d.restore();
    }
    ++offsets;
  }
  EXPECT_EQ(offsets, 14);
  d.repair("checkpoint.json");
  EXPECT_EQ(d.restore(), "");
}

TEST(CheckpointDamage, CoversAreFoundOut) {
  const Dims zero{0, 0};
  auto fault = [](const Shape& shape, const std::vector<std::pair<Dims, Shape>>& parts) {
    std::vector<io::BlockAt> blocks;
    for (const auto& [start, size] : parts) blocks.push_back({&start, &size});
    return io::cover_fault(shape, blocks);
  };
  EXPECT_EQ(fault({4, 4}, {{{0, 0}, {4, 4}}}), "");
  EXPECT_EQ(fault({4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 1}}, {{2, 1}, {2, 3}}}), "");
  EXPECT_EQ(fault({}, {{{}, {}}}), "");
  EXPECT_EQ(fault({0, 4}, {}), "");
  EXPECT_EQ(fault({0, 4}, {{{0, 0}, {0, 4}}}), "");
  EXPECT_NE(fault({}, {}), "");
  EXPECT_NE(fault({}, {{{}, {}}, {{}, {}}}), "");
  EXPECT_NE(fault({4, 4}, {{{0, 0}, {2, 4}}}), "");
  EXPECT_NE(fault({4, 4}, {{{0, 0}, {2, 4}}, {{1, 0}, {2, 4}}}), "");
  EXPECT_NE(fault({4, 4}, {{{0, 0}, {2, 4}}, {{0, 0}, {2, 4}}}), "");
  // Random bricks that form no grid: cut again and again, then one of them moved, doubled or left out.
  std::mt19937_64 random(12);
  for (int round = 0; round < 300 / test::case_stride(); ++round) {
    const Shape shape{40, 30, 20};
    std::vector<std::pair<Dims, Shape>> parts{{{0, 0, 0}, shape}};
    const std::size_t cuts = 1 + random() % 60;
    while (parts.size() <= cuts) {
      auto& p = parts[random() % parts.size()];
      const std::size_t dim = random() % 3;
      if (p.second[dim] < 2) continue;
      auto rest = p;
      const auto n = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(p.second[dim] - 1));
      p.second[dim] = n;
      rest.first[dim] += n;
      rest.second[dim] -= n;
      parts.push_back(rest);
    }
    std::shuffle(parts.begin(), parts.end(), random);
    EXPECT_EQ(fault(shape, parts), "");
    auto wrong = parts;
    wrong[0] = wrong[1];
    EXPECT_NE(fault(shape, wrong), "");
    wrong = parts;
    wrong.pop_back();
    EXPECT_NE(fault(shape, wrong), "");
    wrong = parts;
    auto& moved = wrong[random() % wrong.size()];
    const std::size_t dim = random() % 3;
    if (moved.first[dim] + moved.second[dim] < shape[dim]) {
      ++moved.first[dim];
      EXPECT_NE(fault(shape, wrong), "");
    }
  }
}

// --- the fuzzer ------------------------------------------------------------------------------------------------------

class IndexMutator {
 public:
  IndexMutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}
  std::string next() {
    std::string s = corpus_[pick(corpus_.size())];
    for (std::size_t i = 0, n = 1 + pick(4); i < n && s.size() > 40; ++i) change(s);
    return s;
  }

 private:
  std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  void change(std::string& s) {
    static const char* const kWords[] = {"0",
                                         "1",
                                         "-1",
                                         "4096",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "1e9",
                                         "[]",
                                         "{}",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "\"",
                                         ",",
                                         ":",
                                         "null",
                                         "true",
                                         "\"shape\":[1]",
                                         "\"offset\":0",
                                         "\"file\":0",
                                         "\"\\u0000\"",
                                         "\"..\"",
                                         "\"bool\"",
                                         "\"complex128\""};
    const std::size_t at = pick(s.size());
    switch (pick(7)) {
      case 0:
        s[at] = static_cast<char>(random_());
        break;
      case 1:
        s.erase(at, 1 + pick(20));
        break;
      case 2:
        s.insert(at, kWords[pick(std::size(kWords))]);
        break;
      case 3:
      case 4: {  // a number becomes another one: most of these are still JSON
        std::size_t from = s.find_first_of("0123456789", at);
        if (from == std::string::npos) break;
        const std::size_t end = s.find_first_not_of("0123456789", from);
        const std::string word = pick(2) == 0 ? kWords[pick(6)] : std::to_string(pick(2) == 0 ? pick(70) : random_());
        s.replace(from, end - from, word);
        break;
      }
      case 5: {  // an object comes twice
        const std::size_t begin = s.find('{', at);
        const std::size_t end = s.find('}', begin);
        if (end != std::string::npos) s.insert(begin, s.substr(begin, end - begin + 1) + ",");
        break;
      }
      default: {
        const std::string& other = corpus_[pick(corpus_.size())];
        s.insert(at, other.substr(pick(other.size()), pick(100)));
      }
    }
  }
  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

TEST(CheckpointFuzz, WhateverIsWrongWithAnIndexComesAsAnError) {
  Damaged d;
  std::vector<std::string> corpus{d.files.at("checkpoint.json")};
  for (const auto& f : std::filesystem::directory_iterator(test::source_path("tests/checkpoint/fuzz"))) {
    corpus.push_back(read_bytes(f.path()));
    EXPECT_NO_THROW(io::parse_index("test", corpus.back(), f.path())) << f.path();
  }
  ASSERT_GE(corpus.size(), 4U);
  IndexMutator mutator(corpus, test::fuzz_seed(20261122));
  std::int64_t read = 0;
  const std::int64_t ran = test::fuzz(
      6000, [&] { return sealed(mutator.next()); },
      [&](const std::string& text) {
        try {
          const io::CheckpointIndex index = io::parse_index("test", text, "mutated");
          ++read;
          // What is still an index is written as it was read, and its files are read by it.
          EXPECT_EQ(io::index_text(io::parse_index("test", io::index_text(index), "again")), io::index_text(index));
          write_bytes(d.step + "checkpoint.json", text);
          try {
            checkpoints::verify(d.folder.path(), 1);
            std::int64_t bytes = 0;
            for (const auto& [name, value] : checkpoints::load(d.folder.path(), 1)) bytes += value.nbytes();
            EXPECT_LE(bytes, 4 * 64 * 48 + 1000);
          } catch (const Error&) {
          }
        } catch (const FormatError&) {
        }
      });
  std::printf("%lld indices, %lld of them still indices\n", static_cast<long long>(ran), static_cast<long long>(read));
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tessera
