// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/patterns/filled_gather.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/shape/indexing_ops.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"

namespace tessera::hlo {

namespace {

namespace def = ops::def;

// Reads back what was written shortly before.
class Written {
 public:
  explicit Written(const ir::Graph& g) : g_(g) {}

  /// What makes the value, among the `latest` equations; null where it is an input or further away. Constants may stand
  /// at a function's beginning.
  const ir::Eqn* maker(ir::ValueId v, std::size_t latest = 10'000) const {
    const std::size_t count = std::min(latest, g_.eqns.size());
    for (std::size_t i = 0; i < count; ++i) {
      const ir::Eqn& e = g_.eqns[g_.eqns.size() - 1 - i];
      if (std::find(e.out.begin(), e.out.end(), v) != e.out.end()) return &e;
    }
    return nullptr;
  }
  const ir::Eqn* maker(ir::ValueId v, const ir::OpDef& op) const {
    const ir::Eqn* e = maker(v);
    return e != nullptr && e->op == &op ? e : nullptr;
  }
  const Shape& shape(ir::ValueId v) const { return g_.type(v).shape; }
  DType dtype(ir::ValueId v) const { return g_.type(v).dtype; }

  /// A value that depends on its last index alone, as numbers: one where it is the same everywhere.
  std::optional<HostArray> along_last(ir::ValueId v) const {
    const ir::Eqn* e = maker(v);
    if (e == nullptr) return std::nullopt;
    const Shape& out = shape(v);
    const std::int64_t last = out.empty() ? 1 : out.back();
    if (e->op == &def::constant) {
      HostArray value = ops::interpret(*e->op, {}, e->attrs)[0];
      if (value.size() != 1 && value.size() != last) return std::nullopt;
      return value;
    }
    if (e->op != &def::broadcast_in_dim && e->op != &def::reshape) return std::nullopt;
    auto inner = along_last(e->in[0]);
    if (!inner || inner->size() == 1) return inner;
    // The dimension that it depends on must be the last one again.
    if (e->op == &def::reshape) return last == inner->size() ? inner : std::nullopt;
    const auto& dims = ir::get<ops::BroadcastInDim>(e->attrs).dims;
    return dims.back() == static_cast<std::int64_t>(out.size()) - 1 ? inner : std::nullopt;
  }

