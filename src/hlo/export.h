// SPDX-License-Identifier: Apache-2.0
// A graph as StableHLO text, with Shardy's meshes and shardings: what XLA takes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hlo/module.h"
#include "ir/graph.h"
#include "ops/attrs.h"

namespace tessera::hlo {

struct ExportOptions {
  std::string name = "module";
  std::int64_t num_partitions = 1;
  std::vector<SdyMesh> meshes;
  std::vector<std::optional<SdySharding>> inputs, outputs;  ///< empty, or one a port
};
/// Throws `UnimplementedError` naming an op that has no form in StableHLO. `graph` is not partitioned.
std::string export_module(const ir::Graph& graph, const ExportOptions& options = {});

std::string to_string(const SdySharding& s);
std::string to_string(const SdyMesh& m);

/// "tensor<8x4xf32>".
std::string tensor_text(const ir::Type& t);

// --- what the ops' writers use --------------------------------------------------------------------------------------

/// A value of the text.
struct Text {
  std::string name;  ///< "%12"
  ir::Type type;
};
using Texts = std::vector<Text>;

class Writer {
 public:
  explicit Writer(const ExportOptions& options);

  /// One operation in generic form; `attributes` stands between <{ and }>, `regions` between ( and ).
  Text op(const std::string& name, const Texts& in, const ir::Type& out, const std::string& attributes = "");
  Texts ops(const std::string& name, const Texts& in, const ir::Types& out, const std::string& attributes,
            const std::string& regions = "");
  Text constant(double value, DType dtype, const Shape& shape = {});
  Text constant(const HostArray& value);
  Text convert(const Text& x, DType to);
  Text broadcast(const Text& x, const Shape& shape, const Dims& dims);
  /// A rank-0 operand repeated over `shape`.
  Text wide(const Text& x, const Shape& shape);
  Text reshape(const Text& x, const Shape& shape);
  Text compare(const Text& x, const Text& y, const std::string& direction);
  /// A region with these arguments: `body` writes it and gives what it returns.
  std::string region(const ir::Types& args, const std::function<Texts(const Texts&)>& body);
  /// A reducer of two numbers.
  std::string reducer(const std::string& op, DType t);
  /// The equations of `g` in place.
  Texts inline_graph(const ir::Graph& g, const Texts& args);
  /// Results of a private function made from `g`.
  Texts call(const ir::Graph& g, const std::string& name, const Texts& args);
  const ExportOptions& options() const { return options_; }
  std::string mesh_for(const ops::ShardingConstraint& c);

  std::string module(const ir::Graph& g);

 private:
  std::string function(const ir::Graph& g, const std::string& name, bool is_public);
  std::string fresh() { return "%" + std::to_string(next_++); }

  ExportOptions options_;
  std::string body_;
  std::string functions_;
  std::map<std::string, int> names_;
  int next_ = 0;
  int indent_ = 2;
};

using OpWriter = Texts (*)(Writer&, const ir::Eqn&, const Texts& in, const ir::Types& out);
using WriterTable = std::unordered_map<const ir::OpDef*, OpWriter>;
void add_elementwise_writers(WriterTable& t);
void add_shape_writers(WriterTable& t);
void add_structure_writers(WriterTable& t);

}  // namespace tessera::hlo
