// SPDX-License-Identifier: Apache-2.0
// The n-th allocation of a training step fails, for one n after another. What the step asks for must end in an error at
// the call or where a result is waited for, or succeed all the same; afterwards everything works as before.
//
// Included by one source file of a program: it replaces the global operator new, and the linker sends the library's own
// calls of the C allocators through here too (-Wl,--wrap).
#pragma once

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "runtime/engine.h"
#include "tessera/tessera.h"

namespace tessera::test {

/// Counts allocations of all threads while it is armed, and lets one of them fail.
struct FailingAllocation {
  static inline std::atomic<bool> armed{false};
  static inline std::atomic<std::int64_t> seen{0};
  static inline std::atomic<std::int64_t> fails{-1};
  static inline std::atomic<bool> happened{false};

  /// True when this allocation is the one.
  static bool now(const void* caller) {
    if (!armed.load(std::memory_order_relaxed) || foreign(caller)) return false;
    if (seen.fetch_add(1) != fails.load()) return false;
    happened = true;
    return true;
  }
  static void arm(std::int64_t n) {
    foreign(nullptr);  // makes its table
    seen = 0;
    happened = false;
    fails = n;
    armed = true;
  }
  static void disarm() { armed = false; }

  // Numerical libraries and the thread runtime end the process when they have no memory: not ours to mend.
  static bool foreign(const void* caller) {
    static const auto* ranges = new std::vector<std::pair<std::uintptr_t, std::uintptr_t>>(foreign_ranges());
    auto at = reinterpret_cast<std::uintptr_t>(caller);
    for (const auto& [low, high] : *ranges) {
      if (at >= low && at < high) return true;
    }
    return false;
  }
  static std::vector<std::pair<std::uintptr_t, std::uintptr_t>> foreign_ranges() {
    std::vector<std::pair<std::uintptr_t, std::uintptr_t>> out;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
          bool libraries = false;
          for (const char* name : {"libdnnl", "libopenblas", "libgomp", "libzip", "libgtest"}) {
            libraries = libraries || std::strstr(info->dlpi_name, name) != nullptr;
          }
          for (int i = 0; libraries && i < info->dlpi_phnum; ++i) {
            if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
            std::uintptr_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            static_cast<decltype(&out)>(data)->emplace_back(low, low + info->dlpi_phdr[i].p_memsz);
          }
          return 0;
        },
        &out);
    return out;
  }
};

}  // namespace tessera::test

extern "C" {
void* __real_malloc(std::size_t size);
void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
int __real_posix_memalign(void** out, std::size_t alignment, std::size_t size);
void* __wrap_malloc(std::size_t size) {
  return tessera::test::FailingAllocation::now(__builtin_return_address(0)) ? nullptr : __real_malloc(size);
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  return tessera::test::FailingAllocation::now(__builtin_return_address(0)) ? nullptr
                                                                            : __real_aligned_alloc(alignment, size);
}
int __wrap_posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  if (tessera::test::FailingAllocation::now(__builtin_return_address(0))) return ENOMEM;
  return __real_posix_memalign(out, alignment, size);
}
}

