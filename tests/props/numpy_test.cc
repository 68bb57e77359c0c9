// SPDX-License-Identifier: Apache-2.0
// Programs in the manner of NumPy, compiled and run: what fusion makes of them against the references. These are the
// first seeds; numpy_long_test.cc has tens of thousands.
#include "props/numpy.h"

namespace tessera {
namespace {

using test::check_numpy;

TEST(NumpyPrograms, Usual) { check_numpy(1, 600); }
TEST(NumpyPrograms, Small) { check_numpy(100'000, 400, {.equations = 10}); }
TEST(NumpyPrograms, LongRows) { check_numpy(200'000, 12, {.equations = 12, .long_rows = 100}); }

}  // namespace
}  // namespace tessera
