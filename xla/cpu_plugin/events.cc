// SPDX-License-Identifier: Apache-2.0
#include "entries.h"
#include "objects.h"

namespace xla_cpu {

PJRT_Event* new_event(xla::Future<> ready) { return new PJRT_Event{std::move(ready), std::nullopt}; }

void error_destroy(PJRT_Error_Destroy_Args* args) { delete static_cast<Error*>(args->error); }
void error_message(PJRT_Error_Message_Args* args) {
  give(static_cast<const Error*>(args->error)->message, args->message, args->message_size);
}
void error_get_code(PJRT_Error_GetCode_Args& args) { args.code = static_cast<const Error*>(args.error)->code; }
// Errors here carry no payloads.
void error_for_each_payload(PJRT_Error_ForEachPayload_Args&) {}

void event_destroy(PJRT_Event_Destroy_Args& args) { delete args.event; }
void event_is_ready(PJRT_Event_IsReady_Args& args) { args.is_ready = args.event->future.IsReady(); }
void event_error(PJRT_Event_Error_Args& args) {
  if (!args.event->future.IsReady()) refuse("PJRT_Event_Error: the event is not ready");
  check(args.event->future.Await());
}
void event_await(PJRT_Event_Await_Args& args) { check(args.event->future.Await()); }
void event_on_ready(PJRT_Event_OnReady_Args& args) {
  args.event->future.OnReady(
      [callback = args.callback, arg = args.user_arg](const absl::Status& status) { callback(error_of(status), arg); });
}

void event_create(PJRT_Event_Create_Args& args) {
  auto [promise, future] = xla::MakePromise<>();
  args.event = new PJRT_Event{std::move(future), std::move(promise)};
}
void event_set(PJRT_Event_Set_Args& args) {
  if (!args.event->promise) refuse("PJRT_Event_Set: the event was set before, or PJRT_Event_Create did not make it");
  auto promise = std::move(*args.event->promise);
  args.event->promise.reset();
  promise.Set(
      absl::Status(static_cast<absl::StatusCode>(args.error_code), view(args.error_message, args.error_message_size)));
}

}  // namespace xla_cpu
