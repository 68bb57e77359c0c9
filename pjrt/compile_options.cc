// SPDX-License-Identifier: Apache-2.0
// Numbers of fields: xla/pjrt/proto/compile_options.proto and xla/xla_data.proto of OpenXLA.
#include "compile_options.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/protobuf.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::pjrt {

namespace {

constexpr const char* kOptions = "compile options";
using protobuf::Field;

void each_field(const Field& message, const std::function<void(const Field&)>& f) {
  protobuf::each_field(message.bytes, message.offset, kOptions, f);
}

std::int64_t count(const Field& field, const char* name) {
  auto n = static_cast<std::int64_t>(field.value);
  constexpr std::int64_t kMost = 1 << 20;
  if (n < 1 || n > kMost) throw ValueError(str("compile options: ", name, " = ", n, "; expected 1..", kMost));
  return n;
}

// DeviceAssignmentProto: one list of replicas for each partition.
void device_assignment(const Field& message, CompileOptions& out) {
  std::vector<std::vector<std::int64_t>> by_partition;
  each_field(message, [&](const Field& f) {
    if (f.number != 3) return;
    auto& ids = by_partition.emplace_back();
    each_field(f, [&](const Field& g) {
      if (g.number == 1)
        protobuf::each_number(g, kOptions, [&](std::uint64_t n) { ids.push_back(static_cast<std::int64_t>(n)); });
    });
  });
  if (by_partition.empty()) return;
  for (std::size_t r = 0; r < by_partition[0].size(); ++r) {
    for (const auto& ids : by_partition) {
      if (ids.size() != by_partition[0].size()) {
        throw ValueError("compile options: the device assignment has partitions of different numbers of replicas");
      }
      if (ids[r] < 0) throw ValueError(str("compile options: the device assignment has device id ", ids[r]));
      out.device_ids.push_back(ids[r]);
    }
  }
}

void build_options(const Field& message, CompileOptions& out) {
  each_field(message, [&](const Field& f) {
    switch (f.number) {
      case 1:
        out.device_ordinal = static_cast<std::int64_t>(f.value);
        break;
      case 4:
        out.num_replicas = count(f, "num_replicas");
        break;
      case 5:
        out.num_partitions = count(f, "num_partitions");
        break;
      case 9:
        device_assignment(f, out);
        break;
      case 12:
        protobuf::each_number(f, kOptions, [&](std::uint64_t n) { out.propagate_to_outputs.push_back(n != 0); });
        break;
      default:
        break;
    }
  });
}

// Options of XLA that are there for every backend or for its CPU backend, are true or false, and that programs set.
constexpr std::array<std::string_view, 23> kTrueOrFalse = {
    "xla_allow_excess_precision",
    "xla_cpu_enable_concurrency_optimized_scheduler",
    "xla_cpu_enable_fast_math",
    "xla_cpu_enable_fast_min_max",
    "xla_cpu_fast_math_honor_division",
    "xla_cpu_fast_math_honor_functions",
    "xla_cpu_fast_math_honor_infs",
    "xla_cpu_fast_math_honor_nans",
    "xla_cpu_multi_thread_eigen",
    "xla_cpu_use_thunk_runtime",
    "xla_disable_all_hlo_passes",
    "xla_dump_fusion_visualization",
    "xla_dump_hlo_as_dot",
    "xla_dump_hlo_as_html",
    "xla_dump_hlo_as_proto",
    "xla_dump_hlo_as_text",
    "xla_dump_hlo_as_url",
    "xla_dump_hlo_snapshots",
    "xla_embed_ir_in_executable",
    "xla_enable_fast_math",
    "xla_llvm_disable_expensive_passes",
    "xla_test_all_input_layouts",
    "xla_test_all_output_layouts",
};

// One of XLA's options, set by name: none has an effect here. Those of any version of XLA are taken; what no version
// has, or a text for one that is true or false, is refused in XLA's words, which callers look for.
void check_override(const Field& entry) {
  std::string name, text;
  bool is_text = false;
  each_field(entry, [&](const Field& f) {
    if (f.number == 1) name = f.bytes;
    if (f.number != 2) return;
    each_field(f, [&](const Field& value) {
      is_text = value.number == 1 && value.kind == protobuf::Kind::Bytes;
      text = value.bytes;
    });
  });
  if (!name.starts_with("xla_")) throw ValueError(str("No such compile option: '", name, "'"));
  bool asks = std::find(kTrueOrFalse.begin(), kTrueOrFalse.end(), name) != kTrueOrFalse.end();
  if (is_text && asks && text != "true" && text != "false" && text != "True" && text != "False") {
    throw ValueError(str("While setting option ", name, ", '", text, "' is not a valid bool value."));
  }
}

}  // namespace

CompileOptions parse_compile_options(std::string_view bytes) {
  CompileOptions out;
  protobuf::each_field(bytes, 0, kOptions, [&](const Field& f) {
    if (f.number == 3) build_options(f, out);
    if (f.number == 7) check_override(f);
  });
  std::int64_t n = out.num_replicas * out.num_partitions;
  if (!out.device_ids.empty() && static_cast<std::int64_t>(out.device_ids.size()) != n) {
    throw ValueError(str("compile options: a device assignment of ", out.device_ids.size(), " devices for ",
                         out.num_replicas, " replicas of ", out.num_partitions, " partitions"));
  }
  return out;
}

std::string serialized_device_assignment(std::int64_t replicas, std::int64_t partitions,
                                         const std::vector<std::int64_t>& device_ids) {
  std::string out;
  protobuf::put_number(out, 1, static_cast<std::uint64_t>(replicas));
  protobuf::put_number(out, 2, static_cast<std::uint64_t>(partitions));
  for (std::int64_t p = 0; p < partitions; ++p) {
    std::vector<std::int64_t> ids;
    for (std::int64_t r = 0; r < replicas; ++r) ids.push_back(device_ids[static_cast<std::size_t>(r * partitions + p)]);
    std::string computation;
    protobuf::put_numbers(computation, 1, ids);
    protobuf::put_bytes(out, 3, computation);
  }
  return out;
}

}  // namespace tessera::pjrt
