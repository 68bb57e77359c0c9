// SPDX-License-Identifier: Apache-2.0
// The Layouts extension. Data lies row-major; an order of dimensions that a caller asks for is kept with the buffer and
// told again, and whoever wants the memory itself is refused. Layouts are written as XLA prints them, minor to major.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "entries.h"
#include "objects.h"

struct PJRT_Layouts_SerializedLayout {
  std::string text;
};

namespace tessera::pjrt {

namespace {
PJRT_Layouts_MemoryLayout* new_layout(std::size_t rank, const Order& order = {}) {
  return new PJRT_Layouts_MemoryLayout{layout_text(order, rank)};
}

Order checked(const Order& minor_to_major, std::size_t rank) {
  Order sorted = minor_to_major;
  std::ranges::sort(sorted);
  for (std::size_t d = 0; d < std::max(rank, sorted.size()); ++d) {
    if (d >= rank || d >= sorted.size() || sorted[d] != static_cast<std::int64_t>(d)) {
      throw InvalidArgument(str("a memory layout {", join(minor_to_major, ","), "} for an array of rank ", rank));
    }
  }
  return minor_to_major == full_order({}, rank) ? Order{} : minor_to_major;
}
}  // namespace

Order asked_layout(std::string_view text, std::size_t rank) {
  if (text.empty()) return {};
  Order dims;
  bool closed = false;
  for (std::size_t at = 1; at < text.size() && !closed;) {
    std::int64_t d = 0;
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), d);
    if (error != std::errc() && !(text[at] == '}' && dims.empty())) break;
    if (error == std::errc()) dims.push_back(d);
    at = error == std::errc() ? static_cast<std::size_t>(end - text.data()) : at;
    closed = at + 1 == text.size() && text[at] == '}';
    if (!closed && (at >= text.size() || text[at] != ',')) break;
    ++at;
  }
  if (!closed)
    throw UnimplementedError(str("the memory layout ", text, "; buffers here are plain arrays without tiles"));
  return checked(dims, rank);
}

Order asked_layout(const PJRT_Buffer_MemoryLayout* layout, std::size_t rank) {
  if (layout == nullptr || layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled) return {};
  const auto& t = layout->tiled;
  if (t.num_tiles != 0) throw UnimplementedError("a tiled memory layout; buffers here are plain arrays");
  return checked({t.minor_to_major, t.minor_to_major + t.minor_to_major_size}, rank);
}

Order full_order(const Order& order, std::size_t rank) {
  if (!order.empty()) return order;
  Order out(rank);
  std::iota(out.rbegin(), out.rend(), 0);
  return out;
}

std::string layout_text(const Order& order, std::size_t rank) {
  return str("{", join(full_order(order, rank), ","), "}");
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
  args.layout = new_layout(args.buffer->about().shape.size(), args.buffer->about().layout);
}

void layouts_of_outputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  auto& list = args.executable->executable->described_out.layouts.pointers;
  args.num_outputs = list.size();
  args.layouts = list.data();
}
void layouts_of_parameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  auto& list = args.executable->executable->described_in.layouts.pointers;
  args.num_parameters = list.size();
  args.layouts = list.data();
}

}  // namespace tessera::pjrt
