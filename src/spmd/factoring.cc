// SPDX-License-Identifier: Apache-2.0
#include "spmd/factoring.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/op_def.h"

namespace tessera::spmd {

ir::Types types_of(const ir::Graph& g, std::span<const ir::ValueId> values) {
  ir::Types out;
  out.reserve(values.size());
  for (auto v : values) out.push_back(g.type(v));
  return out;
}

bool repeatable(const ir::Graph& g, const ir::Eqn& e, const ir::FactorRule& rule) {
  const ir::Traits& t = e.op->traits();
  return !t.effect && !t.collective && e.out.size() == 1 && g.type(e.out[0]).rank() > 0 &&
         std::all_of(rule.factors.begin(), rule.factors.end(),
                     [](const ir::Factor& f) { return f.kind == ir::Factor::Kind::Pass || f.size == 1; });
}

SourceBytes::SourceBytes(const ir::Graph& g) {
  bytes_.reserve(g.num_values());
  for (const auto& type : g.types) bytes_.push_back(type.rank() == 0 ? 0 : type.nbytes());
}

void SourceBytes::add(const ir::Graph& g, const ir::Eqn& e, const ir::FactorRule& rule) {
  if (!repeatable(g, e, rule)) return;
  std::int64_t sum = 0;
  for (auto v : e.in) sum += of(v);
  std::int64_t& mine = bytes_[static_cast<std::size_t>(e.out[0])];
  mine = std::min(mine, sum);
}

Factoring::Factoring(ir::FactorRule rule, ir::TypeSpan in, ir::TypeSpan out, const ir::Module& m, bool shifted)
    : rule_(std::move(rule)), mesh_(*m.mesh) {
  for (const auto& f : rule_.factors) {
    unit_.push_back(f.size);
    // Beyond what users asked for, long dimensions inside a program may be split unevenly: little is lost to the last
    // shard, and much to every position's having the whole.
    constexpr std::int64_t kLong = 4;
    uneven_.push_back(m.uneven ? f.size : f.size / kLong);
  }
  auto limit = [&](const ir::FactorRule::Tensor& dims, const ir::Type& type) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      for (int f : dims[d]) {
        auto n = static_cast<std::size_t>(f);
        bool alone = dims[d].size() == 1;
        // ShardBuffers of an uneven factor begin at the same place in every dimension only where all extents agree.
        bool same = shifted || type.shape[d] == rule_.factors[n].size;
        if (!alone || !same) uneven_[n] = 0;
        if (alone) unit_[n] = std::gcd(unit_[n], type.shape[d]);
        if (shifted) uneven_[n] = std::min(uneven_[n], type.shape[d]);
      }
    }
  };
  // Sums of floats depend on their order: in a fixed order they are not taken in shards (decision D13).
  bool rounds =
      m.deterministic && std::any_of(out.begin(), out.end(), [](const ir::Type& t) { return is_inexact(t.dtype); });
  for (auto& f : rule_.factors) {
    bool sum = f.reduction == ir::Reduction::Sum || f.reduction == ir::Reduction::Prod;
    if (rounds && sum && f.kind == ir::Factor::Kind::Reduce) f.kind = ir::Factor::Kind::Whole;
  }
  // A result without a factor that an operand has would differ between shards.
  std::vector<std::size_t> results(rule_.factors.size());
  for (const auto& r : rule_.results) {
    for (const auto& dims : r) {
      for (int f : dims) ++results[static_cast<std::size_t>(f)];
    }
  }
  for (const auto& o : rule_.operands) {
    for (const auto& dims : o) {
      for (int f : dims) {
        auto& factor = rule_.factors[static_cast<std::size_t>(f)];
        if (factor.kind == ir::Factor::Kind::Pass && results[static_cast<std::size_t>(f)] < rule_.results.size()) {
          factor.kind = ir::Factor::Kind::Whole;
        }
      }
    }
  }
  for (std::size_t i = 0; i < rule_.operands.size(); ++i) limit(rule_.operands[i], in[i]);
  for (std::size_t i = 0; i < rule_.results.size(); ++i) limit(rule_.results[i], out[i]);
}

