// SPDX-License-Identifier: Apache-2.0
// Operations over groups, made of messages. Everybody sends straight to everybody, so that whoever does not arrive is
// known to all that wait for it.
#include "runtime/process_collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::runtime {

std::string described_wholly(const Collectives::Call& call) {
  std::string out = described(call);
  if (call.run >= 0) {
    std::ostringstream fingerprint;
    fingerprint << std::hex << (call.tag >> Collectives::kRunBits);
    out += ", of fingerprint " + fingerprint.str();
  }
  return out;
}

std::string different_programs(const ProcessJournal& journal, int self, const Collectives::Call& here, int peer,
                               const std::string& there, const std::string& arrays) {
  const std::string difference = journal.first_difference(self, peer, arrays);
  return str("the processes run different programs: process ", self, " waits for process ", peer, " in ",
             described_wholly(here), ", and process ", peer, " waits for process ", self, " in ", there,
             difference.empty() ? "" : "; ", difference);
}

std::int64_t order_of_programs(const Collectives::Call& a, const Collectives::Call& b) {
  if (a.processes == 0 || a.processes != b.processes) return 0;
  constexpr std::int64_t kRuns = std::int64_t{1} << Collectives::kRunBits;
  const std::int64_t apart = (a.tag - b.tag) & (kRuns - 1);  // the count starts again from 0 after its last bit
  return apart < kRuns / 2 ? apart : apart - kRuns;
}

std::size_t member_of(Collectives::Group group, int process) {
  auto at = std::lower_bound(group.begin(), group.end(), process);
  if (at == group.end() || *at != process) {
    throw StateError(str("collective: process ", process, " is not one of its processes ",
                         base::list_text(std::vector<std::int64_t>(group.begin(), group.end()))));
  }
  return static_cast<std::size_t>(at - group.begin());
}

namespace {

using Call = Collectives::Call;
using Message = Collectives::Message;
using Receipt = Collectives::Receipt;
using Reducer = Collectives::Reducer;
using Owner = Collectives::Owner;
using Source = Collectives::Source;
using Target = Collectives::Target;
using Counts = std::vector<std::int64_t>;

void copy(void* to, const void* from, std::int64_t nbytes) {
  if (nbytes > 0) std::memcpy(to, from, static_cast<std::size_t>(nbytes));
}
const char* byte(const void* data, std::int64_t offset) { return static_cast<const char*>(data) + offset; }
char* byte(void* data, std::int64_t offset) { return static_cast<char*>(data) + offset; }

// Where blocks that follow each other begin, and where they end.
Counts offsets(std::span<const std::int64_t> sizes) {
  Counts out(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), out.begin() + 1);
  return out;
}

// This member's block from every member, and their reduction. `blocks` are what it sends, by member, of `counts`
// elements, in memory of `owner`.
class ReducedBlocks final : public Communication {
 public:
  ReducedBlocks(Collectives& transport, const Call& call, Collectives::Group group, std::span<const void* const> blocks,
                const Owner& owner, std::span<const std::int64_t> counts, void* out, Reducer reducer)
      : reducer_(std::move(reducer)), owner_(owner), out_(out) {
    const auto item = dtype_size(reducer_.dtype);
    const auto me = member_of(group, transport.process_index());
    count_ = counts[me];
    received_ = transport.scratch().allocate(count_ * item * (std::ssize(group) - 1));
    std::vector<Message> sends;
    std::vector<Receipt> receipts;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (i == me) {
        blocks_.push_back(blocks[i]);
        continue;
      }
      void* to = byte(received_->data(), std::ssize(receipts) * count_ * item);
      sends.push_back({group[i], blocks[i], counts[i] * item, owner});
      receipts.push_back({group[i], to, count_ * item, received_});
      blocks_.push_back(to);
    }
    exchange_ = transport.start_exchange(call, sends, receipts);
  }
  void wait() override {
    exchange_->wait();
    if (count_ > 0) reducer_.combine(blocks_, out_, count_);
  }

 private:
  Reducer reducer_;
  Owner owner_;  // of its own block, which is read last
  void* out_;
  std::int64_t count_ = 0;
  BufferPtr received_;
  std::vector<const void*> blocks_;  // by member
  CommunicationPtr exchange_;
};

CommunicationPtr reduce_scatter(Collectives& transport, const Call& call, Collectives::Group group, const Source& in,
                                void* out, std::span<const std::int64_t> counts, const Reducer& reducer) {
  const Counts starts = offsets(counts);
  std::vector<const void*> blocks;
  for (std::size_t i = 0; i < group.size(); ++i) blocks.push_back(byte(in.data, starts[i] * dtype_size(reducer.dtype)));
  return std::make_unique<ReducedBlocks>(transport, call, group, blocks, in.owner, counts, out, reducer);
}

