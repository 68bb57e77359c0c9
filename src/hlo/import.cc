// SPDX-License-Identifier: Apache-2.0
#include "hlo/import.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/strings.h"
#include "hlo/dense.h"
#include "hlo/hlo_sharding.h"
#include "hlo/parse.h"
#include "hlo/sdy.h"
#include "hlo/shard_marks.h"
#include "ops/control.h"
#include "sharding/mesh_tiling.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
constexpr std::int64_t kMaxDevices = 1 << 16;
constexpr int kMaxCalls = 120;  // functions calling functions, and regions within regions

// Locs point at file names that live as long as the program.
const char* lasting(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;
  std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}
}  // namespace

Item tensor(Elem elem, Value v) {
  Item out;
  out.elem = elem;
  out.value = v;
  return out;
}

AstType Item::type() const {
  AstType t;
  t.kind = kind;
  if (kind == AstType::Kind::Tensor) {
    t.elem = elem;
    t.shape = shape();
  }
  for (const auto& p : parts) t.parts.push_back(p.type());
  return t;
}

void flatten(const Item& item, Items& out) {
  if (item.kind == AstType::Kind::Tensor) out.push_back(item);
  for (const auto& p : item.parts) flatten(p, out);
}

ir::Values values_of(const Items& items) {
  ir::Values out;
  for (const auto& i : items) {
    if (i.kind == AstType::Kind::Tensor) out.push_back(i.value);
  }
  return out;
}

const RuleTable& rules() {
  static const auto* table = [] {
    auto* t = new RuleTable;
    add_elementwise_rules(*t);
    add_chlo_rules(*t);
    add_shape_rules(*t);
    add_reduce_rules(*t);
    add_indexing_rules(*t);
    add_product_rules(*t);
    add_control_rules(*t);
    add_random_rules(*t);
    add_linalg_rules(*t);
    add_custom_call_rules(*t);
    add_dynamic_rules(*t);
    add_sharding_rules(*t);
    add_collective_rules(*t);
    add_manual_rules(*t);
    add_full_to_shard_rules(*t);
    add_sort_rules(*t);
    return t;
  }();
  return *table;
}

// --- names ---------------------------------------------------------------------------------------------------------

Item Scope::capture(const Item& outer) {
  Item here = outer;
  here.id_size = 0;  // there may be more devices here
  if (outer.kind == AstType::Kind::Tuple) {
    for (auto& p : here.parts) p = capture(p);
    return here;
  }
  if (outer.kind == AstType::Kind::Token) return here;
  if (outer.known && outer.known->size() <= 16) {
    here.value = ops::constant(builder, *outer.known);
    return here;
  }
  here.value = builder.input(outer.value.type());
  captured.push_back(outer);
  inputs_of_captured.push_back(here.value);
  return here;
}

const Item* Scope::find(std::string_view name) {
  auto it = names_.find(std::string(name));
  if (it != names_.end()) return &it->second;
  if (parent_ == nullptr) return nullptr;
  const Item* outer = parent_->find(name);
  if (outer == nullptr) return nullptr;
  return &(names_[std::string(name)] = capture(*outer));
}

// --- one operation ---------------------------------------------------------------------------------------------------

void OpCall::fail(const std::string& what) const { importer.source().fail(op.pos, str(op.name, ": ", what)); }
const Item& OpCall::operand(std::size_t i) const {
  if (i >= in.size()) fail(str("expected more than ", in.size(), " operands"));
  return in[i];
}
Value OpCall::v(std::size_t i) const {
  const Item& item = operand(i);
  if (item.kind != AstType::Kind::Tensor) fail(str("operand ", i, " is no tensor"));
  return item.value;
}
const AstType& OpCall::out(std::size_t i) const {
  if (i >= op.result_types.size()) fail(str("expected a type for result ", i));
  return op.result_types[i];
}
const AstAttr& OpCall::need(std::string_view name) const {
  const AstAttr* a = find(name);
  if (a == nullptr) fail(str("attribute \"", name, "\" is missing"));
  return *a;
}
void OpCall::check_operands(std::size_t count) const {
  if (in.size() != count) fail(str("has ", in.size(), " operands; expected ", count));
}
const AstRegion& OpCall::region(std::size_t i) const {
  if (i >= op.regions.size()) fail(str("expected a region, number ", i));
  return op.regions[i];
}

