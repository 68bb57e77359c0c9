// SPDX-License-Identifier: Apache-2.0
#include "program/trace.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string_view>

#include "base/strings.h"
#include "ir/axis_sets.h"
#include "ir/pass.h"
#include "mesh/mesh_state.h"
#include "ops/collective/manual_region.h"
#include "program/axis_env.h"
#include "program/bind_built.h"
#include "program/program.h"
#include "program/promote.h"
#include "program/typed/sharding_cures.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {
thread_local Trace* current_trace = nullptr;
std::atomic<std::uint64_t> next_trace{1};
thread_local int lenient_depth = 0;
}  // namespace

namespace {
// The lowest address of this thread's stack, or null where it is not known.
const char* stack_end() {
  static thread_local const char* end = [] {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return static_cast<const char*>(nullptr);
    void* low = nullptr;
    std::size_t size = 0;
    if (pthread_attr_getstack(&attributes, &low, &size) != 0) low = nullptr;
    pthread_attr_destroy(&attributes);
    return static_cast<const char*>(low);
  }();
  return end;
}

// A function that traces itself with ever other shapes, or through grad, vmap or a map, is no program that ends.
void check_stack() {
  constexpr std::ptrdiff_t kLeft = 512 * 1024;  // for what one level of a user's function and of the library needs
  const char* end = stack_end();
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  if (end == nullptr || here < end || here - end > kLeft) return;
  throw StateError(
      "trace: functions are traced inside each other until the stack ends: a function seems to call itself without "
      "end; use while_loop, fori_loop or scan, or end the recursion by a static argument or a shape");
}
}  // namespace

Trace::Trace() : id_(next_trace.fetch_add(1)), outer_(current_trace) {
  check_stack();
  if (mesh::types_in_use()) builder_.set_typing(lenient_depth > 0 ? ir::Typing::Lenient : ir::Typing::Strict);
  ++mesh::tracing_depth();
  current_trace = this;
}
Trace::~Trace() {
  --mesh::tracing_depth();
  life_->running = false;
  unbind_region_axes(id_);
  current_trace = outer_;
}

Trace* Trace::current() { return current_trace; }
Trace* Trace::find(std::uint64_t id) {
  for (Trace* t = current_trace; t != nullptr; t = t->outer_) {
    if (t->id_ == id) return t;
  }
  return nullptr;
}

LenientTyping::LenientTyping(ir::AxisMask open) : trace_(current_trace) {
  ++lenient_depth;
  if (trace_ == nullptr) return;
  before_ = trace_->builder().typing();
  if (before_ != ir::Typing::Off) trace_->builder().set_typing(ir::Typing::Lenient);
  trace_->builder().set_open_axes(open);
}
LenientTyping::~LenientTyping() {
  --lenient_depth;
  if (trace_ == nullptr) return;
  trace_->builder().set_typing(before_);
  trace_->builder().set_open_axes(0);
}

TraceSuspension::TraceSuspension() : before_(current_trace) { current_trace = nullptr; }
TraceSuspension::~TraceSuspension() { current_trace = before_; }

Array Trace::input(const ir::Type& type, ops::NameSet varying) {
  ir::Value v = builder_.input(type);
  varying_.resize(std::max(varying_.size(), static_cast<std::size_t>(v.id) + 1));
  varying_[static_cast<std::size_t>(v.id)] = std::move(varying);
  return wrap(v);
}

const ops::NameSet& Trace::varying(ir::ValueId v) {
  const ir::Graph& g = builder_.graph();
  varying_.resize(g.num_values());
  for (; looked_at_ < g.eqns.size(); ++looked_at_) {
    const ir::Eqn& e = g.eqns[looked_at_];
    ops::NameSets in;
    for (auto i : e.in) in.push_back(varying_[static_cast<std::size_t>(i)]);
    ops::NameSets out = ops::varying_results(e, in);
    for (std::size_t i = 0; i < out.size(); ++i) varying_[static_cast<std::size_t>(e.out[i])] = out[i];
  }
  return varying_[static_cast<std::size_t>(v)];
}
Array Trace::wrap(ir::Value v, std::string_view op, const Loc& loc) {
  return arrays::make_traced(v.type(), id_, v.id, life_, op, loc);
}

ir::Value Trace::lift(const Array& a, const char* function) {
  if (!arrays::usable(a)) arrays::throw_unusable(a, function, a.defined() ? "a captured array" : "array");
  if (a.impl()->trace != 0 && find(a.impl()->trace) == nullptr) arrays::throw_leaked(a, function, "the array");
  return lifted(a, function);
}
ir::Value Trace::lift(const Array& a, const char* function, const char* what, std::size_t i) {
  if (!arrays::usable(a)) arrays::throw_unusable(a, function, str(what, " ", i));
  if (a.impl()->trace != 0 && find(a.impl()->trace) == nullptr) arrays::throw_leaked(a, function, str(what, " ", i));
  return lifted(a, function);
}

