// SPDX-License-Identifier: Apache-2.0
// Devices and the clients that own them. A client and its devices live until the program ends, so handles to them are
// plain pointers: cheap to copy, compare and hash, and never dangling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/loc.h"

namespace tessera {

class Client;
class Cluster;
namespace mesh {
struct DeviceState;
struct ClientState;
}  // namespace mesh

/// One device that holds shards. Equality is identity: two clients never share a device.
class Device {
 public:
  /// The null device: only `==`, `hash` and the test for null are allowed.
  Device() = default;
  explicit operator bool() const { return state_ != nullptr; }

  /// Unique among the devices of all processes of a client.
  std::int64_t id() const;
  /// The process that owns the device.
  int process_index() const;
  /// "cpu" for virtual CPU devices.
  std::string_view platform() const;
  /// The client that owns this handle.
  Client client() const;
  /// True when the client's own process owns the device.
  bool is_local() const;
  /// Physical coordinates (x, y, z); empty when the platform has none.
  std::span<const std::int64_t> coords() const;
  /// Index of the core on its chip; 0 where the platform reports none.
  std::int64_t core_on_chip() const;
  /// The slice (fast-network island) of the device, where the platform reports one.
  std::optional<std::int64_t> slice_index() const;

  bool operator==(const Device&) const = default;
  std::size_t hash() const { return std::hash<const void*>{}(state_); }

 private:
  friend struct mesh::ClientState;
  friend struct mesh::DeviceState;
  const mesh::DeviceState* state_ = nullptr;
};
/// "CpuDevice(id=3)"; "Device(null)" for the null device.
std::string to_string(const Device& d);

/// How to make a client of virtual CPU devices.
struct CpuOptions {
  /// Devices of this process; every process of a cluster has the same count.
  std::int64_t devices = 1;
  int process_index = 0;
  int process_count = 1;
  /// Bytes that the client's buffers may take; 0 means no limit.
  std::int64_t memory_limit = 0;
  /// The simulated cluster to join. When empty and `process_count > 1`: the newest cluster of the same size that still
  /// lacks `process_index`, or a new one.
  std::shared_ptr<Cluster> cluster = {};
};

/// How to join the processes that `mpirun` has started.
struct MpiOptions {
  /// Devices of this process; processes may have different counts.
  std::int64_t devices = 1;
  /// Bytes that this process's buffers may take; 0 means no limit.
  std::int64_t memory_limit = 0;
  /// How long a wait for another process may be before it throws; 0: TESSERA_EXCHANGE_SECONDS in the environment, else
  /// 60.
  double timeout_seconds = 0;
  /// "openmpi" or "mpich"; empty: the one whose `mpirun` has started the program.
  std::string implementation = {};
  /// Path of the transport's module; empty: TESSERA_MPI_MODULE in the environment, else beside the library's files.
  std::string module = {};
  /// The caller's communicator, by the handle that `MPI_Comm_c2f` gives; empty: MPI_COMM_WORLD.
  std::optional<int> communicator = {};
};

/// How to load a PJRT plugin (https://openxla.org/xla/pjrt) and make its client.
struct PjrtOptions {
  /// Path of the shared library, or the name of a plugin that is installed as a Python package: "cuda", "tpu".
  std::string plugin;
  using Value = std::variant<std::string, bool, std::int64_t, std::vector<std::int64_t>, float>;
  /// What the plugin takes when its client is made, by name; the plugin refuses what it does not know. What is not
  /// set here is taken from TESSERA_PJRT_OPTIONS in the environment ("preallocate:false;memory_fraction:0.5").
  std::map<std::string, Value> options = {};
  /// Folder for compiled programs, which later runs read instead of compiling; processes may share it. Empty:
  /// TESSERA_COMPILATION_CACHE in the environment, else none.
  std::string compilation_cache = {};
  /// Bytes that the folder may take; what was not used for longest goes.
  std::int64_t compilation_cache_bytes = std::int64_t{1} << 30;
  /// Of a program that `mpirun` has started as several processes: the client is of this process alone, and no program
  /// runs over the devices of several.
  bool alone = false;
};

/// Lazily created state that other modules (engine, transport) attach to a client or a cluster.
class Extensions {
 public:
  /// The state under `key` (the address of a static); `make` is called once, under a lock, when there is none yet.
  std::shared_ptr<void> get(const void* key, const std::function<std::shared_ptr<void>()>& make);

