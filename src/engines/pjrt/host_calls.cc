// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/host_calls.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/strings.h"
#include "engines/pjrt/ffi.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera::pjrt_engine {

struct HostCalls::Function {
  ir::Opaque function;
  bool several_devices;
  std::shared_ptr<Failure> failure;
};

// One call by a device.
class HostCallRun {
 public:
  using Function = std::shared_ptr<const HostCalls::Function>;

  static std::int64_t add(HostCalls::Function f) {
    std::lock_guard lock(mutex());
    const std::int64_t number = next()++;
    table()[number] = std::make_shared<const HostCalls::Function>(std::move(f));
    return number;
  }
  static void remove(std::int64_t number) {
    std::lock_guard lock(mutex());
    table().erase(number);
  }

  static void run(const FfiCall& call) {
    const Function f = find(call.integer("function", -1));
    try {
      if (f->several_devices && failed(*f)) return give_zeros(call);
      give(*f, call, results_of(*f, call));
    } catch (...) {
      keep(*f, std::current_exception());
      if (!f->several_devices) throw;
      give_zeros(call);
    }
  }

  static bool& inside() {
    thread_local bool value = false;
    return value;
  }

 private:
  static std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
  }
  static std::map<std::int64_t, Function>& table() {
    static auto* t = new std::map<std::int64_t, Function>;
    return *t;
  }
  static std::int64_t& next() {
    static std::int64_t n = 0;
    return n;
  }
  static Function find(std::int64_t number) {
    std::lock_guard lock(mutex());
    auto at = table().find(number);
    if (at == table().end())
      throw InternalError(str("a program calls function ", number, " of the host, which is gone"));
    return at->second;
  }

  static bool failed(const HostCalls::Function& f) {
    std::lock_guard lock(f.failure->mutex);
    return f.failure->error != nullptr;
  }
  static void keep(const HostCalls::Function& f, std::exception_ptr error) {
    std::lock_guard lock(f.failure->mutex);
    if (!f.failure->error) f.failure->error = std::move(error);
  }

  static std::vector<HostArray> results_of(const HostCalls::Function& f, const FfiCall& call) {
    std::vector<HostArray> args;
    for (const FfiBuffer& b : call.args()) {
      args.emplace_back(b.dtype, b.shape);
      if (b.nbytes() > 0) std::memcpy(args.back().data(), b.data, static_cast<std::size_t>(b.nbytes()));
    }
    struct Mark {
      Mark() { inside() = true; }
      ~Mark() { inside() = false; }
    } mark;
    return (*static_cast<const ops::HostFunction*>(f.function.object.get()))(args);
  }

  static void give(const HostCalls::Function& f, const FfiCall& call, const std::vector<HostArray>& results) {
    const auto& out = call.results();
    if (results.size() != out.size()) {
      throw ValueError(str(f.function.label, " gave ", results.size(), " arrays; expected ", out.size()));
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const ir::Type got{results[i].dtype(), results[i].shape()}, want{out[i].dtype, out[i].shape};
      if (got != want) {
        throw TypeError(str("result ", i, " of ", f.function.label, " is ", got, "; expected ", want));
      }
      if (out[i].nbytes() > 0) std::memcpy(out[i].data, results[i].data(), static_cast<std::size_t>(out[i].nbytes()));
    }
  }
  static void give_zeros(const FfiCall& call) {
    for (const FfiBuffer& b : call.results()) {
      if (b.nbytes() > 0) std::memset(b.data, 0, static_cast<std::size_t>(b.nbytes()));
    }
  }
};

XLA_FFI_Handler* host_call_handler() {
  return [](XLA_FFI_CallFrame* frame) { return answer(frame, &HostCallRun::run); };
}

std::int64_t HostCalls::add(const ops::Callback& callback) {
  numbers_.push_back(HostCallRun::add({callback.function, several_devices_, failure_}));
  return numbers_.back();
}

HostCalls::~HostCalls() {
  for (auto number : numbers_) HostCallRun::remove(number);
}

std::unique_lock<std::mutex> HostCalls::begin() {
  std::unique_lock lock(running_);
  std::lock_guard failure(failure_->mutex);
  failure_->error = nullptr;
  return lock;
}

std::exception_ptr HostCalls::error() const {
  std::lock_guard lock(failure_->mutex);
  return failure_->error;
}

bool HostCalls::inside() { return HostCallRun::inside(); }

}  // namespace tessera::pjrt_engine
