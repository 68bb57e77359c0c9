// SPDX-License-Identifier: Apache-2.0
// What the opaque handles of the PJRT C API are here.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "array/array_impl.h"
#include "compile_options.h"
#include "element_types.h"
#include "guard.h"
#include "program/placed_stablehlo.h"
#include "runtime/completion.h"
#include "runtime/engine.h"
#include "tessera/array.h"
#include "tessera/device.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"

struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace tessera::pjrt {

/// One kind of memory of one device. All of them are the host's; what differs is what programs call them.
struct Memory final : PJRT_Memory {
  int id = 0;
  int kind_id = 0;
  std::string kind, text, debug_text;
  PJRT_Device* device = nullptr;

  struct UserData {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  std::mutex mutex;
  std::map<const void*, UserData> user_data;

  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};
inline Memory& of(PJRT_Memory* m) { return *static_cast<Memory*>(m); }

/// Dimensions from minor to major; empty: row-major.
using Order = std::vector<std::int64_t>;

/// What callers see of one device's shard.
struct Description {
  ElementType element = ElementType::F32;
  Shape shape;
  Order layout;  ///< that callers asked to see; the data lies row-major
};
using DescriptionPtr = std::shared_ptr<const Description>;

/// An array, or what one device put; its devices' buffers share it.
struct Value {
  Array array;
  DescriptionPtr about;
};
using ValuePtr = std::shared_ptr<const Value>;

/// Strings as lists of the C API.
struct Strings {
  std::vector<std::string> list;
  std::vector<const char*> data;
  std::vector<std::size_t> sizes;
  void add(std::string s) { list.push_back(std::move(s)); }
  void finish() {
    for (const auto& s : list) {
      data.push_back(s.data());
      sizes.push_back(s.size());
    }
  }
};

/// Memory layouts of arguments or results.
struct Layouts {
  std::deque<PJRT_Layouts_MemoryLayout> list;
  std::vector<PJRT_Layouts_MemoryLayout*> pointers;
  void add(std::string text) { pointers.push_back(&list.emplace_back(PJRT_Layouts_MemoryLayout{std::move(text)})); }
};
/// All dimensions from minor to major.
Order full_order(const Order& order, std::size_t rank);
/// As XLA prints it: "{2,1,0}".
std::string layout_text(const Order& order, std::size_t rank);
/// A layout as callers ask for it. Throws `UnimplementedError` for tiles, and `InvalidArgument` for what is no order of
/// `rank` dimensions.
Order asked_layout(std::string_view text, std::size_t rank);
Order asked_layout(const PJRT_Buffer_MemoryLayout* layout, std::size_t rank);

/// A program compiled for devices; handles share it.
struct Executable {
  PJRT_Client* client = nullptr;
  std::shared_ptr<PJRT_Client> own_client;  ///< of a topology: lives as long as what was compiled for it
  std::string name, program, options, fingerprint;
  CompileOptions parsed;
  ir::Module module;
  std::vector<PJRT_Device*> devices;  ///< by logical id: replica * partitions + partition
  std::shared_ptr<program::PlacedStablehlo> placed;
  std::shared_ptr<const program::CompiledProgram> compiled;

  /// An argument or a result.
  struct Port {
    DescriptionPtr about;
    ir::Type type;
    ShardingPtr sharding;
    std::shared_ptr<const sharding::Placement> placement;
    std::vector<std::int32_t> position;  ///< by logical id: position in the placement's devices
    std::vector<std::int32_t> tile;      ///< by logical id: the placement's tile
    std::size_t memory = 0;              ///< which of its device's
    bool donated = false;
    /// By logical id: which of the shards of an array's storage is the device's.
    const std::vector<std::int32_t>& indices(bool replicas_equal) const { return replicas_equal ? tile : position; }
  };
  std::vector<Port> in, out;
  /// By argument (result) of a call: the port, or -1 for a token.
  std::vector<std::int32_t> arguments, results;

  // What entries give lives as long as the executable.
  std::vector<PJRT_Buffer_Type> out_types;
  std::vector<std::int64_t> out_dims;  ///< of all results, one after the other
  std::vector<std::size_t> out_ranks;
  struct Described {
    Strings kinds, shardings;
    Layouts layouts;
  } described_in, described_out;  ///< by argument, by result
  std::mutex mutex;
  std::string optimized;  ///< made when asked for
  CostAnalysis costs;
  std::vector<PJRT_NamedValue> cost_values;  ///< their names are those of `costs`
};
/// The serialized OpSharding of an argument or a result, over logical devices; null: of a token.
std::string op_sharding(const Executable::Port* p);
/// Tells those who asked in the program how its values are sharded. Throws `StateError` with what a callback throws.
void report_shardings(const Executable& exe);
/// Bytes per device that programs of this thread may move; -1: any number.
std::int64_t& comm_budget();

/// Compiles a StableHLO module; throws what reading, placing and partitioning throw.
std::shared_ptr<Executable> compile(PJRT_Client& client, std::string_view program, std::string_view options);

/// A buffer's value and shard, as they are now.
struct Held {
  ValuePtr value;
  std::int32_t index = 0;
};
/// Throws `DeletedArrayError` naming the entry for a buffer whose data is gone.
Held held(PJRT_Buffer& b, const char* entry);

/// For `callers` who each destroy it; ready from the start where `e` is null.
PJRT_Event* new_event(runtime::EventPtr e, std::uint32_t callers = 1);
/// As many buffers in one block of memory, which goes with the last of them; the shards of `value` by `index`.
PJRT_Buffer* new_buffers(const ValuePtr& value, const std::vector<std::int32_t>& index);
PJRT_Buffer* new_buffer(const ValuePtr& value, PJRT_Device* device, PJRT_Memory* memory);
void destroy(PJRT_Buffer* b);
struct Destroy {
  void operator()(PJRT_Buffer* b) const { destroy(b); }
};
using OwnedBuffer = std::unique_ptr<PJRT_Buffer, Destroy>;
/// What a program gives for a token: ready when the run is.
PJRT_Buffer* new_token(runtime::EventPtr ready, PJRT_Device* device);
/// Guards what buffers stand for. One for all: a call looks at those of all devices. Nothing is freed under it, as that
/// may call the user.
std::mutex& buffers_mutex();

}  // namespace tessera::pjrt

struct PJRT_Event {
  tessera::runtime::EventPtr event;                        ///< null: ready
  std::shared_ptr<tessera::runtime::Completion> settable;  ///< of one that the caller completes
  std::atomic<std::uint32_t> callers{1};                   ///< who will destroy it
};

struct PJRT_DeviceDescription {
  int id = 0;
  int process_index = 0;
  std::string kind, text, debug_text;
};

struct PJRT_Device {
  PJRT_DeviceDescription description;
  tessera::Device device;
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Memory*> memories;  ///< the default one first
  bool addressable = true;
};

/// Devices that may not exist: what programs are compiled for ahead of time.
struct PJRT_TopologyDescription {
  PJRT_Client* client = nullptr;
  std::shared_ptr<PJRT_Client> own;  ///< of a topology that no client gave
  std::vector<PJRT_DeviceDescription*> descriptions;
};

struct PJRT_Client {
  tessera::Client client;
  std::string platform_name, platform_version;
  std::deque<PJRT_Device> devices;
  std::deque<tessera::pjrt::Memory> memories;
  std::vector<PJRT_Device*> all, addressable;
  std::vector<PJRT_Memory*> addressable_memories;
  std::unique_ptr<PJRT_TopologyDescription> topology;

  /// Who puts the same bytes on one device after the other means replicas: they share the buffer of the last put.
  struct LastPut {
    const void* data = nullptr;
    PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
    tessera::Shape shape;
    std::weak_ptr<tessera::runtime::Buffer> buffer;
  };
  std::mutex mutex;
  LastPut last_put;

  /// The device of a handle of Tessera's.
  PJRT_Device* find(const tessera::Device& d) { return all[static_cast<std::size_t>(d.id())]; }
};

namespace tessera::pjrt {
struct Handles;
}
struct PJRT_Buffer {
  tessera::pjrt::Handles* together = nullptr;  ///< it is one of
  PJRT_Device* device = nullptr;
  PJRT_Memory* memory = nullptr;
  // Under `buffers_mutex`.
  tessera::pjrt::ValuePtr value;     ///< null once deleted
  std::int32_t index = 0;            ///< of the shard among those of the array's storage
  int external_references = 0;       ///< of those that have its address
  tessera::runtime::BufferPtr held;  ///< for these
  bool token = false;                ///< has no elements

  inline const tessera::pjrt::Description& about() const;
};
/// The buffers that `new_buffers` made together.
struct tessera::pjrt::Handles {
  DescriptionPtr about;
  std::atomic<std::size_t> left{0};
  std::unique_ptr<PJRT_Buffer[]> list;
  Order minor_to_major;  ///< made when asked for, under `buffers_mutex`
};
const tessera::pjrt::Description& PJRT_Buffer::about() const { return *together->about; }

struct PJRT_ExecuteContext {
  std::map<std::int64_t, void*> user_data;  ///< by type id
};

struct PJRT_Executable {
  std::shared_ptr<tessera::pjrt::Executable> executable;
};

struct PJRT_LoadedExecutable {
  std::shared_ptr<tessera::pjrt::Executable> executable;  ///< null once deleted
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_LogicalDeviceIds> logical_ids;
};

/// What backs bytes that an entry gives away.
struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {
  std::string bytes;
};
struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};
