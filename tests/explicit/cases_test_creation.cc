// SPDX-License-Identifier: Apache-2.0
#include "explicit/ops.h"

namespace tessera::test {

namespace {

Array a_key() { return random::key(0); }

/// Host values 0, 1, … of the shape.
HostArray counted(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(size_of(shape)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  return HostArray::from(v, shape);
}

LikeOptions like(const Call& c) { return {.shape = c.maybe_dims("shape"), .out_sharding = c.out}; }

Shape shape_of(const Call& c) { return c.params.at("shape").get<Shape>(); }

}  // namespace

void add_creation(Table& t) {
  t["jnp.zeros"] = one([](const Call& c) { return zeros(shape_of(c), c.dtype("dtype", float32), c.place()); });
  t["jnp.ones"] = one([](const Call& c) { return ones(shape_of(c), c.dtype("dtype", float32), c.place()); });
  t["jnp.empty"] = one([](const Call& c) { return empty(shape_of(c), c.dtype("dtype", float32), c.place()); });
  t["lax.empty"] = one([](const Call& c) { return lax::empty(shape_of(c), c.dtype("dtype", float32), c.place()); });
  t["jnp.full"] = one([](const Call& c) {
    return full(shape_of(c), c.params.at("fill_value").get<double>(), c.dtype("dtype", float32), c.place());
  });
  t["lax.full"] = t["jnp.full"];
  t["jnp.arange"] = one([](const Call& c) { return arange(c.integer("stop"), c.dtype("dtype", int32), c.place()); });
  t["jnp.linspace"] = one([](const Call& c) { return linspace(0.0, 1.0, c.integer("num")); });
  t["lax.iota"] = one([](const Call& c) { return iota(c.dtype("dtype"), {c.integer("size")}); });
  t["lax.broadcasted_iota"] = one([](const Call& c) {
    return lax::broadcasted_iota(c.dtype("dtype"), shape_of(c), c.integer("dimension"), c.place());
  });
  t["jnp.tri"] = one([](const Call& c) { return tri(c.integer("N")); });
  t["jnp.eye"] = one([](const Call& c) { return eye(c.integer("N")); });
  t["jnp.array"] = one([](const Call& c) {
    const HostArray host = counted(shape_of(c));
    return array(ArrayLiteral(host.to_vector<float>()), c.place());
  });
  t["jnp.asarray"] = one([](const Call& c) { return asarray(counted(shape_of(c)), c.place()); });
  t["jnp.zeros_like"] = one([](const Call& c) { return zeros_like(c.x(), like(c)); });
  t["jnp.ones_like"] = one([](const Call& c) { return ones_like(c.x(), like(c)); });
  t["jnp.empty_like"] = one([](const Call& c) { return empty_like(c.x(), like(c)); });
  t["jnp.full_like"] =
      one([](const Call& c) { return full_like(c.x(), c.params.at("fill_value").get<double>(), like(c)); });

  t["jax.random.uniform"] = one([](const Call& c) { return random::uniform(a_key(), shape_of(c), c.place()); });
  t["jax.random.normal"] = one([](const Call& c) { return random::normal(a_key(), shape_of(c), c.place()); });
  t["jax.random.bits"] = one([](const Call& c) { return random::bits(a_key(), shape_of(c), c.place()); });
  t["jax.random.gumbel"] = one([](const Call& c) { return random::gumbel(a_key(), shape_of(c), float32, c.place()); });
  t["jax.random.randint"] = one([](const Call& c) {
    return random::randint(a_key(), shape_of(c), c.integer("minval", 0), c.integer("maxval", 10), int32, c.place());
  });
  t["jax.random.bernoulli"] =
      one([](const Call& c) { return random::bernoulli(a_key(), 0.5, shape_of(c), c.place()); });
  t["jax.random.permutation"] = one([](const Call& c) { return random::permutation(a_key(), c.x(), 0, c.place()); });
  t["jax.random.categorical"] =
      one([](const Call& c) { return random::categorical(a_key(), c.x(), c.integer("axis", -1), {}, c.place()); });
  t["jax.random.split"] = one([](const Call& c) { return random::split(a_key(), c.integer("num")); });
  t["lax.rng_bit_generator"] = [](const Call& c) {
    const Array key(HostArray::from<std::uint32_t>({0, 1, 2, 3}));
    auto [next, bits] = lax::rng_bit_generator(key, shape_of(c), {.out_sharding = c.out});
    return Arrays{next, bits};
  };
  t["jax.nn.one_hot"] = one([](const Call& c) { return one_hot(c.x(), c.integer("num_classes")); });
}

}  // namespace tessera::test
