// SPDX-License-Identifier: Apache-2.0
// What loops over fixed memory are made of.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "base/process.h"
#include "engines/cpu/steps/fixed_program.h"
#include "ops/define_op.h"

namespace tessera::cpu {

inline void run_all(const FixedOps& ops, void** places) {
  for (const auto& op : ops) op->run(places);
}

/// A number that decides which way a program goes.
inline std::int64_t decision(void* data, DType dtype) {
  if (is_bool(dtype)) return *static_cast<const std::uint8_t*>(data) != 0 ? 1 : 0;
  return ops::load_int({dtype, {}, data}, 0);
}

struct AliasOp final : FixedOp {
  void add(Place to, Place from, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) same.emplace_back(to++, from++);
  }
  void run(void** all) const override {
    for (auto [to, from] : same) all[to] = all[from];
  }
  std::vector<std::pair<Place, Place>> same;
};

struct KernelsOp final : FixedOp {
  static constexpr std::size_t kMostPointers = 64;
  void run(void** all) const override {
    in_place.run(all);
    std::array<void*, kMostPointers> pointers;
    const Place* p = places.data();
    for (const Kernel::Fn* kernel : kernels) {
      for (std::size_t i = 0; i < width; ++i) pointers[i] = all[*p++];
      (*kernel)(pointers.data(), pointers.data() + operands);
    }
  }
  AliasOp in_place;  // results whose memory is an operand's
  std::size_t operands = 0;
  std::size_t width = 0;
  std::vector<const Kernel::Fn*> kernels;
  std::vector<Place> places;  // by kernel: operands, then results
};

struct CopyOp final : FixedOp {
  struct Copy {
    Place to, from;
    std::size_t bytes;
  };
  void run(void** all) const override {
    for (const Copy& c : copies) std::memcpy(all[c.to], all[c.from], c.bytes);
  }
  void add(Place to, Place from, std::span<const std::int64_t> bytes) {
    for (std::size_t k = 0; k < bytes.size(); ++k, ++to, ++from) {
      if (bytes[k] > 0) copies.push_back({to, from, at(bytes[k])});
    }
  }
  std::vector<Copy> copies;
};

struct BranchOp final : FixedOp {
  void run(void** all) const override {
    const auto last = static_cast<std::int64_t>(branches.size()) - 1;
    run_all(branches[at(std::clamp<std::int64_t>(decision(all[which], dtype), 0, last))], all);
  }
  Place which = 0;
  DType dtype{};
  std::vector<FixedOps> branches;
};

/// What loops have in common: what happens at both ends, and the exchange of pointers between iterations.
struct LoopOp : FixedOp {
  void iterate(void** all) const {
    base::stop_if_ended();
    run_all(body, all);
    // The pointers that are read are overwritten, too.
    std::array<void*, 16> few;
    std::vector<void*> many;
    void** read = few.data();
    if (next.size() > few.size()) {
      many.resize(next.size());
      read = many.data();
    }
    for (std::size_t i = 0; i < next.size(); ++i) read[i] = all[next[i].first];
    for (std::size_t i = 0; i < next.size(); ++i) all[next[i].second] = read[i];
  }
  void enter(void** all) const {
    takes.run(all);
    copies_in.run(all);
    run_all(once, all);
  }
  void leave(void** all) const {
    copies_out.run(all);
    gives.run(all);
  }
  AliasOp takes, gives;  // what is carried in memory of the program around
  CopyOp copies_in, copies_out;
  FixedOps once, body;
  std::vector<std::pair<Place, Place>> next;  // what is in the first is the second's in the next iteration
};

struct WhileOp final : LoopOp {
  void run(void** all) const override {
    enter(all);
    for (run_all(condition, all); decision(all[predicate], dtype) != 0; run_all(condition, all)) iterate(all);
    leave(all);
  }
  FixedOps condition;
  Place predicate = 0;
  DType dtype{};
};

struct ScanOp final : LoopOp {
  struct Slice {
    Place to, stack;
    std::int64_t bytes;
  };
  void run(void** all) const override {
    enter(all);
    for (std::int64_t n = 0; n < length; ++n) {
      const std::int64_t i = reverse ? length - 1 - n : n;
      for (const Slice& s : slices) all[s.to] = static_cast<std::byte*>(all[s.stack]) + i * s.bytes;
      iterate(all);
    }
    leave(all);
  }
  void add_slices(Place to, Place stack, std::span<const std::int64_t> bytes) {
    for (std::int64_t n : bytes) slices.push_back({to++, stack++, n});
  }
  std::int64_t length = 0;
  bool reverse = false;
  std::vector<Slice> slices;
};

}  // namespace tessera::cpu
