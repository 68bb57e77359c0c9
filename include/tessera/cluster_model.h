// SPDX-License-Identifier: Apache-2.0
// A description of many devices and the links between them, for predictions about machines that are not there.
//
//   ClusterModel pod = ClusterModel::preset("tpu-v5e-256");
//   ClusterModel own = ClusterModel::load("cluster.json");
//   std::cout << to_string(simulate(step.lower(params, batch), pod));   // tessera/simulate.h
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/loc.h"
#include "tessera/shape.h"

namespace tessera {

/// A cache: work that reads and writes up to `bytes` does so at `bandwidth`, in bytes per second.
struct ClusterCache {
  std::int64_t bytes = 0;
  double bandwidth = 0;
  double write_cost = 1;  ///< as `ClusterDevice::write_cost`
  bool operator==(const ClusterCache&) const = default;
};

/// What one device of a cluster computes and holds.
struct ClusterDevice {
  std::string name;
  /// Operations per second of matrix products and convolutions, by dtype of their operands. Dtypes that are not there
  /// run at the rate of the narrowest one that is at least as wide, or else at the slowest.
  std::map<DType, double> flops;
  double vector_flops = 0;      ///< element-wise operations per second
  double memory_bandwidth = 0;  ///< bytes per second between the device and its memory
  std::int64_t memory = 0;      ///< bytes
  double launch = 0;            ///< seconds that starting an operation takes, in which the device computes nothing
  double efficiency = 1;        ///< share of `flops` that products reach; the first of the two fitted figures
  std::vector<ClusterCache> caches = {};  ///< smallest first
  double write_cost =
      1;  ///< in a shared memory, without a cache: bytes that are read in the time that one written takes
  /// Elements per second of operations that `vector_flops` does not describe, by kind of operation
  /// (`known_operations`). Where one is not there, the functions among them count as "transcendental" ones, else as ten
  /// element-wise operations each (divisions as one), and all others take no arithmetic.
  std::map<std::string, double> operations = {};
  bool operator==(const ClusterDevice&) const = default;
  /// The rate of products of this dtype, with `efficiency`.
  double rate(DType dtype) const;
  /// Bytes per second of work that reads and writes so many: of the first cache that holds them, else of the memory.
  double bandwidth(double bytes) const;
  /// Whether a cache holds them.
  bool cached(double bytes) const;
  /// Bytes that such work reads in the time that one written takes.
  double write_cost_of(double bytes) const;
  /// Functions: "transcendental" (logarithms, sines), "exp", "tanh" (with logistic functions), "root" (with divisions),
  /// "special" (powers, inverses of trigonometric functions, error functions). "complex" (element-wise operations of
  /// complex values but for sums and products), "sort" and "fft" (elements times the binary logarithm of the extent),
  /// "top_k" (elements of the operand) and "top_k_row" (its rows, each times the square root of its length), "gather"
  /// (elements that are picked or written by index), "scan" (running sums), "convolution" (operations of its products
  /// in float32; other dtypes are as much faster or slower as in `flops`), "product_reads" (bytes of the operands of
  /// products that a shared memory's caches hold, where that is more than what the cache gives to other passes),
  /// "reduction_reads" (the same of reductions that no fused group joins, from memory too), "window" and "window_row"
  /// (elements of an operand that a fused group reads once more, moved, and rows that they are in), "product_row" (rows
  /// of a matrix that is multiplied by a vector).
  static const std::vector<std::string>& known_operations();
};

/// One level of links. Its members are single devices on the innermost level, else whole groups of the level below.
struct ClusterLevel {
  enum class Kind : std::uint8_t {
    Torus,   ///< links to the two neighbours in each of one to three dimensions
    Switch,  ///< each member has a port to a switch that all ports can use in full at the same time
    Shared,  ///< one medium that all members share (PCIe under one root, a bus)
    /// The innermost level alone: members share cores and one memory. What several of them hold alike is one buffer,
    /// and is computed once, so that work of a part of the members goes as much faster; `bandwidth` is that of copies,
    /// read and written, of all members together.
    Memory,
  };
  std::string name;
  Kind kind = Kind::Switch;
  Dims sizes;          ///< members by dimension of the torus, the last one innermost; a single entry otherwise
  bool wrap = true;    ///< of a torus: its dimensions are rings
  double latency = 0;  ///< seconds that a message takes from one member to the next, without its bytes
  /// Bytes per second in one direction: of each link of a torus, of each member's port, or of the whole shared medium.
  double bandwidth = 0;
  double efficiency = 1;  ///< share of `bandwidth` that collectives reach; the second of the two fitted figures
  bool trees = true;      ///< collectives may use trees and recursive halving; else rings alone
  /// Of a switch: members send to all others at the same time, so that a collective takes `latency` once, and an
  /// all-reduce twice where that sends less. So the native engine exchanges among processes.
  bool direct = false;
  std::int64_t cores = 1;  ///< of shared memory: those that compute for its members
  double spread = 0;       ///< of shared memory: seconds that it takes to have all cores work on one operation
  /// Of shared memory: results of so many bytes, of all members together, are written around the caches.
  std::int64_t stream_bytes = 32 << 20;
  bool operator==(const ClusterLevel&) const = default;
  /// Of work that takes all cores so many seconds: they share it, or one of them does it all where that is faster.
  double on_cores(double seconds) const;
  std::int64_t size() const { return size_of(sizes); }
};
/// "torus", "switch", "shared", "memory".
const char* to_string(ClusterLevel::Kind kind);

/// A hierarchy of up to 1,048,576 equal devices. The devices of one group of a level are numbered one after the other,
/// and the positions of a mesh, last axis innermost, are the devices in this order.
struct ClusterModel {
  static constexpr std::int64_t kMostDevices = 1 << 20;

  std::string name;
  std::string source;  ///< where the figures are from
  ClusterDevice device;
  std::vector<ClusterLevel> levels;  ///< innermost first
  /// Collectives ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute") that run beside
  /// computation; the device waits while others run.
  std::vector<std::string> overlaps = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                       "collective_permute"};
  bool operator==(const ClusterModel&) const = default;

  std::int64_t num_devices() const;
  /// Throws `ValueError` naming the field for figures that describe no machine: rates and sizes below 1, latencies
  /// below 0, efficiencies outside (0, 1], a torus of other than 1 to 3 dimensions, a level of shared memory that is
  /// not the innermost, caches that do not grow, cores of a level without shared memory, more than `kMostDevices`.
  void check(const std::string& name_in_messages = "ClusterModel", const Loc& loc = Loc::current()) const;

  /// Reads JSON as `to_json` writes it. Fields that have defaults may be missing, none may be unknown or twice. Throws
  /// `FormatError` naming the field, or the byte where it is no JSON, and what `check` throws.
  static ClusterModel parse(const std::string& json, const std::string& name_in_messages = "cluster",
                            const Loc& loc = Loc::current());
  /// Reads a file. Throws `ValueError` naming the path where it cannot be read, else as `parse`.
  static ClusterModel load(const std::string& path, const Loc& loc = Loc::current());
  std::string to_json() const;

  /// A well-known machine by name; `groups` is the number of members of its outermost level (slices of a data-centre
  /// network, nodes), by default as the preset has it. Throws `ValueError` for a name that is none of `presets()`, and
  /// for fewer groups than one.
  static ClusterModel preset(const std::string& name, std::int64_t groups = 0, const Loc& loc = Loc::current());
  static std::vector<std::string> presets();
};

}  // namespace tessera
