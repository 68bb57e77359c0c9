// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/chrome_trace.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
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

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

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
    std::ostringstream file;
    file << "{\"traceEvents\": [";
    const char* between = "\n";
    std::map<int, std::size_t> devices;  // by process
    for (const auto& e : events_) devices[e.step.process] = std::max(devices[e.step.process], e.step.results.size());
    for (const auto& [process, count] : devices) {
      for (std::size_t d = 0; d < count; ++d) {
        file << std::exchange(between, ",\n") << R"({"ph": "M", "name": "thread_name", "pid": )" << process
             << ", \"tid\": " << d << R"(, "args": {"name": "device )" << d << "\"}}";
      }
    }
    for (const auto& e : events_) {
      bool first = true;  // the row that holds what the whole step moved
      for (std::size_t d = 0; d < e.step.results.size(); ++d) {
        if (e.step.results[d] < 0) continue;
        file << std::exchange(between, ",\n") << R"({"ph": "X", "name": )" << quoted(e.step.name)
             << ", \"pid\": " << e.step.process << ", \"tid\": " << d << ", \"ts\": " << e.begin_us
             << ", \"dur\": " << e.duration_us << ", \"tdur\": " << e.thread_us
             << ", \"args\": {\"bytes\": " << e.step.results[d];
        if (e.step.received > 0) file << ", \"received\": " << e.step.received;
        if (std::exchange(first, false)) {
          file << ", \"step\": {\"read\": " << e.step.bytes.read << ", \"written\": " << e.step.bytes.written << "}";
        }
        file << ", \"at\": " << quoted(e.step.where) << "}}";
      }
    }
    file << "\n]}\n";
    return std::move(file).str();
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
