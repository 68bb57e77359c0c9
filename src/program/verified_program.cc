// SPDX-License-Identifier: Apache-2.0
#include "program/verified_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/strings.h"
#include "base/verify_mode.h"
#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "runtime/verify_executable.h"
#include "spmd/spmd.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {

using ops::complexd;
using runtime::ShardBuffers;

// Runs with last places changed. Where a choice hangs on a last place, each of them takes the other side about every
// second time.
constexpr std::size_t kShaken = 8;

complexd element(const HostArray& a, std::int64_t i) {
  ir::View v{a.dtype(), a.shape(), const_cast<void*>(a.data())};
  switch (ops::wide_kind(a.dtype())) {
    case ops::Wide::Bool:
      return ops::load_bool(v, i) ? 1.0 : 0.0;
    case ops::Wide::Int:
      return static_cast<double>(ops::load_int(v, i));
    case ops::Wide::Uint:
      return static_cast<double>(ops::load_uint(v, i));
    default:
      return ops::load_complex(v, i);
  }
}

// 0 for the same number or NaN twice, infinite where one of them is not finite.
double distance(complexd x, complexd y) {
  auto part = [](double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
    double d = std::abs(a - b);
    return std::isfinite(d) ? d : HUGE_VAL;
  };
  return std::max(part(x.real(), y.real()), part(x.imag(), y.imag()));
}

template <class T>
std::vector<double> distances_of(const HostArray& x, const HostArray& y) {
  std::vector<double> out(at(x.size()));
  const T* a = static_cast<const T*>(x.data());
  const T* b = static_cast<const T*>(y.data());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = a[i] == b[i] ? 0 : distance(a[i], b[i]);
  return out;
}

// By element; 1 for integers and bools that are not the same.
std::vector<double> distances(const HostArray& x, const HostArray& y) {
  if (x.dtype() == DType::F32) return distances_of<float>(x, y);
  if (x.dtype() == DType::F64) return distances_of<double>(x, y);
  std::vector<double> out(at(x.size()));
  auto item = at(dtype_size(x.dtype()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto bytes = [&](const HostArray& a) { return static_cast<const std::byte*>(a.data()) + i * item; };
    if (std::memcmp(bytes(x), bytes(y), item) == 0) continue;
    auto n = static_cast<std::int64_t>(i);
    out[i] = is_inexact(x.dtype()) ? distance(element(x, n), element(y, n)) : 1;
  }
  return out;
}

std::string text(complexd z, DType t) {
  return is_complex(t) ? str(z.real(), z.imag() < 0 ? "-" : "+", std::abs(z.imag()), "i") : str(z.real());
}

std::string index_text(std::int64_t i, const Shape& shape) {
  Dims index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; i /= shape[d]) index[d] = i % shape[d];
  return "[" + base::join(index, ",") + "]";
}

// Copies the rows of a tile from or to the whole array.
void copy_tile(HostArray& whole, const runtime::Tile& tile, std::byte* data, bool to_whole) {
  if (size_of(tile.shape) == 0) return;
  std::int64_t item = dtype_size(whole.dtype());
  auto rank = tile.shape.size();
  std::int64_t row = rank == 0 ? 1 : tile.shape[rank - 1];
  Shape outer(tile.shape.begin(), tile.shape.end() - (rank == 0 ? 0 : 1));
  std::int64_t done = 0;
  ops::for_each_position(outer, [&](const Dims& at_row) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      flat = flat * whole.shape()[d] + tile.offset[d] + (d + 1 < rank ? at_row[d] : 0);
    }
    auto* in_whole = static_cast<std::byte*>(whole.data()) + flat * item;
    std::byte* in_tile = data + done * row * item;
    std::memcpy(to_whole ? in_whole : in_tile, to_whole ? in_tile : in_whole, at(row * item));
    ++done;
  });
}

HostArray joined(const ShardBuffers& shard_buffers, const ir::Type& type, const ir::Layout& layout,
                 const ir::MeshAxes& mesh) {
  HostArray whole(type.dtype, type.shape);
  auto map = runtime::shard_numbering(layout, mesh);
  for (std::size_t k = 0; k < shard_buffers.size(); ++k) {
    auto tile = runtime::tile_at(type.shape, layout, mesh, map.first_position[k]);
    copy_tile(whole, tile, static_cast<std::byte*>(shard_buffers[k]->data()), true);
  }
  return whole;
}