namespace {
// A value from outside a map, or from outside `auto_axes`, in a type over the axes that are explicit here.
ir::Type seen_here(const arrays::ArrayImpl& a) {
  const ir::Type& t = a.type;
  if (t.sharding == nullptr) return t;
  const AbstractMesh& here = get_abstract_mesh();
  if (a.trace == 0 && here.manual_axes().empty()) return t;
  if (here.empty() || here == t.sharding->mesh || !(here.shape() == t.sharding->mesh.shape())) return t;
  ir::Type out = t;
  ir::TypeSharding s{here, t.sharding->dims, t.sharding->unreduced, t.sharding->reduced};
  auto is_explicit = [&](std::uint8_t a) { return here.axis_types()[a] == AxisType::Explicit; };
  for (auto& axes : s.dims) ir::drop_if(axes, [&](std::uint8_t a) { return !is_explicit(a); });
  out.sharding = here.explicit_axes().empty() ? nullptr : ir::intern(std::move(s));
  return out;
}
}  // namespace

// An array that can be used here.
ir::Value Trace::lifted(const Array& a, const char* function) {
  const auto& impl = a.impl();
  if (impl->trace == id_) return builder_.value(impl->value);
  if (impl->literal) return ops::constant(builder_, arrays::literal_value(*impl), impl->type.weak);
  auto known = captured_.find(impl.get());
  if (known != captured_.end()) return builder_.value(known->second);
  if (impl->trace == 0) {
    if (!a.is_fully_addressable() && !a.is_fully_replicated()) {
      throw NotAddressableError(str(function, ": the program captures an array of type ", dtype_name(impl->type.dtype),
                                    "[", join(impl->type.shape, ","),
                                    "] that this process cannot read whole; pass it as an argument instead"));
    }
  }
  ir::Value v = builder_.input(seen_here(*impl));
  if (checks_varying()) {
    ops::NameSet set = varying_of(a);
    varying_.resize(std::max(varying_.size(), static_cast<std::size_t>(v.id) + 1));
    varying_[static_cast<std::size_t>(v.id)] = std::move(set);
  }
  captured_[impl.get()] = v.id;
  captures_.push_back(a);
  return v;
}

void check_leaves(const std::vector<Array>& leaves, const char* function, const detail::LeafNames& names,
                  bool needs_data) {
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool described = !needs_data && leaves[i].defined() && leaves[i].impl()->without_data;
    if (!described && !arrays::usable(leaves[i])) arrays::throw_unusable(leaves[i], function, names(i));
    auto trace = leaves[i].impl()->trace;
    if (trace != 0 && Trace::find(trace) == nullptr) arrays::throw_leaked(leaves[i], function, names(i));
  }
}

ir::Type type_of(const Array& a, const char* function) { return arrays::checked(a, function)->type; }
ir::Types types_of(const std::vector<Array>& leaves, const char* function) {
  ir::Types out;
  for (const auto& a : leaves) out.push_back(type_of(a, function));
  return out;
}

ops::NameSet varying_of(const Array& a) {
  if (!checks_varying() || a.impl()->trace == 0) return {};
  Trace* t = Trace::find(a.impl()->trace);
  return t == nullptr ? ops::NameSet{} : t->varying(a.impl()->value);
}
std::vector<ops::NameSet> varying_of(const std::vector<Array>& leaves) {
  std::vector<ops::NameSet> out;
  if (!checks_varying()) return out;
  for (const auto& a : leaves) out.push_back(varying_of(a));
  return out;
}

bool grow_varying(const Traced& body, std::vector<ops::NameSet>& inputs, std::size_t carried) {
  if (!checks_varying() || body.graph->outputs.size() < carried) return false;
  std::vector<ops::NameSet> sets = inputs;
  for (const auto& c : body.captures) sets.push_back(varying_of(c));
  ops::NameSets all = ops::varying(*body.graph, sets);
  bool grew = false;
  for (std::size_t i = 0; i < carried; ++i) {
    ops::NameSet now = ops::unite(inputs[i], all[static_cast<std::size_t>(body.graph->outputs[i])]);
    grew = grew || now != inputs[i];
    inputs[i] = std::move(now);
  }
  return grew;
}

void cast_varying(Traced& traced, const std::vector<Array>& args) {
  if (!checks_varying()) return;
  std::vector<ops::NameSet> sets = varying_of(args);
  for (const auto& c : traced.captures) sets.push_back(varying_of(c));
  std::map<std::string, std::int64_t> sizes;
  for (const auto& b : axis_env()) {
    if (b.mesh) sizes[b.internal] = b.size;
  }
  traced.graph = ops::cast_varying(*traced.graph, sets, sizes);
}

