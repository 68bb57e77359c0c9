// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/ordered_effects.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "engines/pjrt/sub_graphs.h"
#include "ir/rewriter.h"
#include "ops/collective/collectives.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "ops/ops.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

namespace def = ops::def;
using ir::Builder;
using ir::Eqn;
using ir::Graph;
using ir::Type;
using ir::Value;
using ir::Values;
using ir::ValueSpan;

const Type kNumber{DType::I32, {}, false};

bool is_effect(const Eqn& e) { return e.op == &def::io_callback || e.op == &def::debug_callback; }
bool any_effect(const Graph& g) {
  return std::ranges::any_of(g.eqns, [](const Eqn& e) {
    return is_effect(e) || std::ranges::any_of(sub_graphs(e), [](const auto& body) { return any_effect(*body); });
  });
}

// What travels in place of an array: the integers of its bits, two for a complex number.
Type bits_type(const Type& t) {
  if (!is_inexact(t.dtype)) return {t.dtype, t.shape, false};
  const DType part = real_dtype(t.dtype);
  const std::int64_t size = dtype_size(part);
  Type out{size == 2 ? DType::U16 : size == 4 ? DType::U32 : DType::U64, t.shape, false};
  if (is_complex(t.dtype)) out.shape.push_back(2);
  return out;
}
Value from_bits(Value x, const Type& t) {
  if (!is_inexact(t.dtype)) return x;
  Value parts = ops::bitcast_convert_type(x, real_dtype(t.dtype));
  if (!is_complex(t.dtype)) return parts;
  const std::int64_t last = parts.rank() - 1;
  auto part = [&](std::int64_t i) { return ops::squeeze(ops::slice_in_dim(parts, i, i + 1, last), {last}); };
  return ops::complex(part(0), part(1));
}

// The sum over all devices of what one holds, which the others have zeros for.
Value from_first(Value x, const ops::Collective& all) {
  const DType t = x.dtype();
  const DType wide = dtype_size(t) >= 4 ? t : is_signed_int(t) ? DType::I32 : DType::U32;
  return ops::convert(ops::psum(ops::convert(x, wide), all), t);
}

Values by_first_device(Builder& b, const ops::Collective& all, const Values& operands, const ops::Callback& p) {
  Builder yes, no;
  Values args, zeros;
  for (const Value& v : operands) {
    args.push_back(yes.input({v.dtype(), v.shape(), false}));
    no.input({v.dtype(), v.shape(), false});
  }
  for (const Type& t : p.results) zeros.push_back(ops::zeros(no, t));
  const ir::GraphPtr called = yes.finish_shared(yes.add(def::io_callback, args, ir::make_attrs(p)));
  const ir::GraphPtr left_out = no.finish_shared(zeros);
  Value is_first = ops::eq(ops::axis_index(b, all), ops::scalar(b, 0, DType::I32));
  Values results = ops::cond(is_first, {left_out, called}, operands);
  for (Value& v : results) v = from_first(v, all);
  return results;
}

// The call as it stands outside of maps: by every device, or by the first one, whose results all get.
Values on_devices(Builder& b, const ir::MeshAxes& mesh, const Values& operands, const ops::Callback& p) {
  ops::Collective all;
  all.names.list = mesh.names;
  all.sizes.assign(mesh.sizes.begin(), mesh.sizes.end());
  Builder body;
  Values args;
  for (const Value& v : operands) args.push_back(body.input({v.dtype(), v.shape(), false}));
  Values results = p.once ? by_first_device(body, all, args, p) : body.add(def::io_callback, args, ir::make_attrs(p));
  ops::ShardMap map;
  map.body = body.finish_shared(results);
  map.mesh_sizes = all.sizes;
  map.mesh_names = all.names;
  map.checked = false;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) map.manual.push_back(static_cast<std::int64_t>(a));
  for (const Value& v : operands) map.in_specs.add(std::vector<Dims>(v.shape().size()));
  for (const Type& t : p.results) map.out_specs.add(std::vector<Dims>(t.shape.size()));
  return b.add(def::shard_map, operands, ir::make_attrs(std::move(map)));
}

