// SPDX-License-Identifier: Apache-2.0
// Collectives among lists of positions: axis_index_groups and ragged_all_to_all. What the members of a group receive in
// common is made once and shared. Of a ragged exchange the numbers go to all members, and rows only where they are
// sent.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "core/strided_copy.h"
#include "engines/cpu/kernels/copy_kernels.h"
#include "engines/cpu/step_program.h"
#include "engines/cpu/steps/combine.h"
#include "engines/cpu/steps/remote.h"
#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/define_op.h"
#include "tessera/error.h"

namespace tessera::cpu {

namespace {

using ops::GroupExchange;
using Kind = GroupExchange::Kind;

// One group: the operands' shards by member, and the result's shard of each member that this process wants.
struct Group {
  std::vector<std::vector<std::int32_t>> sources;  // by operand, by member
  std::vector<std::int32_t> targets;               // by member; -1 where not wanted
  std::int64_t position = 0;                       // of the first member
};

class GroupStep final : public ExchangeStep {
 public:
  GroupStep(const ir::Graph& g, const ir::Eqn& e, Context& context)
      : p_(ir::get<GroupExchange>(e.attrs)), name_(str(ops::to_string(p_.kind), " in groups")) {
    reads = e.in;
    writes = e.out;
    const auto& to = *context.table(g.layout(e.out[0]));
    count_ = to.map.count;
    item_ = dtype_size(g.type(e.in[0]).dtype);
    if (p_.kind == Kind::Sum || p_.kind == Kind::ReduceScatter) combiner_.emplace(ir::Reduction::Sum, dtype(g, e));
    if (p_.kind == Kind::Max) combiner_.emplace(ir::Reduction::Max, dtype(g, e));
    if (p_.kind == Kind::Min) combiner_.emplace(ir::Reduction::Min, dtype(g, e));
    remote_.resize(e.in.size());
    std::vector<bool> made(at(count_));
    for (const auto& members : p_.groups) {
      p_.kind == Kind::Ragged ? add_ragged(g, e, members, context, to) : add_group(g, e, members, context, to, made);
    }
    for (auto v : e.in) offsets_.push_back(g.type(v).dtype);
    distributed_ = context.distributed();
  }

  bool exchanges() const override {
    return std::any_of(remote_.begin(), remote_.end(), [](const RemoteShards& r) { return !r.empty(); });
  }

  std::unique_ptr<UnderWay> begin(Frame& frame) const override {
    auto out = std::make_unique<Fetched>();
    for (std::size_t i = 0; i < reads.size(); ++i) {
      out->in.push_back(frame.slots[at(reads[i])]);
      if (!distributed_) continue;
      out->communications.push_back(remote_[i].start(frame.run, call(frame.run, name_), out->in.back()));
    }
    return out;
  }

  void end(Frame& frame, UnderWay& under_way) const override {
    auto& fetched = static_cast<Fetched&>(under_way);
    for (auto& c : fetched.communications) {
      if (c) c->wait();
    }
    ShardBuffers to(at(count_));
    if (p_.kind == Kind::Ragged) {
      std::vector<BufferPtr> rows = exchange_rows(frame.run, fetched.in);
      for (std::size_t k = 0; k < groups_.size(); ++k) ragged(frame.run, k, rows, fetched.in, to);
    } else {
      for (std::size_t k = 0; k < groups_.size(); ++k) make(frame.run, groups_[k], shapes_[k], fetched.in, to);
    }
    frame.slots.own(at(writes[0])) = std::move(to);
  }

  std::string label() const override { return str(name_, " (", groups_.size(), " groups)"); }
  double cost() const override { return 1e5; }

 private:
  struct Fetched final : UnderWay {
    std::vector<ShardBuffers> in;  // by operand, with the shards that come
    std::vector<runtime::CommunicationPtr> communications;
  };
  struct Shapes {
    Shape in, out;  // of the first operand's block and of the result's
  };

  static DType dtype(const ir::Graph& g, const ir::Eqn& e) { return g.type(e.in[0]).dtype; }