Dims OpCall::dims_of(const AstAttr& a) const {
  if (a.kind == AstAttr::Kind::Dense) {
    HostArray h = importer.elements(a).astype(DType::I64);
    return h.to_vector<std::int64_t>();
  }
  if (a.kind == AstAttr::Kind::Dialect) {
    Parser p(importer.source(), a.raw);
    Dims out;
    while (!p.at_end()) {
      out.push_back(p.integer());
      if (!p.accept(",") && !p.at_end()) p.fail("expected \",\"");
    }
    return out;
  }
  if (a.kind != AstAttr::Kind::Array) importer.source().fail(a.pos, "expected a list of integers");
  Dims out;
  for (const auto& i : a.items) {
    if (i.kind != AstAttr::Kind::Int && i.kind != AstAttr::Kind::Bool) {
      importer.source().fail(i.pos, "expected an integer");
    }
    out.push_back(i.integer);
  }
  return out;
}

std::vector<Dims> OpCall::table_of(const AstAttr& a) const {
  std::vector<Dims> out;
  if (a.kind == AstAttr::Kind::Dense) {
    HostArray h = importer.elements(a).astype(DType::I64);
    if (h.ndim() != 2) importer.source().fail(a.pos, "expected a table of two dimensions");
    auto all = h.span<std::int64_t>();
    auto width = static_cast<std::size_t>(h.shape()[1]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(h.shape()[0]); ++i) {
      out.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i * width),
                       all.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    }
    return out;
  }
  if (a.kind != AstAttr::Kind::Array) importer.source().fail(a.pos, "expected a table of integers");
  for (const auto& row : a.items) out.push_back(dims_of(row));
  return out;
}

Dims OpCall::dims(std::string_view name) const { return dims_of(need(name)); }
Dims OpCall::dims_or(std::string_view name, const Dims& otherwise) const {
  const AstAttr* a = find(name);
  return a ? dims_of(*a) : otherwise;
}
std::int64_t OpCall::integer(std::string_view name) const {
  const AstAttr& a = need(name);
  if (a.kind != AstAttr::Kind::Int) importer.source().fail(a.pos, str(name, " must be an integer"));
  return a.integer;
}
std::int64_t OpCall::integer_or(std::string_view name, std::int64_t otherwise) const {
  return find(name) ? integer(name) : otherwise;
}
bool OpCall::flag(std::string_view name, bool otherwise) const {
  const AstAttr* a = find(name);
  if (a == nullptr) return otherwise;
  return a->kind == AstAttr::Kind::Unit || a->integer != 0;
}
std::string OpCall::word_of(const AstAttr& a) const {
  if (a.kind == AstAttr::Kind::Word || a.kind == AstAttr::Kind::String || a.kind == AstAttr::Kind::Symbol)
    return a.text;
  if (a.kind == AstAttr::Kind::Dialect) {
    Parser p(importer.source(), a.raw);
    std::string last;
    while (!p.at_end()) {
      auto w = p.word();
      if (w.empty()) p.fail("expected a word");
      last = std::string(w);
    }
    return last;
  }
  importer.source().fail(a.pos, "expected a word");
}
std::string OpCall::word(std::string_view name) const {
  const AstAttr* a = find(name);
  return a ? word_of(*a) : std::string();
}

HostArray OpCall::known(std::size_t i) const {
  if (!operand(i).known) {
    throw UnimplementedError(str(importer.source().where(op.pos), ": ", op.name, ": operand ", i,
                                 " must be a constant of the program: shapes are fixed when it is read"));
  }
  return *operand(i).known;
}
Dims OpCall::known_dims(std::size_t i) const { return known(i).astype(DType::I64).to_vector<std::int64_t>(); }

