// SPDX-License-Identifier: Apache-2.0
// A graph as StableHLO text in the form that MLIR prints, with Shardy's meshes and shardings: what XLA takes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "hlo/module.h"
#include "ir/module.h"
#include "ops/collective/shard_map_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {
struct Callback;
}  // namespace tessera::ops

namespace tessera::hlo {

struct TextOptions {
  /// Shardy's attributes and operations; else HLO shardings (`mhlo.sharding`) and the custom calls of GSPMD.
  bool shardy = true;
  /// For replicas in place of partitions: the graph is one map over the inputs, and the text is its body, which every
  /// replica runs on its blocks.
  bool replicas = false;
  /// The number by which the text calls a function of the host: a custom call of "tessera_host_call" with the attribute
  /// `function`. Where nothing is given, the call is written as the routine of LAPACK that its label names, or refused.
  std::function<std::optional<std::int64_t>(const ops::Callback& call)> host_call = {};
  /// Householder's reflectors by the custom calls that XLA writes as loops on every backend; else LAPACK's.
  bool reflectors_by_xla = false;
};
/// Throws `UnimplementedError` naming an op that has no form in StableHLO. The graph is not partitioned.
std::string export_module(const ir::Module& module, const TextOptions& options = {});

/// Whether a call of the host is a routine of LAPACK or of JAX, which StableHLO text calls by name.
bool is_known_routine(const ops::Callback& call);

std::string to_string(const ir::AxisSharding& s);
std::string to_string(const ir::NamedMesh& m);

/// "tensor<8x4xf32>".
std::string tensor_text(const ir::Type& t);
/// "tensor<8x4xi4>", of an element type's name.
std::string tensor_text(const Shape& shape, const std::string& element);
/// "dense<[1, 2]>", "dense<0.000000e+00>".
std::string dense_text(const HostArray& a);
/// "array<i64: 1, 2>".
std::string array_text(const Dims& d);
/// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"; shorter rows are filled up with -1.
std::string matrix_text(const std::vector<Dims>& rows);
/// "{devices=[4,2]<=[8]}" of dimensions that mesh axes cut; `manual` axes belong to the enclosing map.
std::string hlo_sharding_text(const Dims& mesh_sizes, const std::vector<Dims>& dims, const Dims& manual = {});

// --- what the ops' writers use --------------------------------------------------------------------------------------

/// A value of the text.
struct Text {
  std::string name;  ///< "%12"
  ir::Type type;
};
using Texts = std::vector<Text>;
std::string names_of(const Texts& t);
std::string types_of(const Texts& t);
/// "(tensor<…>, …) -> tensor<…>".
std::string signature(const Texts& in, const ir::Types& out);

/// The map whose body is being written: its mesh, and which axes are manual here.
struct ManualText {
  std::vector<std::string> names;
  Dims sizes;
  std::vector<bool> manual;
  std::int64_t total() const;
};

class Writer {
 public:
  explicit Writer(const ir::Module& module, const TextOptions& options = {});

  /// "%0 = <text>".
  Texts line(const std::string& text, const ir::Types& out);
  Text line(const std::string& text, const ir::Type& out) { return line(text, ir::Types{out})[0]; }
  /// An operation without attributes, in the form that MLIR prints.
  Text op(const std::string& name, const Texts& in, const ir::Type& out);
  /// One operation in generic form; `attributes` stands between <{ and }>, `regions` between ( and ).
  Text generic(const std::string& name, const Texts& in, const ir::Type& out, const std::string& attributes);
  Texts generic(const std::string& name, const Texts& in, const ir::Types& out, const std::string& attributes,
                const std::string& regions = "");
  Text constant(double value, DType dtype, const Shape& shape = {});
  Text constant(const HostArray& value);
  Text convert(const Text& x, DType to);
  Text broadcast(const Text& x, const Shape& shape, const Dims& dims);
  /// A rank-0 operand repeated over `shape`.
  Text wide(const Text& x, const Shape& shape);
  Text reshape(const Text& x, const Shape& shape);
  Text compare(const Text& x, const Text& y, const std::string& direction, bool total_order = false);
  Text select(const Text& which, const Text& yes, const Text& no);
  Text iota(DType dtype, const Shape& shape, std::int64_t dimension);
  Text slice(const Text& x, const Dims& starts, const Dims& limits, const Dims& strides);
  /// "add", "maximum", …; complex extremes are lexicographic.
  Text combine(const std::string& how, const Text& x, const Text& y);
  Texts reduce(const Texts& in, const ir::Types& out, const Dims& axes, const std::string& how);
  Texts while_loop(const Texts& start, const std::function<Text(const Texts&)>& condition,
                   const std::function<Texts(const Texts&)>& body);