  void add_group(const ir::Graph& g, const ir::Eqn& e, const Dims& members, Context& context, const LayoutTable& to,
                 std::vector<bool>& made) {
    Group group;
    group.position = members[0];
    bool wanted = false;
    for (auto p : members) {
      std::int32_t k = to.map.of_position[at(p)];
      bool mine = context.local(p) && !made[at(k)];
      if (mine) made[at(k)] = wanted = true;
      group.targets.push_back(mine ? k : -1);
    }
    for (std::size_t i = 0; i < e.in.size(); ++i) {
      const auto& from = *context.table(g.layout(e.in[i]));
      auto& list = group.sources.emplace_back();
      for (auto p : members) list.push_back(from.map.of_position[at(p)]);
      if (!context.distributed()) continue;
      std::int64_t bytes = local_type(g.type(e.in[i]), g.layout(e.in[i]), context.mesh(), members[0]).nbytes();
      for (auto reader : members) {
        for (auto shard : list) remote_[i].want(from, context, reader, shard, bytes);
      }
    }
    if (!wanted) return;
    shapes_.push_back(shapes(g, e, members[0], context));
    groups_.push_back(std::move(group));
  }

  static Shapes shapes(const ir::Graph& g, const ir::Eqn& e, std::int64_t position, const Context& context) {
    return {local_type(g.type(e.in[0]), g.layout(e.in[0]), context.mesh(), position).shape,
            local_type(g.type(e.out[0]), g.layout(e.out[0]), context.mesh(), position).shape};
  }

  void make(Run& run, const Group& g, const Shapes& s, const std::vector<ShardBuffers>& in, ShardBuffers& to) const {
    std::vector<const void*> blocks;
    for (auto shard : g.sources[0]) {
      const BufferPtr& b = in[0][at(shard)];
      TESSERA_CHECK(b != nullptr, str(name_, ": shard ", shard, " is not here"));
      blocks.push_back(b->data());
    }
    switch (p_.kind) {
      case Kind::Sum:
      case Kind::Max:
      case Kind::Min:
        return share(g, to, reduced(run, blocks, s));
      case Kind::AllGather:
        return share(g, to, gathered(run, blocks, s));
      default:
        break;
    }
    BufferPtr sum = p_.kind == Kind::ReduceScatter ? reduced(run, blocks, s) : nullptr;
    for (std::size_t r = 0; r < g.targets.size(); ++r) {
      if (g.targets[r] < 0) continue;
      BufferPtr out = run.memory.allocate(size_of(s.out) * item_);
      if (sum) {
        copy_box(s.in, p_.dim, static_cast<std::int64_t>(r), sum->data(), s.out, p_.dim, 0, out->data());
      } else {
        for (std::size_t j = 0; j < blocks.size(); ++j) {
          copy_box(s.in, p_.dim, static_cast<std::int64_t>(r), blocks[j], s.out, p_.concat,
                   static_cast<std::int64_t>(j), out->data(), static_cast<std::int64_t>(blocks.size()));
        }
      }
      to[at(g.targets[r])] = std::move(out);
    }
  }

  static void share(const Group& g, ShardBuffers& to, const BufferPtr& b) {
    for (auto k : g.targets) {
      if (k >= 0) to[at(k)] = b;
    }
  }

  BufferPtr reduced(Run& run, const std::vector<const void*>& blocks, const Shapes& s) const {
    std::int64_t n = size_of(s.in);
    BufferPtr out = run.memory.allocate(n * item_);
    combiner_->combine(blocks, out->data(), n);
    return out;
  }

  BufferPtr gathered(Run& run, const std::vector<const void*>& blocks, const Shapes& s) const {
    BufferPtr out = run.memory.allocate(size_of(s.out) * item_);
    Dims from = core::contiguous_strides(s.in, item_);
    Dims to = core::contiguous_strides(s.out, item_);
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      auto* start = static_cast<char*>(out->data()) + static_cast<std::int64_t>(r) * s.in[at(p_.dim)] * to[at(p_.dim)];
      kernels::copy_strided(start, to, blocks[r], from, s.in, item_);
    }
    return out;
  }

  // Chunk `chunk` of dimension `split` of a block goes to place `place` along `join` of the result. The chunk's extents
  // are those of the block but along `split`, where it has the block's divided by `parts`.
  void copy_box(const Shape& block, std::int64_t split, std::int64_t chunk, const void* from, const Shape& result,
                std::int64_t join, std::int64_t place, void* to, std::int64_t parts = 0) const {
    Shape extent = block;
    std::int64_t n = parts > 0 ? parts : block[at(split)] / std::max<std::int64_t>(1, result[at(split)]);
    extent[at(split)] = n > 0 ? block[at(split)] / n : 0;
    Dims in = core::contiguous_strides(block, item_);
    Dims out = core::contiguous_strides(result, item_);
    const auto* source = static_cast<const char*>(from) + chunk * extent[at(split)] * in[at(split)];
    auto* target = static_cast<char*>(to) + place * extent[at(join)] * out[at(join)];
    kernels::copy_strided(target, out, source, in, extent, item_);
  }

  // --- ragged -----------------------------------------------------------------------------------------------------

