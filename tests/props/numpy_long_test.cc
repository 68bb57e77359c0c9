// SPDX-License-Identifier: Apache-2.0
// Tens of thousands of programs in the manner of NumPy, small and large.
#include "props/numpy.h"

namespace tessera {
namespace {

using test::check_numpy;

TEST(ManyNumpyPrograms, Usual) { check_numpy(1'000'000, 14'000); }
TEST(ManyNumpyPrograms, Small) { check_numpy(2'000'000, 8'000, {.equations = 12}); }
TEST(ManyNumpyPrograms, Large) { check_numpy(3'000'000, 2'000, {.equations = 60}); }
TEST(ManyNumpyPrograms, LongRows) { check_numpy(4'000'000, 1'000, {.equations = 20, .long_rows = 100}); }

}  // namespace
}  // namespace tessera
