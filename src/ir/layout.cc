// SPDX-License-Identifier: Apache-2.0
#include "ir/layout.h"

#include "base/strings.h"
#include "ir/text_reader.h"

namespace tessera::ir {

std::int64_t MeshAxes::num_positions() const {
  std::int64_t n = 1;
  for (auto s : sizes) n *= s;
  return n;
}

AxisMask Layout::tiled() const {
  AxisMask mask = 0;
  for (const auto& d : dims) {
    for (auto a : d) mask |= AxisMask{1} << a;
  }
  return mask;
}

namespace {
std::string mask_text(AxisMask mask, const MeshAxes& mesh) {
  std::string out;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
    if (mask >> a & 1) out += (out.empty() ? "" : ", ") + name_text(mesh.names[a]);
  }
  return out;
}
}  // namespace

std::string to_string(const Layout& l, const MeshAxes& mesh) {
  std::string out = "[";
  for (std::size_t d = 0; d < l.dims.size(); ++d) {
    if (d > 0) out += ", ";
    if (l.dims[d].empty()) out += '-';
    for (std::size_t i = 0; i < l.dims[d].size(); ++i) {
      if (i > 0) out += '.';
      out += name_text(mesh.names[l.dims[d][i]]);
    }
  }
  out += ']';
  if (l.partial != 0) out += str(" partial(", mask_text(l.partial, mesh), ": ", to_string(l.reduction), ")");
  if (l.vary != 0) out += str(" vary(", mask_text(l.vary, mesh), ")");
  return out;
}

std::int64_t parts(const AxisList& axes, const MeshAxes& mesh) {
  std::int64_t n = 1;
  for (auto a : axes) n *= mesh.sizes[a];
  return n;
}

Shape tile_shape(const Shape& global, const Layout& l, const MeshAxes& mesh) {
  Shape out = global;
  for (std::size_t d = 0; d < out.size(); ++d) {
    auto [begin, end] = part_range(out[d], parts(l.dims[d], mesh), 0);
    out[d] = end - begin;
  }
  return out;
}

std::int64_t axes_size(AxisMask mask, const MeshAxes& mesh) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < mesh.sizes.size(); ++a) {
    if (mask >> a & 1) n *= mesh.sizes[a];
  }
  return n;
}

}  // namespace tessera::ir