  Dims numbers(const Group& g, const std::vector<ShardBuffers>& in, std::size_t operand, std::size_t member) const {
    const BufferPtr& b = in[operand][at(g.sources[operand][member])];
    std::int64_t n = b->nbytes() / dtype_size(offsets_[operand]);
    ir::View view{offsets_[operand], {n}, b->data()};
    Dims out;
    for (std::int64_t i = 0; i < n; ++i) out.push_back(ops::load_int(view, i));
    return out;
  }

  // Rows that a member sends to one in another process; both know how many once they have the numbers of all members.
  // Every process has the same list.
  struct RowTransfer {
    std::size_t group, source, target;  // members
    std::int32_t provider, reader;      // processes
  };

  void add_ragged(const ir::Graph& g, const ir::Eqn& e, const Dims& members, Context& context, const LayoutTable& to) {
    constexpr std::size_t kNumbers = 2, kEnd = 5;  // operands that tell which rows go where
    Group group;
    group.position = members[0];
    self_ = context.owners().self;
    std::vector<std::shared_ptr<const LayoutTable>> from;
    for (auto v : e.in) {
      from.push_back(context.table(g.layout(v)));
      auto& list = group.sources.emplace_back();
      for (auto p : members) list.push_back(from.back()->map.of_position[at(p)]);
    }
    auto want_numbers = [&](std::int64_t position) {
      for (std::size_t i = kNumbers; i < kEnd; ++i) {
        std::int64_t bytes = local_type(g.type(e.in[i]), g.layout(e.in[i]), context.mesh(), members[0]).nbytes();
        for (auto shard : group.sources[i]) remote_[i].want(*from[i], context, position, shard, bytes);
      }
    };
    for (std::size_t r = 0; r < members.size(); ++r) {
      std::int32_t reader = context.owners().process_of[at(members[r])];
      std::int32_t k = to.map.of_position[at(members[r])];
      bool first = taken_.emplace(reader, k).second;
      group.targets.push_back(first && reader == self_ ? k : -1);
      if (!first || !context.distributed()) continue;
      want_numbers(members[r]);
      for (std::size_t j = 0; j < members.size(); ++j) {
        std::int32_t shard = group.sources[0][j];
        const auto& holders = from[0]->holders[at(shard)];
        if (std::binary_search(holders.begin(), holders.end(), reader)) continue;
        std::int64_t position = from[0]->map.first_position[at(shard)];
        transfers_.push_back({groups_.size(), j, r, context.owners().process_of[at(position)], reader});
        want_numbers(position);
      }
    }
    shapes_.push_back(shapes(g, e, members[0], context));
    groups_.push_back(std::move(group));
  }

  // What the members send: by member, by slot.
  struct Sent {
    std::vector<Dims> starts, sizes, places;
    std::int64_t row = 1;  // bytes
    std::size_t slots(std::size_t member) const { return sizes[member].size() / sizes.size(); }
    std::int64_t bytes(std::size_t from, std::size_t to) const {
      std::int64_t rows = 0;
      for (std::size_t i = to * slots(from); i < (to + 1) * slots(from); ++i) rows += sizes[from][i];
      return rows * row;
    }
  };
  Sent sent(std::size_t group, const std::vector<ShardBuffers>& in) const {
    const Group& g = groups_[group];
    const Shapes& s = shapes_[group];
    Sent out;
    out.row = item_;
    for (std::size_t d = 1; d < s.out.size(); ++d) out.row *= s.out[d];
    for (std::size_t j = 0; j < g.targets.size(); ++j) {
      out.starts.push_back(numbers(g, in, 2, j));
      out.sizes.push_back(numbers(g, in, 3, j));
      out.places.push_back(numbers(g, in, 4, j));
      for (std::size_t i = 0; i < out.sizes[j].size(); ++i) {
        check_range("input_offsets", j, i, out.starts[j][i], out.sizes[j][i], s.in[0]);
        check_range("output_offsets", j, i, out.places[j][i], out.sizes[j][i], s.out[0]);
      }
    }
    return out;
  }

