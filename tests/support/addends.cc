// SPDX-License-Identifier: Apache-2.0
#include "tests/support/addends.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tessera/mesh.h"

namespace tessera::test {

namespace {

using Doubles = std::vector<double>;

// Which addend each device of a sharding has, by mesh position; 0 for all of one that is no sum.
std::vector<std::int64_t> addend_numbers(const Sharding& s) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(s.num_devices()), 0);
  const auto* named = dynamic_cast<const NamedSharding*>(&s);
  if (named == nullptr) return out;
  const Shape sizes = named->mesh().mesh_shape();
  for (std::size_t p = 0; p < out.size(); ++p) {
    std::vector<std::int64_t> at(sizes.size());
    auto rest = static_cast<std::int64_t>(p);
    for (std::size_t a = sizes.size(); a-- > 0; rest /= sizes[a]) at[a] = rest % sizes[a];
    for (int a : named->unreduced_axes()) {
      auto i = static_cast<std::size_t>(a);
      out[p] = out[p] * sizes[i] + at[i];
    }
  }
  return out;
}

// Calls `f(element of the whole, element of the block)`.
template <class F>
void each_element(const Shape& whole, const Index& index, const F& f) {
  Dims start, extent;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    auto [begin, end] = index[d].resolve(whole[d]);
    start.push_back(begin);
    extent.push_back(end - begin);
  }
  std::int64_t n = size_of(extent);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t flat = 0, scale = 1, rest = i;
    for (std::size_t d = whole.size(); d-- > 0;) {
      flat += (start[d] + rest % extent[d]) * scale;
      scale *= whole[d];
      rest /= extent[d];
    }
    f(static_cast<std::size_t>(flat), static_cast<std::size_t>(i));
  }
}

double addend(std::int64_t seed, std::int64_t number, std::size_t element) {
  std::uint64_t h = static_cast<std::uint64_t>(seed) * 0x9E3779B97F4A7C15ULL +
                    static_cast<std::uint64_t>(number) * 0xBF58476D1CE4E5B9ULL + element * 0x94D049BB133111EBULL;
  h ^= h >> 29;
  h *= 0xBF58476D1CE4E5B9ULL;
  return static_cast<double>(h >> 60) - 8;
}

}  // namespace

Array from_device_buffers(const HostArray& value, const ShardingPtr& sharding, std::int64_t seed) {
  auto numbers = addend_numbers(*sharding);
  std::int64_t count = 1;
  for (auto n : numbers) count = std::max(count, n + 1);
  Doubles whole = value.astype(float64).to_vector<double>();
  std::vector<Array> buffers;
  std::size_t p = 0;
  for (const auto& [device, index] : sharding->devices_indices_map(value.shape())) {
    Shape shape = sharding->shard_shape(value.shape());
    Doubles block(static_cast<std::size_t>(size_of(shape)));
    each_element(value.shape(), index, [&](std::size_t flat, std::size_t i) {
      double rest = whole[flat];
      for (std::int64_t k = 1; k < count; ++k) rest -= addend(seed, k, flat);
      block[i] = numbers[p] == 0 ? rest : addend(seed, numbers[p], flat);
    });
    buffers.push_back(device_put(HostArray::from(block, shape).astype(value.dtype()), device));
    ++p;
  }
  return make_array_from_single_device_arrays(value.shape(), sharding, buffers);
}

HostArray value_of_shards(const Array& a) {
  auto numbers = addend_numbers(*a.sharding());
  std::map<std::pair<std::int64_t, std::size_t>, double> addends;
  std::size_t p = 0;
  for (const Shard& s : a.addressable_shards()) {
    Doubles block = s.value().host().astype(float64).to_vector<double>();
    each_element(a.shape(), s.index(), [&](std::size_t flat, std::size_t i) {
      auto [at, first] = addends.try_emplace({numbers[p], flat}, block[i]);
      EXPECT_EQ(at->second, block[i]) << "replicas of addend " << numbers[p] << " differ at element " << flat;
    });
    ++p;
  }
  Doubles sum(static_cast<std::size_t>(a.size()));
  for (const auto& [key, x] : addends) sum[key.second] += x;
  return HostArray::from(sum, a.shape()).astype(a.dtype());
}

}  // namespace tessera::test
