// SPDX-License-Identifier: Apache-2.0
#include "engines/mpi/mpi_transport.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/machine.h"
#include "base/report/log.h"
#include "base/strings.h"
#include "engines/mpi/left_behind.h"
#include "engines/mpi/load_module.h"
#include "tessera/error.h"
#include "tessera/version.h"

namespace tessera::mpi {

namespace {

using runtime::Collectives;
using runtime::Communication;
using runtime::CommunicationPtr;
using runtime::described;
using runtime::described_wholly;
using runtime::different_programs;
using runtime::order_of_programs;
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Seconds = std::chrono::duration<double>;

double longest_wait(const MpiOptions& options) {
  constexpr double kDefault = 60;
  if (options.timeout_seconds > 0) return options.timeout_seconds;
  const char* text = std::getenv("TESSERA_EXCHANGE_SECONDS");
  const double seconds = text != nullptr ? std::atof(text) : 0;
  return seconds > 0 ? seconds : kDefault;
}

// What processes tell each other beside their programs.
enum class Notice : std::int32_t { Failed, Ended, Ask, Here };
struct NoticeHead {
  Notice kind;
  std::int32_t length = 0;  // of the text that follows
  std::int64_t tag = 0;  // Failed: in which step; Ask: in which one the asker waits; Here: in which one for the asker
  // Here, which answers `Ask`:
  std::int64_t about = 0;     // the asker's step
  bool begun = false;         // which has begun here
  bool waits = false;         // this process waits for the asker in `tag`
  std::size_t processes = 0;  // of the program in which it waits
};

// What every process tells when it joins.
struct Hello {
  std::array<char, 32> version{};
  std::int64_t devices = 0;
  std::uint64_t cores = 0;
  std::int32_t node = 0;
};

void leave_joined();

class Exchange;

class Transport final : public MpiTransport, public std::enable_shared_from_this<Transport> {
 public:
  Transport(const tessera_mpi_module& module, const MpiOptions& options)
      : mpi_(module), longest_(longest_wait(options)) {
    enter(options);
    peers_.resize(static_cast<std::size_t>(world_.size));
    listener_ = std::thread([this] { listen(); });
  }
  ~Transport() override {
    stop_ = true;
    if (listener_.joinable()) listener_.join();
  }

  int process_index() const override { return world_.rank; }
  int process_count() const override { return world_.size; }
  bool separate_programs() const override { return true; }
  const std::vector<std::int64_t>& devices() const override { return devices_; }
  const std::vector<std::int32_t>& nodes() const override { return nodes_; }

  CommunicationPtr start_exchange(const Call& call, std::span<const Message> sends,
                                  std::span<const Receipt> receipts) override;
  void poison(std::int64_t tag, const char* why) noexcept override {
    try {
      journal().began(tag);
      std::lock_guard lock(mutex_);
      left_behind_.give_up(tag_of(tag), Seconds(2 * longest_));
      for (int p = 0; p < world_.size && !left_; ++p) {
        if (p != world_.rank) tell(p, {.kind = Notice::Failed, .tag = tag}, why);
      }
    } catch (const std::exception&) {
      return;  // the peers' own waits end in time
    }
  }

  std::int64_t bytes_sent() const override { return sent_; }
  void progress() noexcept override {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || left_) return;
    try {
      poll();
    } catch (const std::exception&) {
      return;  // whoever waits sees to it
    }
  }

