// SPDX-License-Identifier: Apache-2.0
// The Layouts extension: every buffer is a row-major array. Layouts are written as XLA prints them, minor to major.
#include "entries.h"
#include "objects.h"

struct PJRT_Layouts_SerializedLayout {
  std::string text;
};

namespace tessera::pjrt {

namespace {
PJRT_Layouts_MemoryLayout* new_layout(std::size_t rank) { return new PJRT_Layouts_MemoryLayout{row_major_text(rank)}; }
}  // namespace

std::string row_major_text(std::size_t rank) {
  std::string out = "{";
  for (std::size_t d = rank; d > 0; --d) out += str(d == rank ? "" : ",", d - 1);
  return out + "}";
}

void layout_destroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args) { delete args.layout; }

void layout_serialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  args.serialized_layout = new PJRT_Layouts_SerializedLayout{args.layout->text};
  give(args.serialized_layout->text, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout* s) { delete s; };
}

void layout_of_client(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) { args.layout = new_layout(args.num_dims); }
void layout_of_topology(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& args) {
  args.layout = new_layout(args.num_dims);
}
void layout_of_buffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  args.layout = new_layout(args.buffer->shape.size());
}

void layouts_of_outputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  auto& list = args.executable->executable->out_layouts.pointers;
  args.num_outputs = list.size();
  args.layouts = list.data();
}
void layouts_of_parameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  auto& list = args.executable->executable->in_layouts.pointers;
  args.num_parameters = list.size();
  args.layouts = list.data();
}

}  // namespace tessera::pjrt
