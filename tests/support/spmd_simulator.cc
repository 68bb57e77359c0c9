// SPDX-License-Identifier: Apache-2.0
#include "support/spmd_simulator.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/manual.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/shape/halo.h"
#include "ops/shared_attrs.h"

namespace tessera::test {

namespace {

using ir::Layout;
using ir::MeshAxes;

ir::View view_of(const HostArray& a) { return {a.dtype(), a.shape(), const_cast<void*>(a.data())}; }

std::vector<HostArray> call_reference(const ir::Eqn& e, const ir::Attrs& attrs, const std::vector<HostArray>& in,
                                      const ir::Types& out) {
  std::vector<HostArray> results;
  std::vector<ir::View> a;
  std::vector<ir::View> b;
  for (const auto& t : out) results.emplace_back(t.dtype, t.shape);
  for (const auto& x : in) a.push_back(view_of(x));
  for (const auto& x : results) b.push_back(view_of(x));
  e.op->reference(a, b, attrs);
  return results;
}

std::int64_t number_of(const HostArray& a) { return ops::load_int(view_of(a), 0); }

Dims coordinates(std::int64_t p, const MeshAxes& mesh) {
  Dims c(mesh.sizes.size());
  for (std::size_t a = c.size(); a-- > 0;) {
    c[a] = p % mesh.sizes[a];
    p /= mesh.sizes[a];
  }
  return c;
}
std::int64_t position(const Dims& c, const MeshAxes& mesh) {
  std::int64_t p = 0;
  for (std::size_t a = 0; a < c.size(); ++a) p = p * mesh.sizes[a] + c[a];
  return p;
}

// The control-flow ops, over any kind of value: `run` evaluates a sub-graph, `number` reads a rank-0 value, `slice` and
// `stack` take dimension 0 apart and together.
template <class V>
struct Flow {
  std::function<std::vector<V>(const ir::Graph&, std::vector<V>)> run;
  std::function<std::int64_t(const V&)> number;
  std::function<V(const V&, std::int64_t)> slice;
  std::function<V(const std::vector<V>&, const ir::Graph& body, std::size_t output)> stack;