  // Says goodbye, waits for that of all others, and ends MPI. One that stays away leaves it unfinished: MPI would wait
  // for it without end.
  void leave() {
    if (leaves_.exchange(true)) return;  // MPI's end asks for it again
    std::list<Parts> ended;
    std::unique_lock lock(mutex_);
    left_ = true;
    for (int p = 0; p < world_.size; ++p) {
      if (p != world_.rank) tell_or_not(p, {.kind = Notice::Ended}, journal().last());
    }
    auto here = [&](const Peer& p) { return p.ended || &p == &peers_[static_cast<std::size_t>(world_.rank)]; };
    const Time began = Clock::now();
    Time asked = began;
    Time all_here = began;  // since when
    for (;;) {
      poll();
      left_behind_.take_strays(-1);
      ended = left_behind_.take_ended();
      const Time now = Clock::now();
      if (!outgoing_.empty() || !std::all_of(peers_.begin(), peers_.end(), here)) {
        all_here = now;
      } else if (left_behind_.empty() || now - all_here > std::chrono::seconds(1)) {
        break;
      }
      for (std::size_t p = 0; p < peers_.size(); ++p) {
        if (!here(peers_[p]) && now - std::max(peers_[p].heard, began) > Seconds(longest_)) return;
      }
      if (now - asked > std::chrono::seconds(1)) {
        asked = now;
        for (std::size_t p = 0; p < peers_.size(); ++p) {
          if (!here(peers_[p])) tell_or_not(static_cast<int>(p), {.kind = Notice::Ask});
        }
      }
      lock.unlock();
      ended.clear();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
    lock.unlock();
    stop_ = true;
    listener_.join();
    lock.lock();
    left_behind_.abandon();
    finished_ = true;
    mpi_.finish();
  }

 private:
  friend class Exchange;
  // What a process tells that is asked where it is.
  struct Answer {
    NoticeHead head;
    std::string where;   // "all_reduce at model.cc:12", or "is outside any collective"
    std::string arrays;  // of its journal
  };
  struct Peer {
    bool ended = false;
    Time ended_at{};
    std::string last;  // operation before it ended
    Time heard{};
    std::optional<std::int64_t> asks;  // from the step in which it waits, or did
    std::optional<Answer> answer;      // the last one
  };
  struct Failure {
    Time when;
    std::string why;
  };
  struct Outgoing {
    std::vector<char> bytes;
    void* request = nullptr;
  };
  static constexpr std::size_t kRememberedFailures = 4096;
  static constexpr int kNotices = 1;  // tag of the control channel

  void enter(const MpiOptions& options) {
    check(mpi_.join(options.communicator.value_or(-1), leave_joined, &world_), "joining the others");
    if (!world_.threads) {
      throw StateError(str("Client::mpi: ", mpi_.built_for,
                           world_.initialized_here ? " was built without support for threads; expected a build with it"
                                                   : " was initialised by the program for fewer threads than call it; "
                                                     "expected MPI_Init_thread with MPI_THREAD_MULTIPLE"));
    }
    const int started = started_processes();
    if (!options.communicator && started > 0 && started != world_.size) {
      throw StateError(str("Client::mpi: mpirun has started ", started, " processes, but ", mpi_.built_for,
                           " knows of ", world_.size, "; start the program by the mpirun of ", mpi_.built_for));
    }
    Hello mine;
    std::strncpy(mine.version.data(), version(), mine.version.size() - 1);
    mine.devices = options.devices;
    mine.node = world_.node;
    mine.cores = base::which_cores();
    std::vector<Hello> all(static_cast<std::size_t>(world_.size));
    check(mpi_.gather(&mine, all.data(), sizeof mine), "exchanging what the processes are");
    for (std::size_t p = 0; p < all.size(); ++p) {
      devices_.push_back(all[p].devices);
      nodes_.push_back(all[p].node);
      if (all[p].version == all[0].version) continue;
      throw StateError(str("Client::mpi: process ", p, " runs version ", all[p].version.data(),
                           " of the library and process 0 version ", all[0].version.data(),
                           "; build the program once for all processes"));
    }
    base::share_cores(static_cast<int>(std::count_if(
        all.begin(), all.end(), [&](const Hello& h) { return h.node == mine.node && h.cores == mine.cores; })));
  }

  void check(int error, const char* what) const {
    if (error == 0) return;
    throw StateError(str("MPI (", mpi_.built_for, "): ", what, " failed: ", text_of(error)));
  }
  std::string text_of(int error) const {
    std::array<char, 512> text{};
    mpi_.error_text(error, text.data(), static_cast<int>(text.size()));
    return text.data();
  }

  // --- notices, with the lock held
  // --------------------------------------------------------------------------------------

  void tell(int peer, NoticeHead head, std::string_view text) {
    constexpr std::size_t kLongest = 64 << 10;
    text = text.substr(0, kLongest);
    head.length = static_cast<std::int32_t>(text.size());
    auto& out = outgoing_.emplace_back();
    out.bytes.resize(sizeof head + text.size());
    std::memcpy(out.bytes.data(), &head, sizeof head);
    std::copy(text.begin(), text.end(), out.bytes.begin() + sizeof head);
    const int size = static_cast<int>(out.bytes.size());
    if (mpi_.send(TESSERA_MPI_CONTROL, out.bytes.data(), size, peer, kNotices, &out.request) != 0) {
      outgoing_.pop_back();  // a peer that cannot be told anything is found by those who wait for it
    }
  }
  void tell_or_not(int peer, const NoticeHead& head, std::string_view text = "") {
    try {
      tell(peer, head, text);
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  // To one that waits in the step `about`.
  void answer(int peer, std::int64_t about);

  // Hears what others have to say. Their programs' messages advance by the way.
  void poll() {
    for (;;) {
      int found = 0;
      tessera_mpi_message message{};
      if (mpi_.probe(TESSERA_MPI_CONTROL, -1, &found, &message) != 0 || !found) break;
      std::vector<char> bytes(static_cast<std::size_t>(std::max<std::int64_t>(message.nbytes, 0)));
      void* request = nullptr;
      if (mpi_.receive(TESSERA_MPI_CONTROL, bytes.data(), static_cast<int>(bytes.size()), message.peer, message.tag,
                       &request) != 0) {
        break;
      }
      int done = 0;
      int error = 0;
      while (!done) error = mpi_.test(request, &done, nullptr);  // it has come
      if (error == 0) hear(message.peer, bytes);
    }
    for (auto out = outgoing_.begin(); out != outgoing_.end();) {
      int done = 0;
      mpi_.test(out->request, &done, nullptr);
      out = done ? outgoing_.erase(out) : std::next(out);
    }
  }

  int tag_of(std::int64_t tag) const {
    const auto mixed = base::hash_mix(17, static_cast<std::size_t>(tag));
    return static_cast<int>(mixed % (static_cast<std::size_t>(world_.tag_max) + 1));
  }

  void hear(int from, const std::vector<char>& bytes) {
    NoticeHead head{};
    if (bytes.size() < sizeof head) return;
    std::memcpy(&head, bytes.data(), sizeof head);
    std::string text(bytes.begin() + sizeof head, bytes.end());
    Peer& peer = peers_[static_cast<std::size_t>(from)];
    peer.heard = Clock::now();
    switch (head.kind) {
      case Notice::Failed:
        base::log(LogLevel::Error, "process ", from, " has failed: ", text);
        failed_.insert_or_assign({from, head.tag}, Failure{peer.heard, std::move(text)});
        if (failed_.size() > kRememberedFailures) failed_.erase(failed_.begin());
        break;
      case Notice::Ended:
        base::log(LogLevel::Info, "process ", from, " has ended");
        peer.ended = true;
        peer.ended_at = peer.heard;
        peer.last = std::move(text);
        break;
      case Notice::Ask:
        peer.asks = head.tag;
        answer(from, head.tag);
        break;
      case Notice::Here: {
        const std::size_t line = std::min(text.find('\n'), text.size());
        peer.answer = Answer{head, text.substr(0, line), text.substr(std::min(line + 1, text.size()))};
        break;
      }
    }
  }

  void listen() {
    constexpr std::chrono::milliseconds kPause{5};
    while (!stop_) {
      std::list<Parts> ended;
      {
        std::lock_guard lock(mutex_);
        try {
          poll();
          ended = left_behind_.take_ended();
        } catch (const std::bad_alloc&) {
          static_cast<void>(0);  // the next round may have memory
        }
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  const tessera_mpi_module& mpi_;
  const double longest_;  // seconds
  tessera_mpi_world world_{};
  std::vector<std::int64_t> devices_;
  std::vector<std::int32_t> nodes_;

  std::mutex mutex_;  // of all calls of MPI, and of what follows
  std::vector<Peer> peers_;
  std::map<std::pair<int, std::int64_t>, Failure> failed_;
  std::deque<std::pair<int, std::int64_t>> told_;  // processes, of steps that this one has found to differ
  std::list<Outgoing> outgoing_;
  LeftBehind left_behind_{mpi_};
  std::vector<const Exchange*> waits_;  // of this process
  bool left_ = false;                   // nothing new is sent
  bool finished_ = false;               // MPI is gone

  std::atomic<std::int64_t> sent_{0};
  std::atomic<bool> leaves_{false};
  std::atomic<bool> stop_{false};
  std::thread listener_;
};

std::shared_ptr<Transport>& joined() {
  static auto* transport = new std::shared_ptr<Transport>;  // others may ask until the program ends
  return *transport;
}
void leave_joined() {
  if (joined()) joined()->leave();
}

// Messages under way. MPI keeps those of one tag between two processes in order.
class Exchange final : public Communication {
 public:
  Exchange(std::shared_ptr<Transport> transport, const Collectives::Call& call)
      : transport_(std::move(transport)), call_(call) {}
  ~Exchange() override {
    std::lock_guard lock(transport_->mutex_);
    const bool ended = std::all_of(parts().begin(), parts().end(), [](const Part& p) { return p.done; });
    if (!ended && !transport_->finished_) transport_->left_behind_.add(parts_);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // MPI counts in int.
  void add(int peer, char* data, std::int64_t nbytes, const Collectives::Owner& owner, bool receives) {
    constexpr std::int64_t kMost = 1 << 30;
    const std::int64_t count = std::max<std::int64_t>(1, (nbytes + kMost - 1) / kMost);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t size = std::min(kMost, nbytes - i * kMost);
      Part& p = parts_.front().emplace_back(Part{nullptr, peer, size, receives, true, owner});
      const auto& mpi = transport_->mpi_;
      char* at = data == nullptr ? nullptr : data + i * kMost;
      const int n = static_cast<int>(size);
      transport_->check(receives ? mpi.receive(TESSERA_MPI_DATA, at, n, peer, tag(), &p.request)
                                 : mpi.send(TESSERA_MPI_DATA, at, n, peer, tag(), &p.request),
                        "a message");
      p.done = false;
    }
  }

  void wait() override {
    Transport& t = *transport_;
    std::unique_lock lock(t.mutex_);
    if (advance()) return;
    constexpr std::chrono::milliseconds kPatience{100};
    Waiting here(t, *this);
    const Time began = Clock::now();
    const Time deadline = began + std::chrono::duration_cast<Clock::duration>(Seconds(t.longest_));
    bool asked = call_.call.aside;
    for (int round = 0; !advance(); ++round) {
      if (round % 16 == 0) {
        t.poll();
        find_failures();
        const Time now = Clock::now();
        if (!asked && now - began > kPatience) {
          asked = true;
          ask();
        }
        if (now > deadline) late(lock);
      }
      lock.unlock();
      pause(round);
      lock.lock();
    }
  }

  const Collectives::Call& call() const { return call_.call; }
  bool waits_for(int peer) const {
    return std::any_of(parts().begin(), parts().end(), [&](const Part& p) { return !p.done && p.peer == peer; });
  }

 private:
  struct Waiting {
    Waiting(Transport& transport, const Exchange& exchange) : t(transport), e(exchange) { t.waits_.push_back(&e); }
    ~Waiting() { std::erase(t.waits_, &e); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Transport& t;
    const Exchange& e;
  };

  Parts& parts() { return parts_.front(); }
  const Parts& parts() const { return parts_.front(); }
  int tag() const { return transport_->tag_of(call_.call.tag); }

  static void pause(int round) {
    constexpr int kSpins = 2000;
    if (round < kSpins) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(round < 4 * kSpins ? 20 : 200));
    }
  }

  bool advance() {
    if (transport_->finished_) throw StateError(str(described(call_.call), ": the program has ended, and with it MPI"));
    bool all = true;
    for (Part& p : parts()) {
      if (p.done) continue;
      int done = 0;
      tessera_mpi_message message{};
      const int error = transport_->mpi_.test(p.request, &done, &message);
      p.done = done != 0;
      all = all && p.done;
      if (p.done) p.owner = nullptr;
      if (error != 0) {
        throw StateError(str(described(call_.call), ": a message ", p.receives ? "of" : "to", " process ", p.peer,
                             ", of which process ", transport_->world_.rank, " expects ", p.nbytes,
                             " bytes, failed: ", transport_->text_of(error),
                             " (where messages have other sizes, the processes run different programs)"));
      }
      if (p.done && p.receives && message.nbytes != p.nbytes) {
        throw StateError(str(described(call_.call), ": process ", p.peer, " sent ", message.nbytes,
                             " bytes to process ", transport_->world_.rank, ", which expected ", p.nbytes,
                             "; the processes run different programs"));
      }
    }
    return all;
  }

  // Notices and messages take different ways: what was sent before a notice may come after it.
  void find_failures() const {
    constexpr std::chrono::milliseconds kGrace{100};
    const Time now = Clock::now();
    for (const Part& p : parts()) {
      if (p.done) continue;
      auto failure = transport_->failed_.find({p.peer, call_.call.tag});
      if (failure != transport_->failed_.end() && now - failure->second.when > kGrace) {
        throw StateError(
            str(described(call_.call), ": process ", p.peer, " failed in this step: ", failure->second.why));
      }
      const auto& peer = transport_->peers_[static_cast<std::size_t>(p.peer)];
      if (peer.ended && now - peer.ended_at > 10 * kGrace) {
        throw StateError(str(described(call_.call), ": process ", transport_->world_.rank, " waits for process ",
                             p.peer, ", which has ended", peer.last.empty() ? "" : "; its last operation was ",
                             peer.last));
      }
      if (peer.answer && !call_.call.aside) find_difference(p.peer, *peer.answer);
    }
  }

  // Each of both processes waits in what the other has not begun: it would have to end before that begins.
  void find_difference(int peer, const Transport::Answer& answer) const {
    Transport& t = *transport_;
    const NoticeHead& head = answer.head;
    if (!head.waits || head.begun || head.about != call_.call.tag || t.journal().has_begun(head.tag)) return;
    const auto order = order_of_programs(call_.call, {.tag = head.tag, .processes = head.processes});
    if (order > 0) return;  // the other one finds that out, and comes here then
    // One that has been told already is about to leave.
    if (std::find(t.told_.begin(), t.told_.end(), std::pair{peer, head.tag}) != t.told_.end()) return;
    const std::string why =
        different_programs(t.journal(), t.world_.rank, call_.call, peer, answer.where, answer.arrays);
    if (order == 0) {
      t.tell(peer, {.kind = Notice::Failed, .tag = head.tag}, why);
      t.told_.emplace_back(peer, head.tag);
      if (t.told_.size() > Transport::kRememberedFailures) t.told_.pop_front();
    }
    throw StateError(str(described(call_.call), ": ", why));
  }

  std::vector<int> missing() const {
    std::vector<int> out;
    for (const Part& p : parts()) {
      if (!p.done && std::find(out.begin(), out.end(), p.peer) == out.end()) out.push_back(p.peer);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  // Those that do not arrive where they are, and answers those of them that have asked before this process came here.
  void ask() const {
    for (int p : missing()) {
      transport_->tell_or_not(p, {.kind = Notice::Ask, .tag = call_.call.tag});
      if (auto about = transport_->peers_[static_cast<std::size_t>(p)].asks) transport_->answer(p, *about);
    }
  }

  [[noreturn]] void late(std::unique_lock<std::mutex>& lock) {
    Transport& t = *transport_;
    constexpr std::chrono::milliseconds kAnswer{500};
    const Time asked = Clock::now();
    const std::vector<int> absent = missing();
    auto answer = [&](int p) -> std::optional<Transport::Answer>& {
      return t.peers_[static_cast<std::size_t>(p)].answer;
    };
    for (int p : absent) answer(p).reset();
    ask();
    auto answered = [&](int p) { return answer(p).has_value(); };
    while (Clock::now() - asked < kAnswer && !std::all_of(absent.begin(), absent.end(), answered)) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
      t.poll();
    }
    std::string who;
    std::string differences;
    for (int p : absent) {
      who += str(who.empty() ? "" : ", ", p);
      if (!answered(p)) {
        who += " (does not answer)";
        continue;
      }
      who += str(" (", answer(p)->head.waits ? "waits for this one in " : "", answer(p)->where, ")");
      const std::string difference = t.journal().first_difference(t.world_.rank, p, answer(p)->arrays);
      if (!difference.empty()) differences += "; " + difference;
    }
    const std::string waited = str(described(call_.call), ": process ", t.world_.rank, " waited ", t.longest_,
                                   " s for process", absent.size() == 1 ? " " : "es ", who, differences);
    base::log(LogLevel::Error, waited);
    throw StateError(str(waited,
                         "; it may be stopped or dead, or run another program (MpiOptions::timeout_seconds and "
                         "TESSERA_EXCHANGE_SECONDS say how long a wait may be)"));
  }

  std::shared_ptr<Transport> transport_;
  runtime::OwnCall call_;
  std::list<Parts> parts_{1};  // one, which can be left behind without new memory
};

void Transport::answer(int peer, std::int64_t about) {
  const Exchange* wait = nullptr;
  for (const Exchange* w : waits_) {
    if (!w->call().aside && w->waits_for(peer)) wait = w;
  }
  std::string where = "is outside any collective";
  if (wait != nullptr) {
    where = described_wholly(wait->call());
  } else if (!waits_.empty()) {
    where = "is in " + described(waits_.back()->call());
  } else if (const std::string last = journal().last(); !last.empty()) {
    where += "; its last one was " + last;
  }
  const NoticeHead head{.kind = Notice::Here,
                        .tag = wait != nullptr ? wait->call().tag : 0,
                        .about = about,
                        .begun = journal().has_begun(about),
                        .waits = wait != nullptr,
                        .processes = wait != nullptr ? wait->call().processes : 0};
  tell_or_not(peer, head, str(where, '\n', journal().arrays_with(peer)));
}

CommunicationPtr Transport::start_exchange(const Call& call, std::span<const Message> sends,
                                           std::span<const Receipt> receipts) {
  auto made = std::make_unique<Exchange>(shared_from_this(), call);
  if (!call.aside) journal().began(call.tag, call.name, call.loc, call.run);
  std::lock_guard lock(mutex_);
  if (left_) throw StateError(str(described(call), ": the program has ended, and with it MPI"));
  for (const auto& r : receipts) made->add(r.peer, static_cast<char*>(r.data), r.nbytes, r.owner, true);
  // MPI does not write what it sends.
  for (const auto& m : sends) {
    made->add(m.peer, const_cast<char*>(static_cast<const char*>(m.data)), m.nbytes, m.owner, false);
    sent_ += m.nbytes;
  }
  return made;
}

}  // namespace

std::shared_ptr<MpiTransport> MpiTransport::join(const MpiOptions& options) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (joined()) {
    throw StateError("Client::mpi: this process has joined already; keep the client that was made then");
  }
  auto transport = std::make_shared<Transport>(load_module(options), options);
  if (std::atexit(leave_joined) != 0) throw StateError("Client::mpi: the end of the program cannot be waited for");
  joined() = transport;
  base::log(LogLevel::Info, "process ", transport->process_index(), " of ", transport->process_count(), " has joined");
  return transport;
}

}  // namespace tessera::mpi
