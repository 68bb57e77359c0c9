// SPDX-License-Identifier: Apache-2.0
// The step that moves elements along split dimensions: a shard of the result is put together from the boxes that it
// needs of the operands' shards. Several results are made together, and what they need of another process is sent once.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/step_program.h"
#include "ir/op_def.h"
#include "ops/shape/halo.h"

namespace tessera::cpu {

namespace {

// What one shard of an operand gives to a shard of the result. Strides are in bytes.
struct Contribution {
  std::size_t operand = 0;
  std::int32_t shard = 0;
  Dims low;  // first element of the shard
  Shape extent;
  std::int64_t read = 0, write = 0;  // bytes from the start of the shards
  Dims from, to;
  bool whole = false;  // all of the one is all of the other
};

// What a shard of an operand sends for a shard of the results.
struct Parcel {
  std::size_t operand = 0;
  std::int32_t shard = 0;
  ops::HaloBox box;
  std::int64_t read = 0;
  Dims from;
};

// What a shard of a result is made of.
struct Part {
  std::vector<Contribution> contributions;  // in an order that every process finds
  std::int64_t size = 0;                    // elements
  std::int64_t missing = 0;                 // elements that no contribution covers
  std::int32_t whole = -1;                  // the contribution that is all of it
};

class HaloStep final : public ExchangeStep {
 public:
  HaloStep(const ir::Graph& g, const ir::Eqn& e, Context& context)
      : p_(ir::get<ops::Halo>(e.attrs)),
        mesh_(context.mesh()),
        item_(dtype_size(g.type(e.out[0]).dtype)),
        self_(context.owners().self),
        process_of_(context.owners().process_of),
        distributed_(context.distributed()),
        shape_(g.type(e.out[0]).shape),
        target_(context.table(g.layout(e.out[0]))) {
    reads = e.in;
    writes = e.out;
    for (std::size_t k = 0; k < p_.operands(); ++k) {
      shapes_.push_back(g.type(e.in[k]).shape);
      sources_.push_back(context.table(g.layout(e.in[k])));
    }
    for (auto v : e.in) TESSERA_CHECK(g.layout(v).partial == 0, "halo: a partial operand");
    fills_ = e.in.size() > p_.operands();
    for (std::size_t t = 0; t < target_->first_local.size(); ++t) {
      if (target_->first_local[t] >= 0) targets_.push_back(static_cast<std::int32_t>(t));
    }
    std::int64_t bytes = item_;
    for (auto n : ir::tile_shape(shape_, target_->layout, mesh_)) bytes *= n;
    cost_ = 100 + 0.15 * static_cast<double>(bytes);
    plan();
  }

  bool exchanges() const override { return crosses_; }

  std::unique_ptr<UnderWay> begin(Frame& frame) const override {
    auto out = std::make_unique<Exchanged>();
    if (crosses_) start_exchange(frame, *out);
    return out;
  }

  void end(Frame& frame, UnderWay& under_way) const override {
    auto& exchanged = static_cast<Exchanged&>(under_way);
    if (exchanged.messages) exchanged.messages->wait();
    const std::vector<ShardBuffers>& received = exchanged.received;
    const Open open(*this, frame, received);
    spread(open.works(), cost_, [&](std::int64_t k) { open.work(k); });
  }

  std::optional<Works> works(std::size_t most) const override {
    if (distributed_ || parts_.size() * targets_.size() > most) return std::nullopt;
    Works out{.list = {}, .shared = {}, .cost = cost_};
    for (std::size_t r = 0; r < parts_.size(); ++r) {
      for (auto t : targets_) {
        const Part& part = parts_[r][at(t)];
        if (part.whole >= 0) {
          const Contribution& whole = part.contributions[at(part.whole)];
          out.shared.push_back({{writes[r], t}, {reads[whole.operand], whole.shard}});
          continue;
        }
        Works::Work work{.reads = {}, .writes = {{writes[r], t}}};
        for (const Contribution& c : part.contributions) work.reads.push_back({reads[c.operand], c.shard});
        if (part.missing > 0) work.reads.push_back({reads.back(), 0});
        out.list.push_back(std::move(work));
      }
    }
    return out;
  }
  std::unique_ptr<OpenStep> open(Frame& frame) const override {
    return std::make_unique<Open>(*this, frame, std::vector<ShardBuffers>());
  }

  std::string label() const override { return str("halo (", target_->map.count, " shards)"); }
  double cost() const override { return cost_ * static_cast<double>(targets_.size() * parts_.size()); }