// The call between two numbers.
Values with_number(Builder& b, const ir::MeshAxes& mesh, const Eqn& e, const Values& in, Value& number, bool in_map) {
  auto p = ir::get<ops::Callback>(e.attrs);
  if ((p.once && in_map) || (p.partitioned && !in_map)) {
    throw UnimplementedError(str("the op ", e.op->name(), " (", to_string(e.loc), ") calls the host ",
                                 p.once ? "once for all devices of a map" : "with the shards of each device",
                                 ", which XLA does not; run the program on the native engine"));
  }
  const ir::Opaque function = p.function;
  const ir::Types results = p.results;
  p.results = {kNumber};
  for (const Type& t : results) p.results.push_back(bits_type(t));
  p.function = ops::host_function(
      [function, results](const std::vector<HostArray>& args) {
        std::vector<HostArray> out{HostArray::scalar<std::int32_t>(0)};
        auto made = (*static_cast<const ops::HostFunction*>(function.object.get()))({args.begin() + 1, args.end()});
        if (made.size() != results.size()) {
          throw ValueError(str(function.label, " gave ", made.size(), " arrays; expected ", results.size()));
        }
        for (std::size_t i = 0; i < made.size(); ++i) {
          ops::check_type("callback", str("result ", i, " of ", function.label), {made[i].dtype(), made[i].shape()},
                          {results[i].dtype, results[i].shape});
          const Type bits = bits_type(results[i]);
          out.emplace_back(bits.dtype, bits.shape, made[i].storage());
        }
        return out;
      },
      function.label);
  Values operands{number};
  operands.insert(operands.end(), in.begin(), in.end());
  Values out = in_map || mesh.num_positions() == 1 ? b.add(def::io_callback, operands, ir::make_attrs(p))
                                                   : on_devices(b, mesh, operands, p);
  number = out[0];
  Values made;
  for (std::size_t i = 0; i < results.size(); ++i) made.push_back(from_bits(out[i + 1], results[i]));
  return made;
}

class Ordering {
 public:
  explicit Ordering(const ir::MeshAxes& mesh) : mesh_(mesh) {}

  // The equations of `g` on these values; `number` is that of the last call before and becomes that of the last one.
  Values inlined(Builder& b, const Graph& g, ValueSpan args, Value& number, bool in_map) const {
    ir::Rewriter r(b, g);
    r.bind(g.inputs, args);
    r.walk([&](const Eqn& e, const Values& in) { return ordered(b, r, e, in, number, in_map); });
    return r.outputs();
  }

