// SPDX-License-Identifier: Apache-2.0
// Joining other processes, and what processes do together outside programs.
#include "tessera/distributed.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "runtime/engine.h"
#include "tessera/error.h"
#include "tessera/multihost.h"
#include "tessera/transfer.h"

namespace tessera {

namespace {

std::atomic<bool> initialized{false};

// All processes of a client, in one call of the user's.
class Together {
 public:
  Together(const Client& client, const char* name, const Loc& loc) : runtime_(runtime::runtime_of(client)) {
    static const char key = 0;
    counter_ = std::static_pointer_cast<std::atomic<std::int64_t>>(client.extensions().get(
        &key, []() -> std::shared_ptr<void> { return std::make_shared<std::atomic<std::int64_t>>(0); }));
    call_.name = name;
    call_.loc = loc;
    group_.resize(static_cast<std::size_t>(client.process_count()));
    std::iota(group_.begin(), group_.end(), 0);
  }

  // In its place among the programs over processes. A failure here ends the others' waits too.
  void run(const std::function<void()>& body) {
    runtime::Task task{[&] {
                         call_.tag = -2 - 2 * counter_->fetch_add(1);  // not those of programs and checkpoints
                         try {
                           body();
                         } catch (const std::exception& e) {
                           runtime_.collectives->poison(call_.tag, e.what());
                           throw;
                         }
                       },
                       {},
                       true,
                       runtime::TaskOrder::Processes};
    runtime_.scheduler->submit(std::move(task))->wait();
  }

  // The same number of bytes of every process.
  std::vector<char> gather(const void* mine, std::size_t nbytes) {
    const auto* begin = static_cast<const char*>(mine);
    auto own = std::make_shared<const std::vector<char>>(begin, begin + nbytes);
    auto all = std::make_shared<std::vector<char>>(nbytes * group_.size());
    std::vector<std::int64_t> sizes(group_.size(), static_cast<std::int64_t>(nbytes));
    runtime_.collectives->start_all_gather(call_, group_, {own->data(), own}, {all->data(), all}, sizes)->wait();
    return *all;
  }
  void broadcast(int root, const std::shared_ptr<void>& data, std::int64_t nbytes) {
    runtime_.collectives->start_broadcast(call_, group_, root, {data.get(), data}, nbytes)->wait();
  }

 private:
  runtime::ClientRuntime& runtime_;
  std::shared_ptr<std::atomic<std::int64_t>> counter_;
  runtime::Collectives::Call call_;
  std::vector<std::int32_t> group_;
};

std::uint64_t digest(const void* data, std::int64_t nbytes) {
  std::uint64_t h = 1469598103934665603U;  // FNV-1a
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::int64_t i = 0; i < nbytes; ++i) h = (h ^ bytes[i]) * 1099511628211U;
  return h;
}

// Processes whose entry differs from process 0's.
std::vector<std::int64_t> differing(const std::vector<char>& all, std::size_t nbytes) {
  std::vector<std::int64_t> out;
  for (std::size_t p = 1; p * nbytes < all.size(); ++p) {
    if (std::memcmp(all.data(), all.data() + p * nbytes, nbytes) != 0) out.push_back(static_cast<std::int64_t>(p));
  }
  return out;
}

// What the others need to know to receive the source's array.
struct Source {
  std::int32_t is_source = 0;
  DType dtype = DType::F32;
  std::int64_t rank = 0;
};

}  // namespace

namespace distributed {
Client initialize(const MpiOptions& options, const Loc&) {
  if (initialized) throw StateError("distributed::initialize: this process has joined already; expected one call");
  if (const char* engine = std::getenv("TESSERA_ENGINE");
      engine != nullptr && std::string_view(engine) != "cpu" && *engine != '\0') {
    throw UnimplementedError(str("distributed::initialize: TESSERA_ENGINE = \"", engine,
                                 "\", but only CPU devices can be those of several processes; expected \"cpu\", or "
                                 "TESSERA_ENGINE unset"));
  }
  Client client = Client::mpi(options);
  Client::set_default(client);
  initialized = true;
  return client;
}
bool is_initialized() { return initialized; }
}  // namespace distributed

HostArray broadcast_one_to_all(const HostArray& x, std::optional<bool> is_source, const Loc& loc) {
  Client client = Client::current();
  const bool source = is_source.value_or(client.process_index() == 0);
  if (client.process_count() == 1) {
    if (!source) throw ValueError("broadcast_one_to_all: no process has is_source = true; expected one");
    return x;
  }
  HostArray out;
  Together all(client, "broadcast_one_to_all", loc);
  all.run([&] {
    const Source mine{source ? 1 : 0, x.dtype(), x.ndim()};
    std::vector<Source> sources(static_cast<std::size_t>(client.process_count()));
    std::vector<char> bytes = all.gather(&mine, sizeof mine);
    std::memcpy(sources.data(), bytes.data(), bytes.size());
    std::vector<std::int64_t> roots;
    for (std::size_t p = 0; p < sources.size(); ++p) {
      if (sources[p].is_source != 0) roots.push_back(static_cast<std::int64_t>(p));
    }
    if (roots.size() != 1) {
      throw ValueError(str("broadcast_one_to_all: ", roots.size(), " processes have is_source = true",
                           roots.empty() ? std::string() : str(" (", base::list_text(roots), ")"), "; expected one"));
    }
    const int root = static_cast<int>(roots[0]);
    const Source& from = sources[static_cast<std::size_t>(root)];
    auto shape = std::make_shared<Shape>(source ? x.shape() : Shape(static_cast<std::size_t>(from.rank)));
    all.broadcast(root, {shape, shape->data()}, static_cast<std::int64_t>(shape->size() * sizeof(std::int64_t)));
    out = source ? x : HostArray(from.dtype, *shape);  // the source's is read alone
    all.broadcast(root, out.storage(), out.nbytes());
  });
  return out;
}

Array broadcast_one_to_all(const Array& x, std::optional<bool> is_source, const Loc& loc) {
  return device_put(broadcast_one_to_all(x.host(), is_source, loc));
}

void sync_global_devices(const std::string& name, const Loc& loc) {
  Client client = Client::current();
  if (client.process_count() == 1) return;
  Together all(client, "sync_global_devices", loc);
  all.run([&] {
    const std::uint64_t mine = digest(name.data(), static_cast<std::int64_t>(name.size()));
    auto others = differing(all.gather(&mine, sizeof mine), sizeof mine);
    if (others.empty()) return;
    throw ValueError(str("sync_global_devices: name = \"", name, "\" in process ", client.process_index(),
                         ", and the names of processes ", base::list_text(others),
                         " differ from process 0's; expected the same call in all processes"));
  });
}

void assert_equal(const HostArray& x, const std::string& message, const Loc& loc) {
  Client client = Client::current();
  if (client.process_count() == 1) return;
  Together all(client, "assert_equal", loc);
  all.run([&] {
    const std::string type = str(dtype_name(x.dtype()), x.shape());
    const std::array<std::uint64_t, 2> mine{digest(type.data(), static_cast<std::int64_t>(type.size())),
                                            digest(x.data(), x.nbytes())};
    auto others = differing(all.gather(mine.data(), sizeof mine), sizeof mine);
    if (others.empty()) return;
    throw ValueError(str("assert_equal: the array of processes ", base::list_text(others),
                         " differs from process 0's (here it is ", type, ")", message.empty() ? "" : ": ", message));
  });
}

}  // namespace tessera
