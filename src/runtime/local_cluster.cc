// SPDX-License-Identifier: Apache-2.0
#include "runtime/local_cluster.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/report/log.h"
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

// A receipt that was asked for. Messages of one tag between two processes fill the receipts in the order in which these
// were asked for, whoever is waited for first.
struct Posted {
  Collectives::Receipt receipt;
  enum class State : std::uint8_t { Open, Filling, Full, WrongSize } state = State::Open;
  std::size_t came = 0;  ///< bytes of the message
};

// Messages that nobody has asked for yet wait in mailboxes, so a sender never waits and two processes that send to each
// other cannot lock up.
class Cluster final : public LocalCluster, public std::enable_shared_from_this<Cluster> {
 public:
  explicit Cluster(int process_count)
      : ended_(static_cast<std::size_t>(process_count)), journals_(static_cast<std::size_t>(process_count)) {}
  std::shared_ptr<Collectives> join(int process_index) override;
  int process_count() const { return static_cast<int>(ended_.size()); }

  void send(int from, std::int64_t tag, const Collectives::Message& m) {
    const auto* bytes = static_cast<const char*>(m.data);
    const Key key{m.peer, from, tag};
    const auto size = static_cast<std::size_t>(m.nbytes);
    std::unique_lock lock(mutex_);
    Posted* to = next_open(key);
    if (to != nullptr) {
      fill(lock, *to, bytes, size);
    } else {
      lock.unlock();
      std::vector<char> copy(bytes, bytes + size);
      lock.lock();
      to = next_open(key);  // may have come meanwhile
      if (to != nullptr) {
        fill(lock, *to, copy.data(), size);
      } else {
        mail_[key].push_back(std::move(copy));
      }
    }
    lock.unlock();
    changed_.notify_all();
  }

  void post(int self, std::int64_t tag, Posted& p) {
    const Key key{self, p.receipt.peer, tag};
    std::unique_lock lock(mutex_);
    auto box = mail_.find(key);
    if (box == mail_.end()) {
      posted_[key].push_back(&p);
      return;
    }
    std::vector<char> bytes = std::move(box->second.front());
    box->second.pop_front();
    if (box->second.empty()) mail_.erase(box);
    fill(lock, p, bytes.data(), bytes.size());
  }

  void withdraw(int self, std::int64_t tag, std::list<Posted>& all) noexcept {
    std::unique_lock lock(mutex_);
    for (Posted& p : all) {
      if (p.state == Posted::State::Open) {
        auto entry = posted_.find({self, p.receipt.peer, tag});
        if (entry == posted_.end()) continue;  // there was no memory to post it
        std::erase(entry->second, &p);
        if (entry->second.empty()) posted_.erase(entry);
      }
      changed_.wait(lock, [&] { return p.state != Posted::State::Filling; });
    }
  }

