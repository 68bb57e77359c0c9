// SPDX-License-Identifier: Apache-2.0
// Random meshes, specs and shapes against slow, plain recounts.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "sharding/placement.h"
#include "support/meshes.h"
#include "tessera/error.h"
#include "tessera/sharding.h"

namespace tessera {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  template <class T>
  void shuffle(std::vector<T>& v) {
    std::shuffle(v.begin(), v.end(), engine_);
  }

 private:
  std::mt19937_64 engine_;
};

struct Case {
  Mesh mesh;
  PartitionSpec spec;
  Shape shape;
  bool uneven = false;
  std::string text() const {
    return repr(mesh) + " " + to_string(spec) + " " + to_string(shape) + (uneven ? " uneven" : "");
  }
};

Mesh random_mesh(Random& r, const Client& c) {
  Shape sizes;
  std::int64_t n = 1;
  for (std::int64_t axes = r.in(0, 4); axes > 0; --axes) {
    std::int64_t size = r.in(1, 4);
    if (n * size > static_cast<std::int64_t>(c.devices().size())) size = 1;
    sizes.push_back(size);
    n *= size;
  }
  std::vector<Device> devices(c.devices().begin(), c.devices().end());
  if (r.in(0, 1) == 0) r.shuffle(devices);
  devices.resize(static_cast<std::size_t>(n));
  std::vector<std::string> names{"a", "b", "c", "d"};
  names.resize(sizes.size());
  return Mesh(DeviceArray(std::move(devices), std::move(sizes)), names);
}

Case random_case(Random& r, const Client& c) {
  Case out{random_mesh(r, c), {}, {}, r.in(0, 2) == 0};
  std::vector<std::string> axes(out.mesh.axis_names().begin(), out.mesh.axis_names().end());
  r.shuffle(axes);
  std::int64_t ndim = r.in(0, 3);
  std::vector<SpecEntry> entries;
  Dims parts;
  for (std::int64_t d = 0; d < ndim; ++d) {
    std::vector<AxisRef> own;
    std::int64_t n = 1;
    for (std::int64_t k = r.in(0, 2); k > 0 && !axes.empty(); --k) {
      own.emplace_back(axes.back());
      n *= out.mesh.axis_size(axes.back());
      axes.pop_back();
    }
    entries.push_back(own.empty() && r.in(0, 1) == 0 ? SpecEntry(none) : SpecEntry(own));
    parts.push_back(n);
  }
  for (auto n : parts) out.shape.push_back(out.uneven ? r.in(0, 9) : n * r.in(0, 3));
  while (!entries.empty() && entries.back().axes().empty() && r.in(0, 1) == 0) entries.pop_back();
  out.spec = PartitionSpec(std::move(entries));
  return out;
}

// Calls `f` with every coordinate of a block.
template <class F>
void for_each_element(const Index& block, const Shape& shape, F&& f) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (std::size_t d = 0; d < block.size(); ++d) ranges.push_back(block[d].resolve(shape[d]));
  std::int64_t count = 1;
  for (auto [a, b] : ranges) count *= b - a;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, flat = 0, scale = 1;
    for (std::size_t d = ranges.size(); d-- > 0;) {
      std::int64_t extent = ranges[d].second - ranges[d].first;
      flat += (ranges[d].first + rest % extent) * scale;
      scale *= shape[d];
      rest /= extent;
    }
    f(flat);
  }
}

TEST(ShardingProperties, ReplicaZeroTilesTheArray) {
  Random r(20260101);
  Client c = Client::cpu({.devices = 24});
  for (int round = 0; round < 400; ++round) {
    Case k = random_case(r, c);
    SCOPED_TRACE(k.text());
    NamedSharding s(k.mesh, k.spec, {.uneven = k.uneven});
    auto p = sharding::placement(s, k.shape);
    std::vector<int> covered(static_cast<std::size_t>(size_of(k.shape)));
    std::map<std::string, int> seen;
    for (std::size_t i = 0; i < p->devices->size(); ++i) {
      auto tile = static_cast<std::size_t>(p->tile_of[i]);
      Index index = p->tile_index[tile];
      ASSERT_EQ(p->replica_id[i], seen[to_string(index)]++);
      ASSERT_EQ(s.devices_indices_map(k.shape).index(i), index);
      if (p->replica_id[i] != 0) continue;
      std::int64_t n = 0;
      for_each_element(index, k.shape, [&](std::int64_t flat) {
        ++covered[static_cast<std::size_t>(flat)];
        ++n;
      });
      ASSERT_EQ(n, size_of(p->tile_shape[tile]));
    }
    for (int times : covered) ASSERT_EQ(times, 1);
    for (std::size_t t = 0; t < static_cast<std::size_t>(p->num_tiles); ++t) {
      auto first = std::ranges::find(p->tile_of, static_cast<std::int32_t>(t)) - p->tile_of.begin();
      ASSERT_EQ(p->first_position[t], first);
    }
  }
}

