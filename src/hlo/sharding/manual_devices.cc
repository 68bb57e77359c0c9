// SPDX-License-Identifier: Apache-2.0
#include "hlo/sharding/manual_devices.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/index.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {}  // namespace

Dims strides_of(const Dims& sizes) {
  Dims out(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) out[a - 1] = out[a] * sizes[a];
  return out;
}

ManualLevels all_devices(std::int64_t n) {
  ManualLevels out;
  out.names.list = {"devices"};
  out.sizes = {n};
  out.strides = {1};
  out.devices.resize(at(n));
  std::iota(out.devices.begin(), out.devices.end(), 0);
  out.member_of = out.devices;
  out.cells.assign(at(n), 0);
  return out;
}

ManualLevels members_of(const ir::NamedMesh& mesh, const ir::CutMesh& cut, const std::vector<bool>& manual) {
  ManualLevels out;
  out.mesh = mesh.name;
  Dims strides = strides_of(cut.sizes);
  for (std::size_t a = 0; a < cut.sizes.size(); ++a) {
    if (!manual[a]) continue;
    if (out.axes.empty() || out.axes.back() != cut.axes[a]) out.axes.push_back(cut.axes[a]);
    out.names.list.push_back(cut.names[a]);
    out.sizes.push_back(cut.sizes[a]);
    if (mesh.device_ids.empty()) out.strides.push_back(strides[a]);
  }
  std::int64_t n = mesh.size();
  out.devices.assign(at(size_of(out.sizes)), -1);
  out.member_of.assign(at(n), -1);
  for (std::int64_t position = 0; position < n; ++position) {
    std::int64_t member = 0;
    for (std::size_t a = 0; a < cut.sizes.size(); ++a) {
      if (manual[a]) member = member * cut.sizes[a] + position / strides[a] % cut.sizes[a];
    }
    std::int64_t device = mesh.device_ids.empty() ? position : mesh.device_ids[at(position)];
    if (out.devices[at(member)] < 0) out.devices[at(member)] = device;
    if (device >= 0 && device < n) out.member_of[at(device)] = member;
  }
  return out;
}

Values map_over_devices(ir::Builder& b, const ir::GraphPtr& body, ir::ValueSpan in, std::int64_t n) {
  ops::ShardMap p;
  p.body = body;
  ManualLevels all = all_devices(n);
  p.mesh_sizes = all.sizes;
  p.mesh_names = all.names;
  p.manual = {0};
  p.checked = false;
  for (const auto& x : in) p.in_specs.list.emplace_back(at(x.rank()));
  for (const auto& t : body->output_types()) p.out_specs.list.emplace_back(at(t.rank()));
  return ops::shard_map(b, std::move(p), in);
}

// --- groups ----------------------------------------------------------------------------------------------------------

namespace {
ops::Collective along(const ManualLevels& levels, const std::vector<std::size_t>& axes) {
  ops::Collective c;
  for (auto a : axes) {
    c.names.list.push_back(levels.names.list[a]);
    c.sizes.push_back(levels.sizes[a]);
  }
  return c;
}

// The axes along which the members count up, major first.
std::optional<std::vector<std::size_t>> axes_of_group(const Dims& group, const Dims& sizes) {
  Dims strides = strides_of(sizes);
  std::vector<std::size_t> out;
  for (std::int64_t k = 1; k < static_cast<std::int64_t>(group.size());) {
    std::size_t a = 0;
    while (a < sizes.size() && (sizes[a] == 1 || strides[a] != group[at(k)] - group[0])) ++a;
    if (a == sizes.size()) return std::nullopt;
    out.insert(out.begin(), a);
    k *= sizes[a];
  }
  return out;
}

// The members that each setting of the other axes leaves, counted along `axes`.
ops::Groups instances(const Dims& sizes, const std::vector<std::size_t>& axes) {
  Dims strides = strides_of(sizes);
  auto extend = [&](const Dims& from, std::size_t axis) {
    Dims out;
    for (auto m : from) {
      for (std::int64_t i = 0; i < sizes[axis]; ++i) out.push_back(m + i * strides[axis]);
    }
    return out;
  };
  Dims origins{0}, inside{0};
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) origins = extend(origins, a);
  }
  for (auto a : axes) inside = extend(inside, a);
  ops::Groups out;
  for (auto o : origins) {
    out.push_back(inside);
    for (auto& m : out.back()) m += o;
  }
  return out;
}

