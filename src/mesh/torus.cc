// SPDX-License-Identifier: Apache-2.0
#include "mesh/torus.h"

#include <algorithm>
#include <tuple>

#include "base/index.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::mesh {

namespace {

// Coordinates with the core of a chip as the last one, where chips have several cores.
std::vector<Dims> cells_of(const std::vector<DeviceAttributes>& devices) {
  std::vector<Dims> cells;
  bool cores = false;
  bool flat = true;
  for (const auto& d : devices) {
    cells.push_back(d.coords);
    cores = cores || d.core_on_chip != devices[0].core_on_chip;
    flat = flat && d.coords.size() == 3 && d.coords[2] == 0;
  }
  if (!cores) return cells;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (flat) cells[i].pop_back();
    cells[i].push_back(devices[i].core_on_chip);
  }
  return cells;
}

// A physical axis taken whole, or the factors of all of them, may stand in any order of the result: row-major ids of
// the box whose axes are `dims`, read with the axes in the order `perm`.
std::vector<std::int64_t> transposed(const std::vector<std::int64_t>& ids, const Shape& dims, const Dims& perm) {
  return NdArray<std::int64_t>(ids, dims).transpose(perm).flat();
}

// The first `count` of the axes, in lexicographic order, whose free sizes multiply to `size`.
bool find_axes(const Shape& free, std::size_t count, std::size_t from, std::int64_t size, Dims& found) {
  if (count == 0) return size == 1;
  for (std::size_t a = from; a + count <= free.size(); ++a) {
    if (free[a] == 0 || size % free[a] != 0) continue;
    found.push_back(static_cast<std::int64_t>(a));
    if (find_axes(free, count - 1, a + 1, size / free[a], found)) return true;
    found.pop_back();
  }
  return false;
}

// --- splitting, in the manner of JAX's mesh_utils -----------------------------------------------------------------

struct Splitter {
  const Shape& physical;
  std::vector<Dims> taken;  // [physical][mesh axis]

  std::int64_t used(std::size_t p) const {
    std::int64_t n = 1;
    for (auto f : taken[p]) n *= f;
    return n;
  }

  // All ways to write `size` as one divisor of what is left of each physical axis.
  void enumerate(std::size_t p, std::int64_t size, Dims& factors, std::vector<Dims>& out) const {
    if (p == physical.size()) {
      if (size == 1) out.push_back(factors);
      return;
    }
    std::int64_t left = physical[p] / used(p);
    for (std::int64_t f = 1; f <= left; ++f) {
      if (left % f != 0 || size % f != 0) continue;
      factors.push_back(f);
      enumerate(p + 1, size / f, factors, out);
      factors.pop_back();
    }
  }

  // Larger is better: whole physical axes, many of them, then axes that are in use already, then the first ones. (The
  // third is what JAX 0.10.2 does; its comment says the contrary. The same meshes are worth more here than better
  // ones.)
  std::tuple<std::int64_t, std::int64_t, std::int64_t, Dims> rank(const Dims& factors) const {
    std::int64_t whole = 1;
    std::int64_t count = 0;
    std::int64_t shared = 1;
    for (std::size_t p = 0; p < factors.size(); ++p) {
      if (factors[p] == physical[p]) {
        whole *= factors[p];
        count += factors[p] > 1 ? 1 : 0;
      }
      if (used(p) > 1) shared *= factors[p];
    }
    return {whole, count, shared, factors};
  }
};