  std::vector<V> cond(const ops::Cond& p, const std::vector<V>& in) const {
    auto last = static_cast<std::int64_t>(p.branches.size()) - 1;
    auto which = std::min(std::max<std::int64_t>(number(in[0]), 0), last);
    return run(*p.branches[static_cast<std::size_t>(which)], std::vector<V>(in.begin() + 1, in.end()));
  }
  std::vector<V> loop(const ops::While& p, const std::vector<V>& in) const {
    auto with = [&](std::int64_t from, std::int64_t count, const std::vector<V>& carry) {
      std::vector<V> args(in.begin() + from, in.begin() + from + count);
      args.insert(args.end(), carry.begin(), carry.end());
      return args;
    };
    std::vector<V> carry(in.begin() + p.cond_consts + p.body_consts, in.end());
    while (number(run(*p.cond, with(0, p.cond_consts, carry))[0]) != 0) {
      carry = run(*p.body, with(p.cond_consts, p.body_consts, carry));
    }
    return carry;
  }
  std::vector<V> scan(const ops::Scan& p, const std::vector<V>& in) const {
    auto nk = static_cast<std::size_t>(p.num_consts);
    auto nc = static_cast<std::size_t>(p.num_carry);
    std::vector<V> carry(in.begin() + p.num_consts, in.begin() + p.num_consts + p.num_carry);
    std::vector<std::vector<V>> ys(p.body->outputs.size() - nc, std::vector<V>(static_cast<std::size_t>(p.length)));
    for (std::int64_t k = 0; k < p.length; ++k) {
      std::int64_t i = p.reverse ? p.length - 1 - k : k;
      std::vector<V> args(in.begin(), in.begin() + p.num_consts);
      args.insert(args.end(), carry.begin(), carry.end());
      for (std::size_t x = nk + nc; x < in.size(); ++x) args.push_back(slice(in[x], i));
      std::vector<V> out = run(*p.body, std::move(args));
      for (std::size_t y = 0; y < ys.size(); ++y) ys[y][static_cast<std::size_t>(i)] = out[nc + y];
      out.resize(nc);
      carry = std::move(out);
    }
    for (std::size_t y = 0; y < ys.size(); ++y) carry.push_back(stack(ys[y], *p.body, nc + y));
    return carry;
  }
  // False when the op holds no graph.
  bool eval(const ir::Eqn& e, const std::vector<V>& in, std::vector<V>& out) const {
    if (const auto* p = ir::get_if<ops::Cond>(e.attrs)) return out = cond(*p, in), true;
    if (const auto* p = ir::get_if<ops::While>(e.attrs)) return out = loop(*p, in), true;
    if (const auto* p = ir::get_if<ops::Scan>(e.attrs)) return out = scan(*p, in), true;
    if (const auto* p = ir::get_if<ops::Call>(e.attrs)) return out = run(*p->body, in), true;
    return false;
  }
};

HostArray slice_first(const HostArray& a, std::int64_t i) {
  HostArray out(a.dtype(), Shape(a.shape().begin() + 1, a.shape().end()));
  if (out.nbytes() > 0) {
    std::memcpy(out.data(), static_cast<const char*>(a.data()) + i * out.nbytes(),
                static_cast<std::size_t>(out.nbytes()));
  }
  return out;
}
HostArray stack_first(const std::vector<HostArray>& parts, DType dtype, Shape shape) {
  shape.insert(shape.begin(), static_cast<std::int64_t>(parts.size()));
  HostArray out(dtype, shape);
  char* to = static_cast<char*>(out.data());
  for (const auto& p : parts) {
    if (p.nbytes() > 0) std::memcpy(to, p.data(), static_cast<std::size_t>(p.nbytes()));
    to += p.nbytes();
  }
  return out;
}

Flow<HostArray> whole_flow() {
  return {[](const ir::Graph& g, std::vector<HostArray> in) { return evaluate(g, in); }, number_of, slice_first,
          [](const std::vector<HostArray>& parts, const ir::Graph& body, std::size_t output) {
            const ir::Type& t = body.type(body.outputs[output]);
            return stack_first(parts, t.dtype, t.shape);
          }};
}

Flow<Held> held_flow(const MeshAxes& mesh) {
  return {[](const ir::Graph& g, std::vector<Held> in) { return simulate(g, std::move(in)); },
          [](const Held& h) {
            for (const auto& x : h) TESSERA_CHECK(number_of(x) == number_of(h[0]), "positions branch differently");
            return number_of(h[0]);
          },
          [](const Held& h, std::int64_t i) {
            Held out;
            for (const auto& x : h) out.push_back(slice_first(x, i));
            return out;
          },
          [&mesh](const std::vector<Held>& parts, const ir::Graph& body, std::size_t output) {
            Held out;
            ir::ValueId v = body.outputs[output];
            for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
              std::vector<HostArray> mine;
              for (const auto& h : parts) mine.push_back(h[static_cast<std::size_t>(p)]);
              Shape shape;
              for (const auto& s : tile_index(body.type(v).shape, body.layout(v), mesh, p)) {
                shape.push_back(*s.stop - *s.start);
              }
              out.push_back(stack_first(mine, body.type(v).dtype, shape));
            }
            return out;
          }};
}

// --- one partitioned equation -------------------------------------------------------------------------------------

struct Local {
  ir::Types types;
  std::vector<Dims> offsets;
};
Local local_of(const ir::Graph& g, const std::vector<ir::ValueId>& values, std::int64_t p) {
  Local out;
  for (auto v : values) {
    Index index = tile_index(g.type(v).shape, g.layout(v), *g.mesh, p);
    ir::Type t = g.type(v);
    Dims offset;
    for (std::size_t d = 0; d < index.size(); ++d) {
      t.shape[d] = *index[d].stop - *index[d].start;
      offset.push_back(*index[d].start);
    }
    out.types.push_back(std::move(t));
    out.offsets.push_back(std::move(offset));
  }
  return out;
}

std::vector<HostArray> compute_at(const ir::Graph& g, const ir::Eqn& e, const std::vector<HostArray>& in,
                                  std::int64_t p) {
  Local a = local_of(g, e.in, p);
  Local b = local_of(g, e.out, p);
  ir::Types global_in;
  ir::Types global_out;
  for (auto v : e.in) global_in.push_back(g.type(v));
  for (auto v : e.out) global_out.push_back(g.type(v));
  for (std::size_t i = 0; i < in.size(); ++i) {
    TESSERA_CHECK(in[i].shape() == a.types[i].shape, str("operand ", i, " of ", e.op->name(), " is ", in[i].shape(),
                                                         " at position ", p, ", its layout says ", a.types[i].shape));
  }
  ir::Attrs attrs = e.attrs;
  if (e.op->remaps()) attrs = e.op->remap({global_in, global_out, a.types, b.types, a.offsets, b.offsets}, attrs);
  ir::Types inferred = e.op->infer(a.types, attrs);
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    TESSERA_CHECK(inferred[i].shape == b.types[i].shape, str("result ", i, " of ", e.op->name(), " is ", inferred[i],
                                                             " at position ", p, ", its layout says ", b.types[i]));
  }
  return call_reference(e, attrs, in, b.types);
}

