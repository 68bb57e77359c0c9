// SPDX-License-Identifier: Apache-2.0
#include "tessera/nd_array.h"

#include "base/strings.h"
#include "tessera/error.h"
#include "tessera/mesh.h"

namespace tessera {

namespace detail {

std::int64_t nd_offset(const Shape& shape, const std::int64_t* index, std::size_t n) {
  if (n != shape.size()) {
    throw IndexError(str("NdArray: index has ", n, " coordinates; expected ", shape.size(), " for shape ", shape));
  }
  std::int64_t at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (index[i] < 0 || index[i] >= shape[i]) {
      throw IndexError(str("NdArray: index[", i, "] = ", index[i], "; expected 0..", shape[i] - 1));
    }
    at = at * shape[i] + index[i];
  }
  return at;
}

void check_nd_count(const char* what, const Shape& shape, std::size_t count) {
  if (size_of(shape) != static_cast<std::int64_t>(count)) {
    throw ValueError(str(what, ": ", count, " elements cannot have shape ", shape, ", which needs ", size_of(shape)));
  }
}

std::vector<std::int64_t> nd_transposed(const Shape& shape, const Dims& perm) {
  std::vector<bool> seen(shape.size());
  bool ok = perm.size() == shape.size();
  for (auto p : perm) {
    ok = ok && p >= 0 && p < rank(shape) && !seen[static_cast<std::size_t>(p)];
    if (!ok) break;
    seen[static_cast<std::size_t>(p)] = true;
  }
  if (!ok) {
    throw ValueError(str("NdArray::transpose: perm = ", base::list_text(perm), "; expected a permutation of ",
                         shape.size(), " dimensions"));
  }
  Dims strides(shape.size());
  std::int64_t s = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = s;
    s *= shape[i];
  }
  std::vector<std::int64_t> out{0};
  for (auto p : perm) {
    std::vector<std::int64_t> next;
    next.reserve(out.size() * static_cast<std::size_t>(shape[static_cast<std::size_t>(p)]));
    for (auto o : out) {
      for (std::int64_t i = 0; i < shape[static_cast<std::size_t>(p)]; ++i) {
        next.push_back(o + i * strides[static_cast<std::size_t>(p)]);
      }
    }
    out = std::move(next);
  }
  return out;
}

}  // namespace detail

namespace {
void print_ids(std::string& out, const NdArray<std::int64_t>& a, std::size_t dim, std::size_t base) {
  if (dim == a.shape().size()) {
    out += str(a.flat()[base]);
    return;
  }
  auto extent = static_cast<std::size_t>(a.shape()[dim]);
  out += '[';
  for (std::size_t i = 0; i < extent; ++i) {
    if (i > 0) out += ", ";
    print_ids(out, a, dim + 1, base * extent + i);
  }
  out += ']';
}

template <class Rows>
std::vector<Device> flatten_rows(const Rows& rows) {
  std::vector<Device> out;
  std::size_t width = rows.size() == 0 ? 0 : rows.begin()->size();
  std::size_t i = 0;
  for (const auto& row : rows) {
    if (row.size() != width) {
      throw ValueError(str("DeviceArray: devices[", i, "] has ", row.size(), " entries but devices[0] has ", width,
                           "; expected rows of equal length"));
    }
    out.insert(out.end(), row.begin(), row.end());
    ++i;
  }
  return out;
}
std::int64_t count(std::size_t n) { return static_cast<std::int64_t>(n); }
}  // namespace

std::string to_string(const NdArray<std::int64_t>& a) {
  std::string out;
  print_ids(out, a, 0, 0);
  return out;
}

DeviceArray::DeviceArray(const std::vector<Device>& devices) : NdArray(devices, {count(devices.size())}) {}
DeviceArray::DeviceArray(std::span<const Device> devices)
    : NdArray(std::vector<Device>(devices.begin(), devices.end()), {count(devices.size())}) {}
DeviceArray::DeviceArray(const std::vector<std::vector<Device>>& rows)
    : NdArray(flatten_rows(rows), {count(rows.size()), rows.empty() ? 0 : count(rows[0].size())}) {}
DeviceArray::DeviceArray(std::initializer_list<Device> devices)
    : NdArray(std::vector<Device>(devices), {count(devices.size())}) {}
DeviceArray::DeviceArray(std::initializer_list<std::initializer_list<Device>> rows)
    : NdArray(flatten_rows(rows), {count(rows.size()), rows.size() == 0 ? 0 : count(rows.begin()->size())}) {}
DeviceArray::DeviceArray(std::initializer_list<std::initializer_list<std::initializer_list<Device>>> blocks) {
  std::vector<Device> out;
  Shape inner;
  std::size_t i = 0;
  for (const auto& block : blocks) {
    DeviceArray a(block);
    if (i > 0 && a.shape() != inner) {
      throw ValueError(str("DeviceArray: devices[", i, "] has shape ", a.shape(), " but devices[0] has ", inner,
                           "; expected blocks of equal shape"));
    }
    inner = a.shape();
    out.insert(out.end(), a.flat().begin(), a.flat().end());
    ++i;
  }
  inner.resize(2);
  *this = DeviceArray(std::move(out), {count(blocks.size()), inner[0], inner[1]});
}

}  // namespace tessera
