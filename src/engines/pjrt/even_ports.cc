// SPDX-License-Identifier: Apache-2.0
// XLA splits arguments and results evenly. What is split otherwise here has its last shards filled up there.
#include "engines/pjrt/pjrt_engine.h"
#include "ir/builder.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"

namespace tessera::pjrt_engine {

Shape device_shape(const Shape& shape, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  Shape out = shape;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const std::int64_t parts = ir::parts(layout.dims[d], mesh);
    out[d] = (out[d] + parts - 1) / parts;
  }
  return out;
}

namespace {
Shape filled_up(const Shape& shape, const ir::Layout& layout, const ir::MeshAxes& mesh) {
  Shape out = device_shape(shape, layout, mesh);
  for (std::size_t d = 0; d < out.size(); ++d) out[d] *= ir::parts(layout.dims[d], mesh);
  return out;
}
}  // namespace

ir::GraphPtr with_even_ports(const ir::Module& module) {
  const ir::Graph& g = *module.graph;
  auto port_type = [&](ir::ValueId v, const ir::Port& port) {
    ir::Type type = g.type(v);
    type.shape = filled_up(type.shape, *port.layout, *module.mesh);
    return type;
  };
  auto is_even = [&](const std::vector<ir::ValueId>& values, const std::vector<ir::Port>& ports) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (port_type(values[i], ports[i]).shape != g.type(values[i]).shape) return false;
    }
    return true;
  };
  if (is_even(g.inputs, module.inputs) && is_even(g.outputs, module.outputs)) return module.graph;
  ir::Builder b;
  ir::Values in;
  for (std::size_t i = 0; i < g.inputs.size(); ++i) {
    const ir::Type type = port_type(g.inputs[i], module.inputs[i]);
    const Shape& shape = g.type(g.inputs[i]).shape;
    ir::Value v = b.input(type);
    if (type.shape != shape) v = ops::slice(v, Dims(shape.size()), shape, {});
    in.push_back(v);
  }
  ir::Values out = b.inline_graph(g, in);
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const ir::Type type = port_type(g.outputs[i], module.outputs[i]);
    const Shape& shape = g.type(g.outputs[i]).shape;
    if (type.shape == shape) continue;
    Dims high(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) high[d] = type.shape[d] - shape[d];
    out[i] = b.add1(ops::def::pad, {out[i], ops::zeros(b, {type.dtype, {}})},
                    ir::make_attrs(ops::Pad{Dims(shape.size()), high, Dims(shape.size())}));
  }
  return b.finish_shared(out);
}

}  // namespace tessera::pjrt_engine