  void wait(int self, const Collectives::Call& call, const Posted& p) {
    std::unique_lock lock(mutex_);
    const int peer = p.receipt.peer;
    if (p.state == Posted::State::Full) return;
    Waiting here(*this, {self, peer, &call});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(longest_wait());
    for (;;) {
      if (p.state == Posted::State::Full) return;
      if (p.state == Posted::State::WrongSize) {
        throw StateError(str(described(call), ": process ", peer, " sent ", p.came, " bytes to process ", self,
                             ", which expected ", p.receipt.nbytes, "; the processes run different programs"));
      }
      if (p.state == Posted::State::Open) {
        auto failure = failed_.find({peer, call.tag});
        if (failure != failed_.end()) {
          throw StateError(str(described(call), ": process ", peer, " failed in this step: ", failure->second));
        }
        if (ended_[static_cast<std::size_t>(peer)]) {
          throw StateError(str(described(call), ": process ", self, " waits for process ", peer, ", which has ended"));
        }
        find_difference(here.wait);
      }
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
        throw StateError(str(described(call), ": process ", self, " waited ", longest_wait(), " s for process ", peer,
                             ", which has failed elsewhere or runs another program (TESSERA_EXCHANGE_SECONDS says how "
                             "long a wait may be)"));
      }
    }
  }

  void poison(int from, std::int64_t tag, const char* why) {
    {
      std::lock_guard lock(mutex_);
      failed_.insert_or_assign({from, tag}, why);
      if (failed_.size() > kRememberedFailures) failed_.erase(failed_.begin());
    }
    changed_.notify_all();
    base::log(LogLevel::Error, "process ", from, " has failed: ", why);
  }
  void begin(int process, const ProcessJournal* journal) {
    std::lock_guard lock(mutex_);
    ended_[static_cast<std::size_t>(process)] = false;
    journals_[static_cast<std::size_t>(process)] = journal;
  }
  void end(int process) {
    {
      std::lock_guard lock(mutex_);
      ended_[static_cast<std::size_t>(process)] = true;
      journals_[static_cast<std::size_t>(process)] = nullptr;
    }
    changed_.notify_all();
  }

 private:
  using Key = std::tuple<int, int, std::int64_t>;  // to, from, tag
  static constexpr std::size_t kRememberedFailures = 4096;

  struct Wait {
    int self, peer;
    const Collectives::Call* call;
  };
  // With the lock held. Whoever waits for this process already hears of it.
  struct Waiting {
    Waiting(Cluster& cluster, const Wait& w) : c(cluster), wait(w), place(c.waits_.insert(c.waits_.end(), &wait)) {
      c.changed_.notify_all();
    }
    ~Waiting() { c.waits_.erase(place); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Cluster& c;
    const Wait wait;
    std::list<const Wait*>::iterator place;
  };

  bool has_begun(int process, const Collectives::Call& call) const {
    const ProcessJournal* journal = journals_[static_cast<std::size_t>(process)];
    return call.aside || journal == nullptr || journal->has_begun(call.tag);
  }
  // Throws where the peer waits for this process in an operation that has not begun here, nor this one there: each has
  // to end before the other begins.
  void find_difference(const Wait& w) {
    if (has_begun(w.peer, *w.call)) return;
    for (const Wait* other : waits_) {
      if (other->self != w.peer || other->peer != w.self || has_begun(w.self, *other->call)) continue;
      const auto order = order_of_programs(*w.call, *other->call);
      if (order > 0) continue;  // the other one finds that out, and comes here then
      // One that has been told already is about to leave.
      if (failed_.contains({w.self, other->call->tag})) continue;
      const auto& peers = *journals_[static_cast<std::size_t>(w.peer)];
      const std::string why = different_programs(*journals_[static_cast<std::size_t>(w.self)], w.self, *w.call, w.peer,
                                                 described_wholly(*other->call), peers.arrays_with(w.self));
      if (order == 0) {
        failed_.insert_or_assign({w.self, other->call->tag}, why);
        changed_.notify_all();
      }
      throw StateError(str(described(*w.call), ": ", why));
    }
  }

  Posted* next_open(const Key& key) {
    auto entry = posted_.find(key);
    if (entry == posted_.end()) return nullptr;
    Posted* first = entry->second.front();
    entry->second.pop_front();
    if (entry->second.empty()) posted_.erase(entry);
    return first;
  }

  // Copies without the lock; nobody takes back what is being filled.
  void fill(std::unique_lock<std::mutex>& lock, Posted& p, const char* bytes, std::size_t size) {
    p.came = size;
    if (static_cast<std::int64_t>(size) != p.receipt.nbytes) {
      p.state = Posted::State::WrongSize;
      return;
    }
    p.state = Posted::State::Filling;
    lock.unlock();
    if (size > 0) std::memcpy(p.receipt.data, bytes, size);
    lock.lock();
    p.state = Posted::State::Full;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::deque<std::vector<char>>> mail_;  // nobody has asked for
  std::map<Key, std::deque<Posted*>> posted_;          // nothing has come for
  std::map<std::pair<int, std::int64_t>, std::string> failed_;
  std::vector<bool> ended_;
  std::vector<const ProcessJournal*> journals_;  // null: of a process that has not joined or has ended
  std::list<const Wait*> waits_;
};

class Receiving final : public Communication {
 public:
  Receiving(std::shared_ptr<Cluster> cluster, int process, const Collectives::Call& call)
      : cluster_(std::move(cluster)), process_(process), call_(call) {}
  ~Receiving() override { cluster_->withdraw(process_, call_.call.tag, posted_); }
  void post(const Collectives::Receipt& receipt) {
    posted_.push_back({receipt});
    cluster_->post(process_, call_.call.tag, posted_.back());
  }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;
  void wait() override {
    for (const auto& p : posted_) cluster_->wait(process_, call_.call, p);
  }

 private:
  std::shared_ptr<Cluster> cluster_;
  int process_;
  OwnCall call_;
  std::list<Posted> posted_;
};

class Member final : public Collectives {
 public:
  Member(std::shared_ptr<Cluster> cluster, int process) : cluster_(std::move(cluster)), process_(process) {
    cluster_->begin(process_, &journal());
  }
  ~Member() override { cluster_->end(process_); }
  int process_index() const override { return process_; }
  int process_count() const override { return cluster_->process_count(); }
  CommunicationPtr start_exchange(const Call& call, std::span<const Message> sends,
                                  std::span<const Receipt> receipts) override {
    if (!call.aside) journal().began(call.tag, call.name, call.loc, call.run);
    auto receiving = std::make_unique<Receiving>(cluster_, process_, call);
    for (const auto& r : receipts) receiving->post(r);
    for (const auto& m : sends) cluster_->send(process_, call.tag, m);
    return receiving;
  }
  void poison(std::int64_t tag, const char* why) noexcept override {
    try {
      journal().began(tag);
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
