// SPDX-License-Identifier: Apache-2.0
// The extension with memory layouts as XLA prints them.
#include "entries.h"
#include "objects.h"
#include "types.h"

namespace xla_cpu {

Layouts::Layouts(const std::vector<std::shared_ptr<const xla::PjRtLayout>>& layouts) {
  for (const auto& layout : layouts) {
    pointers.push_back(&list.emplace_back(PJRT_Layouts_MemoryLayout{layout->Serialize()}));
  }
}

namespace {
void give_layouts(std::optional<Layouts>& kept, Executable& e, bool of_outputs, PJRT_Layouts_MemoryLayout**& layouts,
                  std::size_t& count) {
  std::lock_guard lock(e.mutex);
  if (!kept) kept.emplace(value(of_outputs ? e.loaded->GetOutputLayouts() : e.loaded->GetParameterLayouts()));
  layouts = kept->pointers.data();
  count = kept->pointers.size();
}
}  // namespace

void layout_destroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args) { delete args.layout; }
void layout_serialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  auto kept = std::make_unique<PJRT_Layouts_SerializedLayout>();
  kept->text = args.layout->text;
  give(kept->text, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_layout = kept.release();
  args.serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout* l) { delete l; };
}
void layout_of_client(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) {
  absl::Span<const std::int64_t> dims(args.dims, args.num_dims);
  xla::Layout layout = value(args.client->client->GetDefaultLayout(primitive_type(args.type), dims));
  args.layout = new PJRT_Layouts_MemoryLayout{xla::PjRtLayout(std::move(layout)).Serialize()};
}
void layout_of_buffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  args.layout = new PJRT_Layouts_MemoryLayout{args.buffer->buffer->layout()->Serialize()};
}
void layouts_of_outputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  Executable& e = *args.executable->executable;
  give_layouts(e.output_layouts, e, true, args.layouts, args.num_outputs);
}
void layouts_of_parameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  Executable& e = *args.executable->executable;
  give_layouts(e.parameter_layouts, e, false, args.layouts, args.num_parameters);
}

}  // namespace xla_cpu