// --- functions and regions
// ---------------------------------------------------------------------------------------------

Importer::Importer(const Source& source, const AstModule& ast, const ImportOptions& options)
    : source_(source), ast_(ast), options_(options) {
  for (const auto& f : ast.functions) {
    if (!by_name_.emplace(f.name, &f).second) source.fail(f.pos, str("function @", f.name, " is defined twice"));
  }
}

HostArray Importer::elements(const AstAttr& a) const {
  check_type({storage(a.type.elem), a.type.shape, false}, a.pos);
  return spread(dense_elements(source_, ast_, a), a.type.shape);
}

void Importer::check_type(const ir::Type& t, Offset pos) const {
  if (options_.max_memory > 0 && t.nbytes() > options_.max_memory) {
    throw ResourceExhaustedError(str(source_.where(pos), ": a value of type ", t, " needs ", t.nbytes(),
                                     " bytes; the bound is ", options_.max_memory));
  }
}
void Importer::count_equations(std::int64_t n, Offset pos) {
  equations_ += n;
  if (equations_ > options_.max_equations) {
    throw ResourceExhaustedError(
        str(source_.where(pos), ": the program has more than ", options_.max_equations, " operations"));
  }
}

void Importer::check_results(const OpCall& call, const Items& out) const {
  const auto& want = call.op.result_types;
  if (out.size() != want.size()) {
    call.fail(str("has ", out.size(), " results; the text names ", want.size()));
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    AstType got = out[i].type();
    if (!(got == want[i])) {
      call.fail(str("result ", i, " is ", to_string(got), "; the text says ", to_string(want[i])));
    }
    if (out[i].kind == AstType::Kind::Tensor) check_type(out[i].value.type(), call.op.pos);
  }
}

Items Importer::guarded(OpCall& call, Rule rule) {
  auto prefix = [&] { return str(source_.where(call.op.pos), ": ", call.op.name, ": "); };
  try {
    Items out = rule(call);
    check_results(call, out);
    return out;
  } catch (const FormatError&) {
    throw;
  } catch (const UnimplementedError& e) {
    std::string text = e.what();
    throw UnimplementedError(text.starts_with(source_.name()) ? text : prefix() + text);
  } catch (const ResourceExhaustedError&) {
    throw;
  } catch (const StateError&) {
    throw;
  } catch (const Error& e) {
    source_.fail(call.op.pos, str(call.op.name, ": ", e.what()));
  }
}

void Importer::apply(Scope& scope, const AstOp& op) {
  auto rule = rules().find(op.name);
  if (rule == rules().end()) source_.fail(op.pos, str("unknown operation \"", op.name.substr(0, 60), "\""));
  Items in;
  in.reserve(op.operands.size());
  for (auto name : op.operands) {
    const Item* item = scope.find(name);
    if (item == nullptr) source_.fail(op.pos, str(op.name, ": ", name, " is not defined here"));
    in.push_back(*item);
  }
  for (std::size_t i = 0; i < op.operand_types.size() && op.operand_types.size() == in.size(); ++i) {
    if (!(in[i].type() == op.operand_types[i])) {
      source_.fail(op.pos, str(op.name, ": operand ", i, " is ", to_string(in[i].type()), "; the text says ",
                               to_string(op.operand_types[i])));
    }
  }
  scope.builder.set_loc({lasting(source_.name()), static_cast<std::uint32_t>(source_.line(op.pos)), nullptr});
  count_equations(1, op.pos);
  OpCall call(*this, scope, op, std::move(in));
  Items out = guarded(call, rule->second);
  std::size_t next = 0;
  for (const auto& r : op.results) {
    if (r.count == 1) {
      scope.define(r.name, out[next]);
      scope.define(str(r.name, "#0"), out[next++]);
      continue;
    }
    for (std::int64_t k = 0; k < r.count; ++k) scope.define(str(r.name, "#", k), out[next++]);
  }
}

