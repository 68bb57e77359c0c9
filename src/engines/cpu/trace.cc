// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/trace.h"

#include <time.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::cpu {

namespace {

struct Event {
  std::string name;
  std::string where;
  int process;
  std::size_t thread;
  double begin_us;
  double duration_us;
  double thread_us;
  Traffic bytes;
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
    if (const char* path = std::getenv("TESSERA_TRACE")) path_ = path;
  }
  ~Tracer() {
    if (path_.empty()) return;
    std::ofstream file(path_);
    file << "{\"traceEvents\": [";
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Event& e = events_[i];
      file << (i > 0 ? ",\n" : "\n") << "{\"ph\": \"X\", \"name\": " << quoted(e.name) << ", \"pid\": " << e.process
           << ", \"tid\": " << e.thread % 100000 << ", \"ts\": " << e.begin_us << ", \"dur\": " << e.duration_us
           << ", \"tdur\": " << e.thread_us << ", \"args\": {\"bytes\": " << e.bytes.written
           << ", \"read\": " << e.bytes.read << ", \"at\": " << quoted(e.where) << "}}";
    }
    file << "\n]}\n";
  }
  bool on() const { return !path_.empty(); }
  void add(Event e, const TraceStart& begin) {
    TraceStart now = TraceStart::now();
    auto us = [](std::chrono::steady_clock::duration d) {
      return std::chrono::duration<double, std::micro>(d).count();
    };
    e.begin_us = us(begin.wall - start_);
    e.duration_us = us(now.wall - begin.wall);
    e.thread_us = static_cast<double>(now.thread_ns - begin.thread_ns) / 1000;
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(e));
  }

 private:
  std::string path_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<Event> events_;
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

void trace_step(const std::string& name, const std::string& where, int process, const TraceStart& begin,
                const Traffic& bytes) {
  auto thread = std::hash<std::thread::id>{}(std::this_thread::get_id());
  tracer().add({name, where, process, thread, 0, 0, 0, bytes}, begin);
}

}  // namespace tessera::cpu
