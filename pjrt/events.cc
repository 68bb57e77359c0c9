// SPDX-License-Identifier: Apache-2.0
#include "entries.h"
#include "objects.h"

namespace tessera::pjrt {

namespace {
using runtime::Completion;

// What a caller said went wrong, for those who wait.
class CallerError : public StateError {
 public:
  using StateError::StateError;
};
}  // namespace

namespace {
// One for everything that is ready without an error: most results are when their call returns.
PJRT_Event* always_ready() {
  static auto* event = new PJRT_Event;
  return event;
}
}  // namespace

PJRT_Event* new_event(runtime::EventPtr e, std::uint32_t callers) {
  if (!e || (e->ready() && !e->error())) return always_ready();
  return new PJRT_Event{std::move(e), nullptr, callers};
}

void error_destroy(PJRT_Error_Destroy_Args* args) { delete static_cast<Error*>(args->error); }
void error_message(PJRT_Error_Message_Args* args) {
  give(static_cast<const Error*>(args->error)->message, args->message, args->message_size);
}
void error_get_code(PJRT_Error_GetCode_Args& args) { args.code = static_cast<const Error*>(args.error)->code; }
// Errors here carry no payloads.
void error_for_each_payload(PJRT_Error_ForEachPayload_Args&) {}

void event_destroy(PJRT_Event_Destroy_Args& args) {
  if (args.event != always_ready() && args.event->callers.fetch_sub(1) == 1) delete args.event;
}

void event_is_ready(PJRT_Event_IsReady_Args& args) {
  args.is_ready = args.event->event == nullptr || args.event->event->ready();
}

PJRT_Error* event_error(PJRT_Event_Error_Args* args) {
  const auto& event = args->event->event;
  return event ? error_of(event->error()) : nullptr;
}

void event_await(PJRT_Event_Await_Args& args) {
  if (args.event->event) args.event->event->wait();
}

void event_on_ready(PJRT_Event_OnReady_Args& args) {
  auto call = [event = args.event->event, callback = args.callback, arg = args.user_arg] {
    callback(event ? error_of(event->error()) : nullptr, arg);
  };
  if (args.event->event) {
    args.event->event->on_ready(call);
  } else {
    call();
  }
}

void event_create(PJRT_Event_Create_Args& args) {
  auto completion = std::make_shared<Completion>();
  args.event = new PJRT_Event{completion, completion};
}

void event_set(PJRT_Event_Set_Args& args) {
  if (!args.event->settable) throw InvalidArgument("PJRT_Event_Set: an event that PJRT_Event_Create did not make");
  std::exception_ptr error;
  if (args.error_code != PJRT_Error_Code_OK) {
    error = std::make_exception_ptr(CallerError(
        str(view(args.error_message, args.error_message_size), " (code ", static_cast<int>(args.error_code), ")")));
  }
  std::exchange(args.event->settable, nullptr)->complete(error);
}

}  // namespace tessera::pjrt
