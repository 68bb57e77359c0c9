// SPDX-License-Identifier: Apache-2.0
// What the Python package asks of the library beside PJRT: plain C, for ctypes.
#include "python_api.h"

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hlo/host/host_callbacks.h"
#include "hlo/module.h"
#include "objects.h"
#include "runtime/write_trace.h"
#include "tessera/comm_plan.h"
#include "tessera/pictures.h"

namespace tessera::pjrt {

namespace {
std::atomic<TesseraShardingCallback> inspector = nullptr;
thread_local std::string answer;  // what the last call on this thread gave

nlohmann::json json_of(const CommStep& s) {
  return {{"op", s.op},
          {"axes", s.axes},
          {"bytes_per_device", s.bytes_per_device},
          {"times", s.times},
          {"value", s.value},
          {"equation", s.equation},
          {"file", s.loc.file == nullptr ? "" : s.loc.file},
          {"line", s.loc.line},
          {"reason", s.reason},
          {"hint", advice(s)}};
}

// Of a program as each of its devices runs it, whatever devices there are.
nlohmann::json plan_of(std::string_view module, std::int64_t devices) {
  ir::Module m = hlo::import_module(std::string(module), {.name = "program"});
  if (m.num_devices() == 1) m.num_partitions = devices;
  Client client = Client::cpu({.devices = m.num_devices()});
  ClientScope scope(client);
  auto all = client.devices();
  program::PlacedStablehlo placed(m, m.name, {all.begin(), all.end()}, {});
  const CommPlan& plan = placed.compile()->lowered->comm_plan();
  nlohmann::json steps = nlohmann::json::array();
  for (const auto& s : plan.steps()) steps.push_back(json_of(s));
  return {{"steps", steps}, {"bytes_per_device", plan.bytes_per_device()}, {"devices", m.num_devices()}};
}

template <class F>
const char* answered(const F& f) noexcept {
  try {
    answer = f().dump();
  } catch (const std::exception& e) {
    answer = nlohmann::json{{"error", e.what()}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return answer.c_str();
}

std::vector<std::string> narrow_names(const std::vector<hlo::Elem>& elements) {
  std::vector<std::string> out;
  for (auto e : elements) out.push_back(is_narrow(e) ? hlo::to_string(e) : std::string());
  return out;
}

ops::HostFunction host_function(TesseraHostCallback call, const hlo::HostCall& of) {
  return [call, number = of.number, results = of.results, in_names = narrow_names(of.in),
          out_names = narrow_names(of.out)](const std::vector<HostArray>& in) {
    std::vector<HostArray> out;
    for (const auto& t : results) out.emplace_back(t.dtype, t.shape);
    auto described = [](const std::vector<HostArray>& arrays, const std::vector<std::string>& names) {
      std::vector<TesseraHostArray> list;
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        const HostArray& a = arrays[i];
        list.push_back({const_cast<void*>(a.data()), a.shape().data(), static_cast<std::int32_t>(a.shape().size()),
                        static_cast<std::int32_t>(a.dtype()), names[i].empty() ? nullptr : names[i].c_str()});
      }
      return list;
    };
    auto ins = described(in, in_names);
    auto outs = described(out, out_names);
    std::string error(4096, '\0');
    if (call(number, ins.data(), static_cast<std::int32_t>(ins.size()), outs.data(),
             static_cast<std::int32_t>(outs.size()), error.data(), static_cast<std::int32_t>(error.size())) != 0) {
      throw StateError(str("CpuCallback error: ", error.c_str()));
    }
    return out;
  };
}
}  // namespace

TesseraShardingCallback sharding_callback() { return inspector.load(); }

}  // namespace tessera::pjrt

using namespace tessera;

const char* tessera_comm_plan(const char* module, std::size_t size, std::int64_t devices) {
  return pjrt::answered([&] { return pjrt::plan_of({module, size}, devices); });
}

void tessera_set_host_callback(TesseraHostCallback call) {
  if (call == nullptr) {
    hlo::set_host_callbacks(nullptr);
    return;
  }
  hlo::set_host_callbacks([call](const hlo::HostCall& of) { return pjrt::host_function(call, of); });
}

void tessera_set_sharding_callback(TesseraShardingCallback call) { pjrt::inspector.store(call); }

std::int64_t tessera_set_comm_budget(std::int64_t bytes) { return std::exchange(pjrt::comm_budget(), bytes); }

const char* tessera_begin_trace(const char* path) {
  return pjrt::answered([&] { return nlohmann::json{{"trace", runtime::begin_trace(path)}}; });
}

const char* tessera_end_trace(std::int64_t trace) {
  return pjrt::answered([&] {
    runtime::end_trace(trace);
    return nlohmann::json::object();
  });
}