// --- reshard from the definition of layouts --------------------------------------------------------------------------

double combine(ir::Reduction r, double x, double y) {
  switch (r) {
    case ir::Reduction::Sum:
      return x + y;
    case ir::Reduction::Prod:
      return x * y;
    case ir::Reduction::Max:
      return std::isnan(x) ? x : std::isnan(y) ? y : std::max(x, y);
    case ir::Reduction::Min:
      return std::isnan(x) ? x : std::isnan(y) ? y : std::min(x, y);
    case ir::Reduction::And:
      return static_cast<double>(static_cast<std::int64_t>(x) & static_cast<std::int64_t>(y));
    default:
      return static_cast<double>(static_cast<std::int64_t>(x) | static_cast<std::int64_t>(y));
  }
}

void combine_element(ir::Reduction r, const ir::View& to, std::int64_t i, const ir::View& from, std::int64_t j) {
  switch (ops::wide_kind(to.dtype)) {
    case ops::Wide::Float:
      return ops::store_float(to, i, combine(r, ops::load_float(to, i), ops::load_float(from, j)));
    case ops::Wide::Complex: {
      auto x = ops::load_complex(to, i);
      auto y = ops::load_complex(from, j);
      bool less = x.real() != y.real() ? x.real() < y.real() : x.imag() < y.imag();
      return ops::store_complex(to, i,
                                r == ir::Reduction::Sum    ? x + y
                                : r == ir::Reduction::Prod ? x * y
                                : r == ir::Reduction::Max  ? (less ? y : x)
                                                           : (less ? x : y));
    }
    case ops::Wide::Bool: {
      bool x = ops::load_bool(to, i);
      bool y = ops::load_bool(from, j);
      bool all = r == ir::Reduction::And || r == ir::Reduction::Prod || r == ir::Reduction::Min;
      return ops::store_bool(to, i, all ? x && y : x || y);
    }
    default: {
      auto x = ops::load_int(to, i);
      auto y = ops::load_int(from, j);
      auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
      auto product = static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
      return ops::store_int(to, i,
                            r == ir::Reduction::Sum    ? sum
                            : r == ir::Reduction::Prod ? product
                            : r == ir::Reduction::Max  ? std::max(x, y)
                            : r == ir::Reduction::Min  ? std::min(x, y)
                            : r == ir::Reduction::And  ? (x & y)
                                                       : (x | y));
    }
  }
}

// Position that holds element `at` of the value, as seen from coordinates c, and the element's place there.
struct Source {
  std::int64_t position;
  std::int64_t element;
};
Source find_source(const Dims& at, Dims c, const Shape& shape, const Layout& l, const MeshAxes& mesh) {
  Dims local(at.size());
  Shape extents(at.size());
  for (std::size_t d = 0; d < at.size(); ++d) {
    std::int64_t n = ir::parts(l.dims[d], mesh);
    std::int64_t chunk = (shape[d] + n - 1) / n;
    std::int64_t tile = at[d] / chunk;
    auto [begin, end] = ir::part_range(shape[d], n, tile);
    local[d] = at[d] - begin;
    extents[d] = end - begin;
    for (std::size_t i = l.dims[d].size(); i-- > 0;) {
      c[l.dims[d][i]] = tile % mesh.sizes[l.dims[d][i]];
      tile /= mesh.sizes[l.dims[d][i]];
    }
  }
  return {position(c, mesh), ops::flat(local, ops::row_strides(extents))};
}

