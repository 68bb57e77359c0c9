// SPDX-License-Identifier: Apache-2.0
// Programs as StableHLO modules: text as JAX and XLA print it, portable artifacts (MLIR bytecode), files of jax.export.
//
//   auto program = StablehloProgram::load("program.mlir");
//   std::vector<HostArray> results = program.run({x, y});
//
// The module's placement (Shardy's meshes and shardings, `mhlo.sharding`) is applied to the current client's devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/comm_plan.h"
#include "tessera/host_array.h"

namespace tessera {

/// Bounds for programs from outside.
struct StablehloOptions {
  /// Bytes that any one value of the program may need; 0: no bound.
  std::int64_t max_memory = 0;
  /// Arguments that the module marks as donated (`tf.aliasing_output`, `jax.buffer_donor`) are deleted when it runs.
  bool donate = false;
};

/// A StableHLO module that can be run; compiled once, for the client that is current at its first run.
class StablehloProgram {
 public:
  /// An argument or a result of @main.
  struct Port {
    std::string type;  ///< as in the module: "tensor<4xf8E4M3FN>"
    /// Narrow floats (4, 6 and 8 bits) are stored in f32, integers of 2 and 4 bits in i8 or u8.
    DType dtype;
    Shape shape;
    bool narrow = false;  ///< the module's element type is none of Tessera's
  };

  /// Reads a module: text, bytecode, or what jax.export writes. Throws `FormatError` with line and column, or the byte,
  /// for a string that is no module, `UnimplementedError` for what cannot run here, `ResourceExhaustedError` for what
  /// exceeds the bounds. `name` is used in messages.
  static StablehloProgram parse(const std::string& text, const std::string& name = "module",
                                const StablehloOptions& options = {}, const Loc& loc = Loc::current());
  /// Reads a module from a file. Throws `ValueError` naming the path when it cannot be read; else as `parse`.
  static StablehloProgram load(const std::string& path, const StablehloOptions& options = {},
                               const Loc& loc = Loc::current());

  /// The arguments of @main.
  const std::vector<Port>& inputs() const&;
  std::vector<Port> inputs() const&& { return inputs(); }
  /// The results of @main.
  const std::vector<Port>& outputs() const&;
  std::vector<Port> outputs() const&& { return outputs(); }
  /// Devices that the program is for: partitions times replicas.
  std::int64_t num_devices() const;

  /// Reshards the arguments to the module's shardings and runs. Throws `ValueError` for a wrong count or shape,
  /// `TypeError` for a wrong dtype, `DeviceMismatchError` when the current client has fewer devices than the program
  /// needs. An argument that the module marks as unreduced (`sdy.sharding` with `unreduced`) is taken as the addends
  /// that its devices hold where its sharding is so marked too (`input_sharding`), else as the value, of which the
  /// first device along the axes gets all and the others zeros. A result that is unreduced has the addends on its
  /// devices.
  std::vector<Array> operator()(const std::vector<Array>& args, const Loc& loc = Loc::current()) const;
  /// The same from and to the host; waits for the results. On the host there are values: what is unreduced is summed.
  std::vector<HostArray> run(const std::vector<HostArray>& args, const Loc& loc = Loc::current()) const;
  /// The arguments on devices, under the module's shardings.
  std::vector<Array> place(const std::vector<HostArray>& args, const Loc& loc = Loc::current()) const;
  /// The sharding of argument `i` over the current client's devices, as the module has it: a `NamedSharding` where it
  /// names a mesh, with `unreduced` axes where devices hold addends. An array of a buffer per device is made for it by
  /// `make_array_from_single_device_arrays`. Throws `IndexError` for an argument that there is not,
  /// `DeviceMismatchError` as the call does.
  ShardingPtr input_sharding(std::size_t i, const Loc& loc = Loc::current()) const;
  /// The same of result `i`; null where the module leaves its placement open.
  ShardingPtr output_sharding(std::size_t i, const Loc& loc = Loc::current()) const;
  /// Every collective of the program.
  CommPlan comm_plan(const std::vector<Array>& args, const Loc& loc = Loc::current()) const;
  /// The graph, for reading.
  std::string text(const Loc& loc = Loc::current()) const;
  /// The program written as StableHLO again: global values with Shardy's shardings. Throws `UnimplementedError` naming
  /// an op that has no StableHLO form here.
  std::string as_text(const Loc& loc = Loc::current()) const;
  /// What each device runs for these arguments once the program is partitioned: a StableHLO module of as many replicas
  /// as there are devices, on shards of the arguments and with collectives between the replicas. Throws
  /// `UnimplementedError` where the shards of a value differ in shape.
  std::string device_text(const std::vector<Array>& args, const Loc& loc = Loc::current()) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera
