// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reduce/total_order.h"

namespace tessera::ops {

Shape reduced_shape(const Shape& shape, const Dims& axes) {
  Shape out;
  for (std::int64_t d = 0; d < rank(shape); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) out.push_back(shape[at(d)]);
  }
  return out;
}

bool reducible(Reduction r, DType t) {
  switch (r) {
    case Reduction::Sum:
    case Reduction::Prod:
      return !is_bool(t);
    case Reduction::And:
    case Reduction::Or:
      return is_bool(t) || is_integer(t);
    default:
      return true;
  }
}

namespace {
complexd combine(Reduction r, complexd a, complexd b) {
  bool less = a.real() != b.real() ? a.real() < b.real() : a.imag() < b.imag();
  switch (r) {
    case Reduction::Sum:
      return a + b;
    case Reduction::Prod:
      return a * b;
    case Reduction::Max:
      return less ? b : a;
    default:
      return less ? a : b;
  }
}
double combine(Reduction r, double a, double b) {
  switch (r) {
    case Reduction::Sum:
      return a + b;
    case Reduction::Prod:
      return a * b;
    case Reduction::Max:
      return maximum_of(a, b);
    default:
      return minimum_of(a, b);
  }
}
template <class I>
I combine_int(Reduction r, I a, I b) {
  auto ua = static_cast<std::uint64_t>(a);
  auto ub = static_cast<std::uint64_t>(b);
  switch (r) {
    case Reduction::Sum:
      return static_cast<I>(ua + ub);
    case Reduction::Prod:
      return static_cast<I>(ua * ub);
    case Reduction::Max:
      return std::max(a, b);
    case Reduction::Min:
      return std::min(a, b);
    case Reduction::And:
      return a & b;
    default:
      return a | b;
  }
}
}  // namespace

void identity(Reduction r, const View& out, std::int64_t i) {
  DType t = out.dtype;
  double inf = std::numeric_limits<double>::infinity();
  auto bits = dtype_size(t) * 8;
  switch (wide_kind(t)) {
    case Wide::Bool:
      return store_bool(out, i, r == Reduction::And || r == Reduction::Prod || r == Reduction::Min);
    case Wide::Float:
      return store_float(out, i, r == Reduction::Sum ? 0 : r == Reduction::Prod ? 1 : r == Reduction::Max ? -inf : inf);
    case Wide::Complex:
      return store_complex(out, i,
                           r == Reduction::Sum    ? 0
                           : r == Reduction::Prod ? 1
                           : r == Reduction::Max  ? complexd(-inf, -inf)
                                                  : complexd(inf, inf));
    case Wide::Int: {
      std::int64_t low = std::numeric_limits<std::int64_t>::min() >> (64 - bits);
      return store_int(out, i,
                       r == Reduction::Sum || r == Reduction::Or ? 0
                       : r == Reduction::Prod                    ? 1
                       : r == Reduction::And                     ? -1
                       : r == Reduction::Max                     ? low
                                                                 : ~low);
    }
    case Wide::Uint:
      return store_int(out, i, r == Reduction::Prod ? 1 : r == Reduction::And || r == Reduction::Min ? -1 : 0);
  }
}

void accumulate(Reduction r, const View& out, std::int64_t k, const View& in, std::int64_t i) {
  switch (wide_kind(in.dtype)) {
    case Wide::Bool:
      store_bool(out, k, combine_int<std::int64_t>(r, load_bool(out, k), load_bool(in, i)) != 0);
      break;
    case Wide::Int:
      store_int(out, k, combine_int(r, load_int(out, k), load_int(in, i)));
      break;
    case Wide::Uint:
      store_uint(out, k, combine_int(r, load_uint(out, k), load_uint(in, i)));
      break;
    case Wide::Float:
      store_float(out, k, combine(r, load_float(out, k), load_float(in, i)));
      break;
    case Wide::Complex:
      store_complex(out, k, combine(r, load_complex(out, k), load_complex(in, i)));
      break;
  }
}

WideResult::WideResult(const View& out) : view(out) {
  if (!is_inexact(out.dtype)) return;
  memory_ = HostArray(is_complex(out.dtype) ? DType::C128 : DType::F64, out.shape);
  view = View{memory_.dtype(), out.shape, memory_.data()};
}

void WideResult::store(const View& out) const {
  if (!memory_.defined()) return;
  for (std::int64_t k = 0, n = out.size(); k < n; ++k) {
    if (is_complex(out.dtype)) {
      store_complex(out, k, load_complex(view, k));
    } else {
      store_float(out, k, load_float(view, k));
    }
  }
}

}  // namespace tessera::ops
