// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the reader, hang it or make it ask for unbounded memory: texts are mutated, and whatever is wrong
// with them must come as one of the public errors. TESSERA_FUZZ_SECONDS makes it run that many seconds of processor
// time, TESSERA_FUZZ_SEED mutates differently.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/module.h"
#include "hlo/text/literals.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"
#include "tests/support/paths.h"
#include "tests/support/series.h"

namespace tessera {
namespace {

std::vector<std::string> corpus() {
  std::vector<std::string> out;
  for (const auto& f : std::filesystem::directory_iterator(test::source_path("tests/hlo/fuzz"))) {
    std::ostringstream text;
    text << std::ifstream(f.path(), std::ios::binary).rdbuf();
    out.push_back(text.str());
  }
  for (const char* family : {"control", "elementwise", "forms", "indexing", "linalg", "nn", "products", "randoms",
                             "reductions", "shapes", "sharding"}) {
    for (const auto& [key, value] : load_npz(test::source_path(std::string("tests/hlo/") + family + ".npz"))) {
      if (!key.ends_with("/program") || value.size() > 20000) continue;
      out.emplace_back(static_cast<const char*>(value.data()), static_cast<std::size_t>(value.size()));
    }
  }
  return out;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, unsigned long long seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string s = corpus_[pick(corpus_.size())];
    switch (pick(4)) {
      case 0:  // nothing but numbers, or what shardings say: most are still programs
        for (std::size_t i = 0, n = 1 + pick(3); i < n; ++i) change_number(s);
        break;
      case 1:
        for (std::size_t i = 0, n = 1 + pick(3); i < n; ++i) change_sharding(s);
        break;
      default:
        for (std::size_t i = 0, n = 1 + pick(6); i < n && !s.empty(); ++i) change(s);
    }
    return s;
  }

 private:
  std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  // A number of a constant becomes another literal.
  void change_number(std::string& s) {
    static const char* const kLiterals[] = {"0",
                                            "1",
                                            "-1",
                                            "9",
                                            "16",
                                            "128",
                                            "255",
                                            "300",
                                            "-129",
                                            "65536",
                                            "4294967296",
                                            "18446744073709551615",
                                            "99999999999999999999",
                                            "-9223372036854775809",
                                            "0.1",
                                            "-0.0",
                                            "1.5e-3",
                                            "1e39",
                                            "1.0e400",
                                            "-1e400",
                                            "1e-400",
                                            "1.00390625000090949",
                                            "65520.0",
                                            "464.0",
                                            "0xFF",
                                            "0x1FF",
                                            "0x7FC0",
                                            "0x7FF0000000000001",
                                            "-0x1",
                                            "true",
                                            "0x"};
    std::size_t from = s.find("dense<", pick(s.size()));
    if (from == std::string::npos) from = s.find("dense<");
    if (from == std::string::npos) return;
    std::size_t end = s.find('>', from), at = from + 6 + pick(end - from);
    auto part = [&](std::size_t i) { return i < s.size() && std::strchr("0123456789.eE+-xABCDF", s[i]) != nullptr; };
    while (at < s.size() && !part(at)) ++at;
    while (at > from + 6 && part(at - 1)) --at;
    std::size_t n = 0;
    while (part(at + n)) ++n;
    s.replace(at, n, kLiterals[pick(std::size(kLiterals))]);
  }

