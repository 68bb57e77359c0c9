// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/check_shardings.h"

#include <algorithm>

#include "base/strings.h"
#include "hlo/sharding/hlo_sharding.h"
#include "hlo/sharding/sdy.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
// A part of an axis: from `pre` to `end` of its shards.
struct Part {
  const ir::SubAxis* axis;
  std::int64_t pre, end;
};

class Checker {
 public:
  Checker(const Source& source, const std::vector<ir::NamedMesh>& meshes, const DeviceCounts& devices)
      : source_(source), meshes_(meshes), devices_(devices) {}

  // An attribute dictionary of an argument or result.
  void port(const AstAttr& attrs, const AstType& type) {
    if (const AstAttr* a = attrs.find("sdy.sharding")) check(a->pos, parse_sharding(source_, *a), &type);
    if (const AstAttr* a = attrs.find("mhlo.sharding")) hlo(*a, {type});
  }
  void ops(const std::vector<AstOp>& list) {
    for (const auto& op : list) {
      if (const AstAttr* a = op.find("mhlo.sharding")) hlo(*a, op.result_types);
      if (const AstAttr* a = op.find("sdy.sharding")) of_results(*a, op);
      if (op.name.starts_with("sdy.")) shardy(op);
      for (const auto& r : op.regions) ops(r.ops);
    }
  }

 private:
  void shardy(const AstOp& op) {
    if (const AstAttr* a = op.find("in_shardings")) several(*a, op.operand_types);
    if (const AstAttr* a = op.find("out_shardings")) several(*a, op.result_types);
    const AstAttr* a = op.find("sharding");
    if (a == nullptr) a = op.find("out_sharding");
    if (a == nullptr) a = sharding_of_constraint(op);
    if (a != nullptr)
      check(a->pos, parse_sharding(source_, *a), op.result_types.size() == 1 ? op.result_types.data() : nullptr);
  }
  static std::size_t rank_of(const AstType& t) { return t.kind == AstType::Kind::Tensor ? t.shape.size() : 0; }

  // Types that the module leaves out are not compared.
  void several(const AstAttr& a, const std::vector<AstType>& types) {
    auto list = parse_shardings(source_, a);
    bool known = list.size() == types.size();
    if (!known && !types.empty()) {
      source_.fail(a.pos, str(list.size(), " shardings for ", types.size(), " values"));
    }
    for (std::size_t i = 0; i < list.size(); ++i) check(a.pos, list[i], known ? &types[i] : nullptr);
  }
  void of_results(const AstAttr& a, const AstOp& op) {
    bool single = a.kind == AstAttr::Kind::Dialect && a.text == "sdy.sharding";
    if (!single) return several(a, op.result_types);
    check(a.pos, parse_sharding(source_, a), op.result_types.size() == 1 ? op.result_types.data() : nullptr);
  }

