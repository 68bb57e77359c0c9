// SPDX-License-Identifier: Apache-2.0
// Dynamic slices, gather and scatter.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "hlo/import/import.h"
#include "hlo/import/named_reducers.h"
#include "hlo/import/narrow.h"
#include "hlo/import/shared_compositions.h"
#include "hlo/text/parse.h"
#include "ops/control/control.h"
#include "ops/shape/indexing_ops.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
Items dynamic_slice(OpCall& c) {
  if (c.in.empty()) c.fail("has no operands");
  Values starts = values_of(c.in);
  starts.erase(starts.begin());
  Dims sizes = c.find("sizes") ? c.dims("sizes") : c.dims("slice_sizes");
  return c.one(ops::dynamic_slice(c.v(0), starts, sizes));
}
Items dynamic_update_slice(OpCall& c) {
  if (c.in.size() < 2) c.fail("has too few operands");
  Values starts = values_of(c.in);
  starts.erase(starts.begin(), starts.begin() + 2);
  return c.one(ops::dynamic_update_slice(c.v(0), c.v(1), starts));
}

// name = [1, 2], other = 3
std::map<std::string, Dims> numbers_of(OpCall& c, const AstAttr& a) {
  std::map<std::string, Dims> out;
  Parser p(c.importer.source(), a.raw);
  while (!p.at_end()) {
    std::string name(p.word());
    if (name.empty()) p.fail("expected a name");
    p.expect("=");
    AstAttr v = p.attribute();
    out[name] = v.kind == AstAttr::Kind::Int ? Dims{v.integer} : c.dims_of(v);
    if (!p.accept(",") && !p.at_end()) p.fail("expected \",\"");
  }
  return out;
}

// Index vectors along the last dimension.
Value with_vectors_last(OpCall& c, Value indices, const std::map<std::string, Dims>& numbers) {
  auto it = numbers.find("index_vector_dim");
  std::int64_t at = it == numbers.end() ? 0 : it->second[0];
  if (at < 0 || at > indices.rank()) c.fail("index_vector_dim lies outside the indices");
  if (at == indices.rank()) return ops::expand_dims(indices, {at});
  return ops::move_dim(indices, at, indices.rank() - 1);
}

Dims number(const std::map<std::string, Dims>& numbers, const char* name) {
  auto it = numbers.find(name);
  return it == numbers.end() ? Dims{} : it->second;
}

Items gather_with(OpCall& c, const Dims& sizes) {
  auto n = numbers_of(c, c.need("dimension_numbers"));
  ops::Gather p;
  p.offset_dims = number(n, "offset_dims");
  p.collapsed_slice_dims = number(n, "collapsed_slice_dims");
  p.start_index_map = number(n, "start_index_map");
  p.operand_batching_dims = number(n, "operand_batching_dims");
  p.indices_batching_dims = number(n, "start_indices_batching_dims");
  p.slice_sizes = sizes;
  p.mode = ops::IndexMode::Clip;
  return c.one(ops::gather(c.v(0), with_vectors_last(c, c.v(1), n), p));
}
Items gather(OpCall& c) {
  c.check_operands(2);
  return gather_with(c, c.dims("slice_sizes"));
}
Items dynamic_gather(OpCall& c) {
  c.check_operands(3);
  return gather_with(c, c.known_dims(2));
}

// Indices along `dim`, the leading `batch_dims` dimensions walked together.
Items torch_index_select(OpCall& c) {
  c.check_operands(2);
  std::int64_t rank = c.v(0).rank(), dim = c.integer("dim"), batch = c.integer("batch_dims");
  std::int64_t own = c.v(1).rank() - batch;  // dimensions of the indices that replace `dim`
  if (batch < 0 || dim < batch || dim >= rank || own < 0) c.fail("dim and batch_dims lie outside the shapes");
  ops::Gather p;
  p.slice_sizes = c.v(0).shape();
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d < batch || d == dim) p.slice_sizes[static_cast<std::size_t>(d)] = 1;
    if (d < batch) p.operand_batching_dims.push_back(d);
    if (d >= batch && d != dim) p.offset_dims.push_back(d < dim ? d : d + own - 1);
  }
  p.indices_batching_dims = p.operand_batching_dims;
  p.collapsed_slice_dims = p.start_index_map = {dim};
  return c.one(ops::gather(c.v(0), ops::expand_dims(c.v(1), {c.v(1).rank()}), p));
}

// "" when it is the update that stays, "?" for what has no op.
std::string scatter_kind(const AstRegion& r) {
  if (r.args.size() == 2 && r.ops.size() == 1 && r.ops[0].operands.size() == 1 &&
      r.ops[0].operands[0] == r.args[1].name) {
    return "";
  }
  std::string name = simple_reducer(r);
  return name.empty() ? "?" : name;
}