  // One character or word of a sharding or mesh becomes another one.
  void change_sharding(std::string& s) {
    static const char* const kParts[] = {"\"x\"",
                                         "\"y\"",
                                         "\"x\":(1)2",
                                         "\"y\":(2)2",
                                         "?",
                                         "p1",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         "0",
                                         "1",
                                         "2",
                                         "3",
                                         "4",
                                         "7",
                                         "8",
                                         "-1",
                                         "<=[8]",
                                         "<=[4,2]T(1,0)",
                                         "T(0,1)",
                                         ", unreduced={\"x\"}",
                                         ", unreduced={\"y\"}",
                                         ", replicated={\"x\"}",
                                         " last_tile_dim_replicate",
                                         " last_tile_dims={unreduced}",
                                         " last_tile_dims={manual}",
                                         "{replicated}",
                                         "{manual}",
                                         "{unreduced}",
                                         "{maximal device=9}",
                                         "@mesh",
                                         "@other",
                                         "=",
                                         " "};
    std::vector<std::size_t> places;
    for (const char* begin : {"<@", "sharding = \"", "sdy.mesh @"}) {
      for (auto at = s.find(begin); at != std::string::npos; at = s.find(begin, at + 1)) places.push_back(at);
    }
    if (places.empty()) return;
    std::size_t from = places[pick(places.size())], length = std::min(s.find('\n', from), s.size()) - from;
    std::size_t at = from + pick(std::min<std::size_t>(length, 70));
    std::string part = kParts[pick(std::size(kParts))];
    switch (pick(3)) {
      case 0:
        s.insert(at, part);
        break;
      case 1:
        s.erase(at, 1 + pick(4));
        break;
      default:
        s.replace(at, part.size(), part);
    }
  }

