// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/numpy.h"
#include "tessera/random.h"

namespace tessera::oracle {

namespace {

Shape shape_of(const Params& p) { return p.has("shape") ? p.dims("shape") : Shape{}; }
DType dtype_of(const Params& p) { return p.dtype("dtype", float32); }

using Draw = Array (*)(const Operand&, const Shape&, DType);
Function draw(Draw f) {
  return one([f](const Arrays& a, const Params& p) { return f(a[0], shape_of(p), dtype_of(p)); });
}

Array split_keys(const Array& key, const Params& p) {
  if (!p.is_list("num")) return random::split(key, p.integer("num", 2));
  Shape shape = p.dims("num");
  Array flat = random::split(key, size_of(shape));
  shape.push_back(2);
  return reshape(flat, shape);
}

}  // namespace

void add_random(Table& t) {
  t["random.key"] = one([](const Arrays& a, const Params&) { return random::key(a[0].item<std::int64_t>()); });
  t["random.split"] = one([](const Arrays& a, const Params& p) { return split_keys(a[0], p); });
  t["random.fold_in"] = one([](const Arrays& a, const Params&) { return random::fold_in(a[0], a[1]); });
  t["random.bits"] =
      one([](const Arrays& a, const Params& p) { return random::bits(a[0], shape_of(p), p.dtype("dtype", uint32)); });
  t["random.uniform"] = one([](const Arrays& a, const Params& p) {
    return random::uniform(a[0], shape_of(p), dtype_of(p), p.real("minval", 0), p.real("maxval", 1));
  });
  t["random.randint"] = one([](const Arrays& a, const Params& p) {
    return random::randint(a[0], shape_of(p), p.integer("minval"), p.integer("maxval"), p.dtype("dtype", int32));
  });
  t["random.normal"] = draw(random::normal);
  t["random.gumbel"] = draw(random::gumbel);
  t["random.exponential"] = draw(random::exponential);
  t["random.laplace"] = draw(random::laplace);
  t["random.logistic"] = draw(random::logistic);
  t["random.cauchy"] = draw(random::cauchy);
  t["random.rademacher"] = draw(random::rademacher);
  t["random.truncated_normal"] = one([](const Arrays& a, const Params& p) {
    return random::truncated_normal(a[0], p.real("lower"), p.real("upper"), shape_of(p), dtype_of(p));
  });
  t["random.bernoulli"] = one([](const Arrays& a, const Params& p) {
    const Operand probability = a.size() > 1 ? Operand(a[1]) : Operand(p.real("p", 0.5));
    return random::bernoulli(a[0], probability, p.maybe_dims("shape"));
  });
  t["random.categorical"] = one([](const Arrays& a, const Params& p) {
    return random::categorical(a[0], a[1], p.integer("axis", -1), p.maybe_dims("shape"));
  });
  t["random.permutation"] = one([](const Arrays& a, const Params& p) {
    return a[1].ndim() == 0 ? random::permutation(a[0], a[1].item<std::int64_t>())
                            : random::permutation(a[0], a[1], p.integer("axis", 0));
  });
  t["random.choice"] = one([](const Arrays& a, const Params& p) {
    return random::choice(a[0], a[1].item<std::int64_t>(), shape_of(p), p.flag("replace", true));
  });
  t["program.split_chain"] = [](const Arrays& a, const Params&) {
    const auto keys = random::split_keys(a[0]);
    const Array c = random::fold_in(keys[1], 7);
    return Arrays{random::bits(keys[0], {3}), random::bits(c, {3}), random::split(c, 3)};
  };
}

}  // namespace tessera::oracle