// Lists of members as lists of indices along fewer axes, where every setting of the others has the same lists.
struct Projected {
  std::vector<std::size_t> axes;
  ops::Groups lists;
};
Projected projected(const Dims& sizes, const ops::Groups& lists) {
  Dims strides = strides_of(sizes);
  Projected out;
  std::vector<std::size_t> all(sizes.size());
  std::iota(all.begin(), all.end(), 0);
  for (auto a : all) {
    auto digit = [&](std::int64_t m) { return m / strides[a] % sizes[a]; };
    bool differs = std::any_of(lists.begin(), lists.end(), [&](const Dims& g) {
      return std::any_of(g.begin(), g.end(), [&](std::int64_t m) { return digit(m) != digit(g[0]); });
    });
    if (differs) out.axes.push_back(a);
  }
  std::map<std::int64_t, ops::Groups> by_rest;
  for (const auto& g : lists) {
    std::int64_t rest = 0;
    Dims indices;
    for (auto m : g) {
      std::int64_t index = 0;
      rest = m;
      for (auto a : out.axes) {
        std::int64_t digit = m / strides[a] % sizes[a];
        index = index * sizes[a] + digit;
        rest -= digit * strides[a];
      }
      indices.push_back(index);
    }
    by_rest[rest].push_back(std::move(indices));
  }
  std::int64_t inside = 1;
  for (auto a : out.axes) inside *= sizes[a];
  bool same = static_cast<std::int64_t>(by_rest.size()) == size_of(sizes) / inside;
  for (const auto& [rest, found] : by_rest) same = same && found == by_rest.begin()->second;
  if (same && !by_rest.empty() && !out.axes.empty()) {
    out.lists = by_rest.begin()->second;
  } else {
    out.axes = all;
    out.lists = lists;
  }
  return out;
}
}  // namespace

Exchange exchange_among(const ManualLevels& levels, ops::Groups groups, bool ordered) {
  Exchange e;
  std::int64_t n = levels.members();
  if (groups.empty()) {
    groups.emplace_back(at(n));
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  std::vector<bool> seen(at(n));
  for (auto& g : groups) {
    if (!ordered) std::sort(g.begin(), g.end());
    for (auto m : g) {
      if (seen[at(m)]) throw ValueError("replica_groups must hold every device once");
      seen[at(m)] = true;
    }
  }
  for (std::int64_t m = 0; m < n; ++m) {
    if (seen[at(m)]) continue;
    if (ordered) throw ValueError("replica_groups must have one size and hold every device once");
    groups.push_back({m});
  }
  std::sort(groups.begin(), groups.end());
  e.groups = groups;
  std::vector<std::size_t> all(levels.sizes.size());
  std::iota(all.begin(), all.end(), 0);
  e.uneven = std::any_of(groups.begin(), groups.end(), [&](const Dims& g) { return g.size() != groups[0].size(); });
  if (e.uneven) {
    if (ordered) throw ValueError("replica_groups must have one size and hold every device once");
    e.over = along(levels, all);
    return e;
  }
  if (auto axes = axes_of_group(groups[0], levels.sizes)) {
    ops::Groups whole = instances(levels.sizes, *axes);
    std::sort(whole.begin(), whole.end());
    if (whole == groups) {
      e.over = along(levels, *axes);
      return e;
    }
  }
  Projected p = projected(levels.sizes, groups);
  e.over = along(levels, p.axes);
  e.over.groups = p.lists;
  return e;
}

ops::Ppermute permutation_of(const ManualLevels& levels, const std::vector<Dims>& pairs) {
  Projected p = projected(levels.sizes, pairs);
  ops::Ppermute out;
  static_cast<ops::Collective&>(out) = along(levels, p.axes);
  out.pairs = p.lists;
  std::sort(out.pairs.begin(), out.pairs.end());
  return out;
}

}  // namespace tessera::hlo