  // By transfer, the rows that come to this process, one slot after the other.
  std::vector<BufferPtr> exchange_rows(Run& run, const std::vector<ShardBuffers>& in) const {
    std::vector<BufferPtr> rows(transfers_.size());
    std::vector<runtime::Collectives::Message> sends;
    std::vector<runtime::Collectives::Receipt> receipts;
    for (std::size_t n = 0; n < transfers_.size(); ++n) {
      const RowTransfer& t = transfers_[n];
      if (t.provider != self_ && t.reader != self_) continue;
      Sent s = sent(t.group, in);
      std::int64_t bytes = s.bytes(t.source, t.target);
      if (bytes == 0) continue;
      BufferPtr memory = run.memory.allocate(bytes);
      if (t.reader == self_) {
        receipts.push_back({t.provider, memory->data(), bytes, memory});
        rows[n] = std::move(memory);
        continue;
      }
      const auto* from = static_cast<const char*>(in[0][at(groups_[t.group].sources[0][t.source])]->data());
      auto* to = static_cast<char*>(memory->data());
      for (std::size_t i = t.target * s.slots(t.source); i < (t.target + 1) * s.slots(t.source); ++i) {
        if (s.sizes[t.source][i] == 0) continue;
        kernels::copy_bytes(to, from + s.starts[t.source][i] * s.row, s.sizes[t.source][i] * s.row);
        to += s.sizes[t.source][i] * s.row;
      }
      sends.push_back({t.reader, memory->data(), bytes, std::move(memory)});
    }
    if (sends.empty() && receipts.empty()) return rows;
    TESSERA_CHECK(run.collectives != nullptr, "a program that spans processes needs a transport");
    run.collectives->exchange(call(run, name_), sends, receipts);
    return rows;
  }

  void ragged(Run& run, std::size_t group, const std::vector<BufferPtr>& rows, const std::vector<ShardBuffers>& in,
              ShardBuffers& to) const {
    const Group& g = groups_[group];
    if (std::all_of(g.targets.begin(), g.targets.end(), [](std::int32_t k) { return k < 0; })) return;
    Sent s = sent(group, in);
    std::int64_t bytes = size_of(shapes_[group].out) * item_;
    for (std::size_t r = 0; r < g.targets.size(); ++r) {
      if (g.targets[r] < 0) continue;
      BufferPtr out = run.memory.allocate(bytes);
      if (bytes > 0) kernels::copy_bytes(out->data(), in[1][at(g.sources[1][r])]->data(), bytes);
      for (std::size_t j = 0; j < g.targets.size(); ++j) {
        if (s.bytes(j, r) == 0) continue;
        const BufferPtr& block = in[0][at(g.sources[0][j])];
        const BufferPtr& came = block ? block : rows[transfer(group, j, r)];
        const auto* from = static_cast<const char*>(came->data());
        for (std::size_t i = r * s.slots(j); i < (r + 1) * s.slots(j); ++i) {
          std::int64_t size = s.sizes[j][i] * s.row;
          if (size == 0) continue;
          const char* first = block ? from + s.starts[j][i] * s.row : from;
          kernels::copy_bytes(static_cast<char*>(out->data()) + s.places[j][i] * s.row, first, size);
          if (!block) from += size;
        }
      }
      to[at(g.targets[r])] = std::move(out);
    }
  }
  std::size_t transfer(std::size_t group, std::size_t source, std::size_t target) const {
    auto it = std::find_if(transfers_.begin(), transfers_.end(), [&](const RowTransfer& t) {
      return t.group == group && t.source == source && t.target == target && t.reader == self_;
    });
    TESSERA_CHECK(it != transfers_.end(), str(name_, ": rows of a member are not here"));
    return at(it - transfers_.begin());
  }

  void check_range(const char* what, std::size_t member, std::size_t slot, std::int64_t start, std::int64_t size,
                   std::int64_t rows) const {
    if (size >= 0 && start >= 0 && start <= rows && size <= rows - start) return;
    if (size == 0) return;
    throw ValueError(str("ragged_all_to_all: ", what, "[", slot, "] = ", start, " with send_sizes[", slot, "] = ", size,
                         " of instance ", member, " is out of range for ", rows, " rows"));
  }

  GroupExchange p_;
  std::string name_;
  std::int64_t count_ = 0;  // of the result's shards
  std::int64_t item_ = 1;
  bool distributed_ = false;
  std::optional<Combiner> combiner_;
  std::vector<RemoteShards> remote_;  // by operand
  std::vector<DType> offsets_;        // dtypes of the operands
  std::vector<Group> groups_;
  std::vector<Shapes> shapes_;  // by group
  std::int32_t self_ = 0;
  std::set<std::pair<std::int32_t, std::int32_t>> taken_;  // ragged: process, shard of the result
  std::vector<RowTransfer> transfers_;
};

}  // namespace

StepPtr make_group_step(const ir::Graph& g, const ir::Eqn& e, Context& context) {
  if (e.op != &ops::def::group_exchange) return nullptr;
  return std::make_unique<GroupStep>(g, e, context);
}

}  // namespace tessera::cpu
