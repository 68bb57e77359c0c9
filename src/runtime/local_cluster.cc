// SPDX-License-Identifier: Apache-2.0
#include "runtime/local_cluster.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::runtime {

namespace {

// Seconds that a process waits for another one before it takes it for failed. Read at every wait.
std::int64_t longest_wait() {
  constexpr std::int64_t kDefault = 600;
  const char* text = std::getenv("TESSERA_EXCHANGE_SECONDS");
  std::int64_t seconds = text ? std::atoll(text) : 0;
  return seconds > 0 ? seconds : kDefault;
}

// Messages wait in mailboxes, so a sender never waits and two processes that send to each other cannot lock up.
class Cluster final : public LocalCluster, public std::enable_shared_from_this<Cluster> {
 public:
  explicit Cluster(int process_count) : ended_(static_cast<std::size_t>(process_count)) {}
  std::shared_ptr<Collectives> join(int process_index) override;
  int process_count() const { return static_cast<int>(ended_.size()); }

  void send(int from, std::int64_t tag, const Collectives::Message& m) {
    const auto* bytes = static_cast<const char*>(m.data);
    std::vector<char> copy(bytes, bytes + m.nbytes);
    {
      std::lock_guard lock(mutex_);
      mail_[{m.peer, from, tag}].push_back(std::move(copy));
    }
    changed_.notify_all();
  }

  void receive(int self, std::int64_t tag, const Collectives::Receipt& r) {
    std::vector<char> bytes = take(self, r.peer, tag);
    if (static_cast<std::int64_t>(bytes.size()) != r.nbytes) {
      throw StateError(str("exchange: process ", r.peer, " sent ", bytes.size(), " bytes to process ", self,
                           ", which expected ", r.nbytes, "; the processes run different programs"));
    }
    if (!bytes.empty()) std::memcpy(r.data, bytes.data(), bytes.size());
  }

  void poison(int from, std::int64_t tag, const char* why) {
    {
      std::lock_guard lock(mutex_);
      failed_.insert_or_assign({from, tag}, why);
      if (failed_.size() > kRememberedFailures) failed_.erase(failed_.begin());
    }
    changed_.notify_all();
  }
  void begin(int process) {
    std::lock_guard lock(mutex_);
    ended_[static_cast<std::size_t>(process)] = false;
  }
  void end(int process) {
    {
      std::lock_guard lock(mutex_);
      ended_[static_cast<std::size_t>(process)] = true;
    }
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t kRememberedFailures = 4096;

  std::vector<char> take(int self, int peer, std::int64_t tag) {
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(longest_wait());
    for (;;) {
      auto box = mail_.find({self, peer, tag});
      if (box != mail_.end()) {
        std::vector<char> bytes = std::move(box->second.front());
        box->second.pop_front();
        if (box->second.empty()) mail_.erase(box);
        return bytes;
      }
      auto failure = failed_.find({peer, tag});
      if (failure != failed_.end()) {
        throw StateError(str("exchange: process ", peer, " failed in this step: ", failure->second));
      }
      if (ended_[static_cast<std::size_t>(peer)]) {
        throw StateError(str("exchange: process ", self, " waits for process ", peer, ", which has ended"));
      }
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
        throw StateError(str("exchange: process ", self, " waited ", longest_wait(), " s for process ", peer,
                             ", which has failed elsewhere or runs another program (TESSERA_EXCHANGE_SECONDS says how "
                             "long a wait may be)"));
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, std::int64_t>, std::deque<std::vector<char>>> mail_;  // (to, from, tag)
  std::map<std::pair<int, std::int64_t>, std::string> failed_;
  std::vector<bool> ended_;
};

class Member final : public Collectives {
 public:
  Member(std::shared_ptr<Cluster> cluster, int process) : cluster_(std::move(cluster)), process_(process) {
    cluster_->begin(process_);
  }
  ~Member() override { cluster_->end(process_); }
  int process_index() const override { return process_; }
  int process_count() const override { return cluster_->process_count(); }
  void exchange(std::int64_t tag, std::span<const Message> sends, std::span<const Receipt> receipts) override {
    for (const auto& m : sends) cluster_->send(process_, tag, m);
    for (const auto& r : receipts) cluster_->receive(process_, tag, r);
  }
  void poison(std::int64_t tag, const char* why) noexcept override {
    try {
      cluster_->poison(process_, tag, why);
    } catch (const std::bad_alloc&) {
      cluster_->end(process_);  // peers must not wait for a process that cannot even say so
    }
  }

 private:
  std::shared_ptr<Cluster> cluster_;
  int process_;
};

std::shared_ptr<Collectives> Cluster::join(int process_index) {
  return std::make_shared<Member>(shared_from_this(), process_index);
}

}  // namespace

std::shared_ptr<LocalCluster> LocalCluster::create(int process_count) {
  return std::make_shared<Cluster>(process_count);
}

}  // namespace tessera::runtime