  void change(std::string& s) {
    static const char* const kWords[] = {"-1",
                                         "0",
                                         "9223372036854775807",
                                         "1000000000",
                                         "?",
                                         "tensor<",
                                         ">",
                                         "<",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "(",
                                         ")",
                                         "\"",
                                         "%0",
                                         "%arg0",
                                         "@main",
                                         "i4",
                                         "f8E4M3FN",
                                         "complex<f32>",
                                         "dense<",
                                         "x",
                                         ",",
                                         "stablehlo.while",
                                         "sdy.manual_computation",
                                         "0x",
                                         "index",
                                         ":",
                                         "->"};
    std::size_t at = pick(s.size());
    switch (pick(9)) {
      case 0:
        s[at] = static_cast<char>(random_());
        break;
      case 1:
        s.erase(at, 1 + pick(20));
        break;
      case 2:
        s.insert(at, kWords[pick(std::size(kWords))]);
        break;
      case 3:  // a number becomes another one
        while (at < s.size() && (s[at] < '0' || s[at] > '9')) ++at;
        if (at < s.size()) s.replace(at, 1, std::to_string(pick(2) == 0 ? pick(10) : random_()));
        break;
      case 4: {  // a line is repeated, or moved
        std::size_t begin = s.rfind('\n', at), end = s.find('\n', at);
        if (begin == std::string::npos || end == std::string::npos) break;
        std::string line = s.substr(begin, end - begin);
        s.insert(s.find('\n', pick(s.size())) == std::string::npos ? 0 : begin, line);
        break;
      }
      case 5: {  // a shard of another text
        const std::string& other = corpus_[pick(corpus_.size())];
        std::size_t from = pick(other.size());
        s.insert(at, other.substr(from, pick(200)));
        break;
      }
      case 6:
        s.resize(at);
        break;
      case 7: {  // a line is left out
        std::size_t begin = s.rfind('\n', at), end = s.find('\n', at);
        if (begin != std::string::npos && end != std::string::npos) s.erase(begin, end - begin);
        break;
      }
      default:
        s.insert(at, std::string(1 + pick(400), "<([{"[pick(4)]));
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

bool same_bits(const HostArray& a, const HostArray& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.nbytes())) == 0;
}

// What is still a program is written, compiled and run, and what was written is read again, with the same values. Loops
// may never end: such programs are only written.
void use(const std::string& text, std::int64_t memory) {
  StablehloProgram program = StablehloProgram::parse(text, "mutated", {.max_memory = memory});
  std::string written = program.as_text();
  StablehloProgram again = StablehloProgram::parse(written, "written", {.max_memory = memory});
  if (program.num_devices() > 8 || text.find("while") != std::string::npos) return;
  std::vector<HostArray> args;
  for (const auto& p : program.inputs()) {
    if (size_of(p.shape) > 1 << 16) return;
    HostArray counted(DType::I32, p.shape);
    auto v = counted.span<std::int32_t>();
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i % 3);
    args.push_back(counted.astype(p.dtype));
  }
  ClientScope scope(Client::cpu({.devices = program.num_devices(), .memory_limit = memory}));
  std::vector<HostArray> first = program.run(args), second = again.run(args);
  // Reductions over devices that the writer says in another form may sum in another order.
  bool exact = program.num_devices() == 1;
  for (std::size_t i = 0; exact && i < first.size(); ++i) {
    EXPECT_TRUE(same_bits(first[i], second[i])) << "result " << i << " of\n" << text << "\nand of\n" << written;
  }
}

TEST(HloFuzz, WhateverIsWrongComesAsAnError) {
  auto texts = corpus();
  ASSERT_GT(texts.size(), 100U);
  Mutator mutator(texts, test::fuzz_seed(20261121));
  hlo::ImportOptions options;
  options.max_memory = 64 << 20;
  options.max_equations = 20000;
  std::int64_t read = 0;
  const std::int64_t ran = test::fuzz(
      1000, [&] { return mutator.next(); },
      [&](const std::string& text) {
        try {
          hlo::import_module(text, options);
          ++read;
          use(text, options.max_memory);
        } catch (const Error&) {
        }
      });
  std::printf("%lld texts, %lld of them still programs\n", static_cast<long long>(ran), static_cast<long long>(read));
  EXPECT_GT(ran, 100);
}

// Random literals of every float type against the C library's conversion and a search among the type's values.
TEST(HloFuzz, LiteralsAreTheNearestNumbers) {
  std::mt19937_64 random(20261122);
  auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  auto digits = [&](std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += static_cast<char>('0' + pick(10));
    return out;
  };
  for (int i = 0; i < 20000 / test::case_stride(); ++i) {
    std::string literal = pick(2) == 0 ? "-" : "";
    literal += digits(1 + pick(6)) + "." + digits(pick(20));
    if (pick(2) == 0) literal += "e" + std::to_string(static_cast<int>(pick(90)) - 45);
    if (pick(50) == 0) literal += digits(3);
    if (literal.find('.') == std::string::npos) continue;
    std::string text = "func.func @main() -> (tensor<f64>, tensor<f32>) {\n  %0 = stablehlo.constant dense<" + literal +
                       "> : tensor<f64>\n  %1 = stablehlo.constant dense<" + literal +
                       "> : tensor<f32>\n  return %0, %1 : tensor<f64>, tensor<f32>\n}";
    if (i % 50 != 0) {  // most without running them
      hlo::Source source(literal, "literal");
      double v = hlo::to_float(source, hlo::Parser(source).literal(), hlo::Elem::F64);
      EXPECT_EQ(v, std::strtod(literal.c_str(), nullptr)) << literal;
      EXPECT_EQ(hlo::nearest(hlo::Elem::F32, v), static_cast<double>(static_cast<float>(v))) << literal;
      continue;
    }
    ClientScope scope(Client::cpu({.devices = 1}));
    auto out = StablehloProgram::parse(text).run({});
    EXPECT_EQ(out[0].span<double>()[0], std::strtod(literal.c_str(), nullptr)) << literal;
    EXPECT_EQ(out[1].span<float>()[0], static_cast<float>(std::strtod(literal.c_str(), nullptr))) << literal;
  }
}

// Shardings made at random, right and wrong: accepted exactly when they fit, and then the values stay what they are.
class RandomTiles {
 public:
  explicit RandomTiles(unsigned seed) : random_(seed) {}
  bool fits = true;
  std::string next() {
    fits = true;
    std::vector<std::int64_t> factors{2, 2, 2}, dims{1, 1}, reshape, perm;
    std::size_t last = pick(3);
    dims.resize(2 + last, 1);
    for (auto f : factors) dims[pick(dims.size())] *= f;
    for (std::size_t i = 0; i < 3; ++i) reshape.push_back(2), perm.push_back(static_cast<std::int64_t>(i));
    std::shuffle(perm.begin(), perm.end(), random_);
    std::vector<std::int64_t> devices{0, 1, 2, 3, 4, 5, 6, 7};
    std::shuffle(devices.begin(), devices.end(), random_);
    bool list = pick(2) == 0;
    std::vector<std::string> kinds;
    for (std::size_t i = 0; i < last; ++i) kinds.emplace_back(pick(2) == 0 ? "replicated" : "unreduced");
    switch (pick(8)) {
      case 0:
        dims[pick(dims.size())] += 1;
        fits = false;
        break;
      case 1:
        dims.push_back(1);
        fits = false;
        break;
      case 2:
        (list ? devices : perm)[0] = (list ? devices : perm)[1];
        fits = false;
        break;
      case 3:
        (list ? devices : perm)[1] = list ? 8 : 3;
        fits = false;
        break;
      case 4:
        (list ? devices : perm).pop_back();
        fits = false;
        break;
      default:
        break;
    }
    std::string text = str("{devices=[", join(dims, ","), "]");
    text += list ? join(devices, ",") : str("<=[", join(reshape, ","), "]T(", join(perm, ","), ")");
    if (!kinds.empty()) text += str(" last_tile_dims={", join(kinds), "}");
    return text + "}";
  }

