// SPDX-License-Identifier: Apache-2.0
// Files that were damaged after they were written: refused, or the same values. Never others.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "tessera/io.h"

namespace tessera {
namespace {

std::string damage_path(const std::string& name) { return ::testing::TempDir() + "tessera_damage_" + name; }

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

HostArrays many_arrays() {
  std::mt19937 random(3);
  HostArrays a;
  std::vector<float> weights(600);
  for (auto& v : weights) v = static_cast<float>(random()) / 1e9F;
  a["layer.weights"] = HostArray::from(weights, {20, 30});
  a["layer.bias"] = HostArray::from<double>({1.5, -2.5, 1e300});
  a["step"] = HostArray::scalar(std::int32_t{12345});
  a["flags"] = HostArray::from<bool>({true, false, true});
  a["z"] = HostArray::from<complex64_t>({{1, 2}, {3, -4}});
  a["empty"] = HostArray(int64, {0, 4});
  return a;
}

bool same_arrays(const HostArrays& a, const HostArrays& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a) {
    if (!b.contains(name) || !identical(value, b.at(name))) return false;
  }
  return true;
}

// One accident: a flipped bit, a random byte, two swapped bytes, a block of zeros, a cut, bytes more, bytes less.
std::string damaged(std::string bytes, std::mt19937& random) {
  auto place = [&] { return random() % bytes.size(); };
  switch (random() % 8) {
    case 0:
    case 1:
      bytes[place()] ^= static_cast<char>(1 << random() % 8);
      break;
    case 2:
      bytes[place()] = static_cast<char>(random());
      break;
    case 3:
      std::swap(bytes[place()], bytes[place()]);
      break;
    case 4: {
      auto at = place();
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(8, bytes.size() - at), '\0');
      break;
    }
    case 5:
      bytes.resize(place());
      break;
    case 6:
      bytes.insert(place(), std::string(1 + random() % 9, static_cast<char>(random())));
      break;
    default:
      bytes.erase(place(), 1 + random() % 9);
  }
  return bytes;
}

using Parse = std::function<HostArrays(const std::string&)>;

// Of 1,500 copies, no one gives other values.
void expect_no_other_values(const std::string& good, const Parse& parse) {
  const HostArrays want = parse(good);
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = damaged(good, random);
    try {
      EXPECT_TRUE(same_arrays(parse(bytes), want)) << "copy " << i;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 750);
}

TEST(IoDamage, NpzIsRefusedOrTheSame) {
  save_npz(damage_path("a.npz"), many_arrays());
  expect_no_other_values(file_bytes(damage_path("a.npz")), [](const std::string& b) { return parse_npz(b); });
}

TEST(IoDamage, NpzOfAFileIsRefusedOrTheSame) {
  const std::string path = damage_path("file.npz");
  save_npz(path, many_arrays());
  const std::string good = file_bytes(path);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged(good, random);
    try {
      EXPECT_TRUE(same_arrays(load_npz(path), many_arrays())) << "copy " << i;
    } catch (const Error&) {
    }
  }
}

TEST(IoDamage, SafetensorsAreRefusedOrTheSame) {
  save_safetensors(damage_path("a.safetensors"), many_arrays());
  expect_no_other_values(file_bytes(damage_path("a.safetensors")),
                         [](const std::string& b) { return parse_safetensors(b); });
}

// The format has no checksum: only the header and the length can be seen to be wrong.
TEST(IoDamage, NpyOfAnotherLengthIsRefused) {
  save_npy(damage_path("a.npy"), many_arrays().at("layer.weights"));
  const std::string good = file_bytes(damage_path("a.npy"));
  for (std::size_t n = 0; n < good.size(); n += 7) EXPECT_THROW(parse_npy(good.substr(0, n)), FormatError) << n;
  EXPECT_THROW(parse_npy(good + '\0'), FormatError);
}

std::string npy_with(const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  return bytes + header + data;
}

TEST(IoDamage, NpyHeadersAreReadStrictly) {
  const std::string four(16, '\0');
  EXPECT_EQ(parse_npy(npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}  \n", four)).shape(), Shape{4});
  for (const char* header : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}",                        // no end of line
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} x\n",                    // more behind
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4)}\n",                       // no tuple
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}\n",                     // no comma
           "{'descr': '<f4' 'fortran_order': False, 'shape': (4,)}\n",                       // no comma
           "{'descr': '<f4', 'descr': '<i4', 'fortran_order': False, 'shape': (4,)}\n",      // twice
           "{'descr': '<f4', 'fortran_order': False}\n",                                     // lacking
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\n",                      // another size
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}\n",              // unknown
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,)}\n",  // too large
       }) {
    EXPECT_THROW(parse_npy(npy_with(header, four)), FormatError) << header;
  }
  std::string minor = npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}  \n", four);
  minor[7] = 1;
  EXPECT_THROW(parse_npy(minor), FormatError);
}

std::string safetensors_with(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xff);
  bytes[1] = static_cast<char>(header.size() >> 8);
  return bytes + header + std::string(data, '\1');
}