Held reshard(const Held& in, const ir::Type& type, const Layout& from, const Layout& to, const MeshAxes& mesh) {
  ir::AxisMask done = from.partial & ~to.partial;
  ir::AxisMask made = to.partial & ~from.partial;
  TESSERA_CHECK(made == 0 || to.reduction == ir::Reduction::Sum, "a reshard makes values partial for sums only");
  const ir::AxisMask own = made & from.tiled();  // along these a position keeps its own tile among zeros
  made &= ~own;
  TESSERA_CHECK((from.vary & ~(to.vary | to.tiled() | to.partial)) == 0, "a reshard cannot make replicas equal");
  Held out;
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    Dims c = coordinates(p, mesh);
    Index index = tile_index(type.shape, to, mesh, p);
    Shape extents;
    for (const auto& s : index) extents.push_back(*s.stop - *s.start);
    HostArray mine(type.dtype, extents);
    std::int64_t k = 0;
    bool keeps = true;  // of axes that become partial, the first position has the value and the others zeros
    for (std::size_t a = 0; a < c.size(); ++a) keeps = keeps && (!(made >> a & 1) || c[a] == 0);
    if (!keeps) {
      std::memset(mine.data(), 0, static_cast<std::size_t>(mine.size() * dtype_size(mine.dtype())));
      out.push_back(std::move(mine));
      continue;
    }
    ops::for_each_position(extents, [&](const Dims& local) {
      Dims at = local;
      for (std::size_t d = 0; d < at.size(); ++d) at[d] += *index[d].start;
      bool first = true;
      Dims holder = coordinates(find_source(at, c, type.shape, from, mesh).position, mesh);
      for (std::size_t a = 0; a < c.size(); ++a) {
        if (!(own >> a & 1) || holder[a] == c[a]) continue;
        std::int64_t item = dtype_size(mine.dtype());
        std::memset(static_cast<char*>(mine.data()) + k++ * item, 0, static_cast<std::size_t>(item));
        return;
      }
      for (std::int64_t q = 0; q < mesh.num_positions(); ++q) {
        Dims other = coordinates(q, mesh);
        bool counts = true;
        for (std::size_t a = 0; a < other.size(); ++a) counts = counts && ((done >> a & 1) || other[a] == c[a]);
        if (!counts) continue;
        Source s = find_source(at, other, type.shape, from, mesh);
        const HostArray& shard = in[static_cast<std::size_t>(s.position)];
        if (first) {
          ops::copy_element(view_of(mine), k, view_of(shard), s.element);
        } else {
          combine_element(from.reduction, view_of(mine), k, view_of(shard), s.element);
        }
        first = false;
      }
      ++k;
    });
    out.push_back(std::move(mine));
  }
  return out;
}

// Positions that the layout does not tell apart hold the same bytes.
void check_equal_positions(const Held& held, const ir::Type& type, const Layout& l, const MeshAxes& mesh,
                           const std::string& what) {
  std::map<Dims, std::size_t> seen;
  for (std::size_t p = 0; p < held.size(); ++p) {
    Dims key = coordinates(static_cast<std::int64_t>(p), mesh);
    for (std::size_t a = 0; a < key.size(); ++a) {
      if (!(l.distinct() >> a & 1)) key[a] = 0;
    }
    auto [it, fresh] = seen.try_emplace(key, p);
    if (fresh) continue;
    TESSERA_CHECK(identical(held[it->second], held[p]), str(what, ": positions ", it->second, " and ", p,
                                                            " differ under ", to_string(l, mesh), " of ", type));
  }
}

// What position p of a boundary of a manual region holds: the elements of another position, in another shape.
Held reinterpret(const Held& in, const Dims& source, const ir::Type& type, const Layout& to, const MeshAxes& mesh) {
  Held out;
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    Shape shape;
    for (const auto& s : tile_index(type.shape, to, mesh, p)) shape.push_back(*s.stop - *s.start);
    std::int64_t from = source.empty() ? p : source[static_cast<std::size_t>(p)];
    HostArray x(type.dtype, shape);
    const HostArray& y = in[static_cast<std::size_t>(std::max<std::int64_t>(from, 0))];
    TESSERA_CHECK(x.nbytes() == y.nbytes(), "a shard keeps its number of elements");
    from < 0 ? std::memset(x.data(), 0, static_cast<std::size_t>(x.nbytes()))
             : std::memcpy(x.data(), y.data(), static_cast<std::size_t>(x.nbytes()));
    out.push_back(std::move(x));
  }
  return out;
}

}  // namespace

