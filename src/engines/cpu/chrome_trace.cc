// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/chrome_trace.h"

#include <time.h>

#include <algorithm>
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

class Tracer {
 public:
  Tracer() {
    const char* path = std::getenv("TESSERA_TRACE");
    if (path == nullptr || *path == '\0') return;
    base::check_writable(kSource, path);  // before the work, not after it
    path_ = path;
  }
  ~Tracer() {
    try {
      write();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
  }
  bool on() const { return !path_.empty(); }
  void write() {
    std::lock_guard lock(mutex_);
    if (path_.empty() || std::exchange(written_, true)) return;
    base::write_file(kSource, path_, text());
  }
  void add(TracedStep step, const TraceStart& begin) {
    TraceStart now = TraceStart::now();
    auto us = [](std::chrono::steady_clock::duration d) {
      return std::chrono::duration<double, std::micro>(d).count();
    };
    Event e{std::move(step), us(begin.wall - start_), us(now.wall - begin.wall),
            static_cast<double>(now.thread_ns - begin.thread_ns) / 1000};
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(e));
    written_ = false;
  }

 private:
  static constexpr const char* kSource = "TESSERA_TRACE";

  std::string text() const {
    Rows rows;
    std::map<int, std::size_t> devices;  // by process
    for (const auto& e : events_) devices[e.step.process] = std::max(devices[e.step.process], e.step.results.size());
    for (const auto& [process, count] : devices) {
      for (std::size_t d = 0; d < count; ++d) rows.add(device_row(process, d));
    }
    for (const auto& e : events_) {
      bool first = true;  // the row that holds what the whole step moved
      for (std::size_t d = 0; d < e.step.results.size(); ++d) {
        if (e.step.results[d] >= 0) rows.add(step_row(e, d, std::exchange(first, false)));
      }
    }
    return std::move(rows).take();
  }

  std::string path_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<Event> events_;
  bool written_ = false;  // as they are now
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

bool tracing() {
  static const bool on = tracer().on();
  return on;
}

void write_trace() { tracer().write(); }

void trace_step(TracedStep step, const TraceStart& begin) { tracer().add(std::move(step), begin); }

}  // namespace tessera::cpu
