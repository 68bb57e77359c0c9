// SPDX-License-Identifier: Apache-2.0
// Calls of loaded executables: the devices' buffers as arrays, and results as buffers.
#include <algorithm>
#include <cstring>

#include "entries.h"
#include "objects.h"
#include "sharding/placement.h"
#include "tessera/comm_plan.h"

namespace tessera::pjrt {

namespace {

using Port = Executable::Port;

// The buffers of one argument, by logical id.
class Argument {
 public:
  /// Of the argument `i` of a call.
  Argument(const Executable& exe, std::size_t i, PJRT_Buffer* const* const* lists)
      : exe_(exe), port_(exe.in[static_cast<std::size_t>(exe.arguments[i])]), i_(i), lists_(lists) {}

  /// The array that they are the shards of. Buffers that came one by one are of one array from then on. One that is to
  /// be kept gets an array of its own, so that the program gives away that one only.
  Array array(bool keep) {
    if (Array known = whole(); known.defined()) return keep ? again(known) : known;
    ValuePtr value = assembled();
    if (keep) return value->array;
    const auto& indices = port_.indices(value->array.impl()->replicas_equal);
    std::vector<ValuePtr> before(size(), value);
    std::lock_guard lock(buffers_mutex());
    for (std::size_t k = 0; k < size(); ++k) {
      before[k].swap(buffer(k).value);
      buffer(k).index = indices[k];
    }
    return value->array;
  }

 private:
  std::size_t size() const { return exe_.devices.size(); }
  PJRT_Buffer& buffer(std::size_t k) const { return *lists_[k][i_]; }

  // The array, where all of the buffers are its shards, and lie as the program wants them.
  Array whole() {
    std::lock_guard lock(buffers_mutex());
    const Value* value = buffer(0).value.get();
    if (value == nullptr) return {};
    const auto& impl = *value->array.impl();
    if (impl.sharding != port_.sharding || impl.type.shape != port_.type.shape ||
        value->about->element != port_.about->element) {
      return {};
    }
    const auto& indices = port_.indices(impl.replicas_equal);
    for (std::size_t k = 0; k < size(); ++k) {
      if (buffer(k).value.get() != value || buffer(k).index != indices[k]) return {};
    }
    return value->array;
  }

  Array again(const Array& a) const {
    return arrays::make(port_.type, port_.sharding, arrays::storage_of(a, "Execute"), true, a.impl()->replicas_equal);
  }

  struct Source {
    arrays::StoragePtr storage;
    std::size_t index = 0;
    bool operator==(const Source&) const = default;
    const runtime::BufferPtr& buffer() const { return storage->shard_buffers[index]; }
  };

  ValuePtr assembled() {
    std::vector<Source> sources;
    std::vector<runtime::EventPtr> pending;
    for (std::size_t k = 0; k < size(); ++k) {
      auto [value, index] = held(buffer(k), "Execute");
      check(*value, k);
      auto storage = arrays::storage_of(value->array, "Execute");
      if (storage->ready) pending.push_back(storage->ready);
      sources.push_back({std::move(storage), static_cast<std::size_t>(index)});
    }
    std::ranges::sort(pending);
    pending.erase(std::unique(pending.begin(), pending.end()), pending.end());
    std::erase_if(pending, [](const runtime::EventPtr& e) { return e->ready() && !e->error(); });
    // Which source each tile has, and whether replicas have another.
    std::vector<std::size_t> of_tile(static_cast<std::size_t>(port_.placement->num_tiles), sources.size());
    std::vector<std::pair<std::size_t, std::size_t>> differ;
    for (std::size_t k = 0; k < sources.size(); ++k) {
      auto& first = of_tile[static_cast<std::size_t>(port_.tile[k])];
      if (first == sources.size()) {
        first = k;
      } else if (!(sources[k] == sources[first])) {
        differ.emplace_back(first, k);
      }
    }
    if (!differ.empty()) {
      for (const auto& e : pending) e->wait();
      pending.clear();
    }
    bool equal = std::ranges::all_of(differ, [&](const auto& pair) {
      const auto& a = sources[pair.first].buffer();
      const auto& b = sources[pair.second].buffer();
      return a == b || std::memcmp(a->data(), b->data(), static_cast<std::size_t>(a->nbytes())) == 0;
    });
    std::vector<Source> chosen;
    if (equal) {
      for (auto k : of_tile) chosen.push_back(sources[k]);
    } else {
      chosen.resize(sources.size());
      for (std::size_t k = 0; k < sources.size(); ++k) {
        chosen[static_cast<std::size_t>(port_.position[k])] = sources[k];
      }
    }
    auto storage = std::make_shared<arrays::Storage>();
    auto fill = [to = storage, chosen = std::move(chosen)]() mutable {
      for (const auto& s : chosen) to->shard_buffers.push_back(s.buffer());
      chosen.clear();  // what others give away meanwhile is not held here
    };
    if (pending.empty()) {
      fill();
    } else {
      storage->ready = runtime::when_all(pending, std::move(fill));
    }
    Array a = arrays::make(port_.type, port_.sharding, std::move(storage), true, equal);
    return std::make_shared<const Value>(Value{std::move(a), port_.about});
  }

