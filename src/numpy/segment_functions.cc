// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "program/composite.h"
#include "tessera/error.h"
#include "tessera/ops.h"
#include "tessera/segments.h"

namespace tessera {

namespace {

using SegmentUpdate = Array (IndexUpdate::*)(const Operand&, const IndexOptions&) const;
using Reduce = Array (*)(const Operand&, const ReduceOptions&);

struct Segments {
  const char* name;
  SegmentUpdate write;
  Reduce reduce;    ///< of the buckets' results
  double identity;  ///< an infinity is the dtype's extreme
};

std::int64_t count_of(const char* name, const Array& ids, const SegmentOptions& o, const Loc& loc) {
  if (o.num_segments) {
    if (*o.num_segments < 0) throw ValueError(str(name, ": num_segments = ", *o.num_segments, "; expected 0 or more"));
    return *o.num_segments;
  }
  if (ids.is_traced()) {
    throw ConcretizationError(str(name,
                                  ": segment_ids is a value of a traced function, so that the largest id is not "
                                  "known; give num_segments"));
  }
  std::int64_t largest = -1;
  const HostArray values = ids.host(loc).astype(int64);
  for (auto i : values.span<std::int64_t>()) largest = std::max(largest, i);
  return largest + 1;
}

Array filled(const Segments& s, const Shape& shape, DType dtype, const Loc& loc) {
  const Array identity = is_bool(dtype) ? Array(s.identity > 0) : Array(s.identity);
  return full(shape, program::on(astype(program::on(identity, loc), dtype), loc), dtype);
}

Array segments(const Segments& s, const Operand& data, const Operand& segment_ids, const SegmentOptions& o) {
  const Loc& loc = data.loc();
  const Array& ids = segment_ids.array();
  const Shape& shape = data.array().shape();
  if (!is_integer(ids.dtype()))
    throw TypeError(str(s.name, ": segment_ids has dtype ", dtype_name(ids.dtype()), "; expected integers"));
  if (shape.empty() || ids.shape() != Shape{shape[0]}) {
    throw ValueError(str(s.name, ": segment_ids has shape ", ids.shape(), " and data ", shape,
                         "; expected one id for each row of data"));
  }
  if (o.bucket_size && *o.bucket_size < 1)
    throw ValueError(str(s.name, ": bucket_size = ", *o.bucket_size, "; expected 1 or more"));
  const std::int64_t n = count_of(s.name, ids, o, loc);
  const IndexOptions write{.mode = o.mode.value_or(IndexMode::FillOrDrop),
                           .unique_indices = o.unique_indices,
                           .wrap_negative_indices = false};
  return program::composite(s.name, loc, {data.array(), ids}, [&](const program::Arrays& v) {
    const DType dtype = v[0].dtype();
    Shape out(shape);
    out[0] = n;
    if (!o.bucket_size) return (at(filled(s, out, dtype, loc), {v[1]}).*s.write)(v[0], write);
    const std::int64_t buckets = (shape[0] + *o.bucket_size - 1) / *o.bucket_size;
    out.insert(out.begin(), buckets);
    const Array bucket = floor_divide(arange(shape[0], loc), *o.bucket_size);
    const Array parts = (at(filled(s, out, dtype, loc), {bucket, v[1]}).*s.write)(v[0], write);
    ReduceOptions over{.axis = 0};
    if (buckets == 0) over.initial = program::on(astype(Array(s.identity), dtype), loc);
    return astype(s.reduce(parts, over), dtype);
  });
}

}  // namespace

Array segment_sum(const Operand& data, const Operand& segment_ids, const SegmentOptions& o) {
  return segments({"segment_sum", &IndexUpdate::add, sum, 0}, data, segment_ids, o);
}
Array segment_prod(const Operand& data, const Operand& segment_ids, const SegmentOptions& o) {
  return segments({"segment_prod", &IndexUpdate::multiply, prod, 1}, data, segment_ids, o);
}
Array segment_max(const Operand& data, const Operand& segment_ids, const SegmentOptions& o) {
  return segments({"segment_max", &IndexUpdate::max, max, -HUGE_VAL}, data, segment_ids, o);
}
Array segment_min(const Operand& data, const Operand& segment_ids, const SegmentOptions& o) {
  return segments({"segment_min", &IndexUpdate::min, min, HUGE_VAL}, data, segment_ids, o);
}

}  // namespace tessera