ShardBuffers cut(HostArray& whole, const ir::Layout& layout, const ir::MeshAxes& mesh, runtime::MemoryPool& memory) {
  auto map = runtime::shard_numbering(layout, mesh);
  ShardBuffers out(at(map.count));
  for (std::size_t k = 0; k < out.size(); ++k) {
    auto tile = runtime::tile_at(whole.shape(), layout, mesh, map.first_position[k]);
    out[k] = memory.allocate(size_of(tile.shape) * dtype_size(whole.dtype()));
    copy_tile(whole, tile, static_cast<std::byte*>(out[k]->data()), false);
  }
  return out;
}

ShardBuffers copied(const ShardBuffers& shard_buffers, runtime::MemoryPool& memory) {
  ShardBuffers out;
  for (const auto& b : runtime::on_host(shard_buffers, memory)) {
    out.push_back(memory.allocate(b->nbytes()));
    if (b->nbytes() > 0) std::memcpy(out.back()->data(), b->data(), at(b->nbytes()));
  }
  return out;
}

// A graph under one partition, and how to run it plainly.
struct Way {
  ir::GraphPtr graph;  // partitioned
  std::shared_ptr<runtime::PlainExecutable> executable;

  ir::Layout in(std::size_t i) const { return graph->layout(graph->inputs[i]); }
  ir::Layout out(std::size_t j) const { return graph->layout(graph->outputs[j]); }
};

// All of the mesh's axes along the first dimension that they divide.
ir::Layout split_evenly(const ir::Type& type, const ir::MeshAxes& mesh) {
  ir::Layout l = ir::Layout::replicated(type.rank());
  std::int64_t total = mesh.num_positions();
  for (std::size_t d = 0; d < type.shape.size() && total > 1; ++d) {
    if (type.shape[d] == 0 || type.shape[d] % total != 0) continue;
    for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
      if (mesh.sizes[a] > 1) l.dims[d].push_back(static_cast<std::uint8_t>(a));
    }
    break;
  }
  return l;
}

class VerifiedExecutable final : public runtime::Executable {
 public:
  VerifiedExecutable(std::shared_ptr<runtime::Executable> executable, runtime::Engine& engine,
                     const PlacedModule& placed, ir::GraphPtr partitioned)
      : executable_(std::move(executable)),
        compiler_(dynamic_cast<runtime::PlainCompiler&>(engine)),
        memory_(engine.memory()),
        placed_(placed),
        graph_(placed.module.graph),
        partitioned_(std::move(partitioned)) {
    choose();
    ir::Module other = another(graph_);
    for (std::size_t i = 0; i < outputs_.size(); ++i) other.outputs[i].layout = outputs_[i];
    other_ = way(other);
  }

  std::vector<ShardBuffers> run(std::vector<ShardBuffers> args,
                                const std::vector<const ShardBuffers*>& borrowed) override {
    std::vector<ShardBuffers> kept;  // results may take the arguments' memory
    for (std::size_t i = 0; i < args.size(); ++i) {
      kept.push_back(copied(i < borrowed.size() && borrowed[i] != nullptr ? *borrowed[i] : args[i], *memory_));
    }
    auto results = executable_->run(std::move(args), borrowed);
    auto again = other_.executable->run(arguments(kept, other_), 0);
    std::vector<Compared> outputs;
    for (std::size_t j = 0; j < results.size(); ++j) {
      if (differ(partitioned_->layout(partitioned_->outputs[j])) || differ(other_.out(j))) continue;
      outputs.push_back({j, whole(results[j], *partitioned_, j), whole(again[j], *other_.graph, j)});
    }
    explain(outputs, kept);
    return results;
  }
  const runtime::PortLayouts& layouts() const override { return executable_->layouts(); }
  bool small() const override { return executable_->small(); }
  std::string text() const override { return executable_->text(); }

 private:
  // Positions hold values of their own, or addends: there is no value to compare.
  static bool differ(const ir::Layout& l) { return l.vary != 0 || l.partial != 0; }

  // How far the elements of an output move when last places change; empty for those that need no asking.
  struct Moves {
    std::vector<double> by;
    double most = 0;
  };
  struct Compared {
    std::size_t output;
    HostArray got, plain;
  };

