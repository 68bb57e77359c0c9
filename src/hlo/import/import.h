// SPDX-License-Identifier: Apache-2.0
// AST to graph. Every operation has one rule in one of the tables (rules_*.cc); the rules see operands as `Item`s and
// write ops of src/ops.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hlo/module.h"
#include "hlo/sharding/manual_devices.h"
#include "hlo/text/ast.h"
#include "hlo/text/locations.h"
#include "ops/ops.h"

namespace tessera::hlo {

using ir::GraphPtr;

/// A value of the text: a tensor, a token (no value), or a tuple.
struct Item {
  AstType::Kind kind = AstType::Kind::Tensor;
  Elem elem = Elem::F32;
  Value value;
  std::vector<Item> parts;
  std::shared_ptr<const HostArray> known;  ///< the elements, where the program's text fixes them
  /// Where `id_size` is not 0: (number of the device / id_stride) % id_size.
  std::int64_t id_stride = 0, id_size = 0;

  const Shape& shape() const { return value.shape(); }
  AstType type() const;
};
using Items = std::vector<Item>;

Item tensor(Elem elem, Value v);

class Importer;

/// The largest extent, and the largest number that an operation may count along a dimension.
constexpr std::int64_t kMostAlong = std::int64_t{1} << 46;

/// Elements of a constant that a region has as a constant of its own, not as an input.
constexpr std::int64_t kMostCopied = 16;

/// The names that one region sees, and the builder that its operations go to. Regions become closed graphs: what they
/// take from outside becomes an input, in `captured` order.
class Scope {
 public:
  Scope(ir::Builder& b, Scope* parent) : builder(b), parent_(parent) {
    if (parent) levels_ = parent->levels_;
  }
  void define(std::string_view name, Item item) { names_[std::string(name)] = std::move(item); }
  const Item* find(std::string_view name);
  /// Throws `FormatError` when an operation or argument of this region has the name already.
  void claim(std::string_view name, const Source& source, Offset pos);
  /// Inside manual computations, as the innermost one sees them.
  const std::shared_ptr<const ManualLevels>& levels() const { return levels_; }
  void set_levels(std::shared_ptr<const ManualLevels> levels) { levels_ = std::move(levels); }
  ir::Builder& builder;
  Items captured;                         ///< of the scope outside
  std::vector<Value> inputs_of_captured;  ///< here

 private:
  Item capture(const Item& outer);
  Scope* parent_;
  std::unordered_map<std::string, Item> names_;
  std::unordered_set<std::string_view> claimed_;
  std::shared_ptr<const ManualLevels> levels_;
};

/// One operation being imported.
class OpCall {
 public:
  OpCall(Importer& importer, Scope& scope, const AstOp& op, Items in)
      : importer(importer), scope(scope), op(op), in(std::move(in)) {}

  ir::Builder& b() const { return scope.builder; }
  Value v(std::size_t i) const;
  const Item& operand(std::size_t i) const;
  /// Type of result i as the text says it.
  const AstType& out(std::size_t i = 0) const;
  Elem elem() const { return out().elem; }

  // Attributes. Those without a default throw when they are missing or of another kind.
  const AstAttr* find(std::string_view name) const { return op.find(name); }
  const AstAttr& need(std::string_view name) const;
  Dims dims(std::string_view name) const;
  Dims dims_or(std::string_view name, const Dims& otherwise) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer_or(std::string_view name, std::int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise) const;
  /// A bare word, a string, or the last word of `#stablehlo<kind WORD>`; "" when it is missing.
  std::string word(std::string_view name) const;
  std::string word_of(const AstAttr& a) const;
  Dims dims_of(const AstAttr& a) const;
  /// Rows of `dense<[[1, 2], [3, 4]]>`, of nested lists, or of groups by axes of a mesh.
  std::vector<Dims> table_of(const AstAttr& a) const;

  void check_operands(std::size_t count) const;
  const AstRegion& region(std::size_t i) const;
  /// A region that takes and gives so many numbers and nothing from outside.
  GraphPtr function_of_numbers(const AstRegion& r, const char* what, std::size_t args, std::size_t results) const;
  /// What the only region gives for the operands, written here.
  Items inlined_region(const char* what);
  [[noreturn]] void fail(const std::string& what) const;
  /// The elements of an operand that the text must fix.
  HostArray known(std::size_t i) const;
  Dims known_dims(std::size_t i) const;

  Items one(Value v) const { return {tensor(elem(), v)}; }

  Importer& importer;
  Scope& scope;
  const AstOp& op;
  Items in;
};

using Rule = Items (*)(OpCall&);
using RuleTable = std::unordered_map<std::string_view, Rule>;
const RuleTable& rules();

/// A region as a graph: inputs are its arguments, then what it takes from outside.
struct RegionGraph {
  GraphPtr graph;
  Items captured;   ///< in the scope outside
  Items out_types;  ///< element types and kinds of what it returns; values belong to the finished builder
};

class Importer {
 public:
  Importer(const Source& source, const AstModule& ast, const ImportOptions& options);
  ir::Module run();

