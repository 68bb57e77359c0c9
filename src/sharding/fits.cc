// SPDX-License-Identifier: Apache-2.0
#include "sharding/fits.h"

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::sharding {

namespace {

std::string axes_text(const NamedSharding& s, std::span<const int> axes) {
  auto sizes = s.mesh().shape_tuple();
  std::vector<std::string> parts;
  for (int a : axes) {
    const auto& axis = sizes[static_cast<std::size_t>(a)];
    parts.push_back(axis.name.empty() ? str("axis ", a, " (", axis.size, ")")
                                      : str("'", axis.name, "' (", axis.size, ")"));
  }
  return join(parts);
}

// Mesh axes that split an extent evenly by themselves.
std::string fitting_axes(const NamedSharding& s, std::int64_t extent) {
  auto sizes = s.mesh().shape_tuple();
  std::vector<int> fitting;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    if (sizes[a].size > 1 && extent % sizes[a].size == 0) fitting.push_back(static_cast<int>(a));
  }
  return fitting.empty() ? std::string() : str(", one of the axes ", axes_text(s, fitting));
}

void check_named(std::string_view function, std::string_view argument, const NamedSharding& s, const Shape& shape) {
  if (static_cast<std::int64_t>(s.spec().size()) > rank(shape)) {
    throw ValueError(str(function, ": ", argument, " = ", s.text(), " has ", s.spec().size(),
                         " entries for a value of shape ", shape, ", of rank ", rank(shape),
                         "; expected at most one per dimension"));
  }
  if (s.uneven()) return;
  for (std::size_t d = 0; d < s.spec().size(); ++d) {
    std::int64_t parts = 1;
    for (int a : s.dim_axes(d)) parts *= s.mesh().shape_tuple()[static_cast<std::size_t>(a)].size;
    std::int64_t rest = shape[d] % parts;
    if (rest == 0) continue;
    std::int64_t above = shape[d] - rest + parts;
    std::string multiples = shape[d] > parts ? str(above - parts, " or ", above) : str(above);
    throw IndivisibleError(str(function, ": ", argument, " = ", s.text(), " does not split a value of shape ", shape,
                               ": dimension ", d, " has extent ", shape[d], "; expected a multiple of ", parts,
                               ", the size of ", axes_text(s, s.dim_axes(d)), ". An extent of ", multiples,
                               fitting_axes(s, shape[d]), ", or NamedOptions{.uneven = true} would do"));
  }
}

}  // namespace

void check_fits(std::string_view function, std::string_view argument, const Sharding& sharding, const Shape& shape) {
  if (const auto* s = dynamic_cast<const NamedSharding*>(&sharding)) return check_named(function, argument, *s, shape);
  auto place = [&](const Error& e) {
    return str(function, ": ", argument, " = ", sharding.text(), " does not fit a value of shape ", shape, ": ",
               e.what());
  };
  try {
    sharding.shard_shape(shape);
  } catch (const IndivisibleError& e) {
    throw IndivisibleError(place(e));
  } catch (const ValueError& e) {
    throw ValueError(place(e));
  }
}

NamedSharding named(std::string_view function, std::string_view argument, const AnyMesh& mesh,
                    const PartitionSpec& spec) {
  auto place = [&](const Error& e) { return str(function, ": ", argument, " = ", spec, ": ", e.what()); };
  try {
    return NamedSharding(mesh, spec);
  } catch (const DuplicateAxisError& e) {
    throw DuplicateAxisError(place(e));
  } catch (const ValueError& e) {
    throw ValueError(place(e));
  }
}

}  // namespace tessera::sharding