  Extensions();
  ~Extensions();
  Extensions(const Extensions&) = delete;
  Extensions& operator=(const Extensions&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Processes simulated inside one program: their clients share this object and nothing else.
class Cluster {
 public:
  /// A cluster that `process_count` clients may join, each with as many devices.
  Cluster(int process_count, std::int64_t devices_per_process, const Loc& loc = Loc::current());
  int process_count() const { return process_count_; }
  std::int64_t devices_per_process() const { return devices_per_process_; }
  Extensions& extensions() { return extensions_; }

 private:
  int process_count_;
  std::int64_t devices_per_process_;
  Extensions extensions_;
};

/// Handle to the owner of a set of devices, as one process sees it: in a cluster each process has its own client with
/// its own `Device` objects for the devices of all processes.
class Client {
 public:
  /// The null client.
  Client() = default;
  explicit operator bool() const { return state_ != nullptr; }

  /// Throws `ValueError` unless devices >= 1 and 0 <= process_index < process_count, when `cluster` has another size,
  /// or when that process has already joined it.
  static Client cpu(const CpuOptions& options = {}, const Loc& loc = Loc::current());
  /// A client whose cluster are the processes of an MPI communicator; each of them makes it, once. MPI is loaded now,
  /// and initialised unless the program has done so. Throws `StateError` where no module of the transport or no MPI is
  /// found, where another MPI has started the program, and where the processes differ in the library's version.
  static Client mpi(const MpiOptions& options = {}, const Loc& loc = Loc::current());
  /// The devices of a PJRT plugin (XLA on GPUs, TPUs and CPUs): programs are handed over as they were traced, and the
  /// plugin's compiler partitions them; arrays are kept in the devices' memory. The plugin stays loaded until the
  /// program ends. Throws `StateError` where it cannot be loaded, is no plugin, has another version of the API or
  /// cannot make a client, with the plugin's own message; `UnimplementedError` in a build without the engine, and in
  /// one of several processes of `mpirun` unless `PjrtOptions::alone` is set.
  static Client pjrt(const PjrtOptions& options, const Loc& loc = Loc::current());
  /// A client of the engine that the environment variable TESSERA_ENGINE names: with "pjrt:" and a plugin's path or
  /// name that plugin's devices; with "cpu", or unset, CPU devices: `cpu_devices`, or where that is 0 as many as
  /// TESSERA_CPU_DEVICES sets (1 when unset). Throws `ValueError` for another engine or number, and what making the
  /// client throws.
  static Client from_environment(std::int64_t cpu_devices = 0, const Loc& loc = Loc::current());
  /// The innermost `ClientScope` of this thread, else the default client: the one of `set_default`, else
  /// `from_environment()`.
  static Client current();
  /// Replaces the default client of the whole program.
  static void set_default(const Client& client);

  /// Devices of all processes, in id order.
  std::span<const Device> devices() const;
  /// Devices of this client's own process, in id order.
  std::span<const Device> local_devices() const;
  /// This process's index in its cluster; 0 outside one.
  int process_index() const;
  /// Count of the processes of the cluster; 1 outside one.
  int process_count() const;
  /// "cpu" for virtual CPU devices.
  std::string_view platform() const;
  /// Bytes that the client's buffers may take; 0 means no limit.
  std::int64_t memory_limit() const;
  /// Throws `ValueError` with the known ids when there is no such device.
  Device device(std::int64_t id, const Loc& loc = Loc::current()) const;

  /// State that other modules attach.
  Extensions& extensions() const;
  /// Null outside a cluster.
  std::shared_ptr<Cluster> cluster() const;

  bool operator==(const Client&) const = default;
  std::size_t hash() const { return std::hash<const void*>{}(state_); }

 private:
  friend struct mesh::ClientState;
  mesh::ClientState* state_ = nullptr;
};
/// "CpuClient(process 0 of 2, 8 devices)".
std::string to_string(const Client& c);

/// Makes a client current on this thread until the scope ends. Scopes of one thread end in reverse order.
class ClientScope {
 public:
  explicit ClientScope(const Client& client, const Loc& loc = Loc::current());
  ~ClientScope();
  ClientScope(const ClientScope&) = delete;
  ClientScope& operator=(const ClientScope&) = delete;
};

/// Devices of all processes of the current client, in id order.
std::span<const Device> devices();
/// This process's devices of the current client, in id order.
std::span<const Device> local_devices();
/// This process's index in the current client's cluster; 0 outside one.
int process_index();
/// Count of the processes of the current client's cluster; 1 outside one.
int process_count();

}  // namespace tessera

template <>
struct std::hash<tessera::Device> {
  std::size_t operator()(const tessera::Device& d) const noexcept { return d.hash(); }
};
template <>
struct std::hash<tessera::Client> {
  std::size_t operator()(const tessera::Client& c) const noexcept { return c.hash(); }
};