std::optional<Value> direct_scatter(const std::string& kind, Value x, Value indices, Value updates,
                                    const ops::Scatter& p) {
  if (kind.empty()) return ops::scatter(x, indices, updates, p);
  if (is_bool(x.dtype())) {
    // true wins an "or", false an "and": the largest, or the least, as numbers
    Value wide = ops::convert(x, DType::I32), u = ops::convert(updates, DType::I32);
    if (kind == "or") return ops::convert(ops::scatter_max(wide, indices, u, p), DType::Bool);
    if (kind == "and") return ops::convert(ops::scatter_min(wide, indices, u, p), DType::Bool);
    return std::nullopt;
  }
  if (kind == "add") return ops::scatter_add(x, indices, updates, p);
  if (kind == "multiply") return ops::scatter_mul(x, indices, updates, p);
  if (is_complex(x.dtype())) return std::nullopt;
  if (kind == "maximum") return ops::scatter_max(x, indices, updates, p);
  if (kind == "minimum") return ops::scatter_min(x, indices, updates, p);
  return std::nullopt;
}

bool is_read(const ir::Graph& g, ir::ValueId v) {
  auto has = [&](const auto& list) { return std::find(list.begin(), list.end(), v) != list.end(); };
  return has(g.outputs) || std::any_of(g.eqns.begin(), g.eqns.end(), [&](const ir::Eqn& e) { return has(e.in); });
}

// One window after the other, in the order of the updates: what the region does may depend on the order.
class ScatterLoop {
 public:
  ScatterLoop(OpCall& c, const AstRegion& region, const ops::Scatter& p, const Values& arrays, Value indices,
              const Values& updates)
      : c_(c), p_(p), count_(arrays.size()), map_(p, arrays[0].shape(), indices.shape(), updates[0].shape()) {
    region_ = c.function_of_numbers(region, "an update computation", 2 * count_, count_);
    steps_ = size_of(indices.shape());
    vector_ = indices.shape().empty() ? 1 : indices.shape().back();
    steps_ = vector_ == 0 ? size_of(Shape(indices.shape().begin(), indices.shape().end() - 1)) : steps_ / vector_;
    batch_.assign(indices.shape().begin(), indices.shape().end() - 1);
    consts_.push_back(ops::reshape(indices, {steps_, vector_}));
    for (std::size_t i = 0; i < count_; ++i) {
      reads_.push_back(is_read(*region_, region_->inputs[count_ + i]));
      if (reads_.back()) consts_.push_back(windows_first(updates[i]));
    }
    carry_.push_back(ops::scalar(c.b(), 0, DType::I32));
    carry_.insert(carry_.end(), arrays.begin(), arrays.end());
  }

  Values run() {
    ops::WhileArgs args;
    args.carry = carry_;
    args.body_consts = consts_;
    ir::Builder cb;
    Value k = cb.input(carry_[0].type());
    for (std::size_t i = 1; i < carry_.size(); ++i) cb.input(carry_[i].type());
    args.cond = cb.finish_shared(Values{ops::lt(k, ops::scalar(cb, static_cast<double>(steps_), DType::I32))});
    args.body = body();
    Values out = ops::while_loop(c_.b(), args);
    out.erase(out.begin());
    return out;
  }

 private:
  // Updates as [steps, window in the array's order].
  Value windows_first(Value u) const {
    Dims order = map_.batch_of_window;
    for (auto d : p_.update_window_dims) order.push_back(d);
    Shape shape{steps_};
    shape.insert(shape.end(), map_.sizes.begin(), map_.sizes.end());
    return ops::reshape(ops::transpose(u, order), shape);
  }

  GraphPtr body() const {
    ir::Builder b;
    Values in;
    for (const auto& v : consts_) in.push_back(b.input(v.type()));
    Value k = b.input(carry_[0].type());
    Values arrays;
    for (std::size_t i = 0; i < count_; ++i) arrays.push_back(b.input(carry_[i + 1].type()));
    const Shape& shape = arrays[0].shape();
    auto rank = shape.size();
    Value zero = ops::scalar(b, 0, DType::I32);
    Value row = ops::reshape(ops::dynamic_slice(in[0], Values{k, zero}, {1, vector_}), {vector_});
    row = ops::convert(row, DType::I64);
    Values starts(rank, ops::scalar(b, 0, DType::I64));
    for (std::size_t i = 0; i < p_.scatter_dims_to_operand_dims.size(); ++i) {
      auto at = static_cast<std::int64_t>(i);
      starts[static_cast<std::size_t>(p_.scatter_dims_to_operand_dims[i])] =
          ops::squeeze(ops::slice(row, {at}, {at + 1}), {0});
    }
    for (std::size_t i = 0; i < p_.operand_batching_dims.size(); ++i) {
      starts[static_cast<std::size_t>(p_.operand_batching_dims[i])] = coordinate(b, k, p_.indices_batching_dims[i]);
    }
    Value inside = ops::constant(b, HostArray::scalar(true));
    for (std::size_t d = 0; d < rank; ++d) {
      Value last = ops::scalar(b, static_cast<double>(shape[d] - map_.sizes[d]), DType::I64);
      inside =
          ops::and_(inside, ops::and_(ops::ge(starts[d], ops::scalar(b, 0, DType::I64)), ops::le(starts[d], last)));
    }
    Values old, updates;
    std::size_t next = 1;
    for (std::size_t i = 0; i < count_; ++i) {
      old.push_back(ops::dynamic_slice(arrays[i], starts, map_.sizes));
      if (!reads_[i]) {
        updates.push_back(old.back());
        continue;
      }
      Values at(rank + 1, zero);
      at[0] = k;
      Shape one{1};
      one.insert(one.end(), map_.sizes.begin(), map_.sizes.end());
      updates.push_back(ops::reshape(ops::dynamic_slice(in[next++], at, one), map_.sizes));
    }
    Values args = old;
    args.insert(args.end(), updates.begin(), updates.end());
    Values fresh = map_graph(*region_, args);
    Values out{ops::add(k, ops::scalar(b, 1, DType::I32))};
    for (std::size_t i = 0; i < count_; ++i) {
      out.push_back(ops::dynamic_update_slice(arrays[i], ops::where(inside, fresh[i], old[i]), starts));
    }
    return b.finish_shared(out);
  }