Traced trace(const LeafFunction& f, const ir::Types& inputs, const std::vector<ops::NameSet>& varying) {
  Trace t;
  std::vector<Array> args;
  args.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    args.push_back(t.input(inputs[i], i < varying.size() ? varying[i] : ops::NameSet{}));
  }
  std::vector<Array> out = f(args);
  ir::Values results;
  results.reserve(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) results.push_back(t.lift(out[i], "trace", "result", i));
  Traced traced;
  traced.num_inputs = inputs.size();
  traced.captures = t.captures();
  traced.graph = ops::group_manual_regions(ir::after_pass("trace", t.builder().finish_shared(results)));
  return traced;
}

namespace {

// Whether some operand has digits and no float operand is without.
bool all_digits(const std::vector<Array>& in) {
  bool some = false;
  for (const auto& a : in) {
    const ir::Type& t = a.impl()->type;
    if (arrays::has_digits(t)) {
      some = true;
    } else if (is_inexact(t.dtype)) {
      return false;
    }
  }
  return some;
}

}  // namespace

std::vector<Array> matched(const std::vector<Array>& in, const char* function, const Loc& loc) {
  const Array* other = nullptr;  // a float operand that decides what the others are seen as
  bool digits = false;
  for (const auto& a : in) {
    const ir::Type& t = arrays::checked(a, function)->type;
    digits = digits || arrays::has_digits(t);
    if (is_inexact(t.dtype) && !arrays::has_digits(t)) other = &a;
  }
  if (!digits || other == nullptr || real_dtype(other->dtype()) == DType::F64) return in;
  std::vector<Array> out = in;
  for (auto& a : out) {
    if (arrays::has_digits(a.impl()->type)) a = cast_exactly(a, a.dtype(), true, loc);
  }
  return out;
}

std::vector<Array> seen(std::vector<Array> out, const std::vector<Array>& in, const Loc& loc) {
  if (!all_digits(in)) return out;
  for (auto& a : out) {
    const ir::Type& t = a.impl()->type;
    if (t.weak || (t.dtype != DType::F64 && t.dtype != DType::C128)) continue;
    a = cast_exactly(a, arrays::visible(t.dtype, true), false, loc);
  }
  return out;
}

namespace {
std::vector<Array> bind_as_given(const ir::OpDef& op, const std::vector<Array>& in, ir::Attrs attrs, const Loc& loc) {
  Trace* t = Trace::current();
  if (t == nullptr) {
    if (!mesh::types_in_use()) return run_op(op, in, attrs, loc);
    return with_cures([&] { return run_op(op, in, attrs, loc); });
  }
  ir::Values values;
  values.reserve(in.size());
  std::string name(op.name());
  for (std::size_t i = 0; i < in.size(); ++i) values.push_back(t->lift(in[i], name.c_str(), "operand", i));
  t->builder().set_loc(loc);
  std::vector<Array> out;
  auto add = [&] { return t->builder().add(op, values, attrs); };
  const ir::Values made = t->builder().typing() == ir::Typing::Off ? add() : with_cures(add);
  for (auto v : made) out.push_back(t->wrap(v, op.name(), loc));
  return out;
}
}  // namespace

std::vector<Array> bind(const ir::OpDef& op, const std::vector<Array>& in, ir::Attrs attrs, const Loc& loc) {
  const bool some =
      std::ranges::any_of(in, [](const Array& a) { return a.defined() && arrays::has_digits(a.impl()->type); });
  if (!some || op.traits().own_dtypes) return bind_as_given(op, in, std::move(attrs), loc);
  const std::vector<Array> one = matched(in, std::string(op.name()).c_str(), loc);
  return seen(bind_as_given(op, one, std::move(attrs), loc), one, loc);
}

namespace {
std::vector<Array> bind_in(Trace& t, const Build& build, const std::vector<Array>& args, const Loc& loc) {
  ir::Values values;
  values.reserve(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) values.push_back(t.lift(args[i], "call", "argument", i));
  t.builder().set_loc(loc);
  std::vector<Array> out;
  for (auto v : build(t.builder(), values)) out.push_back(t.wrap(v, "call", loc));
  return out;
}
}  // namespace

std::vector<Array> bind_graph(const ir::GraphPtr& graph, const std::vector<Array>& args, const Loc& loc) {
  Trace* t = Trace::current();
  if (t == nullptr) return run_graph(graph, args);
  return bind_in(
      *t, [&](ir::Builder& b, const ir::Values& in) { return b.inline_graph(*graph, in); }, args, loc);
}

std::vector<Array> bind_built(const char* pass, const Build& build, const ir::Types& types,
                              const std::vector<Array>& args, const Loc& loc) {
  Trace* t = Trace::current();
  // Rules derive shardings in types leniently, whatever the trace does: in a graph of their own.
  auto typed = [](const ir::Type& type) { return type.sharding != nullptr; };
  if (t != nullptr && t->builder().typing() == ir::Typing::Off && std::ranges::none_of(types, typed)) {
    return bind_in(*t, build, args, loc);
  }
  ir::Builder b;
  ir::Values in;
  for (const auto& type : types) in.push_back(b.input(type));
  return bind_graph(ir::after_pass(pass, b.finish_shared(build(b, in))), args, loc);
}

}  // namespace tessera::program