std::vector<std::int64_t> assign_split(const PhysicalMesh& box, const Shape& mesh_shape, SliceAssignment& assignment) {
  Splitter s{box.shape, std::vector<Dims>(box.shape.size(), Dims(mesh_shape.size(), 1))};
  for (std::size_t axis = mesh_shape.size(); axis-- > 0;) {
    std::vector<Dims> ways;
    Dims factors;
    s.enumerate(0, mesh_shape[axis], factors, ways);
    if (ways.empty()) {
      throw ValueError(str("make_hybrid_mesh: ici_mesh_shape axis ", axis, " of size ", mesh_shape[axis],
                           " is no product of factors of the physical axes ", base::list_text(box.shape)));
    }
    const Dims* best = nullptr;
    for (const Dims& w : ways) {
      if (best == nullptr || s.rank(w) > s.rank(*best)) best = &w;
    }
    for (std::size_t p = 0; p < best->size(); ++p) s.taken[p][axis] = (*best)[p];
  }
  // Inside a physical axis the mesh axes that communicate most are the fast ones.
  Shape factors;
  for (const auto& row : s.taken) factors.insert(factors.end(), row.begin(), row.end());
  Dims perm;
  for (std::size_t l = 0; l < mesh_shape.size(); ++l) {
    for (std::size_t p = 0; p < box.shape.size(); ++p) {
      perm.push_back(static_cast<std::int64_t>(p * mesh_shape.size() + l));
    }
  }
  assignment.split = s.taken;
  return transposed(box.ids, factors, perm);
}

}  // namespace

PhysicalMesh physical_mesh(const std::vector<DeviceAttributes>& devices, const std::vector<std::int64_t>& ids) {
  std::vector<Dims> cells = cells_of(devices);
  Dims low = cells[0];
  Dims high = cells[0];
  for (const auto& c : cells) {
    for (std::size_t d = 0; d < low.size(); ++d) {
      low[d] = std::min(low[d], c[d]);
      high[d] = std::max(high[d], c[d]);
    }
  }
  PhysicalMesh box;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < low.size(); ++d) {
    std::int64_t extent = 0;
    if (__builtin_sub_overflow(high[d], low[d], &extent) || __builtin_add_overflow(extent, 1, &extent) ||
        __builtin_mul_overflow(count, extent, &count)) {
      throw ValueError(str("make_hybrid_mesh: coords span from ", base::list_text(low), " to ", base::list_text(high),
                           ", which leaves a hole; expected a dense box"));
    }
    box.shape.push_back(extent);
  }
  // Cells are only made where there can be no more of them than devices and double cells.
  std::vector<std::pair<Dims, std::int64_t>> order;
  for (std::size_t i = 0; i < cells.size(); ++i) order.emplace_back(cells[i], ids[i]);
  std::ranges::sort(order);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i].first == order[i - 1].first) {
      throw ValueError(str("make_hybrid_mesh: coords of two devices are the cell ", base::list_text(order[i].first),
                           "; expected one device a cell"));
    }
  }
  if (count != static_cast<std::int64_t>(order.size())) {
    throw ValueError(str("make_hybrid_mesh: coords span a box ", base::list_text(box.shape), " of ", count,
                         " cells with ", order.size(), " devices: there is a hole; expected a dense box"));
  }
  for (const auto& cell : order) box.ids.push_back(cell.second);  // sorted cells are in row-major order
  return box;
}

std::vector<std::int64_t> assign_torus(const PhysicalMesh& box, const Shape& mesh_shape, bool allow_split,
                                       SliceAssignment& assignment) {
  assignment.physical_shape = box.shape;
  std::vector<Dims> axes(mesh_shape.size());
  Shape free = box.shape;
  for (std::size_t i = mesh_shape.size(); i-- > 0;) {
    bool found = false;
    for (std::size_t count = std::min<std::size_t>(3, free.size()); count > 0 && !found; --count) {
      found = find_axes(free, count, 0, mesh_shape[i], axes[i]);
    }
    if (!found && mesh_shape[i] > 1) {
      if (allow_split) return assign_split(box, mesh_shape, assignment);
      throw ValueError(str("make_hybrid_mesh: ici_mesh_shape axis ", i, " of size ", mesh_shape[i],
                           " is no product of whole physical axes; left are ", base::list_text(free),
                           " (allow_split_physical_axes lets mesh axes share one)"));
    }
    for (auto a : axes[i]) free[at(a)] = 0;
  }
  Dims perm;
  for (const auto& own : axes) perm.insert(perm.end(), own.begin(), own.end());
  for (std::size_t a = 0; a < free.size(); ++a) {
    if (free[a] != 0) perm.push_back(static_cast<std::int64_t>(a));  // of size 1
  }
  assignment.assignment = std::move(axes);
  return transposed(box.ids, box.shape, perm);
}

}  // namespace tessera::mesh