 private:
  // What its works copy where; those parts are left out that are shards of operands.
  class Open final : public OpenStep {
   public:
    Open(const HaloStep& step, Frame& frame, const std::vector<ShardBuffers>& received) : step_(step) {
      if (step.fills_) fill_ = frame.slots[at(step.reads.back())][0]->data();
      for (std::size_t r = 0; r < step.parts_.size(); ++r) {
        ShardBuffers to(step.target_->first_local.size());
        for (auto t : step.targets_) {
          const Part& part = step.parts_[r][at(t)];
          to[at(t)] = step.shared(part, frame);
          if (to[at(t)]) continue;
          to[at(t)] = frame.run.memory.allocate(part.size * step.item_);
          copies_.push_back({part, static_cast<char*>(to[at(t)]->data()), sources_.size()});
          for (std::size_t i = 0; i < part.contributions.size(); ++i) add_source(frame, part, i, t, received);
        }
        frame.slots.own(at(step.writes[r])) = std::move(to);
      }
    }
    std::int64_t works() const { return static_cast<std::int64_t>(copies_.size()); }
    void work(std::int64_t k) const override {
      const Copies& c = copies_[at(k)];
      if (c.part.missing > 0) {
        TESSERA_CHECK(step_.fills_, "halo: positions that nothing covers");
        kernels::fill(c.to, fill_, step_.item_, c.part.size);
      }
      for (std::size_t i = 0; i < c.part.contributions.size(); ++i) {
        const Contribution& contribution = c.part.contributions[i];
        const Source& source = sources_[c.first + i];
        kernels::copy_strided(c.to + contribution.write, contribution.to, source.data, *source.strides,
                              contribution.extent, step_.item_);
      }
    }

   private:
    // Where the elements of a contribution are.
    struct Source {
      const char* data;
      const Dims* strides;  // in bytes
    };
    struct Copies {
      const Part& part;
      char* to;
      std::size_t first;  // of its contributions' sources
    };

    // In a shard of this process, or in what came from another.
    void add_source(const Frame& frame, const Part& part, std::size_t i, std::int32_t target,
                    const std::vector<ShardBuffers>& received) {
      const Contribution& c = part.contributions[i];
      if (const BufferPtr& own = step_.shard_of(frame, c.operand, c.shard)) {
        sources_.push_back({static_cast<const char*>(own->data()) + c.read, &c.from});
        return;
      }
      const std::size_t n = step_.parcel_of(target, i, c);
      TESSERA_CHECK(!received.empty() && n < received[at(target)].size() && received[at(target)][n],
                    str("halo: shard ", c.shard, " is not here"));
      const ops::HaloBox& box = step_.parcels_[at(target)][n].box;
      const Dims& strides = strides_.emplace_back(core::contiguous_strides(box.extent, step_.item_));
      Dims within(box.low.size());
      for (std::size_t d = 0; d < within.size() && step_.parts_.size() > 1; ++d) within[d] = c.low[d] - box.low[d];
      sources_.push_back(
          {static_cast<const char*>(received[at(target)][n]->data()) + offset(within, strides), &strides});
    }

    const HaloStep& step_;
    const void* fill_ = nullptr;
    std::vector<Copies> copies_;
    std::vector<Source> sources_;
    std::deque<Dims> strides_;  // of what came from other processes
  };

  struct Exchanged final : UnderWay {
    std::vector<ShardBuffers> received;  // by shard of the results the parcels that come from other processes
    runtime::CommunicationPtr messages;
  };

  static std::int64_t elements(const Shape& shape) {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }

  runtime::Tile tile(const Shape& global, const LayoutTable& table, std::int32_t shard) const {
    return runtime::tile_at(global, table.layout, mesh_, table.map.first_position[at(shard)]);
  }

  void plan() {
    parts_.resize(writes.size());
    for (std::size_t r = 0; r < parts_.size(); ++r) plan_result(r);
    if (distributed_) plan_parcels();
  }

  void plan_result(std::size_t r) {
    std::vector<Part>& parts = parts_[r];
    parts.resize(target_->first_local.size());
    for (std::size_t t = 0; t < parts.size(); ++t) {
      if (!distributed_ && target_->first_local[t] < 0) continue;
      Part& part = parts[t];
      part.size = part.missing = elements(tile(shape_, *target_, static_cast<std::int32_t>(t)).shape);
      for_each_contribution(r, static_cast<std::int32_t>(t), [&](const Contribution& contribution) {
        if (contribution.whole) part.whole = static_cast<std::int32_t>(part.contributions.size());
        part.missing -= elements(contribution.extent);
        part.contributions.push_back(contribution);
      });
    }
  }