 private:
  // A body with one input and one output more: the number, at these places.
  ir::GraphPtr body(const Graph& g, std::size_t in_at, std::size_t out_at, bool in_map) const {
    Builder b;
    Values args;
    Value number;
    for (std::size_t i = 0; i <= g.inputs.size(); ++i) {
      if (i == in_at) number = b.input(kNumber);
      if (i < g.inputs.size()) args.push_back(b.input(g.type(g.inputs[i])));
    }
    Values out = inlined(b, g, args, number, in_map);
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(out_at), number);
    return b.finish_shared(out);
  }

  Values ordered(Builder& b, ir::Rewriter& r, const Eqn& e, const Values& in, Value& number, bool in_map) const {
    if (is_effect(e)) return with_number(b, mesh_, e, in, number, in_map);
    const auto graphs = sub_graphs(e);
    if (std::ranges::none_of(graphs, [](const auto& g) { return any_effect(*g); })) return r.copy(e, in);
    if (const auto* p = ir::get_if<ops::Scan>(e.attrs)) return scan(b, *p, in, number, in_map);
    if (const auto* p = ir::get_if<ops::While>(e.attrs)) return loop(b, e, *p, in, number, in_map);
    if (const auto* p = ir::get_if<ops::Cond>(e.attrs)) return branches(*p, in, number, in_map);
    if (const auto* p = ir::get_if<ops::Call>(e.attrs)) return inlined(b, *p->body, in, number, in_map);
    if (const auto* p = ir::get_if<ops::ShardMap>(e.attrs)) return map(b, *p, in, number);
    throw UnimplementedError(str("the op ", e.op->name(), " (", to_string(e.loc),
                                 ") calls the host in a function of its own, which PJRT plugins cannot do"));
  }

  // The results but for the number, which is at this place.
  static Values without(Values out, std::size_t at, Value& number) {
    number = out[at];
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(at));
    return out;
  }

  Values scan(Builder& b, const ops::Scan& p, const Values& in, Value& number, bool in_map) const {
    const auto consts = static_cast<std::size_t>(p.num_consts), carry = static_cast<std::size_t>(p.num_carry);
    ops::ScanArgs args{body(*p.body, consts + carry, carry, in_map), p.length, p.reverse, {}, {}, {}};
    for (std::size_t i = 0; i < in.size(); ++i) {
      (i < consts ? args.consts : i < consts + carry ? args.carry : args.xs).push_back(in[i]);
    }
    args.carry.push_back(number);
    return without(ops::scan(b, args), carry, number);
  }
  Values loop(Builder& b, const Eqn& e, const ops::While& p, const Values& in, Value& number, bool in_map) const {
    if (any_effect(*p.cond)) {
      throw UnimplementedError(str("the op ", e.op->name(), " (", to_string(e.loc),
                                   ") calls the host in its condition, which PJRT plugins cannot do"));
    }
    const auto cc = static_cast<std::size_t>(p.cond_consts), bc = static_cast<std::size_t>(p.body_consts);
    ops::WhileArgs args;
    for (std::size_t i = 0; i < in.size(); ++i) {
      (i < cc ? args.cond_consts : i < cc + bc ? args.body_consts : args.carry).push_back(in[i]);
    }
    const std::size_t carry = args.carry.size();
    args.carry.push_back(number);
    args.body = body(*p.body, bc + carry, carry, in_map);
    Builder test;
    Values test_args;
    for (auto v : p.cond->inputs) test_args.push_back(test.input(p.cond->type(v)));
    test.input(kNumber);
    args.cond = test.finish_shared(test.inline_graph(*p.cond, test_args));
    return without(ops::while_loop(b, args), carry, number);
  }
  Values branches(const ops::Cond& p, const Values& in, Value& number, bool in_map) const {
    std::vector<ir::GraphPtr> graphs;
    for (const auto& g : p.branches) graphs.push_back(body(*g, 0, 0, in_map));
    Values operands{number};
    operands.insert(operands.end(), in.begin() + 1, in.end());
    return without(ops::cond(in[0], graphs, operands), 0, number);
  }
  Values map(Builder& b, const ops::ShardMap& p, const Values& in, Value& number) const {
    ops::ShardMap q = p;
    const std::size_t in_at = p.body->inputs.size(), out_at = p.body->outputs.size();
    q.body = body(*p.body, in_at, out_at, true);
    q.in_specs.add({});
    q.out_specs.add({});
    Values operands = in;
    operands.push_back(number);
    return without(b.add(def::shard_map, operands, ir::make_attrs(std::move(q))), out_at, number);
  }

  const ir::MeshAxes& mesh_;
};

}  // namespace

ir::GraphPtr with_ordered_effects(const ir::GraphPtr& g, const ir::MeshAxes& mesh) {
  if (!any_effect(*g)) return g;
  Builder b;
  Values args;
  for (auto v : g->inputs) args.push_back(b.input(g->type(v)));
  Value number = ops::scalar(b, 0, DType::I32);
  return b.finish_shared(Ordering(mesh).inlined(b, *g, args, number, false));
}

}  // namespace tessera::pjrt_engine
