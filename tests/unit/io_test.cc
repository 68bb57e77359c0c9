// SPDX-License-Identifier: Apache-2.0
#include "tessera/io.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

namespace tessera {
namespace {

std::string temporary(const std::string& name) { return ::testing::TempDir() + "tessera_io_" + name; }
std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
HostArrays sample() {
  HostArrays a;
  a["weights"] = HostArray::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  a["empty"] = HostArray(int64, {0, 4});
  a["scalar"] = HostArray::scalar(2.5);
  a["flags"] = HostArray::from<bool>({true, false, true});
  a["z"] = HostArray::from<complex64_t>({{1, 2}, {3, -4}});
  return a;
}
void expect_same(const HostArrays& a, const HostArrays& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(identical(value, b.at(name))) << name;
}

TEST(Io, RoundTrips) {
  HostArrays a = sample();
  save_npz(temporary("a.npz"), a);
  expect_same(a, load_npz(temporary("a.npz")));
  a["half"] = HostArray::from<bfloat16_t>({bfloat16_t(1.5F)});
  save_safetensors(temporary("a.safetensors"), a);
  expect_same(a, load_safetensors(temporary("a.safetensors")));
  for (const auto& [name, value] : sample()) {
    save_npy(temporary("a.npy"), value);
    EXPECT_TRUE(identical(value, load_npy(temporary("a.npy")))) << name;
  }
  save_npz(temporary("none.npz"), {});
  EXPECT_TRUE(load_npz(temporary("none.npz")).empty());
}

TEST(Io, FortranOrderAndBigEndian) {
  std::string header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }";
  header.append(117 - header.size(), ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  for (char v = 0; v < 6; ++v) bytes += std::string{'\0', v};
  EXPECT_EQ(parse_npy(bytes).to_vector<std::int16_t>(), (std::vector<std::int16_t>{0, 2, 4, 1, 3, 5}));
}

TEST(Io, TwoOpaqueBytesAreBfloat16) {
  std::string header = "{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }";
  header.append(117 - header.size(), ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header + std::string("\xc0\x3f\x20\xc0", 4);
  HostArray a = parse_npy(bytes);
  EXPECT_EQ(a.dtype(), bfloat16);
  EXPECT_EQ(a.astype(float32).to_vector<float>(), (std::vector<float>{1.5, -2.5}));
}

TEST(Io, BadFilesAreNamed) {
  EXPECT_THROW(load_npz(temporary("missing.npz")), ValueError);
  for (const std::string& bytes : {std::string(), std::string("PK"), std::string(100, 'x')}) {
    EXPECT_THROW(parse_npz(bytes), FormatError);
    EXPECT_THROW(parse_npy(bytes), FormatError);
    EXPECT_THROW(parse_safetensors(bytes), FormatError);
  }
  try {
    parse_npz("nonsense", "weights.npz");
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_NE(std::string(e.what()).find("weights.npz"), std::string::npos);
    EXPECT_EQ(e.file(), "weights.npz");
  }
  std::string huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(huge.size());
  bytes += '\0';
  EXPECT_THROW(parse_npy(bytes + huge), FormatError);
}

// Any change of any byte gives an array or an exception of ours, never a crash or a huge allocation.
TEST(Io, DamagedFilesDoNoHarm) {
  save_npz(temporary("d.npz"), sample());
  save_safetensors(temporary("d.safetensors"), sample());
  save_npy(temporary("d.npy"), sample().at("weights"));
  std::mt19937 random(7);
  using Parse = void (*)(const std::string&);
  const std::pair<std::string, Parse> kinds[] = {{"d.npz", [](const std::string& b) { parse_npz(b); }},
                                                 {"d.safetensors", [](const std::string& b) { parse_safetensors(b); }},
                                                 {"d.npy", [](const std::string& b) { parse_npy(b); }}};
  int refused = 0;
  for (const auto& [file, parse] : kinds) {
    const std::string good = slurp(temporary(file));
    for (int i = 0; i < 3000; ++i) {
      std::string bytes = good;
      int changes = 1 + static_cast<int>(random() % 4);
      for (int k = 0; k < changes; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
      if (i % 3 == 0) bytes.resize(random() % bytes.size());
      try {
        parse(bytes);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 3000);
}

TEST(Io, TreesByName) {
  struct Layer {
    Array w, b;
  };
  std::map<std::string, std::vector<Layer>> model{
      {"dense", {{Array(HostArray::from<float>({1, 2})), Array(HostArray::from<float>({3}))}}}};
  HostArrays named = named_leaves(model);
  EXPECT_TRUE(named.contains("dense[0].w"));
  named["dense[0].b"] = HostArray::from<float>({9});
  EXPECT_EQ(with_named_leaves(model, named).at("dense")[0].b.to_vector<float>(), std::vector<float>{9});
  named.erase("dense[0].w");
  EXPECT_THROW(with_named_leaves(model, named), ValueError);
}

}  // namespace
}  // namespace tessera