// Each member reduces a part and sends it to all: nobody sends more than two times its data, however many there are.
class AllReduce final : public Communication {
 public:
  AllReduce(Collectives& transport, const Call& call, Collectives::Group group, const Source& in, const Target& out,
            std::int64_t count, const Reducer& reducer)
      : transport_(transport), call_(call), group_(group.begin(), group.end()), out_(out) {
    const auto n = static_cast<std::int64_t>(group_.size());
    Counts counts;
    for (std::int64_t i = 0; i < n; ++i) counts.push_back(count * (i + 1) / n - count * i / n);
    for (auto c : counts) nbytes_.push_back(c * dtype_size(reducer.dtype));
    me_ = member_of(group_, transport.process_index());
    starts_ = offsets(nbytes_);
    part_ = reduce_scatter(transport, call, group, in, byte(out.data, starts_[me_]), counts, reducer);
  }
  void wait() override {
    part_->wait();
    std::vector<Message> sends;
    std::vector<Receipt> receipts;
    for (std::size_t i = 0; i < group_.size(); ++i) {
      if (i == me_) continue;
      sends.push_back({group_[i], byte(out_.data, starts_[me_]), nbytes_[me_], out_.owner});
      receipts.push_back({group_[i], byte(out_.data, starts_[i]), nbytes_[i], out_.owner});
    }
    transport_.exchange(call_.call, sends, receipts);
  }

 private:
  Collectives& transport_;
  OwnCall call_;
  std::vector<std::int32_t> group_;
  Target out_;
  std::size_t me_ = 0;
  Counts nbytes_;
  Counts starts_;
  CommunicationPtr part_;
};

}  // namespace

CommunicationPtr Collectives::start_all_reduce(const Call& call, Group group, const Source& in, const Target& out,
                                               std::int64_t count, const Reducer& reducer) {
  // So little that one message to each is quicker than two: everybody reduces everything. Two members send as much
  // either way, and save a message.
  const std::int64_t small = group.size() <= 2 ? 64 << 10 : 16 << 10;
  if (group.size() == 1 || count * dtype_size(reducer.dtype) <= small) {
    const std::vector<const void*> blocks(group.size(), in.data);
    const Counts counts(group.size(), count);
    return std::make_unique<ReducedBlocks>(*this, call, group, blocks, in.owner, counts, out.data, reducer);
  }
  return std::make_unique<AllReduce>(*this, call, group, in, out, count, reducer);
}

CommunicationPtr Collectives::start_reduce_scatter(const Call& call, Group group, const Source& in, const Target& out,
                                                   std::span<const std::int64_t> counts, const Reducer& reducer) {
  return reduce_scatter(*this, call, group, in, out.data, counts, reducer);
}

CommunicationPtr Collectives::start_all_gather(const Call& call, Group group, const Source& in, const Target& out,
                                               std::span<const std::int64_t> nbytes) {
  const std::size_t me = member_of(group, process_index());
  Counts starts = offsets(nbytes);
  std::vector<Message> sends;
  std::vector<Receipt> receipts;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == me) continue;
    sends.push_back({group[i], in.data, nbytes[me], in.owner});
    receipts.push_back({group[i], byte(out.data, starts[i]), nbytes[i], out.owner});
  }
  auto exchange = start_exchange(call, sends, receipts);
  copy(byte(out.data, starts[me]), in.data, nbytes[me]);
  return exchange;
}

CommunicationPtr Collectives::start_all_to_all(const Call& call, Group group, const Source& in,
                                               std::span<const std::int64_t> sent, const Target& out,
                                               std::span<const std::int64_t> received) {
  const std::size_t me = member_of(group, process_index());
  Counts from = offsets(sent);
  Counts to = offsets(received);
  std::vector<Message> sends;
  std::vector<Receipt> receipts;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == me) continue;
    sends.push_back({group[i], byte(in.data, from[i]), sent[i], in.owner});
    receipts.push_back({group[i], byte(out.data, to[i]), received[i], out.owner});
  }
  auto exchange = start_exchange(call, sends, receipts);
  copy(byte(out.data, to[me]), byte(in.data, from[me]), std::min(sent[me], received[me]));
  return exchange;
}

CommunicationPtr Collectives::start_broadcast(const Call& call, Group group, int root, const Target& data,
                                              std::int64_t nbytes) {
  member_of(group, root);
  member_of(group, process_index());
  std::vector<Message> sends;
  std::vector<Receipt> receipts;
  if (process_index() != root) {
    receipts.push_back({root, data.data, nbytes, data.owner});
  } else {
    for (auto peer : group) {
      if (peer != root) sends.push_back({peer, data.data, nbytes, data.owner});
    }
  }
  return start_exchange(call, sends, receipts);
}

CommunicationPtr Collectives::start_permute(const Call& call, int to, const Source& in, std::int64_t sent, int from,
                                            const Target& out, std::int64_t received) {
  std::vector<Message> sends;
  std::vector<Receipt> receipts;
  if (to == process_index() && from == to) {
    copy(out.data, in.data, std::min(sent, received));
  } else {
    if (to >= 0) sends.push_back({to, in.data, sent, in.owner});
    if (from >= 0) receipts.push_back({from, out.data, received, out.owner});
  }
  return start_exchange(call, sends, receipts);
}

CommunicationPtr Collectives::start_barrier(const Call& call, Group group) {
  const std::size_t me = member_of(group, process_index());
  std::vector<Message> sends;
  std::vector<Receipt> receipts;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == me) continue;
    sends.push_back({group[i], nullptr, 0});
    receipts.push_back({group[i], nullptr, 0});
  }
  return start_exchange(call, sends, receipts);
}

}  // namespace tessera::runtime