Items Importer::operations(Scope& scope, const std::vector<AstOp>& ops) {
  if (++depth_ > kMaxCalls) {
    --depth_;
    source_.fail(ops.empty() ? 0 : ops[0].pos, "regions and calls are nested too deeply");
  }
  Items out = shard_marks_ && has_shard_marks(ops) ? block(scope, with_manual_groups(ops)) : block(scope, ops);
  --depth_;
  return out;
}

Items Importer::block(Scope& scope, const std::vector<AstOp>& ops) {
  Items out;
  bool returned = false;
  for (const auto& op : ops) {
    if (returned) source_.fail(op.pos, str(op.name, " stands behind the return"));
    if (op.name == "func.return" || op.name == "stablehlo.return" || op.name == "sdy.return") {
      returned = true;
      for (auto name : op.operands) {
        const Item* item = scope.find(name);
        if (item == nullptr) source_.fail(op.pos, str(op.name, ": ", name, " is not defined here"));
        out.push_back(*item);
      }
      continue;
    }
    apply(scope, op);
  }
  return out;
}

RegionGraph Importer::region_in(Scope& scope, const AstRegion& r, const char* what) {
  ir::Builder& b = scope.builder;
  for (const auto& a : r.args) {
    Item item;
    item.kind = a.type.kind;
    item.elem = a.type.elem;
    if (a.type.kind == AstType::Kind::Tuple) {
      throw UnimplementedError(str(source_.name(), ": ", what, " takes a tuple; pass its parts"));
    }
    if (a.type.kind == AstType::Kind::Tensor) {
      ir::Type t{storage(a.type.elem), a.type.shape, false};
      check_type(t, 0);
      item.value = b.input(t);
    }
    scope.define(a.name, item);
  }
  RegionGraph out;
  out.out_types = operations(scope, r.ops);
  out.graph = b.finish_shared(values_of(out.out_types));
  out.captured = std::move(scope.captured);
  return out;
}

RegionGraph Importer::region(Scope& outside, const AstRegion& r, const char* what) {
  ir::Builder b;
  Scope scope(b, &outside);
  return region_in(scope, r, what);
}

RegionGraph Importer::manual_region(Scope& outside, const AstRegion& r, std::shared_ptr<const ManualLevels> levels) {
  ir::Builder b;
  Scope scope(b, &outside);
  scope.set_levels(std::move(levels));
  return region_in(scope, r, "a manual computation");
}

const Importer::Function& Importer::function(const std::string& name, Offset pos,
                                             const std::shared_ptr<const ManualLevels>& levels) {
  // The same function means other members inside another manual computation.
  std::string key = levels ? str(name, "@", reinterpret_cast<std::uintptr_t>(levels.get())) : name;
  auto it = functions_.find(key);
  if (it != functions_.end()) {
    if (it->second.busy) source_.fail(pos, str("function @", name, " calls itself"));
    return it->second;
  }
  auto ast = by_name_.find(name);
  if (ast == by_name_.end()) source_.fail(pos, str("there is no function @", name));
  if (!ast->second->has_body) source_.fail(pos, str("function @", name, " has no body"));
  functions_[key].busy = true;
  ir::Builder b;
  Scope scope(b, nullptr);
  scope.set_levels(levels);
  for (const auto& a : ast->second->body.args) {
    Item item;
    item.kind = a.type.kind;
    item.elem = a.type.elem;
    if (a.type.kind == AstType::Kind::Tuple) source_.fail(ast->second->pos, "functions of tuples are not supported");
    if (a.type.kind == AstType::Kind::Tensor) {
      ir::Type t{storage(a.type.elem), a.type.shape, false};
      check_type(t, ast->second->pos);
      item.value = b.input(t);
    }
    scope.define(a.name, item);
  }
  Function f;
  f.outputs = operations(scope, ast->second->body.ops);
  const auto& want = ast->second->result_types;
  if (f.outputs.size() != want.size()) {
    source_.fail(ast->second->pos,
                 str("function @", name, " returns ", f.outputs.size(), " values; its type says ", want.size()));
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!(f.outputs[i].type() == want[i])) {
      source_.fail(ast->second->pos, str("function @", name, " returns ", to_string(f.outputs[i].type()), " as result ",
                                         i, "; its type says ", to_string(want[i])));
    }
  }
  f.graph = b.finish_shared(values_of(f.outputs));
  return functions_[key] = std::move(f);
}

