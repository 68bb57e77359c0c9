// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/api.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "runtime/completion.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

// The header's major version must be the plugin's; a plugin may be older by minor versions, and then lacks entries.
constexpr int kOldestMinor = 40;

const PJRT_Api* open(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw StateError(str("Client::pjrt: the plugin ", path, " cannot be loaded: ", ::dlerror()));
  }
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(library, "GetPjrtApi"));
  if (get == nullptr) throw StateError(str("Client::pjrt: ", path, " is no PJRT plugin: it has no GetPjrtApi"));
  const PJRT_Api* table = get();
  // Nothing of the table but its size and its version is where it is in all versions.
  if (table == nullptr || table->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy)) {
    throw StateError(str("Client::pjrt: ", path, " is no PJRT plugin: GetPjrtApi gives no table of entries"));
  }
  const auto& version = table->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR || version.minor_version < kOldestMinor) {
    throw StateError(str("Client::pjrt: ", path, " has version ", version.major_version, ".", version.minor_version,
                         " of the PJRT C API; expected ", PJRT_API_MAJOR, ".", kOldestMinor,
                         " or later, as this build is for ", PJRT_API_MAJOR, ".", PJRT_API_MINOR));
  }
  return table;
}

std::string first_line_or_all(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

const Api& Api::load(const std::string& path) {
  static auto* mutex = new std::mutex;
  static auto* loaded = new std::map<std::string, std::unique_ptr<const Api>>;
  std::lock_guard lock(*mutex);
  auto& api = (*loaded)[path];
  if (!api) {
    std::unique_ptr<const Api> made(new Api(path, open(path)));
    auto args = sized<PJRT_Plugin_Initialize_Args>();
    if (made->has(&PJRT_Api::PJRT_Plugin_Initialize)) PJRT_CALL(*made, PJRT_Plugin_Initialize, args, "initialize");
    api = std::move(made);
  }
  return *api;
}

std::string Api::version() const {
  return str(table_->pjrt_api_version.major_version, ".", table_->pjrt_api_version.minor_version);
}

const PJRT_Extension_Base* Api::extension(PJRT_Extension_Type type) const {
  for (const PJRT_Extension_Base* at = table_->extension_start; at != nullptr; at = at->next) {
    if (at->type == type) return at;
  }
  return nullptr;
}

void Api::lacks(const char* name) const {
  throw UnimplementedError(str("the PJRT plugin ", path_, " (version ", version(), " of the API) has no ", name));
}

void Api::raise(PJRT_Error* error, const char* doing) const {
  auto message = sized<PJRT_Error_Message_Args>();
  message.error = error;
  table_->PJRT_Error_Message(&message);
  std::string text(message.message == nullptr ? "" : message.message,
                   message.message == nullptr ? 0 : message.message_size);
  auto code = sized<PJRT_Error_GetCode_Args>();
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  if (has(&PJRT_Api::PJRT_Error_GetCode)) {
    if (PJRT_Error* nested = table_->PJRT_Error_GetCode(&code)) {
      auto args = sized<PJRT_Error_Destroy_Args>();
      args.error = nested;
      table_->PJRT_Error_Destroy(&args);
    }
  }
  auto args = sized<PJRT_Error_Destroy_Args>();
  args.error = error;
  table_->PJRT_Error_Destroy(&args);
  text = str("PJRT plugin ", path_, ": it could not ", doing, ": ", first_line_or_all(std::move(text)));
  switch (code.code) {
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      throw ResourceExhaustedError(text);
    case PJRT_Error_Code_UNIMPLEMENTED:
      throw UnimplementedError(text);
    case PJRT_Error_Code_INVALID_ARGUMENT:
      throw ValueError(text);
    default:
      throw StateError(text);
  }
}

void Api::check(PJRT_Error* error, const char* doing) const {
  if (error != nullptr) raise(error, doing);
}

std::exception_ptr Api::exception(PJRT_Error* error, const char* doing) const noexcept {
  if (error == nullptr) return nullptr;
  return runtime::error_of([&] { raise(error, doing); });
}

namespace {
// What is told when an event of the plugin is ready.
struct Pending {
  const Api& api;
  PJRT_Event* event;
  const char* doing;
  std::shared_ptr<runtime::Completion> done = std::make_shared<runtime::Completion>();
};

void destroy(const Api& api, PJRT_Event* event) {
  auto args = sized<PJRT_Event_Destroy_Args>();
  args.event = event;
  static_cast<void>(
      api.exception(api.entry(&PJRT_Api::PJRT_Event_Destroy, "PJRT_Event_Destroy")(&args), "end an event"));
}
}  // namespace

runtime::EventPtr Api::event(PJRT_Event* event, const char* doing) const {
  if (event == nullptr) return runtime::ready_event(nullptr);
  auto ready = sized<PJRT_Event_IsReady_Args>();
  ready.event = event;
  PJRT_CALL(*this, PJRT_Event_IsReady, ready, doing);
  if (ready.is_ready) {
    auto result = sized<PJRT_Event_Error_Args>();
    result.event = event;
    auto error = exception(entry(&PJRT_Api::PJRT_Event_Error, "PJRT_Event_Error")(&result), doing);
    destroy(*this, event);
    return runtime::ready_event(error);
  }
  auto* pending = new Pending{*this, event, doing};  // the callback's
  runtime::EventPtr out = pending->done;
  auto args = sized<PJRT_Event_OnReady_Args>();
  args.event = event;
  args.user_arg = pending;
  args.callback = [](PJRT_Error* error, void* told) {
    std::unique_ptr<Pending> p(static_cast<Pending*>(told));
    auto kept = p->api.exception(error, p->doing);
    destroy(p->api, p->event);
    p->done->complete(std::move(kept));
  };
  if (auto* error = entry(&PJRT_Api::PJRT_Event_OnReady, "PJRT_Event_OnReady")(&args)) {
    delete pending;
    raise(error, doing);
  }
  return out;
}

}  // namespace tessera::pjrt_engine
