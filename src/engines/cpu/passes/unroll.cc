// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/unroll.h"

#include <span>

#include "ir/pass.h"
#include "ir/rewriter.h"

namespace tessera::cpu {

ir::GraphPtr unrolled(const ir::Graph& body, std::size_t consts, std::size_t carry, std::size_t times) {
  ir::Builder b;
  b.set_mesh(body.mesh);
  auto input = [&](ir::ValueId v) {
    ir::Value made = b.input(body.type(v));
    b.set_layout(made, body.layout(v));
    return made;
  };
  const std::span<const ir::ValueId> inputs(body.inputs);
  ir::Values whole;
  for (auto v : inputs.first(consts + carry)) whole.push_back(input(v));
  ir::Values slices;
  for (std::size_t i = 0; i < times; ++i) {
    for (auto v : inputs.subspan(consts + carry)) slices.push_back(input(v));
  }
  const std::size_t stacked = inputs.size() - consts - carry;
  ir::Values made;
  for (std::size_t i = 0; i < times; ++i) {
    ir::Rewriter r(b, body);
    r.bind(inputs.first(consts + carry), whole);
    r.bind(inputs.subspan(consts + carry), ir::ValueSpan(slices).subspan(i * stacked, stacked));
    r.walk();
    const ir::Values out = r.outputs();
    for (std::size_t j = 0; j < out.size(); ++j) {
      if (j < carry) {
        whole[consts + j] = out[j];
      } else {
        made.push_back(out[j]);
      }
    }
  }
  ir::Values outputs(whole.begin() + static_cast<std::ptrdiff_t>(consts), whole.end());
  outputs.insert(outputs.end(), made.begin(), made.end());
  return ir::after_pass("unrolled", b.finish_shared(outputs));
}

}  // namespace tessera::cpu
