// SPDX-License-Identifier: Apache-2.0
#include "program/graph_fragment.h"

#include "ops/shared_attrs.h"
#include "program/program.h"
#include "program/typed/sharding_cures.h"
#include "tessera/dtype.h"

namespace tessera::program {

std::vector<Array> graph_fragment_as_given(const char* name, const Loc& loc, const std::vector<Array>& in,
                                           const Fragment& fragment) {
  if (Trace* t = Trace::current()) {
    ir::Values values;
    for (const auto& a : in) values.push_back(t->lift(a, name));
    t->builder().set_loc(loc);
    std::vector<Array> out;
    for (auto v : with_cures([&] { return fragment(t->builder(), values); })) out.push_back(t->wrap(v));
    return out;
  }
  ir::Builder b;
  b.set_loc(loc);
  ir::Values values;
  for (const auto& a : in) values.push_back(b.input(type_of(a, name)));
  if (b.typing() != ir::Typing::Off) b.set_typing(ir::Typing::Strict);
  ir::Values out = with_cures([&] { return fragment(b, values); });
  return run_graph(b.finish_shared(out), in);
}

std::vector<Array> graph_fragment(const char* name, const Loc& loc, const std::vector<Array>& given,
                                  const Fragment& fragment) {
  const std::vector<Array> in = matched(given, name, loc);
  return seen(graph_fragment_as_given(name, loc, in, fragment), in, loc);
}

Array graph_fragment1(const char* name, const Loc& loc, const std::vector<Array>& in,
                      const std::function<ir::Value(ir::Builder&, const ir::Values&)>& fragment) {
  return graph_fragment(name, loc, in,
                        [&](ir::Builder& b, const ir::Values& v) { return ir::Values{fragment(b, v)}; })[0];
}

bool takes(const ir::Type& place, const ir::Type& value) {
  if (place.shape != value.shape) return false;
  if (place.dtype == value.dtype) return !place.weak || value.weak;
  if (!value.weak) return false;
  const ir::Type a = arrays::visible(place), b = arrays::visible(value);
  // A weak place without digits takes a scalar with them, and not the other way round.
  if (a.weak) return a.dtype == b.dtype && !arrays::has_digits(place);
  if (is_integer(a.dtype) && is_integer(b.dtype) && dtype_size(a.dtype) < dtype_size(b.dtype)) return false;
  return promote_types({a.dtype, false}, {b.dtype, true}).dtype == a.dtype;
}

ir::Value under_type(ir::Value v, const ir::Type& want) {
  if (v.dtype() == want.dtype && v.type().weak == want.weak) return v;
  return v.builder->add1(ops::def::convert, {v}, attrs(ops::Convert{want.dtype, want.weak}));
}

ir::Value marked(ir::Value v, const ir::Type& like) {
  return arrays::has_digits(like) && v.dtype() == like.dtype ? under_type(v, {v.dtype(), v.shape(), true}) : v;
}

ir::GraphPtr with_output_types(const ir::GraphPtr& g, const ir::Types& want) {
  const ir::Types own = g->output_types();
  if (own == want) return g;
  ir::Builder b;
  ir::Values in;
  for (const auto& t : g->input_types()) in.push_back(b.input(t));
  ir::Values out = b.inline_graph(*g, in);
  for (std::size_t i = 0; i < want.size(); ++i) out[i] = under_type(out[i], want[i]);
  return b.finish_shared(out);
}

}  // namespace tessera::program
