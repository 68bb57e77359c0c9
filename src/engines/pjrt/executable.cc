// SPDX-License-Identifier: Apache-2.0
// Compiled programs of a plugin, and their runs.
#include <algorithm>
#include <array>
#include <optional>
#include <typeinfo>
#include <utility>

#include "base/strings.h"
#include "engines/pjrt/pjrt_engine.h"
#include "engines/pjrt/program_description.h"
#include "runtime/completion.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

using runtime::ShardBuffers;

// An input or an output: which shard each position holds, how many positions before it hold the same one, and the
// positions of each shard.
struct PortShards {
  runtime::ShardNumbering numbering;
  std::vector<std::size_t> nth;
  std::vector<std::vector<std::size_t>> holders;
  std::vector<ShardTypePtr> types;  // by shard
};

PortShards shards_of(const ir::Type& type, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  PortShards out{runtime::shard_numbering(layout, mesh), {}, {}, {}};
  out.holders.resize(static_cast<std::size_t>(out.numbering.count));
  for (std::size_t p = 0; p < out.numbering.of_position.size(); ++p) {
    auto& holders = out.holders[static_cast<std::size_t>(out.numbering.of_position[p])];
    out.nth.push_back(holders.size());
    holders.push_back(p);
  }
  for (auto p : out.numbering.first_position) {
    out.types.push_back(std::make_shared<const ShardType>(ShardType{
        type.dtype, runtime::tile_at(type.shape, layout, mesh, p).shape, device_shape(type.shape, layout, mesh)}));
  }
  return out;
}

PJRT_LoadedExecutable* compiled_anew(const PluginClient& client, const std::string& name, std::string text,
                                     const std::string& options) {
  auto program = sized<PJRT_Program>();
  program.code = text.data();
  program.code_size = text.size();
  constexpr std::string_view kFormat = "mlir";
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  auto args = sized<PJRT_Client_Compile_Args>();
  args.client = client.handle();
  args.program = &program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  PJRT_CALL(client.api(), PJRT_Client_Compile, args, str("compile ", name).c_str());
  return args.executable;
}

// Null where the plugin takes it no more: it may be of another version, or for another machine.
PJRT_LoadedExecutable* read_back(const PluginClient& client, const std::string& bytes) {
  auto args = sized<PJRT_Executable_DeserializeAndLoad_Args>();
  args.client = client.handle();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  const Api& api = client.api();
  auto read = api.entry(&PJRT_Api::PJRT_Executable_DeserializeAndLoad, "PJRT_Executable_DeserializeAndLoad");
  return api.exception(read(&args), "read a program back") ? nullptr : args.loaded_executable;
}

// `lasting`: the text means the same in other processes.
PJRT_LoadedExecutable* compiled(const PluginClient& client, const std::string& name, const std::string& text,
                                const std::string& options, bool lasting) {
  const Api& api = client.api();
  if (!lasting || !client.cache().used() || !api.has(&PJRT_Api::PJRT_Executable_Serialize) ||
      !api.has(&PJRT_Api::PJRT_Executable_DeserializeAndLoad)) {
    return compiled_anew(client, name, text, options);
  }
  const std::string key =
      join(std::vector<std::string>{client.platform(), client.platform_version(), api.version(), options, text},
           std::string(1, '\0'));
  if (auto known = client.cache().find(key)) {
    if (auto* executable = read_back(client, *known)) return executable;
    client.cache().remove(key);
  }
  auto* executable = compiled_anew(client, name, text, options);
  const std::string bytes = ProgramDescription(client, executable).serialized();
  if (!bytes.empty()) client.cache().store(key, bytes);
  return executable;
}

// A program of the plugin, which ends with this.
struct Loaded {
  explicit Loaded(const PluginClient& of) : client(of) {}
  ~Loaded() {
    if (handle == nullptr) return;
    auto args = sized<PJRT_LoadedExecutable_Destroy_Args>();
    args.executable = handle;
    const Api& api = client.api();
    static_cast<void>(api.exception(
        api.entry(&PJRT_Api::PJRT_LoadedExecutable_Destroy, "PJRT_LoadedExecutable_Destroy")(&args), "end a program"));
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  const PluginClient& client;
  PJRT_LoadedExecutable* handle = nullptr;
};

class PjrtExecutable final : public runtime::Executable {
 public:
  PjrtExecutable(PluginClientPtr client, std::shared_ptr<runtime::MemoryPool> memory, const ir::Module& module,
                 const sharding::DeviceList& devices);

  const runtime::PortLayouts& layouts() const override { return layouts_; }
  std::vector<ShardBuffers> run(std::vector<ShardBuffers> args,
                                const std::vector<const ShardBuffers*>& borrowed) override;
  /// The plugin runs it on threads of its own.
  bool small() const override { return true; }
  std::string text() const override { return text_; }
  std::optional<CostAnalysis> cost_analysis() const override { return description().cost_analysis(); }
  std::optional<CompiledMemoryStats> memory_analysis() const override { return description().memory_analysis(); }