  // Everything whole where something was split; else what can be is split, on two devices where the program has one.
  void choose() {
    mesh_ = placed_.module.mesh;
    devices_ = placed_.devices;
    bool tiled = false;
    for (const auto* side : {&partitioned_->inputs, &partitioned_->outputs}) {
      for (auto v : *side) tiled = tiled || partitioned_->layout(v).tiled() != 0;
    }
    auto all = devices_->client.local_devices();
    if (devices_->size() == 1 && all.size() >= 2 && mesh_uses(*graph_).empty()) {
      mesh_ = std::make_shared<const ir::MeshAxes>(ir::MeshAxes{{2}, {"verify"}});
      devices_ = mesh::intern_device_list({all[0], all[1]}, "verify", "devices");
    }
    for (auto v : partitioned_->inputs) {
      ir::Layout l = partitioned_->layout(v);
      const ir::Type& type = partitioned_->type(v);
      if (!differ(l)) l = tiled ? ir::Layout::replicated(type.rank()) : split_evenly(type, *mesh_);
      inputs_.emplace_back(std::move(l));
    }
    for (auto v : partitioned_->outputs) {
      const ir::Layout& l = partitioned_->layout(v);
      outputs_.push_back(differ(l) ? std::nullopt
                                   : std::optional(ir::Layout::replicated(partitioned_->type(v).rank())));
    }
  }

