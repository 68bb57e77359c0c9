// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

ReduceOptions reduce_options(const Params& p) {
  return {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims"), .dtype = p.maybe_dtype("dtype")};
}
VarOptions var_options(const Params& p) {
  return {.axis = p.maybe_dims("axis"), .ddof = p.real("ddof", 0), .keepdims = p.flag("keepdims")};
}
QuantileOptions quantile_options(const Params& p) {
  static const std::map<std::string, QuantileMethod> methods = {
      {"linear", QuantileMethod::Linear},   {"lower", QuantileMethod::Lower},
      {"higher", QuantileMethod::Higher},   {"midpoint", QuantileMethod::Midpoint},
      {"nearest", QuantileMethod::Nearest}, {"inverted_cdf", QuantileMethod::InvertedCdf}};
  return {
      .axis = p.maybe_dims("axis"), .method = methods.at(p.text("method", "linear")), .keepdims = p.flag("keepdims")};
}
HistogramOptions histogram_options(const Arrays& a, const Params& p, std::size_t weights) {
  HistogramOptions o;
  if (p.has("range")) o.range = std::pair{p.reals("range").at(0), p.reals("range").at(1)};
  if (a.size() > weights) o.weights = a[weights];
  o.density = p.flag("density");
  return o;
}
CovOptions cov_options(const Arrays& a, const Params& p) {
  CovOptions o{.rowvar = p.flag("rowvar", true), .bias = p.flag("bias"), .ddof = p.maybe_integer("ddof")};
  if (a.size() > 1) o.y = a[1];
  return o;
}

void add_orders(Table& t) {
  using Quantile = Array (*)(const Operand&, const Operand&, const QuantileOptions&);
  const std::map<std::string, Quantile> quantiles = {{"quantile", quantile},
                                                     {"percentile", percentile},
                                                     {"nanquantile", nanquantile},
                                                     {"nanpercentile", nanpercentile}};
  for (const auto& [name, f] : quantiles) {
    t["jnp." + name] = one([f = f](const Arrays& a, const Params& p) { return f(a[0], a[1], quantile_options(p)); });
  }
  t["jnp.median"] = one([](const Arrays& a, const Params& p) {
    return median(a[0], {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")});
  });
  t["jnp.nanmedian"] = one([](const Arrays& a, const Params& p) {
    return nanmedian(a[0], {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")});
  });
}

void add_without_nan(Table& t) {
  const std::map<std::string, Array (*)(const Operand&, const ReduceOptions&)> reduces = {
      {"nansum", nansum},
      {"nanprod", nanprod},
      {"nanmax", nanmax},
      {"nanmin", nanmin},
      {"nanmean", nanmean},
      {"ptp", ptp},
      {"count_nonzero", count_nonzero}};
  for (const auto& [name, f] : reduces) {
    t["jnp." + name] = one([f = f](const Arrays& a, const Params& p) { return f(a[0], reduce_options(p)); });
  }
  t["jnp.nanvar"] = one([](const Arrays& a, const Params& p) { return nanvar(a[0], var_options(p)); });
  t["jnp.nanstd"] = one([](const Arrays& a, const Params& p) { return nanstd(a[0], var_options(p)); });
  t["jnp.nanargmax"] = one(
      [](const Arrays& a, const Params& p) { return nanargmax(a[0], p.maybe_integer("axis"), p.flag("keepdims")); });
  t["jnp.nanargmin"] = one(
      [](const Arrays& a, const Params& p) { return nanargmin(a[0], p.maybe_integer("axis"), p.flag("keepdims")); });
  t["jnp.nancumsum"] = one([](const Arrays& a, const Params& p) { return nancumsum(a[0], p.maybe_integer("axis")); });
  t["jnp.nancumprod"] = one([](const Arrays& a, const Params& p) { return nancumprod(a[0], p.maybe_integer("axis")); });
  auto cumulative = [](const Params& p) {
    return CumulativeOptions{
        .axis = p.maybe_integer("axis"), .dtype = p.maybe_dtype("dtype"), .include_initial = p.flag("include_initial")};
  };
  t["jnp.cumulative_sum"] =
      one([cumulative](const Arrays& a, const Params& p) { return cumulative_sum(a[0], cumulative(p)); });
  t["jnp.cumulative_prod"] =
      one([cumulative](const Arrays& a, const Params& p) { return cumulative_prod(a[0], cumulative(p)); });
}

void add_counts(Table& t) {
  t["jnp.histogram"] = [](const Arrays& a, const Params& p) {
    const auto r = p.has("bins")     ? histogram(a[0], p.integer("bins"), histogram_options(a, p, 1))
                   : p.flag("edges") ? histogram(a[0], a[1], histogram_options(a, p, 2))
                                     : histogram(a[0], 10, histogram_options(a, p, 1));
    return Arrays{r.counts, r.edges};
  };
  t["program.histogram_edges"] = [](const Arrays& a, const Params& p) {
    const auto r = histogram(a[0], a[1], {.density = p.flag("density")});
    return Arrays{r.counts, r.edges};
  };
  t["program.histogram_weights"] = [](const Arrays& a, const Params& p) {
    const auto r = histogram(a[0], p.integer("bins"), {.weights = a[1], .density = p.flag("density")});
    return Arrays{r.counts, r.edges};
  };
  t["jnp.histogram2d"] = [](const Arrays& a, const Params& p) {
    const auto r = histogram2d(a[0], a[1], p.integer("bins", 10));
    return Arrays{r.counts, r.edges[0], r.edges[1]};
  };
  t["jnp.histogramdd"] = [](const Arrays& a, const Params& p) {
    const auto r = histogramdd(a[0], p.dims("bins"), std::nullopt, std::nullopt, p.flag("density"));
    Arrays out{r.counts};
    out.insert(out.end(), r.edges.begin(), r.edges.end());
    return out;
  };
  t["jnp.histogram_bin_edges"] =
      one([](const Arrays& a, const Params& p) { return histogram_bin_edges(a[0], p.integer("bins", 10)); });
  t["jnp.bincount"] = one([](const Arrays& a, const Params& p) {
    BincountOptions o{.minlength = p.integer("minlength", 0), .length = p.maybe_integer("length")};
    if (a.size() > 1) o.weights = a[1];
    return bincount(a[0], o);
  });
  t["jnp.digitize"] = one([](const Arrays& a, const Params& p) { return digitize(a[0], a[1], p.flag("right")); });
}

}  // namespace

void add_statistics(Table& t) {
  add_orders(t);
  add_without_nan(t);
  add_counts(t);
  t["jnp.average"] = one([](const Arrays& a, const Params& p) {
    return average(a[0], a.size() > 1 ? std::optional(a[1]) : std::nullopt,
                   {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")});
  });
  t["jnp.cov"] = one([](const Arrays& a, const Params& p) { return cov(a[0], cov_options(a, p)); });
  t["program.cov_weights"] = one([](const Arrays& a, const Params& p) {
    return cov(a[0], {.ddof = p.maybe_integer("ddof"), .fweights = a[1], .aweights = a[2]});
  });
  t["jnp.corrcoef"] = one([](const Arrays& a, const Params& p) { return corrcoef(a[0], cov_options(a, p)); });
}

}  // namespace tessera::oracle
