// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/dimension_parts.h"

#include "ops/define_op.h"

namespace tessera::ops {

Value fill_up(Value x, const DimensionParts& p, Value fill) {
  if (p.filled_extent() == p.extent) return x;
  Dims low(at(x.rank()), 0);
  Dims high = low;
  high[at(p.dimension)] = p.filled_extent() - p.extent;
  return pad(x, fill, low, high);
}

Value cut_in_parts(Value x, const DimensionParts& p, Value fill) {
  Shape shape = x.shape();
  shape[at(p.dimension)] = p.chunk();
  shape.insert(shape.begin() + p.dimension, p.parts);
  return reshape(fill_up(x, p, fill), shape);
}

Value join_parts(Value x, const DimensionParts& p) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + p.dimension);
  shape[at(p.dimension)] = p.filled_extent();
  return slice_in_dim(reshape(x, shape), 0, p.extent, p.dimension);
}

}  // namespace tessera::ops
