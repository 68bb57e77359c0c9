// SPDX-License-Identifier: Apache-2.0
#include "api/compose.h"

#include "api/program.h"

namespace tessera::api {

std::vector<Array> compose(const char* name, const Loc& loc, const std::vector<Array>& in, const Fragment& fragment) {
  if (Trace* t = Trace::current()) {
    ir::Values values;
    for (const auto& a : in) values.push_back(t->lift(a, name));
    t->builder().set_loc(loc);
    std::vector<Array> out;
    for (auto v : fragment(t->builder(), values)) out.push_back(t->wrap(v));
    return out;
  }
  ir::Builder b;
  b.set_loc(loc);
  ir::Values values;
  for (const auto& a : in) values.push_back(b.input(type_of(a, name)));
  ir::Values out = fragment(b, values);
  return run_graph(b.finish_shared(out), in);
}

Array compose1(const char* name, const Loc& loc, const std::vector<Array>& in,
               const std::function<ir::Value(ir::Builder&, const ir::Values&)>& fragment) {
  return compose(name, loc, in, [&](ir::Builder& b, const ir::Values& v) { return ir::Values{fragment(b, v)}; })[0];
}

}  // namespace tessera::api
