// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the reader, hang it or make it ask for unbounded memory: texts are mutated, and whatever is wrong
// with them must come as one of the public errors. TESSERA_FUZZ_SECONDS makes it run that many seconds of processor
// time, TESSERA_FUZZ_SEED mutates differently.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "hlo/module.h"
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
    for (std::size_t i = 0, n = 1 + pick(6); i < n && !s.empty(); ++i) change(s);
    return s;
  }

 private:
  std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }

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
      case 5: {  // a piece of another text
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

// What is still a program is written, compiled and run. Loops may never end: such programs are only written.
void use(const std::string& text, std::int64_t memory) {
  StablehloProgram program = StablehloProgram::parse(text, "mutated", {.max_memory = memory});
  std::string again = program.as_text();
  StablehloProgram::parse(again, "written", {.max_memory = memory});
  if (program.num_devices() > 8 || text.find("while") != std::string::npos) return;
  std::vector<HostArray> args;
  for (const auto& p : program.inputs()) {
    if (size_of(p.shape) > 1 << 16) return;
    args.emplace_back(p.dtype, p.shape);
    std::memset(args.back().data(), 0, static_cast<std::size_t>(args.back().nbytes()));
  }
  ClientScope scope(Client::cpu({.devices = program.num_devices(), .memory_limit = memory}));
  program.run(args);
}

TEST(HloFuzz, WhateverIsWrongComesAsAnError) {
  const char* longer = std::getenv("TESSERA_FUZZ_SECONDS");
  const char* seed = std::getenv("TESSERA_FUZZ_SEED");
  // Of this process alone: others may hold it up.
  auto seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  double until = seconds() + (longer ? std::atof(longer) : 0);
  auto texts = corpus();
  ASSERT_GT(texts.size(), 100U);
  Mutator mutator(texts, seed ? std::strtoull(seed, nullptr, 10) : 20261121);
  hlo::ImportOptions options;
  options.max_memory = 64 << 20;
  options.max_equations = 20000;
  std::int64_t ran = 0, read = 0;
  // Without a time: the same texts on every machine.
  const int usual = 1000 / test::case_stride();
  while (longer ? seconds() < until : ran < usual) {
    std::string text = mutator.next();
    if (const char* keep = std::getenv("TESSERA_FUZZ_KEEP")) std::ofstream(keep, std::ios::binary) << text;
    double begin = seconds();
    try {
      hlo::import_module(text, options);
      ++read;
      use(text, options.max_memory);
    } catch (const Error&) {
    }
    ++ran;
    ASSERT_LT(seconds() - begin, 20) << text.substr(0, 4000);
  }
  std::printf("%lld texts, %lld of them still programs\n", static_cast<long long>(ran), static_cast<long long>(read));
  EXPECT_GT(ran, 100);
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
