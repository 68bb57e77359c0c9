// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"
#include "rowwise.h"
#include "workload.h"

namespace tessera::bench {

namespace {

constexpr double kMatmulFlops = 2.0 * 1024 * 1024 * 1024;

Array product(const Array& a, const Array& b) { return matmul(a, b); }

Result matmul_1dev(const Settings& s, DType dtype) {
  Array a = device_put(fill({1024, 1024}).astype(dtype));
  return timed(s, call(jit(product), a, a), {.flops = kMatmulFlops, .bf16 = dtype == bfloat16});
}

Result convolution(const Settings& s) {
  Mesh m = mesh1(s.devices);
  auto f = jit([](const Array& x, const Array& w) {
    return lax::conv_general_dilated(
        x, w, {.strides = {1, 1}, .pad_mode = lax::PadMode::Same, .dimension_numbers = {"NHWC", "HWIO", "NHWC"}});
  });
  Array x = put({32, 32, 32, 64}, m, P("x"));
  Array w = put({3, 3, 64, 64}, m, P());
  return timed(s, call(f, x, w), {.reads = 8 * kMB, .writes = 8 * kMB, .flops = 2.0 * 32 * 32 * 32 * 9 * 64 * 64});
}

// Fifty steps of the heat equation, whose neighbours are shifted copies.
Result stencil(const Settings& s) {
  auto shifted = [](const Array& u, std::size_t dim, std::int64_t by) {
    std::vector<lax::PadDim> pads(2);
    pads[dim] = {by, -by};
    return lax::pad(u, 0.0F, pads);
  };
  auto step = [=](const Array&, const Array& u) {
    Array around = shifted(u, 0, 1) + shifted(u, 0, -1) + shifted(u, 1, 1) + shifted(u, 1, -1);
    return u + 0.2 * (around - 4.0 * u);
  };
  auto f = jit([=](const Array& u) { return fori_loop(0, 50, step, u); });
  return timed(s, call(f, put({1024, 1024}, mesh1(s.devices), P("x"))), {.reads = 200 * kMB, .writes = 200 * kMB});
}

// One step over one array: four are read, three written.
Result adam(const Settings& s) {
  auto f = jit([](const Array& p, const Array& g, const Array& m, const Array& v, const Array& step) {
    auto [params, state] = optim::adam(p, g, optim::AdamState<Array>{m, v, step});
    return std::make_tuple(params, state.m, state.v, state.step);
  });
  const Shape shape{s.devices, (1 << 23) / s.devices};
  Mesh m = mesh1(s.devices);
  auto input = [&](std::uint64_t seed) { return put(shape, m, P("x"), seed); };
  return timed(s, call(f, input(0), input(1), input(2), square(input(3)), Array(HostArray::scalar(std::int32_t{10}))),
               {.reads = 128 * kMB, .writes = 96 * kMB});
}

}  // namespace

void add_compute(std::vector<Workload>& list) {
  list.push_back({"matmul_1024_f32_1dev", [](const Settings& s) { return matmul_1dev(s, float32); }});
  list.push_back({"matmul_1024_f32_alldev", [](const Settings& s) {
                    Mesh m = mesh2(s.devices);
                    return timed(
                        s, call(jit(product), put({1024, 1024}, m, P("x", "y")), put({1024, 1024}, m, P("y", none))),
                        {.flops = kMatmulFlops});
                  }});
  list.push_back({"matmul_1024_bf16_1dev", [](const Settings& s) { return matmul_1dev(s, bfloat16); }});
  list.push_back({"gelu_64MB_alldev", [](const Settings& s) {
                    Array x = put({s.devices, (1 << 24) / 8}, mesh1(s.devices), P("x"));
                    return timed(s, call(jit(gelu), x), {.reads = 64 * kMB, .writes = 64 * kMB});
                  }});
  list.push_back(
      {"softmax_8192x1024_alldev", [](const Settings& s) {
         auto f = jit([](const Array& v) { return softmax(v, -1); });
         return timed(s, call(f, put({8192, 1024}, mesh1(s.devices), P("x"))), {.reads = 32 * kMB, .writes = 32 * kMB});
       }});
  list.push_back({"layernorm_8192x1024_alldev", [](const Settings& s) {
                    return timed(s, call(jit(layernorm), put({8192, 1024}, mesh1(s.devices), P("x"))),
                                 {.reads = 32 * kMB, .writes = 32 * kMB});
                  }});
  list.push_back({"sum_64MB_all_axes_alldev", [](const Settings& s) {
                    Array x = put({s.devices * 1024, (1 << 24) / (s.devices * 1024)}, mesh1(s.devices), P("x"));
                    return timed(s, call(jit([](const Array& v) { return sum(v); }), x), {.reads = 64 * kMB});
                  }});
  list.push_back({"conv_32x32x32x64_3x3_alldev", convolution});
  list.push_back({"stencil_1024_50_steps_alldev", stencil});
  list.push_back({"adam_8M_alldev", adam});
  list.push_back({"sort_1M_f32_1dev", [](const Settings& s) {
                    auto f = jit([](const Array& v) { return sort(v); });
                    return timed(s, call(f, device_put(fill({1 << 20}))), {.reads = 4 * kMB, .writes = 4 * kMB});
                  }});
  list.push_back({"gather_rows_65536x256_1dev", [](const Settings& s) {
                    auto f = jit([](const Array& t, const Array& i) { return index(t, {i}); });
                    return timed(s, call(f, device_put(fill({65536, 256})), device_put(fill_int({32768}, 65536, 1))),
                                 {.reads = 32 * kMB, .writes = 32 * kMB});
                  }});
  list.push_back({"random_normal_4M_alldev", [](const Settings& s) {
                    JitOptions options{.out_shardings = {NamedSharding(mesh1(s.devices), P("x"))}};
                    auto f = jit([](const Array& k) { return random::normal(k, {1 << 22}); }, options);
                    return timed(s, call(f, random::key(0)), {.writes = 16 * kMB});
                  }});
}

}  // namespace tessera::bench