  void check(const Value& v, std::size_t k) const {
    const Description& is = *v.about;
    const Description& wanted = *port_.about;
    if (is.element == wanted.element && is.shape == wanted.shape) return;
    throw InvalidArgument(str(exe_.name, ": argument ", i_, " on device ", exe_.devices[k]->description.id, " is ",
                              hlo::to_string(is.element), "[", join(is.shape, ","), "]; the program was compiled for ",
                              hlo::to_string(wanted.element), "[", join(wanted.shape, ","), "]"));
  }

  const Executable& exe_;
  const Port& port_;
  std::size_t i_;
  PJRT_Buffer* const* const* lists_;
};

// Results that replicas with values of their own made otherwise are brought to where the executable has said they are.
Array as_said(const Array& result, const Port& port) {
  const auto& impl = *result.impl();
  if (impl.sharding == port.sharding) return result;
  if (impl.placement->devices == port.placement->devices &&
      port.sharding->is_equivalent_to(*impl.sharding, port.type.rank())) {
    return result;
  }
  return device_put(result, port.sharding);
}

void check_call(const Executable& exe, const PJRT_LoadedExecutable_Execute_Args& args) {
  if (args.execute_device != nullptr && (exe.devices.size() != 1 || exe.devices[0] != args.execute_device)) {
    throw UnimplementedError(str(exe.name, ": a call on ", args.execute_device->description.text,
                                 " of a program that was compiled for other devices"));
  }
  if (args.num_devices != exe.devices.size()) {
    throw InvalidArgument(
        str(exe.name, ": arguments for ", args.num_devices, " devices; the program is for ", exe.devices.size()));
  }
  if (args.num_args != exe.arguments.size()) {
    throw InvalidArgument(str(exe.name, ": ", args.num_args, " arguments; the program takes ", exe.arguments.size()));
  }
}

std::vector<Array> arrays_of(const Executable& exe, const PJRT_LoadedExecutable_Execute_Args& args) {
  std::vector<bool> keep;
  if (args.options != nullptr && args.options->num_non_donatable_input_indices > 0) {
    keep.resize(exe.arguments.size());
    for (std::size_t j = 0; j < args.options->num_non_donatable_input_indices; ++j) {
      auto i = static_cast<std::size_t>(args.options->non_donatable_input_indices[j]);
      if (i < keep.size()) keep[i] = true;
    }
  }
  std::vector<Array> in;
  in.reserve(exe.in.size());
  for (std::size_t i = 0; i < exe.arguments.size(); ++i) {
    if (exe.arguments[i] < 0) continue;
    bool donated = exe.in[static_cast<std::size_t>(exe.arguments[i])].donated;
    in.push_back(Argument(exe, i, args.argument_lists).array(donated && !keep.empty() && keep[i]));
  }
  return in;
}

// Buffers that are destroyed unless the call succeeds: by result, then device.
class Made {
 public:
  explicit Made(std::size_t count) { buffers_.reserve(count); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    for (auto* b : buffers_) destroy(b);
  }
  void add_tokens(const Executable& exe, const runtime::EventPtr& done) {
    for (auto* d : exe.devices) buffers_.push_back(new_token(done, d));
  }
  void add(const Executable& exe, const Port& port, Array result) {
    const auto& indices = port.indices(result.impl()->replicas_equal);
    auto value = std::make_shared<const Value>(Value{std::move(result), port.about});
    PJRT_Buffer* first = new_buffers(value, indices);
    for (std::size_t k = 0; k < exe.devices.size(); ++k) {
      first[k].device = exe.devices[k];
      first[k].memory = exe.devices[k]->memories[port.memory];
      buffers_.push_back(&first[k]);  // there is room
    }
  }
  // By device, then result.
  void give(std::size_t devices, PJRT_Buffer** const* lists) {
    for (std::size_t n = 0; n < buffers_.size(); ++n) lists[n % devices][n / devices] = buffers_[n];
    buffers_.clear();
  }

 private:
  std::vector<PJRT_Buffer*> buffers_;
};
}  // namespace

std::int64_t& comm_budget() {
  thread_local std::int64_t budget = -1;
  return budget;
}

void loaded_execute(PJRT_LoadedExecutable_Execute_Args& args) {
  if (!args.executable->executable) throw StateError("the executable was deleted");
  Executable& exe = *args.executable->executable;
  check_call(exe, args);
  std::vector<Array> in = arrays_of(exe, args);
  ClientScope scope(exe.client->client);
  std::optional<CommBudget> budget;
  if (comm_budget() >= 0) budget.emplace(comm_budget());
  runtime::EventPtr done;
  std::vector<Array> results = (*exe.placed)(std::move(in), &done);
  if (done && done->ready() && done->error()) std::rethrow_exception(done->error());
  const std::size_t n = exe.devices.size();
  Made made(exe.results.size() * n);
  for (auto r : exe.results) {
    if (r < 0) {
      made.add_tokens(exe, done);
    } else {
      const Port& port = exe.out[static_cast<std::size_t>(r)];
      made.add(exe, port, as_said(results[static_cast<std::size_t>(r)], port));
    }
  }
  if (args.device_complete_events != nullptr) {
    std::fill_n(args.device_complete_events, n, new_event(done, static_cast<std::uint32_t>(n)));
  }
  made.give(n, args.output_lists);
}

}  // namespace tessera::pjrt