Items Importer::call(OpCall& at, const std::string& name, const Items& args) {
  const Function& f = function(name, at.op.pos, at.scope.levels());
  const auto& ast = *by_name_.at(name);
  if (args.size() != ast.body.args.size()) {
    at.fail(str("@", name, " takes ", ast.body.args.size(), " arguments, got ", args.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!(args[i].type() == ast.body.args[i].type)) {
      at.fail(str("argument ", i, " of @", name, " is ", to_string(args[i].type()), "; expected ",
                  to_string(ast.body.args[i].type)));
    }
  }
  count_equations(static_cast<std::int64_t>(f.graph->eqns.size()), at.op.pos);
  Values in = values_of(args);
  Values out = at.b().inline_graph(*f.graph, in);
  Items items = f.outputs;
  std::size_t next = 0;
  for (auto& i : items) {
    i.known = nullptr;
    if (i.kind == AstType::Kind::Tensor) i.value = out[next++];
  }
  return items;
}

// --- the module ------------------------------------------------------------------------------------------------------

const SdyMesh* Importer::mesh(std::string_view name) const {
  for (const auto& m : result_.meshes) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

void Importer::meshes() {
  for (const auto& op : ast_.others) {
    if (op.name != "sdy.mesh") source_.fail(op.pos, str("\"", op.name.substr(0, 60), "\" cannot stand in a module"));
    result_.meshes.push_back(parse_mesh(source_, op));
  }
}

namespace {
// Calls `f` with every manual computation.
template <class F>
void each_manual(const std::vector<AstOp>& ops, const F& f) {
  for (const auto& op : ops) {
    if (op.name == "sdy.manual_computation") f(op);
    for (const auto& r : op.regions) each_manual(r.ops, f);
  }
}
}  // namespace

// The parts of axes that manual computations name, and how many devices these need where the module does not say it.
void Importer::find_devices() {
  if (source_.text().find("sdy.manual_computation") == std::string_view::npos) return;
  std::map<std::string, std::vector<SdyAxis>> named;
  auto see = [&](const AstOp& op) {
    for (const char* which : {"in_shardings", "out_shardings"}) {
      const AstAttr* a = op.find(which);
      if (a == nullptr) continue;
      for (const auto& s : parse_shardings(source_, *a)) {
        auto& list = named[s.mesh];
        for (const auto& d : s.dims) list.insert(list.end(), d.axes.begin(), d.axes.end());
        list.insert(list.end(), s.unreduced.begin(), s.unreduced.end());
      }
    }
  };
  for (const auto& f : ast_.functions) each_manual(f.body.ops, see);
  bool says = ast_.attrs.find("mhlo.num_partitions") != nullptr || result_.num_replicas != 1;
  for (const auto& m : result_.meshes) {
    auto it = named.find(m.name);
    if (it == named.end()) continue;
    try {
      cuts_[m.name] = cut_mesh(m, it->second);
    } catch (const ValueError& e) {
      source_.fail(0, e.what());
    }
    if (!says) result_.num_partitions = std::max(result_.num_partitions, m.size());
  }
}

namespace {
// Calls `f` with the HLO sharding of every mark.
template <class F>
void each_mark(const std::vector<AstOp>& ops, const F& f) {
  for (const auto& op : ops) {
    std::string target = custom_call_target(op);
    if (target == "Sharding" || target.starts_with("SPMD")) {
      if (const AstAttr* a = op.find("mhlo.sharding")) f(a->text);
    }
    for (const auto& r : op.regions) each_mark(r.ops, f);
  }
}
}  // namespace

void Importer::find_tile_mesh() {
  std::set<std::string> texts;
  for (const auto& f : ast_.functions) each_mark(f.body.ops, [&](const std::string& text) { texts.insert(text); });
  for (const auto* ports : {&result_.inputs, &result_.outputs}) {
    for (const auto& p : *ports) texts.insert(p.mhlo);
  }
  std::vector<GridTiles> all;
  for (const auto& text : texts) {
    if (auto tiles = grid_tiles(text, devices())) all.push_back(std::move(*tiles));
  }
  auto grid = grid_of(all, devices());
  if (!grid || !nests(*grid)) return;
  SdyMesh m;
  m.name = "grid";
  while (mesh(m.name) != nullptr) m.name += "_";
  m.sizes = *grid;
  for (std::size_t a = 0; a < grid->size(); ++a) m.axes.push_back(str("d", a));
  tile_mesh_ = std::move(m);
  bool used = false;
  for (auto* ports : {&result_.inputs, &result_.outputs}) {
    for (auto& p : *ports) used = place_on_grid(p) || used;
  }
  if (used) result_.meshes.push_back(*tile_mesh_);
}

// An HLO sharding of an argument or result said in Shardy's way, where it cuts the value evenly.
bool Importer::place_on_grid(Port& p) const {
  auto tiles = p.mhlo.empty() || p.sdy ? std::nullopt : grid_tiles(p.mhlo, devices());
  if (!tiles || !tiles->manual.empty()) return false;
  if (tiles->dims.empty()) tiles->dims.resize(p.shape.size());
  if (tiles->dims.size() != p.shape.size()) return false;
  SdySharding s;
  s.mesh = tile_mesh_->name;
  for (std::size_t d = 0; d < tiles->dims.size(); ++d) {
    SdyDim& dim = s.dims.emplace_back();
    std::int64_t n = 1;
    for (auto a : axes_of(tiles->dims[d], tile_mesh_->sizes)) {
      dim.axes.push_back({tile_mesh_->axes[static_cast<std::size_t>(a)], 1, 0});
      n *= tile_mesh_->sizes[static_cast<std::size_t>(a)];
    }
    if (p.shape[d] % n != 0) return false;
  }
  p.sdy = std::move(s);
  p.mhlo.clear();
  return true;
}

void Importer::find_groups() {
  std::map<std::string_view, const AstAttr*> known;  // by value
  std::function<void(const std::vector<AstOp>&)> see = [&](const std::vector<AstOp>& ops) {
    for (const auto& op : ops) {
      const AstAttr* sharding = sharding_of_constraint(op);
      if (sharding != nullptr && op.results.size() == 1) known[op.results[0].name] = sharding;
      const AstAttr* group = op.name == "sdy.sharding_group" ? op.find("group_id") : nullptr;
      auto it = group == nullptr || op.operands.size() != 1 ? known.end() : known.find(op.operands[0]);
      if (it != known.end()) groups_.try_emplace(group->integer, parse_sharding(source_, *it->second));
      for (const auto& r : op.regions) see(r.ops);
    }
  };
  for (const auto& f : ast_.functions) {
    known.clear();
    for (const auto& a : f.body.args) {
      if (const AstAttr* sharding = a.attrs.find("sdy.sharding")) known[a.name] = sharding;
    }
    see(f.body.ops);
  }
}

const CutMesh* Importer::cut(const SdyMesh& mesh) {
  auto it = cuts_.find(mesh.name);
  return it == cuts_.end() || !it->second ? nullptr : &*it->second;
}

bool Importer::nests(const Dims& sizes) {
  std::vector<std::int64_t> grid(sizes.begin(), sizes.end());
  if (size_of(sizes) != devices()) return false;
  if (std::find(grids_.begin(), grids_.end(), grid) != grids_.end()) return true;
  grids_.push_back(grid);
  if (sharding::common_refinement(grids_)) return true;
  grids_.pop_back();
  return false;
}

const std::shared_ptr<const ManualLevels>& Importer::levels(const std::string& key,
                                                            const std::function<ManualLevels()>& make) {
  auto& found = levels_[key];
  if (!found) found = std::make_shared<const ManualLevels>(make());
  return found;
}

namespace {
Port port(const Source& source, const AstType& t, const AstAttr& attrs) {
  Port p;
  p.token = t.kind == AstType::Kind::Token;
  p.elem = t.elem;
  p.shape = t.shape;
  if (const AstAttr* a = attrs.find("sdy.sharding")) p.sdy = parse_sharding(source, *a);
  if (const AstAttr* a = attrs.find("mhlo.sharding")) p.mhlo = a->text;
  return p;
}
}  // namespace

void Importer::signature(const AstFunction& main) {
  for (const auto& a : main.body.args) result_.inputs.push_back(port(source_, a.type, a.attrs));
  for (std::size_t i = 0; i < main.result_types.size(); ++i) {
    result_.outputs.push_back(port(source_, main.result_types[i], main.result_attrs[i]));
  }
  for (const auto* ports : {&result_.inputs, &result_.outputs}) {
    for (const auto& p : *ports) {
      const SdyMesh* m = p.sdy ? mesh(p.sdy->mesh) : nullptr;
      if (m != nullptr && m->size() == devices()) nests(constraint_of(*p.sdy, *m).mesh_sizes);
    }
  }
}

ImportedModule Importer::run() {
  result_.name = ast_.name;
  auto count = [&](const char* name) {
    const AstAttr* a = ast_.attrs.find(name);
    if (a == nullptr || a->kind != AstAttr::Kind::Int) return std::int64_t{1};
    if (a->integer > kMaxDevices) source_.fail(a->pos, str(name, " is beyond ", kMaxDevices));
    return std::max<std::int64_t>(1, a->integer);
  };
  result_.num_partitions = count("mhlo.num_partitions");
  result_.num_replicas = count("mhlo.num_replicas");
  if (devices() > kMaxDevices) source_.fail(0, str("a program for more than ", kMaxDevices, " devices"));
  meshes();
  find_devices();
  std::string name = "main";
  if (!by_name_.contains(name)) {
    if (by_name_.size() != 1) source_.fail(0, "there is no function @main");
    name = by_name_.begin()->first;
  }
  signature(*by_name_.at(name));
  shard_marks_ = source_.text().find("SPMDFullToShardShape") != std::string_view::npos ||
                 source_.text().find("SPMDShardToFullShape") != std::string_view::npos;
  if (source_.text().find("sdy.sharding_group") != std::string_view::npos) find_groups();
  if (devices() > 1 && source_.text().find("mhlo.sharding") != std::string_view::npos) find_tile_mesh();
  Offset pos = by_name_.at(name)->pos;
  if (!shard_marks_ && runs_on_each_device(ast_, name, result_.num_replicas > 1)) {
    auto all = levels("", [&] { return all_devices(devices()); });
    GraphPtr each = function(name, pos, all).graph;
    ir::Builder b;
    Values in;
    for (const auto& t : each->input_types()) in.push_back(b.input(t));
    result_.graph = b.finish_shared(map_over_devices(b, each, in, devices()));
  } else {
    result_.graph = function(name, pos, nullptr).graph;
  }
  return std::move(result_);
}

ImportedModule import_module(const std::string& text, const ImportOptions& options) {
  Source source(text, options.name);
  Parser parser(source);
  AstModule ast = parser.module();
  return Importer(source, ast, options).run();
}

}  // namespace tessera::hlo
