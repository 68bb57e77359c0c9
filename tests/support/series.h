// SPDX-License-Identifier: Apache-2.0
// Long series of cases of one kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace tessera::test {

/// Every how many-th case of a long series to run: each one in plain builds, fewer under sanitizers, which are ten to
/// thirty times slower and look for what the cases of a series have in common. TESSERA_ALL_CASES in the environment
/// asks for all of them there too.
int case_stride(int under_sanitizers = 4);

/// The first case to run and every how many-th after it: all that `case_stride()` asks for, or the part of them that
/// TESSERA_CASE_PART names, "2/4" being the second of four, so that several processes can share a series.
std::pair<std::size_t, std::size_t> case_part();

/// The seed of a fuzzer: TESSERA_FUZZ_SEED, or else `usual`.
std::uint64_t fuzz_seed(std::uint64_t usual);
/// Gives inputs of `next` to `use`, `usual` of them over `case_stride()`, the same on every machine, or
/// TESSERA_FUZZ_SECONDS of processor time; returns how many. One that takes 20 seconds is a failure and the last.
/// TESSERA_FUZZ_KEEP names a file that has the input at work.
std::int64_t fuzz(int usual, const std::function<std::string()>& next,
                  const std::function<void(const std::string&)>& use);

}  // namespace tessera::test
