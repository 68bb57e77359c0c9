// SPDX-License-Identifier: Apache-2.0
// Convolutions. The kernel computes in one dtype; a result of another is converted on the way in or out.
#include <array>
#include <memory>
#include <vector>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/products/conv_loops.h"
#include "ops/linalg/conv.h"

namespace tessera::cpu {

namespace {

kernels::ConvDims dims_of(const Dims& spec) { return {spec[0], spec[1], Dims(spec.begin() + 2, spec.end())}; }

kernels::ConvSpec spec_of(const ops::Conv& p, const Request& r, DType work) {
  kernels::ConvSpec s;
  s.dtype = work;
  s.lhs_shape = r.in[0].shape;
  s.rhs_shape = r.in[1].shape;
  s.out_shape = r.out[0].shape;
  s.lhs = dims_of(p.lhs_spec);
  s.rhs = dims_of(p.rhs_spec);
  s.out = dims_of(p.out_spec);
  s.strides = p.strides;
  s.pad_low = p.pad_low;
  s.pad_high = p.pad_high;
  s.lhs_dilation = p.lhs_dilation;
  s.rhs_dilation = p.rhs_dilation;
  s.feature_groups = p.feature_groups;
  s.batch_groups = p.batch_groups;
  s.fixed_order = r.fixed_order;
  return s;
}

// Memory for an array of the dtype that is computed in.
struct Converted {
  std::unique_ptr<char[]> memory;
  explicit Converted(std::int64_t bytes) : memory(new char[static_cast<std::size_t>(bytes)]) {}
};

double kernel_positions(const ops::Conv& p, const Shape& kernel) {
  double n = static_cast<double>(kernel[static_cast<std::size_t>(p.rhs_spec[1])]);
  for (std::size_t i = 2; i < p.rhs_spec.size(); ++i) {
    n *= static_cast<double>(kernel[static_cast<std::size_t>(p.rhs_spec[i])]);
  }
  return n;
}

Kernel make_conv(const Request& r) {
  const auto& p = ir::get<ops::Conv>(r.attrs);
  DType in = r.in[0].dtype;
  DType out = r.out[0].dtype;
  Kernel k;
  if (is_bool(in) || is_bool(out)) return k;
  // Sums of integers are exact and sums of floats are not: neither can stand for the other.
  if (in != out && (is_complex(in) || is_complex(out) || is_float(in) != is_float(out))) return k;
  DType work = dtype_size(out) >= dtype_size(in) ? out : in;
  auto widen = kernels::ew_find(kernels::EwOp::Convert, in, work);
  auto narrow = kernels::ew_find(kernels::EwOp::Convert, work, out);
  if (in != out && (widen == nullptr || narrow == nullptr)) return k;
  auto spec = std::make_shared<const kernels::ConvSpec>(spec_of(p, r, work));
  double flops = 2.0 * static_cast<double>(r.out[0].size()) * kernel_positions(p, r.in[1].shape);
  k.cost = 500 + flops / (in == DType::F32 || in == DType::BF16 ? 60 : 5);
  if (in == out) {
    k.run = [spec](const void* const* from, void* const* to) { kernels::conv(*spec, from[0], from[1], to[0]); };
    return k;
  }
  k.run = [spec, in, work, out, widen, narrow, size = std::array{r.in[0].size(), r.in[1].size(), r.out[0].size()}](
              const void* const* from, void* const* to) {
    std::array<const void*, 2> operand{from[0], from[1]};
    std::vector<Converted> memory;
    for (std::size_t i = 0; in != work && i < 2; ++i) {
      memory.emplace_back(size[i] * dtype_size(work));
      widen(from[i], nullptr, nullptr, memory.back().memory.get(), size[i]);
      operand[i] = memory.back().memory.get();
    }
    if (work == out) return kernels::conv(*spec, operand[0], operand[1], to[0]);
    Converted wide(size[2] * dtype_size(work));
    kernels::conv(*spec, operand[0], operand[1], wide.memory.get());
    narrow(wide.memory.get(), nullptr, nullptr, to[0], size[2]);
  };
  return k;
}

}  // namespace

void add_conv_kernels(KernelTable& table) { table.add("conv_general_dilated", make_conv); }

}  // namespace tessera::cpu