  /// Imports a region. Arguments that are tokens get no input. `types` replaces those of the arguments when not empty.
  RegionGraph region(Scope& outside, const AstRegion& r, const char* what);
  /// As `region`, for the body of a manual computation.
  RegionGraph manual_region(Scope& outside, const AstRegion& r, std::shared_ptr<const ManualLevels> levels);
  /// Operations in order; gives what the terminator returns.
  Items operations(Scope& scope, const std::vector<AstOp>& ops);
  Items call(OpCall& at, const std::string& function, const Items& args);
  HostArray elements(const AstAttr& a) const;
  const ir::NamedMesh* mesh(const std::string& name) const { return result_.find_mesh(name); }
  /// The mesh cut by all sharding of manual computations in the module; null where these do not nest.
  const ir::CutMesh* cut(const ir::NamedMesh& mesh);
  /// The grid whose axes the module's HLO shardings are made of; null where there is none.
  const ir::NamedMesh* tile_mesh() const { return tile_mesh_ ? &*tile_mesh_ : nullptr; }
  /// Whether the program's devices can be this grid beside those that they are already; if so, they are.
  bool nests(const Dims& sizes);
  /// The same levels for the same key, so that a function means the same to all who call it there.
  const std::shared_ptr<const ManualLevels>& levels(const std::string& key, const std::function<ManualLevels()>& make);
  const Source& source() const { return source_; }
  /// " (model.py:12)" where the text says which line of the user's an operation comes from; else nothing.
  std::string origin(const AstOp& op);
  const AstModule& ast() const { return ast_; }
  std::int64_t partitions() const { return result_.num_partitions; }
  /// Another number at each call: seeds of rng.
  std::uint32_t next_seed() { return seed_++; }
  /// Devices that the program is for.
  std::int64_t devices() const { return result_.num_devices(); }
  void check_type(const ir::Type& t, Offset pos) const;
  void count_equations(std::int64_t n, Offset pos);

 private:
  struct Function {
    GraphPtr graph;
    Items outputs;  // element types
    bool busy = false;
  };
  RegionGraph region_in(Scope& scope, const AstRegion& r, const char* what);
  void apply(Scope& scope, const AstOp& op);
  Items guarded(OpCall& call, Rule rule);
  void check_results(const OpCall& call, const Items& out) const;
  const Function& function(const std::string& name, Offset pos, const std::shared_ptr<const ManualLevels>& levels);
  Items block(Scope& scope, const std::vector<AstOp>& ops);
  Loc line_of(const AstOp& op);
  void meshes();
  void find_devices();
  void find_tile_mesh();
  bool place_on_grid(ir::Port& p, const Shape& shape) const;
  void signature(const AstFunction& main);

  const Source& source_;
  const AstModule& ast_;
  ImportOptions options_;
  Locations locations_;
  std::unordered_map<std::string, const AstFunction*> by_name_;
  std::unordered_map<std::string, Function> functions_;
  ir::Module result_;
  std::vector<Shape> in_shapes_, out_shapes_;
  std::int64_t equations_ = 0;
  int depth_ = 0;
  std::uint32_t seed_ = 0;
  bool shard_marks_ = false;                                // SPMDFullToShardShape may stand anywhere
  std::map<std::string, std::optional<ir::CutMesh>> cuts_;  // by mesh
  std::optional<ir::NamedMesh> tile_mesh_;
  std::vector<std::vector<std::int64_t>> grids_;
  std::map<std::string, std::shared_ptr<const ManualLevels>> levels_;
};

/// Flattens tuples and drops tokens.
void flatten(const Item& item, Items& out);
/// Results in the form of `like`, tensors taken from `values` in order.
Items shaped_like(const Items& like, const Values& values);
ir::Values values_of(const Items& items);

/// Whether @function runs a collective outside every manual computation, or asks for the number of the replica where
/// there are several: each device then runs the whole function.
bool runs_on_each_device(const AstModule& ast, const std::string& function, bool replicas);

/// "add" for a region of two numbers that returns `stablehlo.add` of them; "" for any other.
std::string simple_reducer(const AstRegion& r);

/// What a composite "tessera.<name>" of the writer stands for; nothing when the name or the operands are other ones.
std::optional<Items> own_composite(OpCall& c, const std::string& name);

// One table a family.
void add_elementwise_rules(RuleTable& t);
void add_chlo_rules(RuleTable& t);
void add_shape_rules(RuleTable& t);
void add_reduce_rules(RuleTable& t);
void add_indexing_rules(RuleTable& t);
void add_product_rules(RuleTable& t);
void add_control_rules(RuleTable& t);
void add_random_rules(RuleTable& t);
void add_linalg_rules(RuleTable& t);
void add_custom_call_rules(RuleTable& t);
void add_dynamic_rules(RuleTable& t);
void add_sharding_rules(RuleTable& t);
void add_collective_rules(RuleTable& t);
void add_manual_rules(RuleTable& t);
void add_full_to_shard_rules(RuleTable& t);
void add_sort_rules(RuleTable& t);

}  // namespace tessera::hlo
