// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/plugin_client.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "base/report/log.h"
#include "base/strings.h"
#include "engines/pjrt/client_options.h"
#include "runtime/completion.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

PJRT_NamedValue named(const std::string& name, const PjrtOptions::Value& value) {
  auto out = sized<PJRT_NamedValue>();
  out.name = name.c_str();
  out.name_size = name.size();
  out.value_size = 1;
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          out.type = PJRT_NamedValue_kString;
          out.string_value = v.c_str();
          out.value_size = v.size();
        } else if constexpr (std::is_same_v<T, bool>) {
          out.type = PJRT_NamedValue_kBool;
          out.bool_value = v;
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          out.type = PJRT_NamedValue_kInt64;
          out.int64_value = v;
        } else if constexpr (std::is_same_v<T, float>) {
          out.type = PJRT_NamedValue_kFloat;
          out.float_value = v;
        } else {
          out.type = PJRT_NamedValue_kInt64List;
          out.int64_array_value = v.data();
          out.value_size = v.size();
        }
      },
      value);
  return out;
}

std::string cache_folder(const PjrtOptions& options) {
  const char* set = std::getenv("TESSERA_COMPILATION_CACHE");
  return !options.compilation_cache.empty() || set == nullptr ? options.compilation_cache : set;
}

}  // namespace

PluginClient::PluginClient(const Api& api, const PjrtOptions& options)
    : api_(api), cache_(cache_folder(options), options.compilation_cache_bytes), client_(api) {
  const auto told = client_options(options);
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, value] : told) values.push_back(named(name, value));
  auto create = sized<PJRT_Client_Create_Args>();
  create.create_options = values.data();
  create.num_options = values.size();
  PJRT_CALL(api_, PJRT_Client_Create, create, "make a client");
  client_.handle = create.client;
  auto platform = sized<PJRT_Client_PlatformName_Args>();
  platform.client = client_.handle;
  PJRT_CALL(api_, PJRT_Client_PlatformName, platform, "name its platform");
  platform_.assign(platform.platform_name, platform.platform_name_size);
  turns_ = std::make_unique<Turns>(platform_ == "cpu");
  auto version = sized<PJRT_Client_PlatformVersion_Args>();
  version.client = client_.handle;
  if (api_.has(&PJRT_Api::PJRT_Client_PlatformVersion)) {
    PJRT_CALL(api_, PJRT_Client_PlatformVersion, version, "name its version");
    version_.assign(version.platform_version, version.platform_version_size);
  }
  auto process = sized<PJRT_Client_ProcessIndex_Args>();
  process.client = client_.handle;
  PJRT_CALL(api_, PJRT_Client_ProcessIndex, process, "tell its process");
  process_index_ = process.process_index;
  describe_devices();
  base::log(LogLevel::Info, "plugin ", api_.path(), " (version ", api_.version(), " of the PJRT C API): ", platform_,
            " ", version_, ", ", described_.size(), " devices, process ", process_index_, " of ", process_count_);
}

void Turns::take(const std::function<std::vector<runtime::EventPtr>()>& start) {
  std::lock_guard lock(mutex_);
  // What failed is told where its results are read.
  for (const auto& e : last_) static_cast<void>(runtime::error_of([&] { e->wait(); }));
  last_.clear();
  auto ends = start();
  if (one_by_one_) last_ = std::move(ends);
}

PluginClient::Handle::~Handle() {
  if (handle == nullptr || !api.has(&PJRT_Api::PJRT_Client_Destroy)) return;
  auto args = sized<PJRT_Client_Destroy_Args>();
  args.client = handle;
  static_cast<void>(
      api.exception(api.entry(&PJRT_Api::PJRT_Client_Destroy, "PJRT_Client_Destroy")(&args), "end a client"));
}

void PluginClient::describe_devices() {
  auto list = sized<PJRT_Client_Devices_Args>();
  list.client = client_.handle;
  PJRT_CALL(api_, PJRT_Client_Devices, list, "list its devices");
  if (list.num_devices == 0) throw StateError(str("Client::pjrt: the plugin ", api_.path(), " has no devices"));
  struct Listed {
    mesh::DeviceDescription description;
    PJRT_Device* device;
  };
  std::vector<Listed> all;
  for (std::size_t i = 0; i < list.num_devices; ++i) {
    auto description = sized<PJRT_Device_GetDescription_Args>();
    description.device = list.devices[i];
    PJRT_CALL(api_, PJRT_Device_GetDescription, description, "describe a device");
    auto id = sized<PJRT_DeviceDescription_Id_Args>();
    id.device_description = description.device_description;
    PJRT_CALL(api_, PJRT_DeviceDescription_Id, id, "tell a device's id");
    auto process = sized<PJRT_DeviceDescription_ProcessIndex_Args>();
    process.device_description = description.device_description;
    PJRT_CALL(api_, PJRT_DeviceDescription_ProcessIndex, process, "tell a device's process");
    Listed& to = all.emplace_back();
    to.description.id = id.id;
    to.description.process_index = process.process_index;
    to.device = list.devices[i];
    read_attributes(description.device_description, to.description);
    process_count_ = std::max(process_count_, process.process_index + 1);
  }
  std::ranges::sort(all, {}, [](const Listed& d) { return d.description.id; });
  for (auto& d : all) {
    devices_.push_back(d.description.process_index == process_index_ ? d.device : nullptr);
    described_.push_back(std::move(d.description));
  }
}

std::string PluginClient::device_word() const {
  std::string out = platform_ + "Device";
  out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out;
}

void PluginClient::read_attributes(PJRT_DeviceDescription* of, mesh::DeviceDescription& out) const {
  if (!api_.has(&PJRT_Api::PJRT_DeviceDescription_Attributes)) return;
  auto args = sized<PJRT_DeviceDescription_Attributes_Args>();
  args.device_description = of;
  PJRT_CALL(api_, PJRT_DeviceDescription_Attributes, args, "describe a device");
  for (std::size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& a = args.attributes[i];
    const std::string_view name(a.name, a.name_size);
    if (name == "coords" && a.type == PJRT_NamedValue_kInt64List) {
      out.coords.assign(a.int64_array_value, a.int64_array_value + a.value_size);
    } else if (name == "core_on_chip" && a.type == PJRT_NamedValue_kInt64) {
      out.core_on_chip = a.int64_value;
    } else if (name == "slice_index" && a.type == PJRT_NamedValue_kInt64) {
      out.slice_index = a.int64_value;
    }
  }
}

std::string PluginClient::place(const PJRT_Device* d) const {
  auto at = std::ranges::find(devices_, d);
  if (at == devices_.end()) return platform_;
  return str(platform_, ":", described_[static_cast<std::size_t>(at - devices_.begin())].id);
}

}  // namespace tessera::pjrt_engine