 private:
  ProgramDescription description() const { return {*client_, loaded_->handle}; }
  struct Lists;
  void check_result_count() const;
  bool fits(const runtime::BufferPtr& shard, const ShardType& type) const;
  void set_arguments(std::vector<ShardBuffers>& args, const std::vector<const ShardBuffers*>& borrowed, Lists& lists);
  std::vector<runtime::EventPtr> start(Lists& lists, bool wants_ends) const;
  std::vector<ShardBuffers> results(Lists& lists, const std::vector<runtime::EventPtr>& ends) const;

  PluginClientPtr client_;
  std::shared_ptr<runtime::MemoryPool> memory_;  // the host's
  std::string name_;
  HostCalls host_calls_;
  std::string text_;
  std::unique_ptr<Loaded> loaded_;
  std::vector<PJRT_Device*> devices_;  // by position
  runtime::PortLayouts layouts_;
  std::vector<PortShards> in_, out_;
  std::vector<bool> donated_;
};

PjrtExecutable::PjrtExecutable(PluginClientPtr client, std::shared_ptr<runtime::MemoryPool> memory,
                               const ir::Module& module, const sharding::DeviceList& devices)
    : client_(std::move(client)),
      memory_(std::move(memory)),
      name_(module.name),
      host_calls_(devices.size() > 1),
      text_(program_text(module, *client_, host_calls_)) {
  std::vector<std::int64_t> ids;
  for (const Device& d : devices.devices) {
    const auto at = static_cast<std::size_t>(mesh::DeviceState::of(d)->table_position);
    ids.push_back(d.id());
    devices_.push_back(client_->device(at));
    if (devices_.back() == nullptr) {
      throw UnimplementedError(str(name_, ": a program over the devices of several processes (", to_string(d),
                                   "), which PJRT plugins cannot run here yet"));
    }
  }
  const ir::Graph& g = *module.graph;
  for (std::size_t i = 0; i < module.inputs.size(); ++i) {
    layouts_.in.push_back(*module.inputs[i].layout);
    in_.push_back(shards_of(g.type(g.inputs[i]), layouts_.in.back(), *module.mesh));
    donated_.push_back(module.inputs[i].donated);
  }
  for (std::size_t i = 0; i < module.outputs.size(); ++i) {
    layouts_.out.push_back(*module.outputs[i].layout);
    out_.push_back(shards_of(g.type(g.outputs[i]), layouts_.out.back(), *module.mesh));
  }
  loaded_ = std::make_unique<Loaded>(*client_);
  loaded_->handle = compiled(*client_, name_, text_, compile_options(ids, client_->platform()), host_calls_.empty());
  check_result_count();
}

// The lists that results are written to are as long as the plugin takes them to be.
void PjrtExecutable::check_result_count() const {
  const std::size_t count = description().result_count();
  if (count != out_.size()) {
    throw StateError(str(name_, ": the plugin ", client_->api().path(), " gives ", count, " results; the program has ",
                         out_.size()));
  }
}

// Pointers in a row, a few of them without an allocation.
template <class T>
class DeviceRow {
 public:
  explicit DeviceRow(std::size_t size) : more_(size > few_.size() ? size : 0), size_(size) {}
  T* data() { return more_.empty() ? few_.data() : more_.data(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data()[i]; }

 private:
  std::array<T, 8> few_{};
  std::vector<T> more_;
  std::size_t size_;
};

// By position, then argument or result.
struct PjrtExecutable::Lists {
  Lists(const PluginClient& of, std::size_t positions, std::size_t in, std::size_t out)
      : client(of), arguments(positions * in), results(positions * out), in_rows(positions), out_rows(positions) {
    for (std::size_t p = 0; p < positions; ++p) {
      in_rows[p] = arguments.data() + p * in;
      out_rows[p] = results.data() + p * out;
    }
  }
  ~Lists() {
    for (std::size_t i = 0; i < results.size(); ++i) OwnBuffer(&client, results[i]);  // what nobody took
  }
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;
  const PluginClient& client;
  DeviceRow<PJRT_Buffer*> arguments, results;
  DeviceRow<PJRT_Buffer* const*> in_rows;
  DeviceRow<PJRT_Buffer**> out_rows;
  std::vector<std::int64_t> kept;           // arguments that must not be given away
  std::vector<runtime::BufferPtr> brought;  // for this run alone
};

// Whether the shard is in the memory of this plugin's devices, as long as the program wants it.
bool PjrtExecutable::fits(const runtime::BufferPtr& shard, const ShardType& type) const {
  const runtime::DeviceMemory* elsewhere = shard->elsewhere();
  if (elsewhere == nullptr || typeid(*elsewhere) != typeid(DeviceShard)) return false;
  const auto& memory = static_cast<const DeviceShard&>(*elsewhere);
  return memory.client() == client_ && memory.type().on_device == type.on_device;
}

void PjrtExecutable::set_arguments(std::vector<ShardBuffers>& args, const std::vector<const ShardBuffers*>& borrowed,
                                   Lists& lists) {
  const std::size_t n = devices_.size();
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const bool lent = i < borrowed.size() && borrowed[i] != nullptr;
    const ShardBuffers& shards = lent ? *borrowed[i] : args[i];
    const PortShards& port = in_[i];
    bool own = donated_[i] && !lent;
    for (std::size_t p = 0; p < n; ++p) {
      const auto k = static_cast<std::size_t>(port.numbering.of_position[p]);
      const runtime::BufferPtr* shard = &shards[k];
      if (!fits(*shard, *port.types[k])) {
        lists.brought.push_back(put(client_, runtime::on_host({shard, 1}, *memory_)[0], port.types[k], {devices_[p]}));
        shard = &lists.brought.back();
        own = false;
      }
      const auto* memory = static_cast<const DeviceShard*>((*shard)->elsewhere());
      own = own && shard->use_count() == 1;
      lists.arguments[p * in_.size() + i] = memory->on(devices_[p], port.nth[p]);
    }
    if (donated_[i] && !own) lists.kept.push_back(static_cast<std::int64_t>(i));
  }
}

std::vector<ShardBuffers> PjrtExecutable::run(std::vector<ShardBuffers> args,
                                              const std::vector<const ShardBuffers*>& borrowed) {
  if (HostCalls::inside()) {
    throw StateError(str(name_, ": a function of the host, which a program calls, runs a program on the devices of ",
                         client_->api().path(), ", which wait for it; use a client of the native engine there"));
  }
  Lists lists(*client_, devices_.size(), in_.size(), out_.size());
  set_arguments(args, borrowed, lists);
  std::vector<runtime::EventPtr> ends;
  if (host_calls_.empty()) {
    ends = start(lists, false);
  } else {
    // What the functions throw is thrown here, and programs that begin later find their effects done.
    auto turn = host_calls_.begin();
    std::exception_ptr error = runtime::error_of([&] {
      ends = start(lists, true);
      for (const auto& end : ends) static_cast<void>(runtime::error_of([&] { end->wait(); }));
      for (const auto& end : ends) end->wait();
    });
    if (auto thrown = host_calls_.error()) error = thrown;
    if (error) std::rethrow_exception(error);
  }
  return results(lists, ends);
}

// Events of the end on each device, where they are asked for or programs run one by one.
std::vector<runtime::EventPtr> PjrtExecutable::start(Lists& lists, bool wants_ends) const {
  auto options = sized<PJRT_ExecuteOptions>();
  options.non_donatable_input_indices = lists.kept.data();
  options.num_non_donatable_input_indices = lists.kept.size();
  auto call = sized<PJRT_LoadedExecutable_Execute_Args>();
  call.executable = loaded_->handle;
  call.options = &options;
  call.argument_lists = lists.in_rows.data();
  call.num_devices = devices_.size();
  call.num_args = in_.size();
  call.output_lists = lists.out_rows.data();
  const Api& api = client_->api();
  const bool takes_turn = devices_.size() > 1;
  std::vector<PJRT_Event*> ends;
  if (wants_ends || (takes_turn && client_->turns().one_by_one())) {
    ends.resize(devices_.size());
    call.device_complete_events = ends.data();
  }
  std::vector<runtime::EventPtr> out;
  auto execute = [&] {
    auto* error = api.entry(&PJRT_Api::PJRT_LoadedExecutable_Execute, "PJRT_LoadedExecutable_Execute")(&call);
    if (error != nullptr) api.check(error, str("run ", name_).c_str());
    for (auto* e : ends) out.push_back(api.event(e, "run"));
    return out;
  };
  if (takes_turn) {
    client_->turns().take(execute);
  } else {
    execute();
  }
  return out;
}

// `ends`: as `start` gives them.
std::vector<ShardBuffers> PjrtExecutable::results(Lists& lists, const std::vector<runtime::EventPtr>& ends) const {
  std::vector<ShardBuffers> out;
  out.reserve(out_.size());
  for (std::size_t j = 0; j < out_.size(); ++j) {
    const PortShards& port = out_[j];
    ShardBuffers& shards = out.emplace_back(port.holders.size());
    for (std::size_t k = 0; k < shards.size(); ++k) {
      std::vector<DeviceShard::Copy> copies;
      copies.reserve(port.holders[k].size());
      for (auto p : port.holders[k]) {
        PJRT_Buffer* buffer = std::exchange(lists.results[p * out_.size() + j], nullptr);
        copies.push_back({devices_[p], OwnBuffer(client_.get(), buffer), ends.empty() ? nullptr : ends[p]});
      }
      auto memory = std::make_shared<DeviceShard>(client_, std::move(copies), port.types[k]);
      shards[k] =
          std::make_shared<runtime::Buffer>(runtime::Buffer::Elsewhere{std::move(memory)}, port.types[k]->nbytes());
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<runtime::Executable> compile(const PluginClientPtr& client,
                                             const std::shared_ptr<runtime::MemoryPool>& memory,
                                             const ir::Module& module, const sharding::DeviceList& devices) {
  return std::make_shared<PjrtExecutable>(client, memory, module, devices);
}

}  // namespace tessera::pjrt_engine
