// SPDX-License-Identifier: Apache-2.0
#include "tests/support/series.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/sanitizers.h"
#include "tessera/error.h"

namespace tessera::test {

int case_stride([[maybe_unused]] int under_sanitizers) {
#if defined(TESSERA_ADDRESS_SANITIZER) || defined(TESSERA_THREAD_SANITIZER)
  return std::getenv("TESSERA_ALL_CASES") ? 1 : under_sanitizers;
#else
  return 1;
#endif
}

std::pair<std::size_t, std::size_t> case_part() {
  std::size_t part = 1, parts = 1;
  if (const char* set = std::getenv("TESSERA_CASE_PART")) {
    if (std::sscanf(set, "%zu/%zu", &part, &parts) != 2 || part < 1 || part > parts) {
      throw ValueError(std::string("TESSERA_CASE_PART = \"") + set +
                       "\"; expected a part and how many there are, as 2/4");
    }
  }
  const auto stride = static_cast<std::size_t>(case_stride());
  return {(part - 1) * stride, parts * stride};
}

std::uint64_t fuzz_seed(std::uint64_t usual) {
  const char* seed = std::getenv("TESSERA_FUZZ_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : usual;
}

std::int64_t fuzz(int usual, const std::function<std::string()>& next,
                  const std::function<void(const std::string&)>& use) {
  const char* longer = std::getenv("TESSERA_FUZZ_SECONDS");
  const char* keep = std::getenv("TESSERA_FUZZ_KEEP");
  // Of this process alone: others may hold it up.
  auto seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double until = seconds() + (longer != nullptr ? std::atof(longer) : 0);
  std::int64_t ran = 0;
  while (longer != nullptr ? seconds() < until : ran < usual / case_stride()) {
    const std::string input = next();
    if (keep != nullptr) std::ofstream(keep, std::ios::binary) << input;
    const double begin = seconds();
    use(input);
    ++ran;
    const double took = seconds() - begin;
    EXPECT_LT(took, 20) << input.substr(0, 4000);
    if (took >= 20 || ::testing::Test::HasFatalFailure()) break;
  }
  return ran;
}

}  // namespace tessera::test