TEST(ShardingProperties, TilesSpecsAndTextsAgree) {
  Random r(20260102);
  Client c = Client::cpu({.devices = 24});
  for (int round = 0; round < 400; ++round) {
    Case k = random_case(r, c);
    SCOPED_TRACE(k.text());
    auto ndim = rank(k.shape);
    NamedSharding s(k.mesh, k.spec, {.uneven = k.uneven});
    TileAssignment t = s.to_tiles(ndim);
    EXPECT_EQ(TileAssignment::parse(t.text()), t);
    EXPECT_EQ(TileAssignment::parse(t.explicit_text()), t);
    auto back = to_spec(t, k.mesh);
    ASSERT_TRUE(back);
    EXPECT_TRUE(NamedSharding(k.mesh, *back).is_equivalent_to(NamedSharding(k.mesh, k.spec), ndim));
    GspmdSharding g({k.mesh.devices_flat().begin(), k.mesh.devices_flat().end()}, t);
    EXPECT_TRUE(g.is_equivalent_to(NamedSharding(k.mesh, k.spec), ndim));
    if (!k.uneven) {
      EXPECT_EQ(g.devices_indices_map(k.shape), s.devices_indices_map(k.shape));
    }
    EXPECT_EQ(deserialize_mesh(serialize(k.mesh), c), k.mesh);
  }
}

TEST(ShardingProperties, EquivalenceIsEqualityOfShards) {
  Random r(20260103);
  Client c = Client::cpu({.devices = 8});
  int equal = 0;
  for (int round = 0; round < 600; ++round) {
    Case a = random_case(r, c);
    Case b = random_case(r, c);
    if (a.mesh.size() != b.mesh.size() || a.shape.size() != b.shape.size()) continue;
    // Extents that every grid over 8 devices splits evenly, and finely enough to tell any two placements apart.
    Shape shape(a.shape.size(), 2 * 3 * 2 * 2 * 2 * 3);
    if (r.in(0, 2) > 0) b.mesh = Mesh(a.mesh.devices().reshape(b.mesh.mesh_shape()), b.mesh.axis_names());
    NamedSharding s(a.mesh, a.spec), t(b.mesh, b.spec);
    bool same = s.devices_indices_map(shape) == t.devices_indices_map(shape);
    EXPECT_EQ(s.is_equivalent_to(t, rank(shape)), same) << a.text() << " / " << b.text();
    equal += same ? 1 : 0;
  }
  EXPECT_GT(equal, 10);
}

TEST(ShardingProperties, ExplicitListsKeepTheirOrder) {
  Random r(20260104);
  for (int round = 0; round < 300; ++round) {
    Dims dims;
    std::int64_t n = 1;
    for (std::int64_t k = r.in(1, 3); k > 0; --k) {
      dims.push_back(r.in(1, 4));
      n *= dims.back();
    }
    std::vector<std::int64_t> list(static_cast<std::size_t>(n));
    std::iota(list.begin(), list.end(), 0);
    if (r.in(0, 3) > 0) r.shuffle(list);
    auto t = TileAssignment::from_list(dims, list);
    EXPECT_EQ(t.to_list(), list) << t.text();
    EXPECT_EQ(TileAssignment::parse(t.text()), t) << t.text();
  }
}

TEST(ShardingProperties, RefinedAxesCountTheSamePositions) {
  Random r(20260105);
  int refined = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<std::int64_t>> grids(2);
    for (auto& grid : grids) {
      std::int64_t left = 24;
      while (left > 1) {
        std::int64_t size = r.in(1, left);
        if (left % size != 0) continue;
        grid.push_back(size);
        left /= size;
      }
    }
    auto result = sharding::common_refinement(grids);
    if (!result) continue;
    ++refined;
    auto fine = sharding::axis_strides(result->sizes);
    for (std::size_t g = 0; g < grids.size(); ++g) {
      auto strides = sharding::axis_strides(grids[g]);
      for (std::int64_t p = 0; p < 24; ++p) {
        for (std::size_t a = 0; a < grids[g].size(); ++a) {
          std::int64_t coordinate = 0;
          for (int f : result->axes[g][a]) {
            auto i = static_cast<std::size_t>(f);
            coordinate = coordinate * result->sizes[i] + p / fine[i] % result->sizes[i];
          }
          ASSERT_EQ(coordinate, p / strides[a] % grids[g][a]);
        }
      }
    }
  }
  EXPECT_GT(refined, 30);
}

TEST(ShardingProperties, DamagedTextsAreRefusedNotMisread) {
  Random r(20260106);
  const std::string alphabet = "0123456789,[]<=T(){} devicslatrmpu-";
  std::vector<std::string> texts{"{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
                                 "{devices=[8]0,3,1,2,7,6,5,4}", "{maximal device=3}", "{replicated}"};
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = texts[static_cast<std::size_t>(r.in(0, 3))];
    for (std::int64_t k = r.in(1, 3); k > 0; --k) {
      auto at = static_cast<std::size_t>(r.in(0, static_cast<std::int64_t>(text.size()) - 1));
      char with = alphabet[static_cast<std::size_t>(r.in(0, static_cast<std::int64_t>(alphabet.size()) - 1))];
      if (r.in(0, 1) == 0) {
        text[at] = with;
      } else {
        text.insert(at, 1, with);
      }
    }
    try {
      auto t = TileAssignment::parse(text);
      EXPECT_EQ(TileAssignment::parse(t.text()), t) << text;
    } catch (const FormatError& e) {
      ++refused;
      EXPECT_GE(e.column(), 1);
      EXPECT_LE(e.column(), static_cast<std::int64_t>(text.size()) + 1);
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tessera