std::vector<HostArray> evaluate_eqn(const ir::Graph& g, const ir::Eqn& e, const std::vector<HostArray>& in) {
  std::vector<HostArray> out;
  if (whole_flow().eval(e, in, out)) return out;
  ir::Types types;
  for (auto v : e.out) types.push_back(g.type(v));
  return call_reference(e, e.attrs, in, types);
}

std::vector<HostArray> evaluate(const ir::Graph& g, const std::vector<HostArray>& args) {
  std::vector<HostArray> values(g.num_values());
  for (std::size_t i = 0; i < args.size(); ++i) values[static_cast<std::size_t>(g.inputs[i])] = args[i];
  for (const auto& e : g.eqns) {
    std::vector<HostArray> in;
    for (auto v : e.in) in.push_back(values[static_cast<std::size_t>(v)]);
    auto out = evaluate_eqn(g, e, in);
    for (std::size_t i = 0; i < out.size(); ++i) values[static_cast<std::size_t>(e.out[i])] = out[i];
  }
  std::vector<HostArray> out;
  for (auto v : g.outputs) out.push_back(values[static_cast<std::size_t>(v)]);
  return out;
}

Index tile_index(const Shape& global, const Layout& l, const MeshAxes& mesh, std::int64_t p) {
  Dims c = coordinates(p, mesh);
  Index out;
  for (std::size_t d = 0; d < global.size(); ++d) {
    std::int64_t tile = 0;
    for (auto a : l.dims[d]) tile = tile * mesh.sizes[a] + c[a];
    auto [begin, end] = ir::part_range(global[d], ir::parts(l.dims[d], mesh), tile);
    out.push_back({begin, end});
  }
  return out;
}

Held scatter(const HostArray& global, const Layout& l, const MeshAxes& mesh) {
  Held out;
  for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
    out.push_back(global.slice(tile_index(global.shape(), l, mesh, p)));
  }
  return out;
}

HostArray gather(const Held& held, const Shape& global, const Layout& l, const MeshAxes& mesh) {
  ir::Type type{held[0].dtype(), global};
  TESSERA_CHECK(l.partial == 0, "a partial value cannot be gathered");
  check_equal_positions(held, type, l, mesh, "gather");
  return reshard(held, type, l, Layout::replicated(rank(global)), mesh)[0];
}