TEST(IoDamage, SafetensorsHeadersAreReadStrictly) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string b = R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})";
  EXPECT_EQ(parse_safetensors(safetensors_with("{" + a + "," + b + "}  ", 8)).size(), 2U);
  // Files of other writers have no checksums.
  EXPECT_EQ(parse_safetensors(safetensors_with("{\"__metadata__\":{\"format\":\"pt\"}," + a + "}", 4)).size(), 1U);
  const std::string overlapping = R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]})";
  const std::string apart = R"("b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]})";
  const std::string same = R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  for (const auto& [header, data] : std::vector<std::pair<std::string, std::size_t>>{
           {"{" + a + "," + b + "}", 9},                   // bytes that belong to none
           {"{" + a + "," + b + "}", 7},                   // cut off
           {"{" + a + "," + overlapping + "}", 6},         // shared bytes
           {"{" + a + "," + same + "}", 4},                // the same bytes twice
           {"{" + a + "," + apart + "}", 9},               // a hole
           {"{" + a + "," + a + "}", 4},                   // a name twice
           {" {" + a + "}", 4},                            // begins with a blank
           {"{" + a + "} x", 4},                           // more behind
           {"[" + std::string("1") + "]", 0},              // no object
           {"{\"__metadata__\":{\"n\":1}," + a + "}", 4},  // metadata that is no string
           {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1}})", 4},
           {R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4},
           {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4},
           {R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4},
           {R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4},
           {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})", 4},
           {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]}})", 4},
       }) {
    EXPECT_THROW(parse_safetensors(safetensors_with(header, data)), FormatError) << header;
  }
  EXPECT_THROW(parse_safetensors(safetensors_with(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4)),
               TypeError);
  std::string endless = safetensors_with("{" + a + "}", 4);
  endless[7] = '\x7f';
  EXPECT_THROW(parse_safetensors(endless), FormatError);
}

// A ZIP of members that are stored, with nothing wrong but what the test makes wrong.
struct Zip {
  std::string local, central;
  int members = 0;
  static std::string le(std::uint64_t v, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i));
    return out;
  }
  void add(const std::string& name, const std::string& data) {
    auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
    std::string common = le(20, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(crc, 4) + le(data.size(), 4) +
                         le(data.size(), 4) + le(name.size(), 2) + le(0, 2);
    central += "PK\1\2" + le(20, 2) + common + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(local.size(), 4) + name;
    local += "PK\3\4" + common + name + data;
    ++members;
  }
  std::string bytes() const {
    return local + central + "PK\5\6" + le(0, 4) + le(static_cast<std::uint64_t>(members), 2) +
           le(static_cast<std::uint64_t>(members), 2) + le(central.size(), 4) + le(local.size(), 4) + le(0, 2);
  }
};

TEST(IoDamage, TwoMembersOfOneNameAreRefused) {
  const std::string value = npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}  \n", "abcd");
  Zip good;
  good.add("x.npy", value);
  good.add("y.npy", value);
  EXPECT_EQ(parse_npz(good.bytes()).size(), 2U);
  Zip twice;
  twice.add("x.npy", value);
  twice.add("x", value);
  EXPECT_THROW(parse_npz(twice.bytes()), FormatError);
}

TEST(IoDamage, OnlyTheMembersThatAreNamedAreRead) {
  Zip zip;
  zip.add("x.npy", npy_with("{'descr': '<i1', 'fortran_order': False, 'shape': (3,)}  \n", "abc"));
  zip.add("notes.txt", "no array");
  const std::string path = damage_path("named.npz");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << zip.bytes();
  EXPECT_THROW(load_npz(path), FormatError);
  EXPECT_EQ(load_npz(path, {"x"}).at("x").size(), 3);

  save_safetensors(damage_path("named.safetensors"), many_arrays());
  std::string bytes = file_bytes(damage_path("named.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // of "z"
  std::ofstream(damage_path("named.safetensors"), std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_THROW(load_safetensors(damage_path("named.safetensors")), FormatError);
  EXPECT_EQ(load_safetensors(damage_path("named.safetensors"), {"step"}).at("step").size(), 1);
}

// Any bytes at all: an exception of ours or arrays, no crash, no memory beyond what the file could hold.
TEST(IoDamage, RandomBytesDoNoHarm) {
  std::mt19937 random(23);
  save_npz(damage_path("r.npz"), many_arrays());
  save_safetensors(damage_path("r.safetensors"), many_arrays());
  save_npy(damage_path("r.npy"), many_arrays().at("layer.bias"));
  const std::pair<std::string, std::function<void(const std::string&)>> kinds[] = {
      {"r.npz", [](const std::string& b) { parse_npz(b); }},
      {"r.safetensors", [](const std::string& b) { parse_safetensors(b); }},
      {"r.npy", [](const std::string& b) { parse_npy(b); }}};
  for (const auto& [file, parse] : kinds) {
    const std::string good = file_bytes(damage_path(file));
    for (int i = 0; i < 1500; ++i) {
      std::string bytes = good;
      for (auto k = 1 + random() % 12; k > 0; --k) bytes = damaged(bytes.empty() ? good : bytes, random);
      try {
        parse(bytes);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace tessera