  void check(Offset pos, const ir::AxisSharding& s, const AstType* type) {
    auto mesh = std::find_if(meshes_.begin(), meshes_.end(), [&](const ir::NamedMesh& m) { return m.name == s.mesh; });
    if (mesh == meshes_.end() && !s.inlined) source_.fail(pos, str("there is no mesh @", s.mesh));
    const ir::NamedMesh& over = s.inlined ? *s.inlined : *mesh;
    const bool one_device = over.axes.empty() && over.device_ids.size() == 1;  // says nothing of dimensions
    if (type != nullptr && s.dims.size() != rank_of(*type) && !(one_device && s.dims.empty())) {
      source_.fail(pos, str("a sharding of ", s.dims.size(), " dimensions for a value of type ", to_string(*type)));
    }
    std::vector<Part> parts;
    for (const auto& d : s.dims) add(pos, over, d.axes, parts);
    add(pos, over, s.replicated, parts);
    add(pos, over, s.unreduced, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) compare(pos, parts[k], parts[i]);
    }
  }
  void add(Offset pos, const ir::NamedMesh& mesh, const std::vector<ir::SubAxis>& axes, std::vector<Part>& to) {
    for (const auto& x : axes) {
      auto it = std::find(mesh.axes.begin(), mesh.axes.end(), x.name);
      if (it == mesh.axes.end()) {
        source_.fail(pos, str("mesh @", mesh.name, " has no axis \"", x.name, "\"; it has ", join(mesh.axes)));
      }
      std::int64_t size = mesh.sizes[static_cast<std::size_t>(it - mesh.axes.begin())];
      std::int64_t end = x.size == 0 ? size : x.pre_size * x.size;
      if (x.size != 0 && (size % end != 0 || x.size == size)) {
        source_.fail(pos, str("\"", x.name, "\":(", x.pre_size, ")", x.size, " is no part of an axis of size ", size));
      }
      to.push_back({&x, x.size == 0 ? 1 : x.pre_size, end});
    }
  }
  void compare(Offset pos, const Part& a, const Part& b) {
    if (a.axis->name != b.axis->name) return;
    const Part& major = a.pre <= b.pre ? a : b;
    const Part& minor = a.pre <= b.pre ? b : a;
    if (major.end > minor.pre || minor.pre == major.pre) {
      source_.fail(pos, str("axis \"", a.axis->name, "\" is used twice"));
    }
    if (minor.pre % major.end != 0) source_.fail(pos, str("parts of axis \"", a.axis->name, "\" do not nest"));
  }

  void hlo(const AstAttr& a, const std::vector<AstType>& types) {
    if (a.kind != AstAttr::Kind::String) source_.fail(a.pos, "mhlo.sharding must be a string");
    HloShardings all;
    try {
      all = parse_hlo_shardings(a.text);
    } catch (const FormatError& e) {
      source_.fail(a.pos, str("mhlo.sharding: ", e.what()));
    }
    std::vector<AstType> values;  // without the tuples around them
    for (const auto& t : types) flatten_type(t, values);
    // A tuple without parts stands for one; side effects have a sharding and no result.
    bool fits = !all.tuple || values.empty() || all.parts.size() == values.size();
    if (!fits) source_.fail(a.pos, str(all.parts.size(), " shardings for ", values.size(), " values"));
    for (std::size_t i = 0; i < all.parts.size(); ++i) check(a, all.parts[i], values, all.tuple, i);
  }
  static void flatten_type(const AstType& t, std::vector<AstType>& to) {
    if (t.kind != AstType::Kind::Tuple) to.push_back(t);
    for (const auto& p : t.parts) flatten_type(p, to);
  }
  void check(const AstAttr& a, const HloSharding& s, const std::vector<AstType>& values, bool tuple, std::size_t i) {
    if (s.kind == HloSharding::Kind::Maximal && devices_.all > 0 && s.device >= devices_.all) {
      source_.fail(a.pos, str("mhlo.sharding: there is no device ", s.device, "; the module is for ", devices_.all));
    }
    if (s.kind != HloSharding::Kind::Tiled) return;
    std::int64_t n = s.tiles->num_devices();
    if (devices_.all > 0 && n != devices_.partitions && n != devices_.all) {
      source_.fail(a.pos, str("mhlo.sharding: tiles over ", n, " devices; the module is for ", devices_.partitions));
    }
    for (std::size_t v = tuple ? i : 0; v < (tuple ? std::min(i + 1, values.size()) : values.size()); ++v) {
      if (s.tiled_rank() != rank_of(values[v])) {
        source_.fail(a.pos, str("mhlo.sharding: tiles of ", s.tiled_rank(), " dimensions for a value of type ",
                                to_string(values[v])));
      }
    }
  }

  const Source& source_;
  const std::vector<ir::NamedMesh>& meshes_;
  const DeviceCounts& devices_;
};
}  // namespace

void check_shardings(const Source& source, const AstModule& module, const std::vector<ir::NamedMesh>& meshes,
                     const DeviceCounts& devices) {
  Checker checker(source, meshes, devices);
  for (const auto& f : module.functions) {
    for (const auto& a : f.body.args) checker.port(a.attrs, a.type);
    for (std::size_t i = 0; i < f.result_types.size(); ++i) checker.port(f.result_attrs[i], f.result_types[i]);
    checker.ops(f.body.ops);
  }
}

}  // namespace tessera::hlo