  // Partitioned another way.
  ir::Module another(const ir::GraphPtr& graph) const {
    ir::Module m = spmd::prepared(placed_.module.with_graph(graph));
    m.mesh = mesh_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) m.inputs[i].layout = inputs_[i];
    return m;
  }
  Way way(const ir::Module& m) const {
    Way w;
    w.graph = spmd::partition(m, spmd::propagate(m));
    w.executable = compiler_.compile_plainly(w.graph, devices_);
    return w;
  }

  // What `kept` says, as the way wants it.
  std::vector<ShardBuffers> arguments(const std::vector<ShardBuffers>& kept, const Way& w) const {
    std::vector<ShardBuffers> out;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      auto v = partitioned_->inputs[i];
      const ir::Layout& from = partitioned_->layout(v);
      if (differ(from) || (from == w.in(i) && *w.graph->mesh == *partitioned_->mesh)) {
        out.push_back(copied(kept[i], *memory_));
        continue;
      }
      HostArray a = joined(kept[i], partitioned_->type(v), from, *partitioned_->mesh);
      out.push_back(cut(a, w.in(i), *w.graph->mesh, *memory_));
    }
    return out;
  }

  static HostArray whole(const ShardBuffers& shard_buffers, const ir::Graph& g, std::size_t output) {
    auto v = g.outputs[output];
    return joined(shard_buffers, g.type(v), g.layout(v), *g.mesh);
  }

  // The first element where the arrays differ by more than they may; -1 where there is none.
  static std::int64_t apart(const HostArray& x, const HostArray& y, const Moves& moves) {
    if (x.nbytes() == 0 || std::memcmp(x.data(), y.data(), at(x.nbytes())) == 0) return -1;
    auto d = distances(x, y);
    for (std::size_t i = 0; i < d.size(); ++i) {
      auto n = static_cast<std::int64_t>(i);
      if (d[i] > 0 && !(d[i] <= room(y, n, moves))) return n;
    }
    return -1;
  }
  static double room(const HostArray& y, std::int64_t i, const Moves& moves) {
    double by = moves.by.empty() ? 0 : 10 * moves.by[at(i)];
    if (!is_inexact(y.dtype())) return by > 0 ? HUGE_VAL : 0;
    double size = std::abs(element(y, i));
    return by + 4 * moves.most + (std::isfinite(size) ? 16 * runtime::epsilon(y.dtype()) * size : 0);
  }

  // Repeats the plain run with last places changed until that explains every difference; throws where it does not. What
  // earlier runs have moved is asked first.
  void explain(const std::vector<Compared>& outputs, const std::vector<ShardBuffers>& kept) {
    std::lock_guard lock(mutex_);
    auto open = [&](const std::vector<Moves>& moves) {
      return std::find_if(outputs.begin(), outputs.end(),
                          [&](const Compared& c) { return apart(c.got, c.plain, moves[c.output]) >= 0; });
    };
    known_.resize(other_.graph->outputs.size());
    if (open(known_) == outputs.end()) return;
    std::vector<Moves> moves(known_.size());
    for (std::size_t n = 0; n < kShaken; ++n) {
      auto moved = other_.executable->run(arguments(kept, other_), 2 * n + 1);
      for (const Compared& c : outputs) {
        Moves& m = moves[c.output];
        m.by.resize(at(c.plain.size()));
        auto d = distances(c.plain, whole(moved[c.output], *other_.graph, c.output));
        for (std::size_t i = 0; i < d.size(); ++i) {
          m.by[i] = std::max(m.by[i], d[i]);
          if (std::isfinite(d[i])) m.most = std::max(m.most, d[i]);
        }
      }
      if (open(moves) != outputs.end()) continue;
      known_ = std::move(moves);
      return;
    }
    auto c = open(moves);
    fail(*c, apart(c->got, c->plain, moves[c->output]), moves[c->output], kept);
  }

  [[noreturn]] void fail(const Compared& c, std::int64_t i, const Moves& moves,
                         const std::vector<ShardBuffers>& kept) const {
    DType t = c.got.dtype();
    std::string cause = first_cause(kept);
    base::verification_failed(str("verification: output ", c.output, " (", ir::Type{t, c.got.shape()}, "): element ",
                                  index_text(i, c.got.shape()), " is ", program::text(element(c.got, i), t),
                                  ", but operation by operation and partitioned another way ",
                                  program::text(element(c.plain, i), t), "; rounding explains a difference of ",
                                  room(c.plain, i, moves), cause));
  }

  // The first operation whose results differ between the two partitions, both run plainly.
  std::string first_cause(const std::vector<ShardBuffers>& kept) const {
    ir::Graph g = *graph_;
    std::vector<const ir::Eqn*> makers;
    g.outputs.clear();
    for (const auto& e : graph_->eqns) {
      for (auto v : e.out) {
        g.outputs.push_back(v);
        makers.push_back(&e);
      }
    }
    try {
      auto all = std::make_shared<const ir::Graph>(std::move(g));
      ir::Module mine = spmd::prepared(placed_.module.with_graph(all));
      for (std::size_t i = 0; i < mine.inputs.size(); ++i) {
        mine.inputs[i].layout = partitioned_->layout(partitioned_->inputs[i]);
      }
      Way a{spmd::partition(mine, spmd::propagate(mine)), nullptr};
      a.executable = compiler_.compile_plainly(a.graph, placed_.devices);
      Way b = way(another(all));
      auto x = a.executable->run(arguments(kept, a), 0);
      auto y = b.executable->run(arguments(kept, b), 0);
      for (std::size_t j = 0; j < makers.size(); ++j) {
        if (differ(a.out(j)) || differ(b.out(j))) continue;
        HostArray p = whole(x[j], *a.graph, j);
        HostArray q = whole(y[j], *b.graph, j);
        std::int64_t i = apart(p, q, {{}, largest(q) * runtime::epsilon(p.dtype()) * 64});
        if (i < 0) continue;
        return str("\nfirst at ", makers[j]->op->name(), " at ", makers[j]->loc, ": element ", index_text(i, p.shape()),
                   " is ", program::text(element(p, i), p.dtype()), " and ", program::text(element(q, i), q.dtype()));
      }
    } catch (const Error& e) {
      return str("\n(the first operation could not be found: ", e.what(), ")");
    }
    return "\nrun operation by operation, both partitions agree: a rewriting of the program is at fault";
  }
  static double largest(const HostArray& a) {
    double most = 0;
    for (std::int64_t i = 0; i < a.size(); ++i) {
      double size = std::abs(element(a, i));
      if (std::isfinite(size)) most = std::max(most, size);
    }
    return most;
  }

  std::shared_ptr<runtime::Executable> executable_;
  runtime::PlainCompiler& compiler_;
  std::shared_ptr<runtime::MemoryPool> memory_;
  PlacedModule placed_;
  ir::GraphPtr graph_;
  ir::GraphPtr partitioned_;
  ir::MeshAxesPtr mesh_;
  std::shared_ptr<const mesh::DeviceList> devices_;
  std::vector<std::optional<ir::Layout>> inputs_, outputs_;
  Way other_;
  std::mutex mutex_;
  std::vector<Moves> known_;  // of the last run that was repeated more than once, by output
};

}  // namespace

std::shared_ptr<runtime::Executable> verified(std::shared_ptr<runtime::Executable> executable, runtime::Engine& engine,
                                              const PlacedModule& placed, const ir::GraphPtr& partitioned) {
  bool plain = dynamic_cast<runtime::PlainCompiler*>(&engine) != nullptr;
  if (!plain || !placed.devices->all_local() || ir::has_effect(*placed.module.graph)) return executable;
  return std::make_shared<VerifiedExecutable>(std::move(executable), engine, placed, partitioned);
}

}  // namespace tessera::program