 private:
  std::size_t pick(std::size_t n) { return random_() % n; }
  std::mt19937 random_;
};

TEST(HloFuzz, ShardingsAreAcceptedWhenTheyFit) {
  RandomTiles tiles(20261122);
  ClientScope scope(Client::cpu({.devices = 8}));
  HostArray x(DType::F32, {8, 8});
  for (std::size_t i = 0; i < 64; ++i) x.span<float>()[i] = static_cast<float>(i);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 400 / test::case_stride(); ++i) {
    std::string a = tiles.next();
    bool fits = tiles.fits;
    std::string b = tiles.next();
    fits = fits && tiles.fits;
    std::string text =
        str("module attributes {mhlo.num_partitions = 8 : i32} {\nfunc.func @main(%arg0: tensor<8x8xf32> ",
            "{mhlo.sharding = \"", a, "\"}) -> tensor<8x8xf32> {\n  %0 = stablehlo.custom_call @Sharding(",
            "%arg0) {mhlo.sharding = \"", b,
            "\"} : (tensor<8x8xf32>) -> tensor<8x8xf32>\n  return %0 : ", "tensor<8x8xf32>\n}\n}");
    try {
      auto program = StablehloProgram::parse(text);
      EXPECT_TRUE(fits) << text;
      EXPECT_TRUE(same_bits(program.run({x})[0], x)) << text;
      ++accepted;
    } catch (const FormatError& e) {
      EXPECT_FALSE(fits) << e.what() << "\n" << text;
      ++refused;
    } catch (const UnimplementedError& e) {
      EXPECT_NE(a.find("unreduced"), std::string::npos) << e.what() << "\n" << text;  // over devices that are no grid
      EXPECT_TRUE(fits) << text;
    }
  }
  EXPECT_GT(accepted * test::case_stride(), 20);
  EXPECT_GT(refused * test::case_stride(), 20);
}

TEST(HloFuzz, RefusesWhatIsTooDeepOrTooLarge) {
  std::string deep = "func.func @main() { \"a\"() {x = " + std::string(5000, '[');
  EXPECT_THROW(hlo::import_module(deep), FormatError);
  EXPECT_THROW(hlo::import_module(""), FormatError);
  std::string large =
      "func.func @main() -> tensor<1000000x1000000xf32> {\n"
      "  %0 = stablehlo.constant dense<0.0> : tensor<1000000x1000000xf32>\n"
      "  return %0 : tensor<1000000x1000000xf32>\n}";
  hlo::ImportOptions options;
  options.max_memory = 1 << 30;
  EXPECT_THROW(hlo::import_module(large, options), ResourceExhaustedError);
}

TEST(HloFuzz, SaysLineAndColumn) {
  try {
    hlo::import_module(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.sinus %a : tensor<2xf32>\n");
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_EQ(e.line(), 3);
  }
  try {
    hlo::import_module(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = stablehlo.sinus %a : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}");
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_EQ(e.line(), 2);
    EXPECT_EQ(e.column(), 8);
  }
}

}  // namespace
}  // namespace tessera