const Factoring& Factorings::of(const ir::Eqn& e, const ir::Module& m) {
  auto it = made_.find(&e);
  if (it != made_.end()) return it->second;
  const ir::Types in = types_of(*m.graph, e.in), out = types_of(*m.graph, e.out);
  return made_.emplace(&e, Factoring(e.op->factors(in, out, e.attrs), in, out, m)).first->second;
}

const Factoring& Factorings::of(const ir::Eqn& e, const ir::FactorRule& rule, ir::TypeSpan in, ir::TypeSpan out,
                                const ir::Module& m) {
  auto it = made_.find(&e);
  if (it == made_.end()) it = made_.emplace(&e, Factoring(rule, in, out, m)).first;
  return it->second;
}

bool Factoring::splittable(int f, std::int64_t count) const {
  auto n = static_cast<std::size_t>(f);
  if (rule_.factors[n].kind == ir::Factor::Kind::Whole) return count == 1;
  return unit_[n] % count == 0 || count <= uneven_[n];
}

bool Factoring::used_up(int f, const AxisList& axes) const {
  return ir::parts(axes, mesh_) == rule_.factors[static_cast<std::size_t>(f)].size;
}

bool Factoring::project_dim(const std::vector<int>& factors, const AxisList& axes, FactorAxes& out) const {
  for (int f : factors) out[static_cast<std::size_t>(f)].clear();
  std::size_t next = 0;
  for (int f : factors) {
    auto& list = out[static_cast<std::size_t>(f)];
    std::int64_t count = 1;
    while (next < axes.size() && splittable(f, count * mesh_.sizes[axes[next]])) {
      count *= mesh_.sizes[axes[next]];
      list.push_back(axes[next++]);
    }
    if (next == axes.size() || !used_up(f, list)) break;
  }
  return next == axes.size();
}

void Factoring::project(std::size_t t, const DimAxes& dims, FactorAxes& out) const {
  const auto& tensor_dims = tensor(t);
  for (std::size_t d = 0; d < tensor_dims.size(); ++d) project_dim(tensor_dims[d], dims[d], out);
}

DimAxes Factoring::dims_of(std::size_t t, const FactorAxes& axes) const {
  const auto& tensor_dims = tensor(t);
  DimAxes out(tensor_dims.size());
  for (std::size_t d = 0; d < tensor_dims.size(); ++d) {
    for (int f : tensor_dims[d]) {
      const auto& list = axes[static_cast<std::size_t>(f)];
      out[d].insert(out[d].end(), list.begin(), list.end());
    }
  }
  return out;
}

void Factoring::repair(FactorAxes& axes) const {
  AxisMask used = 0;
  std::optional<ir::Reduction> reduction;
  for (std::size_t f = 0; f < axes.size(); ++f) {
    const auto& factor = rule_.factors[f];
    std::int64_t count = 1;
    std::size_t keep = 0;
    bool mixed = factor.kind == ir::Factor::Kind::Reduce && reduction && *reduction != factor.reduction;
    while (!mixed && keep < axes[f].size() && !(used & bit(axes[f][keep])) &&
           splittable(static_cast<int>(f), count * mesh_.sizes[axes[f][keep]])) {
      count *= mesh_.sizes[axes[f][keep]];
      used |= bit(axes[f][keep++]);
    }
    axes[f].resize(keep);
    if (keep > 0 && factor.kind == ir::Factor::Kind::Reduce) reduction = factor.reduction;
  }
  // Clearing a factor may leave another one without its major part: repeat until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t t = 0; t < num_tensors(); ++t) {
      for (const auto& factors : tensor(t)) {
        bool free = true;  // all factors so far are used up
        for (int f : factors) {
          auto& list = axes[static_cast<std::size_t>(f)];
          if (!free && !list.empty()) {
            list.clear();
            changed = true;
          }
          free = free && used_up(f, list);
        }
      }
    }
  }
}

}  // namespace tessera::spmd
