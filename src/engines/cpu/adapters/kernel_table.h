// SPDX-License-Identifier: Apache-2.0
// From ops to kernels. Every op can run by its reference; the ones listed here run fast. Each family of kernels has an
// adapter file that adds its ops by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "ir/op_def.h"

namespace tessera::cpu {

/// A kernel made ready for one set of local types.
struct Kernel {
  using Fn = std::function<void(const void* const* in, void* const* out)>;
  Fn run;                      ///< empty: no such kernel
  Fn add;                      ///< the same, added to what the result holds; empty where there is none
  Fn stream;                   ///< `run` with stores around the caches; empty where there is none
  std::uint64_t in_place = 0;  ///< bit i: a result may be the memory of operand i when it has as many bytes
  bool shares = false;  ///< result j has the bytes of operand j, so that it can be the same buffer; `run` is not used
  bool fast = true;     ///< false for references
  double cost = 0;      ///< nanoseconds that a run takes on one thread, roughly; 0: as much as moving its bytes
};

/// What a kernel is asked for: types are those of the shards, attributes already remapped to them.
struct Request {
  const ir::OpDef& op;
  const ir::Attrs& attrs;
  ir::TypeSpan in;
  ir::TypeSpan out;
  bool fixed_order = false;  ///< floats are summed in an order that other extents have no part in
};
using MakeKernel = std::function<Kernel(const Request&)>;

class KernelTable {
 public:
  /// Gives the op's kernel when there is a fast one for these types, else its reference.
  Kernel find(const Request& r) const;
  void add(std::string_view op, MakeKernel make) { makers_.emplace(op, std::move(make)); }
  static const KernelTable& get();

 private:
  std::unordered_map<std::string_view, MakeKernel> makers_;
};

// The families.
void add_elementwise_kernels(KernelTable& table);
void add_shape_kernels(KernelTable& table);
void add_reduce_kernels(KernelTable& table);
void add_dot_kernels(KernelTable& table);
void add_line_kernels(KernelTable& table);
void add_random_kernels(KernelTable& table);
void add_sort_kernels(KernelTable& table);
void add_window_kernels(KernelTable& table);
void add_slice_kernels(KernelTable& table);
void add_indexing_kernels(KernelTable& table);
void add_conv_kernels(KernelTable& table);
void add_linalg_kernels(KernelTable& table);

}  // namespace tessera::cpu
