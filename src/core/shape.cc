// SPDX-License-Identifier: Apache-2.0
#include "tessera/shape.h"

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera {

std::int64_t size_of(const Shape& s) {
  std::int64_t n = 1;
  bool overflow = false;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] < 0) {
      throw ValueError(str("size_of: global_shape[", i, "] = ", s[i], "; expected an extent of 0 or more"));
    }
    // An overflow does not matter when a later extent is 0, but a negative one must still be found.
    overflow = __builtin_mul_overflow(n, s[i], &n) || overflow;
    if (s[i] == 0) n = 0;
  }
  if (!overflow) return n;
  for (auto e : s) {
    if (e == 0) return 0;
  }
  throw ValueError(str("size_of: global_shape = ", to_string(s), " has more than 2^63 - 1 elements"));
}

std::string to_string(const Shape& s) { return base::tuple_text(s); }

std::pair<std::int64_t, std::int64_t> Slice::resolve(std::int64_t extent) const {
  std::int64_t a = start.value_or(0);
  std::int64_t b = stop.value_or(extent);
  if (a < 0 || b < a) {
    throw IndexError(str("Slice::resolve: start = ", a, ", stop = ", b, "; expected 0 <= start <= stop"));
  }
  if (b > extent) throw IndexError(str("Slice::resolve: stop = ", b, "; expected at most the extent ", extent));
  return {a, b};
}

std::string to_string(const Slice& s) {
  auto bound = [](const std::optional<std::int64_t>& v) { return v ? str(*v) : std::string("None"); };
  return str("slice(", bound(s.start), ", ", bound(s.stop), ", None)");
}

std::string to_string(const Index& index) {
  std::string out = "(";
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (i > 0) out += ", ";
    out += to_string(index[i]);
  }
  return out + (index.size() == 1 ? ",)" : ")");
}

}  // namespace tessera