namespace {

// Rows of every member of a group to every other, as `ragged_all_to_all` says.
Held ragged(const std::vector<Held>& in, const ops::GroupExchange& p) {
  Held out;
  for (const auto& array : in[1]) {
    HostArray& mine = out.emplace_back(array.dtype(), array.shape());
    std::memcpy(mine.data(), array.data(), static_cast<std::size_t>(array.nbytes()));
  }
  for (const auto& group : p.groups) {
    auto number = [&](std::size_t operand, std::int64_t position, std::size_t k) {
      return in[operand][static_cast<std::size_t>(position)].astype(DType::I64).span<std::int64_t>()[k];
    };
    for (auto sender : group) {
      for (std::size_t r = 0; r < group.size(); ++r) {
        const HostArray& from = in[0][static_cast<std::size_t>(sender)];
        HostArray& to = out[static_cast<std::size_t>(group[r])];
        std::int64_t row = from.nbytes() / std::max<std::int64_t>(from.shape()[0], 1);
        std::int64_t bytes = number(3, sender, r) * row;
        if (bytes == 0) continue;
        std::memcpy(static_cast<char*>(to.data()) + number(4, sender, r) * row,
                    static_cast<const char*>(from.data()) + number(2, sender, r) * row,
                    static_cast<std::size_t>(bytes));
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Held> simulate(const ir::Graph& g, std::vector<Held> args) {
  const MeshAxes& mesh = *g.mesh;
  std::vector<Held> values(g.num_values());
  for (std::size_t i = 0; i < args.size(); ++i) values[static_cast<std::size_t>(g.inputs[i])] = std::move(args[i]);
  Flow<Held> flow = held_flow(mesh);
  for (const auto& e : g.eqns) {
    std::vector<Held> in;
    for (auto v : e.in) in.push_back(values[static_cast<std::size_t>(v)]);
    std::vector<Held> out(e.out.size());
    if (e.op == &ops::def::reshard) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        out[i] = reshard(in[i], g.type(e.in[i]), g.layout(e.in[i]), g.layout(e.out[i]), mesh);
      }
    } else if (e.op == &ops::def::reinterpret) {
      out[0] =
          reinterpret(in[0], ir::get<ops::Reinterpret>(e.attrs).source, g.type(e.out[0]), g.layout(e.out[0]), mesh);
    } else if (e.op == &ops::def::group_exchange) {
      const auto& p = ir::get<ops::GroupExchange>(e.attrs);
      TESSERA_CHECK(p.kind == ops::GroupExchange::Kind::Ragged, "exchanges in groups are simulated where rows move");
      out[0] = ragged(in, p);
    } else if (e.op == &ops::def::halo) {
      std::vector<Held> whole;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const ir::Type& type = g.type(e.in[i]);
        Layout all = Layout::replicated(type.rank());
        all.vary = g.layout(e.in[i]).vary;
        whole.push_back(reshard(in[i], type, g.layout(e.in[i]), all, mesh));
      }
      ir::Types types;
      for (auto v : e.out) types.push_back(g.type(v));
      for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
        std::vector<HostArray> mine;
        for (const auto& h : whole) mine.push_back(h[static_cast<std::size_t>(p)]);
        std::vector<HostArray> results = call_reference(e, e.attrs, mine, types);
        for (std::size_t i = 0; i < out.size(); ++i) {
          out[i].push_back(results[i].slice(tile_index(types[i].shape, g.layout(e.out[i]), mesh, p)));
        }
      }
    } else if (!flow.eval(e, in, out)) {
      for (std::int64_t p = 0; p < mesh.num_positions(); ++p) {
        std::vector<HostArray> mine;
        for (const auto& h : in) mine.push_back(h[static_cast<std::size_t>(p)]);
        auto results = compute_at(g, e, mine, p);
        for (std::size_t i = 0; i < results.size(); ++i) out[i].push_back(results[i]);
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      check_equal_positions(out[i], g.type(e.out[i]), g.layout(e.out[i]), mesh, std::string(e.op->name()));
      values[static_cast<std::size_t>(e.out[i])] = std::move(out[i]);
    }
  }
  std::vector<Held> out;
  for (auto v : g.outputs) out.push_back(values[static_cast<std::size_t>(v)]);
  return out;
}

std::vector<HostArray> run_partitioned(const ir::Graph& g, const std::vector<HostArray>& args) {
  std::vector<Held> in;
  for (std::size_t i = 0; i < args.size(); ++i) in.push_back(scatter(args[i], g.layout(g.inputs[i]), *g.mesh));
  std::vector<Held> out = simulate(g, std::move(in));
  std::vector<HostArray> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    results.push_back(gather(out[i], g.type(g.outputs[i]).shape, g.layout(g.outputs[i]), *g.mesh));
  }
  return results;
}

std::string difference(const HostArray& got, const HostArray& want, double tolerance) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return str(dtype_name(got.dtype()), got.shape(), " instead of ", dtype_name(want.dtype()), want.shape());
  }
  ir::View a = view_of(got);
  ir::View b = view_of(want);
  bool inexact = is_inexact(got.dtype());
  double scale = 1;
  for (std::int64_t i = 0; inexact && i < want.size(); ++i) {
    double m = std::abs(ops::load_complex(b, i));
    if (std::isfinite(m)) scale = std::max(scale, m);
  }
  for (std::int64_t i = 0; i < want.size(); ++i) {
    if (!inexact) {
      if (ops::load_int(a, i) != ops::load_int(b, i)) {
        return str("element ", i, ": ", ops::load_int(a, i), " instead of ", ops::load_int(b, i));
      }
      continue;
    }
    auto x = ops::load_complex(a, i);
    auto y = ops::load_complex(b, i);
    bool same = x == y || (std::isnan(std::abs(x)) && std::isnan(std::abs(y)));
    if (!same && !(std::abs(x - y) <= tolerance * scale)) {
      return str("element ", i, ": ", x.real(), " instead of ", y.real(), " (tolerance ", tolerance * scale, ")");
    }
  }
  return {};
}

}  // namespace tessera::test
