// SPDX-License-Identifier: Apache-2.0
// A StableHLO module on devices: the public StablehloProgram's on those of the current client, a PJRT client's on those
// of its device assignment.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "program/program.h"

namespace tessera::program {

class PlacedStablehlo {
 public:
  struct Options {
    bool donate = false;            ///< arguments that the module marks as donated are
    bool distinct_results = false;  ///< no result shares memory with an argument or with another result
    bool even_results = false;  ///< results whose placement is free are whole where their shards would differ in shape
  };
  /// The module's device k is `devices[k]`; there are as many as the module has. Throws what the module's shardings
  /// break, `UnimplementedError` for sums over what are no axes of its mesh.
  PlacedStablehlo(const ir::Module& module, const std::string& name, std::vector<Device> devices,
                  const Options& options);

  /// Where the module wants its arguments.
  const std::vector<ShardingPtr>& in() const { return in_; }
  /// Where it says that its results are; null where it leaves their placement open.
  const std::vector<ShardingPtr>& said_out() const { return said_out_; }
  /// Where its results are; known once it is compiled.
  ShardingPtr out(const CompiledProgram& compiled, std::size_t i) const;
  /// By position of the program's mesh.
  const mesh::DeviceList& devices() const { return *options_.devices; }
  /// For arguments that lie as `in()` says, or that `by_position` marks as holding values of their own on replicas.
  std::shared_ptr<const CompiledProgram> compile(const std::vector<bool>& by_position = {});
  /// Argument `i` stays the caller's, also where the module marks it as donated. Before the first call.
  void keep(std::size_t i);
  /// Moves the arguments to where `in()` says, and runs. Results may not be ready yet; `done` becomes ready with them.
  std::vector<Array> operator()(std::vector<Array> args, runtime::EventPtr* done = nullptr);
  /// Lowered for these arguments.
  std::shared_ptr<const Lowering> lower(const std::vector<Array>& args) { return program_->lower(ordered(args)); }

 private:
  std::vector<Array> ordered(std::vector<Array> args) const;

  // Meshes may name the devices in different orders; the program runs in one of them, and arguments and results of
  // others are moved at its boundary.
  ir::Types types_;
  std::vector<ShardingPtr> in_;         // as the text says
  std::vector<ShardingPtr> said_out_;   // the same
  std::vector<ShardingPtr> in_order_;   // in the program's order of devices
  std::vector<ShardingPtr> moved_out_;  // of results that the text has in another order, else null
  ProgramOptions options_;
  ShardingPtr whole_;
  bool even_results_ = false;
  std::unique_ptr<Program> program_;
};

}  // namespace tessera::program