namespace tessera::test {
inline void* plain_new(std::size_t size, std::size_t alignment, const void* caller) {
  if (FailingAllocation::now(caller)) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return __real_malloc(size == 0 ? 1 : size);
  return __real_aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
inline void* throwing_new(std::size_t size, std::size_t alignment, const void* caller) {
  void* p = plain_new(size, alignment, caller);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace tessera::test

// NOLINTBEGIN(misc-definitions-in-headers): the header is for one source file
void* operator new(std::size_t n) { return tessera::test::throwing_new(n, 1, __builtin_return_address(0)); }
void* operator new[](std::size_t n) { return tessera::test::throwing_new(n, 1, __builtin_return_address(0)); }
void* operator new(std::size_t n, std::align_val_t a) {
  return tessera::test::throwing_new(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return tessera::test::throwing_new(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return tessera::test::plain_new(n, 1, __builtin_return_address(0));
}
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
  return tessera::test::plain_new(n, 1, __builtin_return_address(0));
}
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return tessera::test::plain_new(n, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
// NOLINTEND(misc-definitions-in-headers)

namespace tessera::test {

struct TwoLayers {
  Array w1, b1, w2, b2;
};
struct StepInput {
  Mesh mesh;
  std::vector<HostArray> values;  // w1, b1, w2, b2, x, y
};

inline StepInput step_input() {
  StepInput in{make_mesh({4, 2}, {"data", "model"}), {}};
  for (const Shape& shape : {Shape{8, 16}, Shape{16}, Shape{16, 4}, Shape{4}, Shape{16, 8}, Shape{16, 4}}) {
    std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 8;
    in.values.push_back(HostArray::from(v, shape));
  }
  return in;
}

/// Everything a program does with the library, from arrays on the host to files. `fresh` makes the types of its eager
/// operations new, so that their programs are not found in caches.
inline std::string training_step(const StepInput& in, std::int64_t fresh, const std::string& file) {
  auto on = [&](std::size_t i, const PartitionSpec& p) { return device_put(in.values[i], NamedSharding(in.mesh, p)); };
  TwoLayers p{on(0, P(none, "model")), on(1, P("model")), on(2, P("model")), on(3, P())};
  Array x = on(4, P("data"));
  Array y = on(5, P("data"));
  auto loss = [](TwoLayers m, Array a, Array b) {
    Array hidden = tanh(matmul(a, m.w1) + m.b1);
    Array error = matmul(hidden, m.w2) + m.b2 - b;
    return mean(error * error);
  };
  auto step = jit(
      [&](TwoLayers m, Array a, Array b) {
        auto [value, g] = value_and_grad(loss)(m, a, b);
        return std::pair(tree_map([](const Array& v, const Array& d) { return v - 0.5 * d; }, m, g), value);
      },
      {.donate_argnums = {0}});
  std::string out = to_string(step.comm_plan(p, x, y));
  auto [next, value] = step(p, x, y);
  block_until_ready(next);
  out += to_string(value);
  std::vector<float> halves(static_cast<std::size_t>(3 + fresh), 0.5F);
  Array eager = sum(Array(HostArray::from(halves)) * 2.0) / static_cast<double>(3 + fresh);
  out += to_string(device_put(eager, NamedSharding(in.mesh, P())));
  for (const auto& s : next.w1.addressable_shards()) out += to_string(s.index());
  save_safetensors(file, named_leaves(next));
  out += to_string(load_safetensors(file).begin()->second);
  out += std::to_string(value.item<float>());
  return out;
}

/// The step with the allocations first, first + stride, … failing one at a time, until none is left to fail.
class AllocationSeries {
 public:
  AllocationSeries()
      : client_(Client::cpu({.devices = 8})), scope_(client_), in_(step_input()), file_(::testing::TempDir() + "step") {
    file_ += std::to_string(getpid());
    expected_ = training_step(in_, ++fresh_, file_);
    training_step(in_, ++fresh_, file_);
    live_ = live_arrays().size();
    bytes_ = runtime::runtime_of(client_).memory->stats().bytes_in_use;
  }
  ~AllocationSeries() { std::remove(file_.c_str()); }
  AllocationSeries(const AllocationSeries&) = delete;
  AllocationSeries& operator=(const AllocationSeries&) = delete;

  void run(std::int64_t first, std::int64_t stride) {
    for (std::int64_t n = first;; n += stride) {
      alarm(60);  // a lock or an event that nobody lets go of
      bool reached = fail_at(n);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "allocation " << n;
      if (!reached) break;
      ++tried_;
    }
    alarm(0);
    std::cout << tried_ << " allocations failed: " << errors_ << " errors, " << tried_ - errors_
              << " steps that went on\n";
  }
  std::int64_t tried() const { return tried_; }

 private:
  bool fail_at(std::int64_t n) {
    std::string got;
    std::string what;
    ++fresh_;
    FailingAllocation::arm(n);
    try {
      got = training_step(in_, fresh_, file_);
      FailingAllocation::disarm();
    } catch (const std::bad_alloc&) {
      FailingAllocation::disarm();
      what = "bad_alloc";
    } catch (const Error& e) {
      FailingAllocation::disarm();
      what = e.what();
    } catch (const std::exception& e) {
      FailingAllocation::disarm();
      ADD_FAILURE() << "another exception: " << e.what();
    }
    bool reached = FailingAllocation::happened;
    if (std::getenv("TESSERA_ALLOCATION_LOG") != nullptr) std::cerr << n << ": " << what.substr(0, 60) << std::endl;
    if (!what.empty()) {
      ++errors_;
      EXPECT_TRUE(reached) << what;
    } else {
      EXPECT_EQ(got, expected_);
    }
    EXPECT_EQ(training_step(in_, fresh_, file_), expected_);
    EXPECT_EQ(live_arrays().size(), live_);
    // Programs of new eager operations keep their constants; arrays are larger.
    constexpr std::int64_t kConstants = 128;
    std::int64_t bytes = runtime::runtime_of(client_).memory->stats().bytes_in_use;
    EXPECT_LE(bytes - bytes_, kConstants);
    bytes_ = bytes;
    return reached;
  }

  Client client_;
  ClientScope scope_;
  StepInput in_;
  std::string file_;
  std::string expected_;
  std::int64_t fresh_ = 0;
  std::size_t live_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t tried_ = 0;
  std::int64_t errors_ = 0;
};

}  // namespace tessera::test
