// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the reader of bytecode, hang it or make it ask for unbounded memory: artifacts are mutated, and
// whatever is wrong with them must come as one of the public errors. TESSERA_FUZZ_SECONDS makes it run that many
// seconds of processor time, TESSERA_FUZZ_SEED mutates differently.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>

#include "hlo/bytecode/bytecode.h"
#include "hlo/module.h"
#include "tessera/error.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"
#include "tests/support/paths.h"
#include "tests/support/series.h"

namespace tessera {
namespace {

std::vector<std::string> artifacts() {
  std::vector<std::string> out;
  for (const auto& [key, value] : load_npz(test::source_path("tests/hlo/bytecode/artifacts.npz"))) {
    if (key.find("/text") != std::string::npos || value.size() > 20000) continue;
    out.emplace_back(static_cast<const char*>(value.data()), static_cast<std::size_t>(value.size()));
  }
  return out;
}

class ByteMutator {
 public:
  ByteMutator(const std::vector<std::string>& corpus, unsigned long long seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string s = corpus_[pick(corpus_.size())];
    // One small change leaves most of what comes behind readable.
    for (std::size_t i = 0, n = pick(3) == 0 ? 1 + pick(6) : 1; i < n && !s.empty(); ++i) change(s);
    return s;
  }

 private:
  std::size_t pick(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  void change(std::string& s) {
    std::size_t at = pick(s.size());
    switch (pick(9)) {
      case 0:
        s[at] = static_cast<char>(random_());
        break;
      case 1:
        s[at] = static_cast<char>(s[at] ^ (1 << pick(8)));
        break;
      case 2:
      case 3:  // another number of one byte
        s[at] = static_cast<char>(s[at] + (pick(2) == 0 ? 2 : -2));
        break;
      case 4:  // a small number
        s[at] = static_cast<char>(2 * pick(128) + 1);
        break;
      case 5: {
        static constexpr char kLong[] = {'\0', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\x7f'};
        s.insert(at, kLong, 1 + pick(9));
        break;
      }
      case 6:
        s.erase(at, 1 + pick(4));
        break;
      case 7: {  // some bytes of another file in place of these
        const std::string& other = corpus_[pick(corpus_.size())];
        std::size_t from = pick(other.size()), n = 1 + pick(16);
        s.replace(at, pick(2) == 0 ? n : 0, other.substr(from, n));
        break;
      }
      default: {  // of another place in the same file
        std::size_t from = pick(s.size()), n = std::min(1 + pick(4), s.size() - std::max(from, at));
        s.replace(at, n, s.substr(from, n));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

TEST(HloBytecodeFuzz, WhateverIsWrongComesAsAnError) {
  auto files = artifacts();
  ASSERT_GT(files.size(), 80U);
  ByteMutator mutator(files, test::fuzz_seed(20261123));
  hlo::ImportOptions options;
  options.max_memory = 64 << 20;
  options.max_equations = 20000;
  std::int64_t text = 0, read = 0;
  const std::int64_t ran = test::fuzz(
      3000, [&] { return mutator.next(); },
      [&](const std::string& bytes) {
        try {
          std::string as_text = hlo::text_of_bytecode(bytes);
          ++text;
          hlo::import_module(as_text, options);
          ++read;
          StablehloProgram::parse(bytes, "mutated", {.max_memory = options.max_memory}).as_text();
        } catch (const Error&) {
        }
      });
  std::printf("%lld files, %lld of them still text, %lld programs\n", static_cast<long long>(ran),
              static_cast<long long>(text), static_cast<long long>(read));
  EXPECT_GT(read, 10);
}

}  // namespace
}  // namespace tessera
