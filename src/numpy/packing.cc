// SPDX-License-Identifier: Apache-2.0
#include "tessera/packing.h"

#include <algorithm>

#include "program/composite.h"
#include "tessera/indexing.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/sets.h"
#include "tessera/shaping.h"

namespace tessera {

using program::Arrays;
using program::composite;

namespace {

// How far each of eight bits is shifted, along the last of `rank` dimensions.
Array shifts(BitOrder order, std::int64_t rank) {
  Array up = iota(uint8, {8});
  Shape shape(static_cast<std::size_t>(rank), 1);
  shape.back() = 8;
  return reshape(order == BitOrder::Little ? up : 7 - up, shape);
}

// With the axis last, of the flattened array without one; and back.
struct AxisLast {
  Array x;
  std::int64_t axis;
};
AxisLast axis_last(const char* name, const Array& x, std::optional<std::int64_t> axis) {
  Array a = axis ? x : ravel(x);
  std::int64_t d = program::axis_of(name, axis.value_or(0), a.ndim());
  return {swapaxes(a, d, -1), d};
}

// Values, repeated or cut to `n` of them.
Array repeated_to(const Array& values, std::int64_t n) { return resize(ravel(values), {n}); }

}  // namespace

Array packbits(const Operand& x, std::optional<std::int64_t> axis, BitOrder order) {
  return composite("packbits", {x}, [&](const Arrays& v) {
    DType t = v[0].dtype();
    if (!is_integer(t) && !is_bool(t))
      throw TypeError(str("packbits: x is ", dtype_name(t), "; expected integers or bools"));
    auto [bits, d] = axis_last("packbits", v[0], axis);
    bits = astype(bits != zeros({}, t), uint8);
    std::int64_t n = bits.shape(-1);
    std::int64_t bytes = (n + 7) / 8;
    std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(bits.ndim()));
    widths.back().second = 8 * bytes - n;
    bits = pad(bits, widths);
    Shape shape = bits.shape();
    shape.back() = bytes;
    shape.push_back(8);
    bits = left_shift(reshape(bits, shape), shifts(order, bits.ndim() + 1));
    return swapaxes(astype(sum(bits, -1), uint8), d, -1);
  });
}

Array unpackbits(const Operand& x, std::optional<std::int64_t> axis, std::optional<std::int64_t> count,
                 BitOrder order) {
  return composite("unpackbits", {x}, [&](const Arrays& v) {
    if (v[0].dtype() != uint8) {
      throw TypeError(str("unpackbits: x is ", dtype_name(v[0].dtype()), "; expected uint8"));
    }
    auto [bytes, d] = axis_last("unpackbits", v[0], axis);
    Shape shape = bytes.shape();
    shape.back() *= 8;
    Array one = full({}, 1, uint8);
    Array bits = reshape(right_shift(expand_dims(bytes, {-1}), shifts(order, bytes.ndim() + 1)) & one, shape);
    if (count) {
      std::int64_t n = shape.back();
      std::int64_t kept = *count < 0 ? std::max<std::int64_t>(0, n + *count) : *count;
      std::vector<std::pair<std::int64_t, std::int64_t>> widths(shape.size());
      widths.back().second = std::max<std::int64_t>(0, kept - n);
      bits = kept > n ? pad(bits, widths) : program::cut(bits, 0, kept, bits.ndim() - 1);
    }
    return swapaxes(bits, d, -1);
  });
}

Array place(const Operand& x, const Operand& mask, const Operand& values) {
  return composite("place", {x, mask, values}, [](const Arrays& v) {
    const Array& a = v[0];
    if (a.size() != v[1].size())
      throw ValueError(str("place: x has ", a.size(), " elements and mask ", v[1].size(), "; expected as many"));
    if (v[2].size() == 0) throw ValueError("place: there are no values");
    if (a.size() == 0) return a;
    const std::int64_t n = a.size();
    Array where_true = flatnonzero(v[1], {.size = n, .fill_value = static_cast<double>(n)});
    return reshape(at(ravel(a), {where_true}).set(repeated_to(v[2], n)), a.shape());
  });
}

Array put(const Operand& x, const Operand& indices, const Operand& values, PutMode mode) {
  return composite("put", {x, indices, values}, [&](const Arrays& v) {
    const Array& a = v[0];
    if (a.size() == 0 || v[1].size() == 0 || v[2].size() == 0) return a;
    Array i = dtype_size(v[1].dtype()) < 4 ? program::as(ravel(v[1]), int32) : ravel(v[1]);
    auto number = [&](std::int64_t n) { return program::number_like(i, static_cast<double>(n)); };
    if (mode == PutMode::Wrap) i = remainder(i, number(a.size()));
    if (mode == PutMode::FromEnd) i = where(i < number(0), i + number(a.size()), i);
    i = clip(i, number(0), number(a.size() - 1));
    return reshape(at(ravel(a), {i}).set(repeated_to(v[2], i.size())), a.shape());
  });
}

Array trim_zeros(const Operand& x, const std::string& trim, const std::optional<Dims>& axes) {
  const bool front = trim.find_first_of("fF") != std::string::npos;
  const bool back = trim.find_first_of("bB") != std::string::npos;
  const Array& a = x.array();
  Dims dims = program::axes_of("trim_zeros", axes, a.ndim());
  if (!front && !back) return a;
  IndexItems items(static_cast<std::size_t>(a.ndim()), span());
  for (auto d : dims) {
    Dims others;
    for (std::int64_t e = 0; e < a.ndim(); ++e) {
      if (e != d) others.push_back(e);
    }
    HostArray nonzero = any(x, ReduceOptions{.axis = others}).host(x.loc());
    auto flags = nonzero.span<bool>();
    auto first = std::find(flags.begin(), flags.end(), true);
    auto last = std::find(flags.rbegin(), flags.rend(), true).base();
    std::int64_t begin = front || first == flags.end() ? first - flags.begin() : 0;
    std::int64_t end = back || first == flags.end() ? last - flags.begin() : static_cast<std::int64_t>(flags.size());
    items[static_cast<std::size_t>(d)] = span(std::min(begin, end), end);
  }
  return index(x, items);
}

}  // namespace tessera
