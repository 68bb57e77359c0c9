// SPDX-License-Identifier: Apache-2.0
// Seconds, bytes and shares as reports print them.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::planner {

/// "1.5 s", "12.3 ms", "4 us".
std::string seconds_text(double s);
/// "1.50 GiB", "12.00 MiB".
std::string bytes_text(std::int64_t n);
/// "51.2 %".
std::string percent_text(double share);

}  // namespace tessera::planner