  // Several results share parcels. Those of one result are its contributions, in their order.
  void plan_parcels() {
    parcels_.resize(target_->first_local.size());
    for (std::size_t t = 0; t < parcels_.size(); ++t) {
      std::map<std::pair<std::size_t, std::int32_t>, std::vector<ops::HaloBox>> boxes;
      for (const auto& parts : parts_) {
        for (const Contribution& c : parts[t].contributions) {
          ops::HaloBox box{c.low, c.extent};
          if (parts_.size() > 1) {
            ops::add_box(boxes[{c.operand, c.shard}], std::move(box));
          } else {
            parcels_[t].push_back({c.operand, c.shard, std::move(box), c.read, c.from});
          }
        }
      }
      for (auto& [from, list] : boxes) {
        Dims strides = shard_strides(from.first, from.second);
        for (auto& box : list) {
          std::int64_t read = offset(box.low, strides);
          parcels_[t].push_back({from.first, from.second, std::move(box), read, strides});
        }
      }
      for (const Parcel& parcel : parcels_[t]) {
        for (auto reader : target_->holders[t]) crosses_ = crosses_ || giver(parcel, reader) != reader;
      }
    }
  }

  Dims shard_strides(std::size_t operand, std::int32_t shard) const {
    return core::contiguous_strides(tile(shapes_[operand], *sources_[operand], shard).shape, item_);
  }
  static std::int64_t offset(const Dims& index, const Dims& strides) {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < index.size(); ++d) sum += index[d] * strides[d];
    return sum;
  }

  void for_each_contribution(std::size_t result, std::int32_t target,
                             const std::function<void(const Contribution&)>& body) const {
    auto out = tile(shape_, *target_, target);
    std::size_t lead = p_.windows > 0 ? 1 : 0;
    std::int64_t first = lead ? out.offset[0] : 0;
    std::int64_t count = lead ? out.shape[0] : 1;
    Dims strides = core::contiguous_strides(out.shape, item_);
    for (std::int64_t w = 0; w < count; ++w) {
      for (std::size_t k = 0; k < sources_.size(); ++k) {
        Contribution contribution;
        contribution.operand = k;
        contribution.shard = own_shard(k, target);
        contribution.write = lead ? w * strides[0] : 0;
        contribution.to.assign(strides.begin() + static_cast<std::ptrdiff_t>(lead), strides.end());
        walk_tiles(out, result * sources_.size() + k, lead, first + w, contribution, body);
      }
    }
  }

  // The first shard of an operand among those that the holders of a shard of the result see: values that vary are read
  // as the position has them.
  std::int32_t own_shard(std::size_t k, std::int32_t target) const {
    const LayoutTable& source = *sources_[k];
    std::int64_t p = target_->map.first_position[at(target)];
    std::int64_t shard = 0;
    for (std::size_t a = mesh_.sizes.size(); a-- > 0; p /= mesh_.sizes[a]) {
      if (source.layout.vary >> a & 1) shard += p % mesh_.sizes[a] * source.strides.of_axis[a];
    }
    return static_cast<std::int32_t>(shard);
  }

  // The shards of one operand that a window of the result meets; `line` is the number of its starts.
  void walk_tiles(const runtime::Tile& out, std::size_t line, std::size_t lead, std::int64_t w,
                  const Contribution& start, const std::function<void(const Contribution&)>& body) const {
    std::size_t k = start.operand;
    const Shape& shape = shapes_[k];
    std::size_t rank = shape.size();
    Dims low(rank);
    Dims high(rank);
    Dims chunk(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t begin = out.offset[d + lead];
      auto along = ops::halo_line(p_, line, d, w, begin, begin + out.shape[d + lead], 0, shape[d]);
      if (along.count == 0) return;
      std::int64_t last = along.element + (along.count - 1) * along.element_step;
      std::int64_t parts = ir::parts(sources_[k]->layout.dims[d], mesh_);
      chunk[d] = (shape[d] + parts - 1) / parts;
      low[d] = std::min(along.element, last) / chunk[d];
      high[d] = std::max(along.element, last) / chunk[d];
    }
    for (Dims number = low;;) {
      give(out, line, lead, w, start, number, chunk, body);
      std::size_t d = rank;
      while (d > 0 && ++number[d - 1] > high[d - 1]) {
        number[d - 1] = low[d - 1];
        --d;
      }
      if (d == 0) return;
    }
  }

  void give(const runtime::Tile& out, std::size_t line, std::size_t lead, std::int64_t w, const Contribution& start,
            const Dims& number, const Dims& chunk, const std::function<void(const Contribution&)>& body) const {
    Contribution contribution = start;
    const Shape& shape = shapes_[contribution.operand];
    std::size_t rank = shape.size();
    Shape source(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      source[d] = std::min(shape[d], (number[d] + 1) * chunk[d]) - number[d] * chunk[d];
      contribution.shard += static_cast<std::int32_t>(number[d] * sources_[contribution.operand]->strides.of_dim[d]);
    }
    Dims strides = core::contiguous_strides(source, item_);
    contribution.from = strides;
    contribution.low.resize(rank);
    contribution.extent.resize(rank);
    contribution.whole = lead == 0 || out.shape[0] == 1;
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t begin = out.offset[d + lead];
      std::int64_t extent = out.shape[d + lead];
      std::int64_t from = number[d] * chunk[d];
      auto along = ops::halo_line(p_, line, d, w, begin, begin + extent, from, from + source[d]);
      if (along.count == 0) return;  // between the elements that are taken
      contribution.low[d] = along.element - from;
      contribution.extent[d] = along.count;
      contribution.write += (along.position - begin) * contribution.to[d];
      contribution.read += contribution.low[d] * strides[d];
      contribution.to[d] *= along.position_step;
      contribution.from[d] *= along.element_step;
      bool all = along.count == extent && along.count == source[d];
      contribution.whole =
          contribution.whole && all && (along.count == 1 || (along.position_step == 1 && along.element_step == 1));
    }
    body(contribution);
  }

