// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/import.h"

#include <mutex>
#include <set>

#include "base/strings.h"
#include "hlo/sharding/sdy.h"
#include "hlo/sharding/shard_marks.h"
#include "hlo/text/dense.h"
#include "hlo/text/parse.h"
#include "ops/control/control.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
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

Items shaped_like(const Items& like, const Values& values) {
  Items out = like;
  std::size_t next = 0;
  for (auto& i : out) {
    i.known = nullptr;
    if (i.kind == AstType::Kind::Tensor) i.value = values.at(next++);
  }
  return out;
}

namespace {
// Equations, with those of the graphs inside; no more than `most` are counted. Loops share the graphs of functions that
// they call, so that few equations may stand for very many.
std::int64_t count_all(const ir::Graph& g, std::int64_t most) {
  auto n = static_cast<std::int64_t>(g.eqns.size());
  for (const auto& e : g.eqns) {
    if (n > most) break;
    for (const auto& inside : e.op->subgraphs(e.attrs)) n += count_all(*inside, most - n);
  }
  return n;
}
}  // namespace

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
  if (outer.known && outer.known->size() <= kMostCopied) {
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
void Scope::claim(std::string_view name, const Source& source, Offset pos) {
  if (!name.empty() && !claimed_.insert(name).second) source.fail(pos, str(name, " is defined twice"));
}

Importer::Importer(const Source& source, const AstModule& ast, const ImportOptions& options)
    : source_(source), ast_(ast), options_(options), locations_(source, ast) {
  for (const auto& f : ast.functions) {
    if (!by_name_.emplace(f.name, &f).second) source.fail(f.pos, str("function @", f.name, " is defined twice"));
  }
}

HostArray Importer::elements(const AstAttr& a) const {
  check_type({storage(a.type.elem), a.type.shape, false}, a.pos);
  return spread(dense_elements(source_, ast_, a), a.type.shape);
}

void Importer::check_type(const ir::Type& t, Offset pos) const {
  for (auto n : t.shape) {  // also where another extent is 0
    if (n > kMostAlong) source_.fail(pos, str("a dimension of ", n, " elements is beyond this reader"));
  }
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
    throw UnimplementedError(text.starts_with(source_.name()) ? text : prefix() + text + origin(call.op));
  } catch (const ResourceExhaustedError&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    source_.fail(call.op.pos, str(call.op.name, ": ", e.what(), origin(call.op)));
  }
}

// The user's line; without one the text's.
Loc Importer::line_of(const AstOp& op) {
  if (const SourceLine* line = locations_.find(op.location)) return {lasting(line->file), line->line, nullptr};
  return {lasting(source_.name()), static_cast<std::uint32_t>(source_.line(op.pos)), nullptr};
}

std::string Importer::origin(const AstOp& op) {
  const SourceLine* line = locations_.find(op.location);
  return line == nullptr ? "" : str(" (", line->file, ":", line->line, ")");
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
  scope.builder.set_loc(line_of(op));
  count_equations(1, op.pos);
  OpCall call(*this, scope, op, std::move(in));
  Items out = guarded(call, rule->second);
  std::size_t next = 0;
  for (const auto& r : op.results) {
    scope.claim(r.name, source_, op.pos);
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
    scope.claim(a.name, source_, r.ops.empty() ? 0 : r.ops[0].pos);
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
    scope.claim(a.name, source_, ast->second->pos);
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
  count_equations(count_all(*f.graph, options_.max_equations), at.op.pos);
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

}  // namespace tessera::hlo
