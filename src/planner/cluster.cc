// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "tessera/cluster_model.h"
#include "tessera/error.h"

namespace tessera {

namespace {

constexpr std::array kCollectives{"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute"};

class Check {
 public:
  explicit Check(std::string name) : name_(std::move(name)) {}
  [[noreturn]] void fail(const std::string& field, const std::string& what, const std::string& expected) const {
    throw ValueError(str(name_, ": ", field, " is ", what, "; expected ", expected));
  }
  void rate(const std::string& field, double v) const {
    if (!(v >= 1) || !std::isfinite(v)) fail(field, str(v), "a finite number of at least 1");
  }
  void cost(const std::string& field, double v) const {
    if (!(v > 0) || !std::isfinite(v)) fail(field, str(v), "a finite number above 0");
  }
  void seconds(const std::string& field, double v) const {
    if (!(v >= 0) || !std::isfinite(v)) fail(field, str(v), "seconds, 0 or more");
  }
  void share(const std::string& field, double v) const {
    if (!(v > 0) || !(v <= 1)) fail(field, str(v), "a share above 0 and at most 1");
  }
  void extras(const ClusterDevice& d) const {
    cost("device.write_cost", d.write_cost);
    std::int64_t smaller = 0;
    for (std::size_t i = 0; i < d.caches.size(); ++i) {
      const ClusterCache& c = d.caches[i];
      const std::string field = str("device.caches[", i, "]");
      if (c.bytes <= smaller) fail(field + ".bytes", str(c.bytes), str("more than ", smaller));
      rate(field + ".bandwidth", c.bandwidth);
      cost(field + ".write_cost", c.write_cost);
      smaller = c.bytes;
    }
    for (const auto& [kind, r] : d.operations) {
      const auto& known = ClusterDevice::known_operations();
      if (std::ranges::find(known, kind) == known.end()) fail("device.operations", str("\"", kind, "\""), join(known));
      rate(str("device.operations.", kind), r);
    }
  }
  void level(const std::string& field, const ClusterLevel& l) const {
    const bool torus = l.kind == ClusterLevel::Kind::Torus;
    if (l.sizes.empty() || l.sizes.size() > (torus ? 3U : 1U)) {
      fail(field + ".sizes", base::list_text(l.sizes), torus ? "one to three extents" : "one number of members");
    }
    for (auto n : l.sizes) {
      if (n < 1 || n > ClusterModel::kMostDevices) {
        fail(field + ".sizes", base::list_text(l.sizes), str("extents of 1 to ", ClusterModel::kMostDevices));
      }
    }
    seconds(field + ".latency", l.latency);
    rate(field + ".bandwidth", l.bandwidth);
    share(field + ".efficiency", l.efficiency);
    const bool memory = l.kind == ClusterLevel::Kind::Memory;
    if (l.direct && l.kind != ClusterLevel::Kind::Switch)
      fail(field + ".direct", "true", "false, for the level is no switch");
    if (l.cores < 1 || (!memory && l.cores != 1)) {
      fail(field + ".cores", str(l.cores), memory ? "1 or more" : "1, for the level is no shared memory");
    }
    if (l.stream_bytes < 1) fail(field + ".stream_bytes", str(l.stream_bytes), "1 or more");
    seconds(field + ".spread", l.spread);
    if (!memory && l.spread != 0) fail(field + ".spread", str(l.spread), "0, for the level is no shared memory");
  }

 private:
  std::string name_;
};

}  // namespace

const char* to_string(ClusterLevel::Kind kind) {
  constexpr std::array kNames{"torus", "switch", "shared", "memory"};
  return kNames[static_cast<std::size_t>(kind)];
}

const std::vector<std::string>& ClusterDevice::known_operations() {
  static const std::vector<std::string> names{
      "complex",         "convolution",    "exp",    "fft",       "gather",  "product_reads", "product_row",
      "reduction_reads", "root",           "scan",   "sort",      "special", "tanh",          "top_k",
      "top_k_row",       "transcendental", "window", "window_row"};
  return names;
}

double ClusterLevel::on_cores(double seconds) const {
  return cores > 1 ? std::min(static_cast<double>(cores) * seconds, spread + seconds) : seconds;
}

namespace {
// The first cache that holds so many bytes; null: none.
const ClusterCache* cache_for(const ClusterDevice& d, double bytes) {
  auto c = std::ranges::find_if(d.caches, [&](const ClusterCache& x) { return bytes <= static_cast<double>(x.bytes); });
  return c == d.caches.end() ? nullptr : &*c;
}
}  // namespace

double ClusterDevice::bandwidth(double bytes) const {
  const ClusterCache* c = cache_for(*this, bytes);
  return c == nullptr ? memory_bandwidth : c->bandwidth;
}

bool ClusterDevice::cached(double bytes) const { return cache_for(*this, bytes) != nullptr; }
double ClusterDevice::write_cost_of(double bytes) const {
  const ClusterCache* c = cache_for(*this, bytes);
  return c == nullptr ? write_cost : c->write_cost;
}

double ClusterDevice::rate(DType dtype) const {
  const DType real = real_dtype(dtype);
  if (auto it = flops.find(real); it != flops.end()) return it->second * efficiency;
  double slowest = 0;
  double best = 0;
  std::int64_t width = 0;
  for (const auto& [t, r] : flops) {
    slowest = slowest == 0 ? r : std::min(slowest, r);
    if (is_float(t) != is_float(real) || dtype_size(t) < dtype_size(real)) continue;
    if (width == 0 || dtype_size(t) < width) {
      width = dtype_size(t);
      best = r;
    }
  }
  return (best > 0 ? best : slowest) * efficiency;
}

std::int64_t ClusterModel::num_devices() const {
  std::int64_t n = 1;
  for (const auto& l : levels) n *= l.size();
  return n;
}

void ClusterModel::check(const std::string& name_in_messages, const Loc&) const {
  const Check c(name_in_messages);
  if (device.flops.empty()) c.fail("device.flops", "empty", "the rate of at least one dtype");
  for (const auto& [dtype, r] : device.flops) c.rate(str("device.flops.", dtype_name(dtype)), r);
  c.rate("device.vector_flops", device.vector_flops);
  c.rate("device.memory_bandwidth", device.memory_bandwidth);
  if (device.memory < 1) c.fail("device.memory", str(device.memory), "bytes, 1 or more");
  c.seconds("device.launch", device.launch);
  c.share("device.efficiency", device.efficiency);
  c.extras(device);
  constexpr std::size_t kMostLevels = 16;
  if (levels.size() > kMostLevels) c.fail("levels", str(levels.size()), str("at most ", kMostLevels));
  std::int64_t n = 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    c.level(str("levels[", i, "]"), levels[i]);
    if (i > 0 && levels[i].kind == ClusterLevel::Kind::Memory) {
      c.fail(str("levels[", i, "].kind"), "\"memory\"", "shared memory on the innermost level, levels[0], alone");
    }
    for (auto extent : levels[i].sizes) {
      n *= extent;
      if (n > kMostDevices) c.fail("levels", "of more devices", str("at most ", kMostDevices, " devices"));
    }
  }
  for (const auto& o : overlaps) {
    if (std::ranges::find(kCollectives, o) == kCollectives.end()) {
      c.fail("overlaps", str("\"", o, "\""), join(kCollectives));
    }
  }
}

}  // namespace tessera
