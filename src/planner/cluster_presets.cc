// SPDX-License-Identifier: Apache-2.0
// Machines whose figures are published. Rates are the vendors' peaks; `efficiency` is left at 1 where nothing was
// fitted.
#include <algorithm>

#include "base/strings.h"
#include "tessera/cluster_model.h"
#include "tessera/error.h"

namespace tessera {

namespace {

using Kind = ClusterLevel::Kind;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr double kMicrosecond = 1e-6;
constexpr double kTpuEfficiency = 0.95;
// Of a step between slices over the data-centre network, hosts' software included.
constexpr double kDcnLatency = 60 * kMicrosecond;

// A slice of chips and a data-centre network between slices, which carries 100 Gb/s for each host of four chips.
ClusterModel tpu(const std::string& name, ClusterDevice chip, Dims torus, double link, std::int64_t slices,
                 double dcn_chip, const std::string& source) {
  ClusterModel c;
  c.name = name;
  c.source = source;
  c.device = std::move(chip);
  c.device.efficiency = kTpuEfficiency;
  const std::int64_t chips = size_of(torus);
  c.levels.push_back({"ici", Kind::Torus, std::move(torus), true, 1 * kMicrosecond, link, 1, false});
  c.levels.push_back(
      {"dcn", Kind::Switch, {slices}, true, kDcnLatency, dcn_chip * static_cast<double>(chips), 1, false});
  return c;
}

ClusterModel v5e(std::int64_t slices) {
  ClusterDevice chip{
      "TPU v5e", {{DType::BF16, 197 * kTera}, {DType::I8, 394 * kTera}}, 6.1 * kTera, 819 * kGiga, 16 * kGiB};
  ClusterModel c =
      tpu("tpu-v5e-256", std::move(chip), {16, 16}, 50 * kGiga, slices, 3.125 * kGiga,
          "Google Cloud documentation, TPU v5e: 197 TFLOP/s bf16, 16 GB at 819 GB/s, ICI 400 GB/s (four links, both "
          "ways), 2-D torus of 256, data-centre network 6.4 Tb/s per pod; vector rate from 8x128 lanes, four "
          "operations a cycle at 1.5 GHz; efficiency and the network's latency fitted, the links' latency assumed");
  c.overlaps = {"all_gather", "collective_permute"};
  return c;
}

ClusterModel v5p(const std::string& name, Dims torus, std::int64_t slices) {
  ClusterDevice chip{
      "TPU v5p", {{DType::BF16, 459 * kTera}, {DType::I8, 918 * kTera}}, 14 * kTera, 2765 * kGiga, 95 * kGiB};
  ClusterModel c =
      tpu(name, std::move(chip), std::move(torus), 100 * kGiga, slices, 6.25 * kGiga,
          "Google Cloud documentation, TPU v5p: 459 TFLOP/s bf16, 95 GB at 2,765 GB/s, ICI 1,200 GB/s (six links, both "
          "ways), 3-D torus; vector rate from two cores of 8x128 lanes, four operations a cycle at 1.75 GHz; "
          "data-centre network 200 Gb/s per host of four chips and the links' latency assumed, efficiency and the "
          "network's "
          "latency as fitted to v5e");
  c.overlaps = {"all_gather", "collective_permute"};
  return c;
}

ClusterModel h100(std::int64_t nodes) {
  ClusterModel c;
  c.name = "h100-dgx";
  c.source =
      "NVIDIA H100 and DGX H100 data sheets: 989 TFLOP/s bf16 and 1,979 fp8 dense, 67 fp32, 80 GB at 3.35 TB/s, NVLink "
      "900 "
      "GB/s both ways, 400 Gb/s InfiniBand for each GPU; latencies and launch time assumed";
  c.device = {"H100 SXM",
              {{DType::BF16, 989 * kTera},
               {DType::F16, 989 * kTera},
               {DType::F32, 67 * kTera},
               {DType::F64, 67 * kTera},
               {DType::I8, 1979 * kTera}},
              67 * kTera,
              3350 * kGiga,
              80 * kGiB,
              3 * kMicrosecond};
  c.levels.push_back({"nvlink", Kind::Switch, {8}, true, 2 * kMicrosecond, 450 * kGiga});
  c.levels.push_back({"infiniband", Kind::Switch, {nodes}, true, 5 * kMicrosecond, 400 * kGiga});
  return c;
}

ClusterModel a100(std::int64_t nodes) {
  ClusterModel c;
  c.name = "a100-dgx";
  c.source =
      "NVIDIA A100 and DGX A100 data sheets: 312 TFLOP/s bf16, 19.5 fp32, 80 GB at 2,039 GB/s, NVLink 600 GB/s both "
      "ways, "
      "eight links of 200 Gb/s InfiniBand per node; latencies and launch time assumed";
  c.device = {"A100 SXM 80 GB",
              {{DType::BF16, 312 * kTera},
               {DType::F16, 312 * kTera},
               {DType::F32, 19.5 * kTera},
               {DType::F64, 19.5 * kTera},
               {DType::I8, 624 * kTera}},
              19.5 * kTera,
              2039 * kGiga,
              80 * kGiB,
              3 * kMicrosecond};
  c.levels.push_back({"nvlink", Kind::Switch, {8}, true, 2 * kMicrosecond, 300 * kGiga});
  c.levels.push_back({"infiniband", Kind::Switch, {nodes}, true, 5 * kMicrosecond, 200 * kGiga});
  return c;
}

ClusterModel pcie(std::int64_t nodes) {
  ClusterModel c;
  c.name = "l4-pcie";
  c.source =
      "NVIDIA L4 data sheet: 121 TFLOP/s bf16 dense, 30.3 fp32, 24 GB at 300 GB/s; PCIe 4.0 x16 (32 GB/s) that four "
      "cards "
      "of a host share; 25 Gb/s Ethernet; latencies and launch time assumed";
  c.device = {
      "L4",
      {{DType::BF16, 121 * kTera}, {DType::F16, 121 * kTera}, {DType::F32, 30.3 * kTera}, {DType::I8, 242 * kTera}},
      30.3 * kTera,
      300 * kGiga,
      24 * kGiB,
      4 * kMicrosecond};
  c.levels.push_back({"pcie", Kind::Shared, {4}, true, 10 * kMicrosecond, 32 * kGiga});
  c.levels.push_back({"ethernet", Kind::Switch, {nodes}, true, 30 * kMicrosecond, 3.125 * kGiga});
  return c;
}

struct Preset {
  const char* name;
  std::int64_t groups;
  ClusterModel (*make)(std::int64_t groups);
};

constexpr Preset kPresets[] = {
    {"tpu-v5e-256", 1, [](std::int64_t n) { return v5e(n); }},
    {"tpu-v5p-128", 1,
     [](std::int64_t n) {
       return v5p("tpu-v5p-128", {4, 4, 4}, n);
     }},
    {"tpu-v5p-256", 1,
     [](std::int64_t n) {
       return v5p("tpu-v5p-256", {4, 4, 8}, n);
     }},
    {"tpu-v5p-512", 1,
     [](std::int64_t n) {
       return v5p("tpu-v5p-512", {4, 8, 8}, n);
     }},
    {"tpu-v5p-1024", 1,
     [](std::int64_t n) {
       return v5p("tpu-v5p-1024", {8, 8, 8}, n);
     }},
    {"tpu-v5p-2048", 1,
     [](std::int64_t n) {
       return v5p("tpu-v5p-2048", {16, 8, 8}, n);
     }},
    {"tpu-v5p-4096", 1,
     [](std::int64_t n) {
       return v5p("tpu-v5p-4096", {16, 16, 8}, n);
     }},
    {"h100-dgx", 1, [](std::int64_t n) { return h100(n); }},
    {"a100-dgx", 1, [](std::int64_t n) { return a100(n); }},
    {"l4-pcie", 1, [](std::int64_t n) { return pcie(n); }},
};

}  // namespace

std::vector<std::string> ClusterModel::presets() {
  std::vector<std::string> out;
  for (const auto& p : kPresets) out.emplace_back(p.name);
  return out;
}

ClusterModel ClusterModel::preset(const std::string& name, std::int64_t groups, const Loc& loc) {
  for (const auto& p : kPresets) {
    if (name != p.name) continue;
    if (groups < 0) throw ValueError(str("ClusterModel::preset: groups is ", groups, "; expected 1 or more"));
    ClusterModel c = p.make(groups == 0 ? p.groups : groups);
    c.check("ClusterModel::preset", loc);
    return c;
  }
  throw ValueError(str("ClusterModel::preset: there is no preset \"", name, "\"; expected one of ", join(presets())));
}

}  // namespace tessera
