// SPDX-License-Identifier: Apache-2.0
// Programs in StableHLO's text form, as JAX and XLA print them.
//
//   auto program = StablehloProgram::load("program.mlir");
//   std::vector<HostArray> results = program.run({x, y});
//
// What the text says about placement (Shardy's meshes and shardings, `mhlo.sharding`) is followed on the current
// client's devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/comm_plan.h"
#include "tessera/host_array.h"

namespace tessera {

struct StablehloOptions {
  /// Bytes that any one value of the program may need; 0: no bound.
  std::int64_t max_memory = 0;
};

class StablehloProgram {
 public:
  /// An argument or a result of @main.
  struct Port {
    std::string type;  ///< as the text has it: "tensor<4xf8E4M3FN>"
    /// Narrow floats (4, 6 and 8 bits) are held in f32, integers of 2 and 4 bits in i8 or u8.
    DType dtype;
    Shape shape;
    bool narrow = false;  ///< the text's element type is none of Tessera's
  };

  /// Throws `FormatError` with line and column for a text that is no module, `UnimplementedError` for what cannot run
  /// here, `ResourceExhaustedError` for what goes beyond the bounds. `name` stands in messages.
  static StablehloProgram parse(const std::string& text, const std::string& name = "module",
                                const StablehloOptions& options = {});
  /// Throws `ValueError` naming the path when the file cannot be read; else as `parse`.
  static StablehloProgram load(const std::string& path, const StablehloOptions& options = {});

  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  /// Devices that the program is for: partitions times replicas.
  std::int64_t num_devices() const;

  /// Places the arguments where the text says and runs. Throws `ValueError` for a wrong count or shape, `TypeError` for
  /// a wrong dtype, `DeviceMismatchError` when the current client has fewer devices than the program needs.
  std::vector<Array> operator()(const std::vector<Array>& args) const;
  std::vector<HostArray> run(const std::vector<HostArray>& args) const;
  /// Arguments of the right types and zeros, placed as the text says.
  std::vector<Array> place(const std::vector<HostArray>& args) const;
  /// What the program sends between devices.
  CommPlan comm_plan(const std::vector<Array>& args) const;
  /// The graph as text.
  std::string text() const;
  /// The program as StableHLO text again: global values with Shardy's shardings. Throws `UnimplementedError` naming an
  /// op that has no StableHLO form here.
  std::string as_text() const;
  /// What each device runs for these arguments once the program is partitioned: a StableHLO module of as many replicas
  /// as there are devices, on pieces of the arguments and with collectives between the replicas. Throws
  /// `UnimplementedError` where the pieces of a value differ in shape.
  std::string device_text(const std::vector<Array>& args) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera
