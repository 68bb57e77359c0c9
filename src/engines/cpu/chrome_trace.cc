// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/chrome_trace.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::cpu {

namespace {

struct Event {
  TracedStep step;
  double begin_us;
  double duration_us;
  double thread_us;
};

using Json = nlohmann::ordered_json;

Json device_row(int process, std::size_t device) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", process},
          {"tid", device},
          {"args", {{"name", "device " + std::to_string(device)}}}};
}

Json args_of(const TracedStep& step, std::size_t device, bool first) {
  Json args = {{"bytes", step.results[device]}};
  if (step.received > 0) args["received"] = step.received;
  if (first) args["step"] = {{"read", step.bytes.read}, {"written", step.bytes.written}};
  args["at"] = step.where;
  return args;
}

Json step_row(const Event& e, std::size_t device, bool first) {
  return {
      {"ph", "X"},        {"name", e.step.name},  {"pid", e.step.process}, {"tid", device},
      {"ts", e.begin_us}, {"dur", e.duration_us}, {"tdur", e.thread_us},   {"args", args_of(e.step, device, first)}};
}

// One end of an arrow, inside the device's part of the step.
Json arrow_end(const Event& e, std::size_t device, std::int64_t arrow, bool head) {
  Json row = {{"ph", head ? "f" : "s"},
              {"cat", "collective"},
              {"name", e.step.name},
              {"id", arrow},
              {"pid", e.step.process},
              {"tid", device},
              {"ts", e.begin_us + e.duration_us * (head ? 0.75 : 0.25)}};
  if (head) row["bp"] = "e";
  return row;
}

// The rows of a trace as text, one per line: as one JSON value they would take many times their size.
class Rows {
 public:
  void add(const Json& row) {
    text_ += std::exchange(between_, ",\n");
    text_ += row.dump(-1, ' ', false, Json::error_handler_t::replace);  // names may be bytes that are no text
  }
  std::string take() && { return std::move(text_) + "\n]}\n"; }

 private:
  std::string text_ = "{\"traceEvents\": [";
  const char* between_ = "\n";
};

// The steps that are to go into one file. Not thread-safe.
class Recording {
 public:
  /// `source` asked for it; errors name it.
  Recording(const char* source, std::string path) : source_(source), path_(std::move(path)) {
    base::check_writable(source_, path_);  // before the work, not after it
  }
  void add(const TracedStep& step, const TraceStart& begin, const TraceStart& end) {
    if (begin.wall < start_) return;
    auto us = [](std::chrono::steady_clock::duration d) {
      return std::chrono::duration<double, std::micro>(d).count();
    };
    events_.push_back({step, us(begin.wall - start_), us(end.wall - begin.wall),
                       static_cast<double>(end.thread_ns - begin.thread_ns) / 1000});
    written_ = false;
  }
  void write() {
    if (!std::exchange(written_, true)) base::write_file(source_, path_, text());
  }

 private:
  std::string text() const {
    Rows rows;
    std::map<int, std::size_t> devices;  // by process
    for (const auto& e : events_) devices[e.step.process] = std::max(devices[e.step.process], e.step.results.size());
    for (const auto& [process, count] : devices) {
      for (std::size_t d = 0; d < count; ++d) rows.add(device_row(process, d));
    }
    std::int64_t arrows = 0;
    for (const auto& e : events_) {
      bool first = true;  // the row that holds what the whole step moved
      for (std::size_t d = 0; d < e.step.results.size(); ++d) {
        if (e.step.results[d] >= 0) rows.add(step_row(e, d, std::exchange(first, false)));
      }
      for (std::size_t d = 0; d < e.step.next.size(); ++d) {
        const std::size_t to = e.step.next[d];
        if (to == d || e.step.results[d] < 0 || e.step.results[to] < 0) continue;
        rows.add(arrow_end(e, d, arrows, false));
        rows.add(arrow_end(e, to, arrows++, true));
      }
    }
    return std::move(rows).take();
  }

  const char* source_;
  std::string path_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Event> events_;
  bool written_ = false;  // as they are now
};

class Tracer {
 public:
  Tracer() {
    const char* path = std::getenv("TESSERA_TRACE");
    if (path == nullptr || *path == '\0') return;
    recordings_.emplace(kEnvironment, Recording("TESSERA_TRACE", path));
    on_ = true;
  }
  ~Tracer() {
    try {
      write();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
  }
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void write() {
    std::lock_guard lock(mutex_);
    if (auto r = recordings_.find(kEnvironment); r != recordings_.end()) r->second.write();
  }
  void add(const TracedStep& step, const TraceStart& begin) {
    TraceStart now = TraceStart::now();
    std::lock_guard lock(mutex_);
    for (auto& [number, recording] : recordings_) recording.add(step, begin, now);
  }
  std::int64_t begin(const std::string& path) {
    Recording recording("begin_trace", path);
    std::lock_guard lock(mutex_);
    recordings_.emplace(++last_, std::move(recording));
    on_ = true;
    return last_;
  }
  void end(std::int64_t number) {
    std::unique_lock lock(mutex_);
    auto found = number == kEnvironment ? recordings_.end() : recordings_.find(number);
    if (found == recordings_.end())
      throw ValueError(str("end_trace: trace ", number, " has not been begun, or has ended"));
    Recording recording = std::move(found->second);
    recordings_.erase(found);
    on_ = !recordings_.empty();
    lock.unlock();
    recording.write();
  }

 private:
  static constexpr std::int64_t kEnvironment = 0;

  std::atomic<bool> on_ = false;
  std::mutex mutex_;
  std::map<std::int64_t, Recording> recordings_;
  std::int64_t last_ = kEnvironment;
};

Tracer& tracer() {
  static Tracer t;
  return t;
}

}  // namespace

TraceStart TraceStart::now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return {std::chrono::steady_clock::now(), std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
}

bool tracing() { return tracer().on(); }

void write_trace() { tracer().write(); }

std::int64_t begin_trace(const std::string& path) { return tracer().begin(path); }

void end_trace(std::int64_t trace) { tracer().end(trace); }

void trace_step(const TracedStep& step, const TraceStart& begin) { tracer().add(step, begin); }

}  // namespace tessera::cpu
