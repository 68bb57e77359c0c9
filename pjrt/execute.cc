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

std::int32_t index_at(const Port& port, bool replicas_equal, std::size_t logical) {
  auto position = static_cast<std::size_t>(port.position[logical]);
  return replicas_equal ? port.placement->tile_of[position] : port.position[logical];
}

// The buffers of one argument, by logical id.
class Argument {
 public:
  /// Of the argument `i` of a call.
  Argument(const Executable& exe, std::size_t i, PJRT_Buffer* const* const* lists)
      : exe_(exe), port_(exe.in[static_cast<std::size_t>(exe.arguments[i])]), i_(i) {
    for (std::size_t k = 0; k < exe.devices.size(); ++k) buffers_.push_back(lists[k][i]);
  }

  /// The array that they are the shards of. Buffers that came one by one are of one array from then on. One that is to
  /// be kept gets an array of its own, so that the program gives away that one only.
  Array array(bool keep) {
    if (Array known = whole(); known.defined()) return keep ? again(known) : known;
    ValuePtr value = assembled();
    if (keep) return value->array;
    bool equal = value->array.impl()->replicas_equal;
    for (std::size_t k = 0; k < buffers_.size(); ++k) {
      std::lock_guard lock(buffers_[k]->mutex);
      buffers_[k]->value = value;
      buffers_[k]->index = index_at(port_, equal, k);
    }
    return value->array;
  }

 private:
  // The array, where all of the buffers are its shards, and lie as the program wants them.
  Array whole() {
    Held first = held(*buffers_[0], "Execute");
    const auto& impl = *first.value->array.impl();
    if (impl.sharding != port_.sharding || impl.type.shape != port_.type.shape || first.value->element != port_.element)
      return {};
    for (std::size_t k = 0; k < buffers_.size(); ++k) {
      std::lock_guard lock(buffers_[k]->mutex);
      if (buffers_[k]->value != first.value || buffers_[k]->index != index_at(port_, impl.replicas_equal, k)) return {};
    }
    return first.value->array;
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
    for (std::size_t k = 0; k < buffers_.size(); ++k) {
      auto [value, index] = held(*buffers_[k], "Execute");
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
      auto& first = of_tile[static_cast<std::size_t>(index_at(port_, true, k))];
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
    return std::make_shared<Value>(Value{std::move(a), port_.element, port_.shard_shape, port_.layout});
  }

  void check(const Value& v, std::size_t k) const {
    if (v.element == port_.element && v.shape == port_.shard_shape) return;
    throw InvalidArgument(str(exe_.name, ": argument ", i_, " on device ", exe_.devices[k]->description.id, " is ",
                              hlo::to_string(v.element), "[", join(v.shape, ","), "]; the program was compiled for ",
                              hlo::to_string(port_.element), "[", join(port_.shard_shape, ","), "]"));
  }

  const Executable& exe_;
  const Port& port_;
  std::size_t i_;
  std::vector<PJRT_Buffer*> buffers_;
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

// Handles of the C API that are destroyed unless the call succeeds.
class Made {
 public:
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    for (auto* b : buffers) delete b;
    for (auto* e : events) delete e;
  }
  std::vector<PJRT_Buffer*> buffers;  // by result, then device
  std::vector<PJRT_Event*> events;
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
  std::vector<bool> keep(exe.arguments.size());
  if (args.options != nullptr) {
    for (std::size_t j = 0; j < args.options->num_non_donatable_input_indices; ++j) {
      auto i = static_cast<std::size_t>(args.options->non_donatable_input_indices[j]);
      if (i < keep.size()) keep[i] = true;
    }
  }
  std::vector<Array> in;
  for (std::size_t i = 0; i < exe.arguments.size(); ++i) {
    if (exe.arguments[i] < 0) continue;
    bool donated = exe.in[static_cast<std::size_t>(exe.arguments[i])].donated;
    in.push_back(Argument(exe, i, args.argument_lists).array(keep[i] && donated));
  }
  ClientScope scope(exe.client->client);
  std::optional<CommBudget> budget;
  if (comm_budget() >= 0) budget.emplace(comm_budget());
  runtime::EventPtr done;
  std::vector<Array> results = (*exe.placed)(in, &done);
  in.clear();
  if (done && done->ready() && done->error()) std::rethrow_exception(done->error());
  const std::size_t n = exe.devices.size();
  Made made;
  for (auto r : exe.results) {
    if (r < 0) {
      for (auto* d : exe.devices) made.buffers.push_back(new_token(exe.client, done, d));
      continue;
    }
    const Port& port = exe.out[static_cast<std::size_t>(r)];
    Array result = as_said(results[static_cast<std::size_t>(r)], port);
    auto value = std::make_shared<Value>(Value{std::move(result), port.element, port.shard_shape, port.layout});
    bool equal = value->array.impl()->replicas_equal;
    for (std::size_t k = 0; k < n; ++k) {
      made.buffers.push_back(new_buffer(exe.client, value, index_at(port, equal, k), exe.devices[k],
                                        exe.devices[k]->memories[port.memory]));
    }
  }
  for (std::size_t k = 0; k < n && args.device_complete_events != nullptr; ++k) made.events.push_back(new_event(done));
  for (std::size_t j = 0; j < exe.results.size(); ++j) {
    for (std::size_t k = 0; k < n; ++k) args.output_lists[k][j] = made.buffers[j * n + k];
  }
  std::ranges::copy(made.events, args.device_complete_events);
  made.buffers.clear();
  made.events.clear();
}

}  // namespace tessera::pjrt