 private:
  const ir::Graph& g_;
};

bool is_all(const std::optional<HostArray>& numbers, std::int64_t value) {
  return numbers && numbers->size() == 1 && numbers->astype(DType::I64).span<std::int64_t>()[0] == value;
}

// `compare(indices, numbers)`, where the indices may have been widened.
std::optional<HostArray> compared(const Written& w, ir::ValueId v, const ir::OpDef& comparison, ir::ValueId indices) {
  const ir::Eqn* e = w.maker(v, comparison);
  if (e == nullptr) return std::nullopt;
  ir::ValueId left = e->in[0];
  if (const ir::Eqn* wide = left == indices ? nullptr : w.maker(left, def::convert)) {
    if (is_integer(w.dtype(left)) && dtype_size(w.dtype(left)) > dtype_size(w.dtype(wide->in[0]))) left = wide->in[0];
  }
  return left == indices ? w.along_last(e->in[1]) : std::nullopt;
}

// Whether `v` is true where the window of an index vector lies inside.
bool is_inside(const Written& w, ir::ValueId v, const ir::Eqn& gather) {
  const auto& p = ir::get<ops::Gather>(gather.attrs);
  const ir::ValueId indices = gather.in[1];
  const auto vectors = static_cast<std::int64_t>(p.start_index_map.size());
  const auto last = static_cast<std::int64_t>(w.shape(indices).size()) - 1;
  ir::ValueId all = -1;
  if (const ir::Eqn* e = w.maker(v, def::reduce_and)) {
    if (ir::get<ops::Axes>(e->attrs).axes == Dims{last}) all = e->in[0];
  } else if (const ir::Eqn* squeezed = w.maker(v, def::reshape); squeezed != nullptr && vectors == 1) {
    Shape with_one = w.shape(v);
    with_one.push_back(1);
    if (with_one == w.shape(squeezed->in[0])) all = squeezed->in[0];
  }
  const ir::Eqn* both = all < 0 ? nullptr : w.maker(all, def::and_);
  if (both == nullptr || w.shape(all) != w.shape(indices)) return false;
  for (std::size_t first : {0, 1}) {
    if (!is_all(compared(w, both->in[first], def::ge, indices), 0)) continue;
    const auto bounds = compared(w, both->in[1 - first], def::le, indices);
    if (!bounds || (bounds->size() != 1 && bounds->size() != vectors)) continue;
    const HostArray wide = bounds->astype(DType::I64);
    const auto numbers = wide.span<std::int64_t>();
    bool exact = true;
    for (std::int64_t i = 0; i < vectors; ++i) {
      const auto d = static_cast<std::size_t>(p.start_index_map[static_cast<std::size_t>(i)]);
      const std::int64_t most = w.shape(gather.in[0])[d] - p.slice_sizes[d];
      exact = exact && numbers[static_cast<std::size_t>(numbers.size() == 1 ? 0 : i)] == most;
    }
    if (exact) return true;
  }
  return false;
}

// The value as an attribute of a gather; nothing where that cannot say it.
bool fill_of(const HostArray& value, ops::Gather& p) {
  const DType t = value.dtype();
  if (is_complex(t)) return false;
  if (is_inexact(t)) {
    const HostArray nan = HostArray::from(std::vector<double>{std::numeric_limits<double>::quiet_NaN()}).astype(t);
    if (std::memcmp(nan.data(), value.data(), static_cast<std::size_t>(nan.nbytes())) == 0) return true;
    p.fill = value.astype(DType::F64).span<double>()[0];
    return !std::isnan(*p.fill);
  }
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  const std::int64_t number = value.astype(DType::I64).span<std::int64_t>()[0];
  const int bits = is_bool(t) ? 1 : static_cast<int>(dtype_size(t)) * 8;
  const std::int64_t otherwise = is_bool(t)         ? 1
                                 : is_signed_int(t) ? std::numeric_limits<std::int64_t>::min() >> (64 - bits)
                                                    : static_cast<std::int64_t>(~std::uint64_t{0} >> (64 - bits));
  if (number == otherwise) return true;
  p.fill = static_cast<double>(number);
  return number > -kExact && number < kExact && (is_signed_int(t) || number >= 0);
}

}  // namespace

std::optional<Value> filled_gather(OpCall& select) {
  const Written w(select.b().graph());
  constexpr std::size_t kNear = 50;  // asked of every selection
  const ir::Eqn* e = w.maker(select.v(1).id, kNear);
  if (e == nullptr || e->op != &def::gather) return std::nullopt;
  ops::Gather p = ir::get<ops::Gather>(e->attrs);
  if (p.mode != ops::IndexMode::Clip || p.start_index_map.empty()) return std::nullopt;
  const auto fill = w.along_last(select.v(2).id);
  if (!fill || fill->size() != 1 || !fill_of(*fill, p)) return std::nullopt;
  const Shape& out = w.shape(e->out[0]);
  Shape batch = w.shape(e->in[1]);
  batch.pop_back();
  const Dims along = ops::WindowMap(p, w.shape(e->in[0]), w.shape(e->in[1]), out).batch_of_window;
  ir::ValueId mask = select.v(0).id;
  if (w.shape(mask) != out) return std::nullopt;
  if (const ir::Eqn* wide = w.maker(mask, def::broadcast_in_dim)) {
    if (ir::get<ops::BroadcastInDim>(wide->attrs).dims != along) return std::nullopt;
    mask = wide->in[0];
  }
  if (w.shape(mask) != batch || !is_inside(w, mask, *e)) return std::nullopt;
  p.mode = ops::IndexMode::FillOrDrop;
  ir::Builder* b = select.v(1).builder;
  return ops::gather(Value{b, e->in[0]}, Value{b, e->in[1]}, p);
}

}  // namespace tessera::hlo