  using Body = std::function<Texts(const Texts&)>;
  /// A region of a generic operation: `body` writes it and gives what it returns.
  std::string region(const ir::Types& args, const Body& body);
  /// A region that ends with this operation; its arguments' names and types go to `heads`.
  std::string block(const ir::Types& args, const Body& body, const std::string& terminator, std::string* heads);
  /// A reducer of two numbers.
  std::string reducer(const std::string& how, DType t);
  /// The number that changes nothing in `combine`.
  Text identity(const std::string& how, DType t);

  /// The equations of `g` in place.
  Texts inline_graph(const ir::Graph& g, const Texts& args);
  /// Results of a private function made from `g`, or by `body`; one function serves all calls with the same key.
  Texts call(const ir::GraphPtr& g, const std::string& name, const Texts& args);
  Texts call(const std::string& name, const std::string& key, const Texts& args, const ir::Types& out,
             const Body& body);
  /// An operation that StableHLO lacks: `body` says what it computes, the name "tessera.<name>" and the attributes let
  /// it be read back as what it is.
  Texts composite(const ir::Eqn& e, const Texts& args, const ir::Types& out, const Body& body);
  /// The same for a computation that is no equation: `op` has no attributes.
  Texts composite(const ir::OpDef& op, const std::string& attributes, const Texts& args, const ir::Types& out,
                  const Body& body);

  /// What stands before an operation of the current depth.
  std::string pad() const { return std::string(static_cast<std::size_t>(indent_) * 2, ' '); }
  const TextOptions& options() const { return options_; }
  std::int64_t num_partitions() const { return options_.replicas ? 1 : module_.num_partitions; }
  /// The name of the mesh with these axes, which gets a line of the module.
  std::string mesh_for(const std::vector<std::string>& names, const Dims& sizes);
  const ManualText* manual() const { return manual_.empty() ? nullptr : &manual_.back(); }
  void enter(ManualText m) { manual_.push_back(std::move(m)); }
  void leave() { manual_.pop_back(); }

  std::string text();

 private:
  std::string function(const std::string& name, const ir::Types& in, bool is_public, const Body& body);
  std::string private_function(const std::string& name, const std::string& key, const Texts& args, const ir::Types& out,
                               const Body& body);
  std::string main_function(const ir::Graph& g);
  std::string fresh() { return "%" + std::to_string(next_++); }

  std::string port_attributes(const std::vector<ir::Port>& ports, std::size_t i, bool result);

  ir::Module module_;  // with the meshes that the text needs besides
  TextOptions options_;
  std::set<std::string> meshes_used_;
  std::string body_;
  std::string functions_;
  std::map<std::string, int> names_;
  std::map<std::string, std::string> called_;  // key -> name of the private function
  std::map<std::size_t, std::vector<std::pair<ir::GraphPtr, std::string>>> graphs_;  // by hash, with their keys
  int num_graphs_ = 0;
  std::vector<ManualText> manual_;
  int next_ = 0;
  int next_arg_ = 0;
  int next_constant_ = 0;
  int indent_ = 2;
};

/// Positions that differ only along `axes`, in the order of these, first most significant; one list for each setting of
/// the other axes.
std::vector<Dims> position_groups(const ManualText& m, const std::vector<std::size_t>& axes);
/// `before`, the channel where positions are partitions, `after`, and, if `global`, that groups name partitions: in the
/// order of their names, as MLIR prints attributes.
std::string collective_attributes(const Writer& w, const std::string& before, const std::string& after, bool global);
/// The number of the position, ui32[].
Text position_number(Writer& w);
/// Its number along one axis, i32[].
Text index_along(Writer& w, const ManualText& m, std::size_t axis);
/// One equation on operands of these types.
Texts write_equation(Writer& w, const ir::Eqn& e, const Texts& in, const ir::Types& out);
/// What a position holds of the inputs of a partitioned graph.
ir::Types shard_types(const ir::Graph& g);
/// The equations of a partitioned graph on shards.
Texts write_partitioned(Writer& w, const ir::Graph& g, const Texts& args);

using OpWriter = Texts (*)(Writer&, const ir::Eqn&, const Texts& in, const ir::Types& out);
/// For ops that the text does not need.
inline Texts same(Writer&, const ir::Eqn&, const Texts& in, const ir::Types&) { return in; }

using WriterTable = std::unordered_map<const ir::OpDef*, OpWriter>;
void add_elementwise_writers(WriterTable& t);
void add_special_writers(WriterTable& t);
void add_shape_writers(WriterTable& t);
void add_indexing_writers(WriterTable& t);
void add_product_writers(WriterTable& t);
void add_linalg_writers(WriterTable& t);
void add_reduction_writers(WriterTable& t);
void add_sort_writers(WriterTable& t);
void add_control_writers(WriterTable& t);
void add_random_writers(WriterTable& t);
void add_collective_writers(WriterTable& t);
void add_manual_writers(WriterTable& t);

}  // namespace tessera::hlo
