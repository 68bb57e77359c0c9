// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

Array reduce_where(const Arrays& a, const Params& p) {
  ReduceOptions o{.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")};
  if (p.has("initial"))
    o.initial = is_integer(a[0].dtype()) ? Operand(p.integer("initial")) : Operand(p.real("initial"));
  o.where = a[1];
  const VarOptions v{.axis = o.axis, .keepdims = o.keepdims, .where = a[1]};
  static const std::map<std::string, Array (*)(const Operand&, const ReduceOptions&)> reduces = {
      {"sum", sum},       {"prod", prod},     {"max", max},         {"min", min},
      {"mean", mean},     {"any", any},       {"all", all},         {"nansum", nansum},
      {"nanmax", nanmax}, {"nanmin", nanmin}, {"nanprod", nanprod}, {"nanmean", nanmean},
  };
  static const std::map<std::string, Array (*)(const Operand&, const VarOptions&)> spreads = {
      {"var", var}, {"std", std_}, {"nanvar", nanvar}, {"nanstd", nanstd}};
  const std::string name = p.text("name");
  return spreads.contains(name) ? spreads.at(name)(a[0], v) : reduces.at(name)(a[0], o);
}

ReduceOptions plain(const Params& p) { return {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")}; }

Array segment(const Arrays& a, const Params& p) {
  static const std::map<std::string, Array (*)(const Operand&, const Operand&, const SegmentOptions&)> by = {
      {"sum", segment_sum}, {"prod", segment_prod}, {"max", segment_max}, {"min", segment_min}};
  SegmentOptions o{.num_segments = p.integer("num_segments")};
  if (p.has("bucket_size")) o.bucket_size = p.integer("bucket_size");
  return by.at(p.text("name"))(a[0], a[1], o);
}

optim::Schedule schedule_of(const std::string& name, const std::vector<double>& v) {
  const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(v.at(i)); };
  if (name == "constant") return optim::constant_schedule(v[0]);
  if (name == "linear") return optim::linear_schedule(v[0], v[1], whole(2), whole(3));
  if (name == "polynomial") return optim::polynomial_schedule(v[0], v[1], v[2], whole(3), whole(4));
  if (name == "piecewise") return optim::piecewise_constant_schedule(v[0], {{whole(1), v[2]}, {whole(3), v[4]}});
  if (name == "exponential") return optim::exponential_decay(v[0], whole(1), v[2], {.transition_begin = whole(3)});
  if (name == "staircase") {
    return optim::exponential_decay(v[0], whole(1), v[2],
                                    {.transition_begin = whole(3), .staircase = true, .end_value = v[4]});
  }
  if (name == "cosine") return optim::cosine_decay_schedule(v[0], whole(1), v[2], v[3]);
  return optim::warmup_cosine_decay_schedule(v[0], v[1], whole(2), whole(3), v[4]);
}

}  // namespace

void add_options(Table& t) {
  t["program.reduce_where"] = one(reduce_where);
  t["program.logsumexp_where"] = one([](const Arrays& a, const Params& p) {
    ReduceOptions o = plain(p);
    o.where = a[1];
    return logsumexp(a[0], o);
  });
  t["program.logsumexp_b"] = one([](const Arrays& a, const Params& p) { return logsumexp(a[0], a[1], plain(p)); });
  t["program.logsumexp_sign"] = [](const Arrays& a, const Params& p) {
    ReduceOptions o = plain(p);
    o.where = a[2];
    const auto [size, sign] = logsumexp_and_sign(a[0], a[1], o);
    return Arrays{size, sign};
  };
  t["program.segment"] = one(segment);
  t["program.schedule"] = one([](const Arrays& a, const Params& p) {
    const optim::Schedule rate = schedule_of(p.text("name"), p.reals("values"));
    return astype(vmap([&](const Array& step) { return rate(step); })(a[0]), float32);
  });
}

}  // namespace tessera::oracle
