// SPDX-License-Identifier: Apache-2.0
#include "api/trace.h"

#include <atomic>

#include "api/program.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::api {

namespace {
thread_local Trace* current_trace = nullptr;
std::atomic<std::uint64_t> next_trace{1};
}  // namespace

Trace::Trace() : id_(next_trace.fetch_add(1)), outer_(current_trace) { current_trace = this; }
Trace::~Trace() { current_trace = outer_; }

Trace* Trace::current() { return current_trace; }
Trace* Trace::find(std::uint64_t id) {
  for (Trace* t = current_trace; t != nullptr; t = t->outer_) {
    if (t->id_ == id) return t;
  }
  return nullptr;
}

TraceSuspension::TraceSuspension() : before_(current_trace) { current_trace = nullptr; }
TraceSuspension::~TraceSuspension() { current_trace = before_; }

Array Trace::input(const ir::Type& type) { return wrap(builder_.input(type)); }
Array Trace::wrap(ir::Value v) { return array::make_traced(v.type(), id_, v.id); }

ir::Value Trace::lift(const Array& a, const char* function) {
  const auto& impl = array::checked(a, function);
  if (impl->trace == id_) return builder_.value(impl->value);
  if (impl->literal) return ops::constant(builder_, array::literal_value(*impl), impl->type.weak);
  auto known = captured_.find(impl.get());
  if (known != captured_.end()) return builder_.value(known->second);
  if (impl->trace != 0 && find(impl->trace) == nullptr) {
    throw StateError(str(function, ": a value of a traced function (", impl->type,
                         ") is used after that function ended; return it from the function instead of storing it"));
  }
  if (impl->trace == 0) {
    array::storage_of(a, function);  // a deleted array cannot be captured
    if (!a.is_fully_addressable() && !a.is_fully_replicated()) {
      throw NotAddressableError(str(function, ": the program captures an array of type ", dtype_name(impl->type.dtype),
                                    "[", join(impl->type.shape, ","),
                                    "] that this process cannot read whole; pass it as an argument instead"));
    }
  }
  ir::Value v = builder_.input(impl->type);
  captured_[impl.get()] = v.id;
  captures_.push_back(a);
  return v;
}

ir::Type type_of(const Array& a, const char* function) { return array::checked(a, function)->type; }

Traced trace(const LeafFunction& f, const ir::Types& inputs) {
  Trace t;
  std::vector<Array> args;
  args.reserve(inputs.size());
  for (const auto& type : inputs) args.push_back(t.input(type));
  std::vector<Array> out = f(args);
  ir::Values results;
  results.reserve(out.size());
  for (const auto& a : out) results.push_back(t.lift(a, "trace"));
  Traced traced;
  traced.num_inputs = inputs.size();
  traced.captures = t.captures();
  traced.graph = t.builder().finish_shared(results);
  return traced;
}

std::vector<Array> bind(const ir::OpDef& op, const std::vector<Array>& in, ir::Attrs attrs, const Loc& loc) {
  Trace* t = Trace::current();
  if (t == nullptr) return run_op(op, in, attrs, loc);
  ir::Values values;
  values.reserve(in.size());
  std::string name(op.name());
  for (const auto& a : in) values.push_back(t->lift(a, name.c_str()));
  t->builder().set_loc(loc);
  std::vector<Array> out;
  for (auto v : t->builder().add(op, values, std::move(attrs))) out.push_back(t->wrap(v));
  return out;
}

std::vector<Array> bind_graph(const ir::GraphPtr& graph, const std::vector<Array>& args, const Loc& loc) {
  Trace* t = Trace::current();
  if (t == nullptr) return run_graph(graph, args);
  ir::Values values;
  values.reserve(args.size());
  for (const auto& a : args) values.push_back(t->lift(a, "call"));
  t->builder().set_loc(loc);
  std::vector<Array> out;
  for (auto v : t->builder().inline_graph(*graph, values)) out.push_back(t->wrap(v));
  return out;
}

}  // namespace tessera::api