  // Position of step k along a leading dimension of the indices.
  Value coordinate(ir::Builder& b, Value k, std::int64_t dim) const {
    std::int64_t stride = 1;
    for (auto d = static_cast<std::size_t>(dim) + 1; d < batch_.size(); ++d) stride *= batch_[d];
    Value at = ops::div(k, ops::scalar(b, static_cast<double>(stride), DType::I32));
    double extent = static_cast<double>(batch_[static_cast<std::size_t>(dim)]);
    return ops::convert(ops::rem(at, ops::scalar(b, extent, DType::I32)), DType::I64);
  }

  OpCall& c_;
  ops::Scatter p_;
  std::size_t count_;
  ops::WindowMap map_;
  GraphPtr region_;
  std::int64_t steps_ = 0, vector_ = 0;
  Shape batch_;
  std::vector<bool> reads_;  // by update: the region uses it
  Values consts_, carry_;
};

Items scatter(OpCall& c) {
  if (c.in.size() < 3 || c.in.size() % 2 != 1) c.fail("needs arrays, indices and as many updates as arrays");
  std::size_t n = c.in.size() / 2;
  auto numbers = numbers_of(c, c.need("scatter_dimension_numbers"));
  ops::Scatter p;
  p.update_window_dims = number(numbers, "update_window_dims");
  p.inserted_window_dims = number(numbers, "inserted_window_dims");
  p.scatter_dims_to_operand_dims = number(numbers, "scatter_dims_to_operand_dims");
  p.operand_batching_dims = number(numbers, "input_batching_dims");
  p.indices_batching_dims = number(numbers, "scatter_indices_batching_dims");
  p.mode = ops::IndexMode::FillOrDrop;
  p.unique_indices = c.flag("unique_indices", false);
  Value indices = with_vectors_last(c, c.v(n), numbers);
  if (n == 1) {
    std::string kind = scatter_kind(c.region(0));
    if (kind != "?") kind = kind.empty() ? kind : reducer_for(kind, c.v(0).dtype());
    if (kind != "?") {
      if (auto direct = direct_scatter(kind, c.v(0), indices, c.v(2), p)) return c.one(round_to(*direct, c.elem()));
    }
  }
  Values arrays, updates;
  for (std::size_t i = 0; i < n; ++i) {
    arrays.push_back(c.v(i));
    updates.push_back(c.v(n + 1 + i));
  }
  // The plain scatter checks shapes and numbers, with the texts of its own errors.
  ops::scatter(arrays[0], indices, updates[0], p);
  if (size_of(indices.shape()) == 0 && !indices.shape().empty() && indices.shape().back() != 0)
    return {c.in.begin(), c.in.begin() + static_cast<std::ptrdiff_t>(n)};
  Values out = ScatterLoop(c, c.region(0), p, arrays, indices, updates).run();
  Items items;
  for (std::size_t i = 0; i < n; ++i) items.push_back(tensor(c.out(i).elem, out[i]));
  return items;
}
}  // namespace

Value scatter_elements(OpCall& c, const AstRegion& region, Value base, Value places, Value updates) {
  ops::Scatter p;
  p.inserted_window_dims = {0};
  p.scatter_dims_to_operand_dims = {0};
  Value indices = ops::expand_dims(places, {1});
  std::string kind = scatter_kind(region);
  if (kind != "?") {
    if (auto direct =
            direct_scatter(kind.empty() ? kind : reducer_for(kind, base.dtype()), base, indices, updates, p)) {
      return *direct;
    }
  }
  return ScatterLoop(c, region, p, {base}, indices, {updates}).run()[0];
}

void add_indexing_rules(RuleTable& t) {
  t["stablehlo.dynamic_slice"] = dynamic_slice;
  t["stablehlo.dynamic_update_slice"] = dynamic_update_slice;
  t["stablehlo.gather"] = gather;
  t["stablehlo.dynamic_gather"] = dynamic_gather;
  t["stablehlo.scatter"] = scatter;
  t["stablehlo.torch_index_select"] = torch_index_select;
}

}  // namespace tessera::hlo
