// SPDX-License-Identifier: Apache-2.0
// The thread that keeps batches ready on devices.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "tessera/annotate_input.h"
#include "tessera/error.h"

namespace tessera {

struct ShardedDataLoader::Impl {
  Impl(Source from, LoaderOptions o) : source(std::move(from)), options(std::move(o)), client(Client::current()) {
    progress.total = options.total;
    thread = std::thread([this] { run(); });
  }
  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run() {
    std::exception_ptr failure;
    try {
      ClientScope scope(client);
      while (room()) {
        std::optional<HostBatch> batch = source();
        if (!batch) break;
        std::int64_t bytes = 0;
        DeviceBatch placed = place(*batch, bytes);
        std::lock_guard lock(mutex);
        ready.push_back(std::move(placed));
        ++progress.prepared;
        progress.bytes += bytes;
        changed.notify_all();
      }
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard lock(mutex);
    error = failure;
    ended = true;
    changed.notify_all();
  }

  // Waits until another batch may be read; false when the loader goes away.
  bool room() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stop || static_cast<std::int64_t>(ready.size()) < options.prefetch; });
    return !stop;
  }

  DeviceBatch place(const HostBatch& batch, std::int64_t& bytes) const {
    DeviceBatch out;
    for (const auto& [name, value] : batch) {
      bytes += value.nbytes();
      auto spec = options.specs.find(name);
      if (spec == options.specs.end()) spec = options.specs.find("");
      if (spec != options.specs.end()) {
        out[name] = device_put(value, spec->second);
      } else {
        Mesh all(DeviceArray(client.devices()), std::nullopt);
        out[name] = device_put(value, NamedSharding(all, PartitionSpec()).share());
      }
    }
    return out;
  }

  Source source;
  LoaderOptions options;
  Client client;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<DeviceBatch> ready;
  std::exception_ptr error;
  LoaderProgress progress;
  bool ended = false;
  bool stop = false;
  std::thread thread;  // last: it uses all of the above
};

namespace {
LoaderOptions checked(LoaderOptions o, const ShardedDataLoader::Source& source) {
  if (!source) throw ValueError("ShardedDataLoader: source is empty; expected a function that gives batches");
  if (o.prefetch < 1) throw ValueError(str("ShardedDataLoader: prefetch = ", o.prefetch, "; expected at least 1"));
  return o;
}
}  // namespace

ShardedDataLoader::ShardedDataLoader(Source source, LoaderOptions options, const Loc&) {
  LoaderOptions o = checked(std::move(options), source);
  impl_ = std::make_unique<Impl>(std::move(source), std::move(o));
}
ShardedDataLoader::~ShardedDataLoader() = default;
ShardedDataLoader::ShardedDataLoader(ShardedDataLoader&&) noexcept = default;
ShardedDataLoader& ShardedDataLoader::operator=(ShardedDataLoader&&) noexcept = default;

std::optional<DeviceBatch> ShardedDataLoader::next(const Loc&) {
  auto begin = std::chrono::steady_clock::now();
  std::optional<DeviceBatch> out;
  LoaderProgress now;
  {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [&] { return !impl_->ready.empty() || impl_->ended; });
    if (impl_->ready.empty()) {
      if (auto error = std::exchange(impl_->error, nullptr)) std::rethrow_exception(error);
      return std::nullopt;
    }
    out = std::move(impl_->ready.front());
    impl_->ready.pop_front();
    ++impl_->progress.taken;
    impl_->progress.waited_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    now = impl_->progress;
  }
  impl_->changed.notify_all();
  if (impl_->options.on_progress) impl_->options.on_progress(now);
  return out;
}

LoaderProgress ShardedDataLoader::progress() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->progress;
}

}  // namespace tessera