  const BufferPtr& shard_of(const Frame& frame, std::size_t operand, std::int32_t shard) const {
    return frame.slots[at(reads[operand])][at(shard)];
  }

  BufferPtr shared(const Part& part, const Frame& frame) const {
    if (part.whole < 0) return nullptr;
    const Contribution& contribution = part.contributions[at(part.whole)];
    return shard_of(frame, contribution.operand, contribution.shard);
  }

  // The number of the parcel that has what a contribution takes.
  std::size_t parcel_of(std::int32_t target, std::size_t number, const Contribution& contribution) const {
    if (parts_.size() == 1) return number;
    const auto& parcels = parcels_[at(target)];
    auto has = [&](const Parcel& p) {
      return p.operand == contribution.operand && p.shard == contribution.shard &&
             p.box.holds({contribution.low, contribution.extent});
    };
    return static_cast<std::size_t>(std::find_if(parcels.begin(), parcels.end(), has) - parcels.begin());
  }

  // Who gives a shard to a reader: itself where it has the shard, else the first holder.
  std::int32_t giver(const Parcel& parcel, std::int32_t reader) const {
    const LayoutTable& source = *sources_[parcel.operand];
    const auto& holders = source.holders[at(parcel.shard)];
    bool has = std::binary_search(holders.begin(), holders.end(), reader);
    return has ? reader : process_of_[at(source.map.first_position[at(parcel.shard)])];
  }

  void start_exchange(Frame& frame, Exchanged& out) const {
    std::vector<runtime::Collectives::Message> sends;
    std::vector<runtime::Collectives::Receipt> receipts;
    out.received.resize(parcels_.size());
    for (std::size_t t = 0; t < parcels_.size(); ++t) {
      out.received[t].resize(parcels_[t].size());
      for (std::size_t n = 0; n < parcels_[t].size(); ++n) {
        const Parcel& parcel = parcels_[t][n];
        std::int64_t bytes = parcel.box.size() * item_;
        for (auto reader : target_->holders[t]) {
          std::int32_t from = giver(parcel, reader);
          if (reader == self_ && from != self_) {
            out.received[t][n] = frame.run.memory.allocate(bytes);
            receipts.push_back({from, out.received[t][n]->data(), bytes, out.received[t][n]});
          } else if (reader != self_ && from == self_) {
            BufferPtr packed = frame.run.memory.allocate(bytes);
            const BufferPtr& shard = shard_of(frame, parcel.operand, parcel.shard);
            kernels::copy_strided(packed->data(), core::contiguous_strides(parcel.box.extent, item_),
                                  static_cast<const char*>(shard->data()) + parcel.read, parcel.from, parcel.box.extent,
                                  item_);
            sends.push_back({reader, packed->data(), bytes, std::move(packed)});
          }
        }
      }
    }
    if (sends.empty() && receipts.empty()) return;
    TESSERA_CHECK(frame.run.collectives != nullptr, "a program that spans processes needs a transport");
    out.messages = frame.run.collectives->start_exchange(call(frame.run, "halo_exchange"), sends, receipts);
  }

  ops::Halo p_;
  ir::MeshAxes mesh_;
  std::int64_t item_;
  std::int32_t self_;
  std::vector<std::int32_t> process_of_;
  bool distributed_;
  bool crosses_ = false;  // processes exchange something
  Shape shape_;
  std::shared_ptr<const LayoutTable> target_;
  std::vector<Shape> shapes_;
  std::vector<std::shared_ptr<const LayoutTable>> sources_;
  std::vector<std::int32_t> targets_;  // shards of the result that this process holds
  // By result and shard of it; of other processes' shards only where these are asked for contributions.
  std::vector<std::vector<Part>> parts_;
  std::vector<std::vector<Parcel>> parcels_;  // by shard of the results, in an order that every process finds
  bool fills_ = false;
  double cost_ = 0;
};

}  // namespace

StepPtr make_halo_step(const ir::Graph& g, const ir::Eqn& e, Context& context) {
  if (e.op != &ops::def::halo) return nullptr;
  return std::make_unique<HaloStep>(g, e, context);
}

}  // namespace tessera::cpu
