// SPDX-License-Identifier: Apache-2.0
// Every error names the line of the user's call, whatever part of the library throws it.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/meshes.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

struct WrongCall {
  int line;
  const char* text;
  std::function<void()> call;
};
// One line each: the line of a call inside a macro is that of the macro's use.
#define WRONG(...)                                       \
  {                                                      \
    __LINE__, #__VA_ARGS__, [=] { (void)(__VA_ARGS__); } \
  }

void expect_lines(const std::vector<WrongCall>& calls) {
  for (const auto& c : calls) {
    std::string where = "api_test_call_sites.cc:" + std::to_string(c.line);
    try {
      c.call();
      ADD_FAILURE() << c.text << " did not throw";
    } catch (const Error& e) {
      std::string message = e.what();
      auto at = message.find("(at " + where);
      EXPECT_NE(at, std::string::npos) << c.text << "\n  should name " << where << ": " << message;
      if (at != std::string::npos) {
        EXPECT_EQ(message.find("(at " + where, at + 1), std::string::npos) << "twice: " << message;
      }
    } catch (const std::exception& e) {
      ADD_FAILURE() << c.text << " threw another exception: " << e.what();
    }
  }
}

struct CallSites : ::testing::Test {
  test::EightDevices eight;
  Mesh mesh = eight.A();
  Array x = reshape(arange(12), {3, 4});
  Array f = ones({3, 4});
  HostArray h = HostArray::from(std::vector<float>{1, 2, 3}, {3});
  Array none;
};

TEST_F(CallSites, Operations) {
  auto [x, f, none] = std::tuple(this->x, this->f, this->none);
  expect_lines({
      WRONG(x + ones({5})),
      WRONG(x & f),
      WRONG(-none),
      WRONG(reshape(x, {5, 5})),
      WRONG(transpose(x, {0, 0})),
      WRONG(matmul(x, ones({3, 3}))),
      WRONG(sum(x, 7)),
      WRONG(concatenate({x, ones({2, 2})}, 0)),
      WRONG(stack({x, ones({2})}, 0)),
      WRONG(broadcast_to(x, {5, 4})),
      WRONG(einsum("ij,jk", {x, x})),
      WRONG(linalg::cholesky(ones({3}))),
      WRONG(sort(x, 4)),
      WRONG(take(x, ones({2}), 0)),
      WRONG(where(x > 0, f, ones({9}))),
      WRONG(fft::fft(ones({}))),
      WRONG(random::split(ones({3}))),
      WRONG(softmax(f, 5)),
      WRONG(one_hot(x, -1)),
      WRONG(expand_dims(x, 9)),
      WRONG(squeeze(x, {0})),
      WRONG(lax::slice_in_dim(x, 0, 99, 1, 0)),
      WRONG(broadcast_shapes({{2}, {3}})),
      WRONG(iota(int32, {2}, 4)),
      WRONG(linspace(0.0, 1.0, -1)),
      WRONG(zeros({-1})),
      WRONG(array({{1, 2}, {3}})),
  });
}

TEST_F(CallSites, Arrays) {
  auto [x, f, none, h] = std::tuple(this->x, this->f, this->none, this->h);
  Array gone = f + 1;
  gone.delete_();
  expect_lines({
      WRONG(x(3)),
      WRONG(x(0, 0, 0)),
      WRONG(index(x, {span(0, 2, 0)})),
      WRONG(at(x, {7}).set(1)),
      WRONG(at(x, {7}).get()),
      WRONG(x.shape(2)),
      WRONG(none.shape()),
      WRONG(none.dtype()),
      WRONG(none.size()),
      WRONG(none.ndim()),
      WRONG(none.sharding()),
      WRONG(x.item<float>()),
      WRONG(x.to_vector<float>()),
      WRONG(gone.host()),
      WRONG(gone.devices()),
      WRONG(gone.addressable_shards()),
      WRONG(gone + 1),
      WRONG(x.addressable_data(3)),
      WRONG(h.reshape({2, 2})),
      WRONG(h.slice({Slice{0, 9}})),
      WRONG(h.span<int>()),
      WRONG(HostArray::from(std::vector<int>{1, 2}, {3})),
      WRONG(live_arrays("abacus")),
      WRONG(device_get(none)),
  });
}

TEST_F(CallSites, MeshesAndShardings) {
  auto mesh = this->mesh;
  NamedSharding s(mesh, P("x"));
  Client client = eight.client;
  expect_lines({
      WRONG(make_mesh({16}, {"x"})),
      WRONG(make_mesh({4, 2}, {"x", "x"})),
      WRONG(Mesh({0, 0}, {2}, {"x"})),
      WRONG(mesh.axis_size("nope")),
      WRONG(mesh.local_mesh(3)),
      WRONG(Mesh().device_ids()),
      WRONG(mesh.op_sharding(P("nope"))),
      WRONG(AbstractMesh({{"x", 0}})),
      WRONG(AnyMesh(AbstractMesh({{"x", 2}})).devices()),
      WRONG(MeshScope(AnyMesh(AbstractMesh({{"x", 2}, {"x", 2}})))),
      WRONG(deserialize_mesh("what")),
      WRONG(NamedSharding(mesh, P("nope"))),
      WRONG(NamedSharding(mesh, P("x", "x"))),
      WRONG(P(axes("x", SpecEntry()))),
      WRONG(s.devices_indices_map({3})),
      WRONG(s.to_tiles(0)),
      WRONG(SingleDeviceSharding(Device())),
      WRONG(TileAssignment(Dims{2}, Dims{3}, Dims{0})),
      WRONG(TileAssignment::parse("{devices=")),
      WRONG(GspmdSharding(std::vector<Device>{}, TileAssignment({8}))),
      WRONG(get_shard_shape({3}, mesh, P("x"))),
      WRONG(Client::cpu({.devices = 0})),
      WRONG(client.device(77)),
      WRONG(OpSharding::parse("{")),
      WRONG(visualize_array_sharding(s, {4, 4, 4})),
      WRONG(make_hybrid_mesh({.ici_mesh_shape = {99}, .axis_names = {"x"}})),
      WRONG(mark_sharding(ones({4}), mesh, P("nope"))),
      WRONG(get_1d_mesh("x").axis_size("y")),
  });
}

TEST_F(CallSites, Placement) {
  auto [x, h, mesh] = std::tuple(this->x, this->h, this->mesh);
  NamedSharding s(mesh, P("x"));
  auto data = [](const Index&) { return HostArray::scalar(1.0F); };
  expect_lines({
      WRONG(device_put(x, s)),
      WRONG(device_put(h, s)),
      WRONG(device_put(x, P("x"))),
      WRONG(device_put(x, ShardingPtr())),
      WRONG(reshard(x, s)),
      WRONG(with_sharding_constraint(x, s)),
      WRONG(device_put_sharded({x}, {})),
      WRONG(make_array_from_callback({8}, s, data)),
      WRONG(make_array_from_callback({7}, s, data)),
      WRONG(make_array_from_single_device_arrays({8}, s, std::vector<Array>{})),
      WRONG(GlobalArray({3}, mesh, P("x"), std::vector<Array>{})),
      WRONG(host_local_array_to_global_array(x, mesh, std::nullopt)),
  });
}

TEST_F(CallSites, Transformations) {
  auto [x, f, mesh, none] = std::tuple(this->x, this->f, this->mesh, this->none);
  auto identity = [](Array a) { return a; };
  auto add_ones = jit([](Array a) { return a + 1; }, {.in_shardings = {NamedSharding(mesh, P("x"))}});
  expect_lines({
      WRONG(jit(identity)(none)),
      WRONG(jit([](Array a) { return a + ones({9}); })(x)),
      WRONG(add_ones(f)),
      WRONG(add_ones.lower(f).compile()),
      WRONG(jit(identity, {.in_shardings = {P("x")}})(f)),
      WRONG(grad(identity)(f)),
      WRONG(grad([](Array a) { return sum(a); })(x)),
      WRONG(value_and_grad([](Array a) { return sum(a); })(x)),
      WRONG(jacrev(identity)(x)),
      WRONG(vjp(identity, f).second(ones({7}))),
      WRONG(jvp(identity, std::tuple(f), std::tuple(ones({7})))),
      WRONG(vmap(identity, {.in_axes = 5})(f)),
      WRONG(vmap(identity, {.in_axes = std::nullopt})(f)),
      WRONG(pmap(identity)(ones({99, 2}))),
      WRONG(shard_map(identity, mesh, P("x"), P("x"))(f)),
      WRONG(shard_map(identity, P("x"), P("x"))(f)),
      WRONG(psum(f, "nope")),
      WRONG(axis_size("nope")),
      WRONG(scan([](Array c, Array v) { return std::pair(c + v, v); }, ones({}), ones({}))),
      WRONG(while_loop([](Array c) { return c < 3; },
                       [](Array c) {
                         return stack({c, c});
                       },
                       ones({}))),
      WRONG(fori_loop(
          0, 3,
          [](Array, Array c) {
            return stack({c, c});
          },
          ones({}))),
      WRONG(cond(f, identity, identity, f)),
      WRONG(checkpoint([](Array a) { return a + ones({9}); })(x)),
      WRONG(tree_map([](const Array& a, const Array&) { return a; }, std::vector{f}, std::vector{f, f})),
      WRONG(tree_unflatten(std::vector{f}, {f, f})),
      WRONG(eval_shape([](Array a) { return a + ones({9}); }, x)),
      WRONG(optim::sgd(f, ones({7}), f)),
  });
}

TEST_F(CallSites, Files) {
  std::string path = ::testing::TempDir() + "no/such/file";
  expect_lines({
      WRONG(load_npy(path)),
      WRONG(load_npz(path)),
      WRONG(load_safetensors(path)),
      WRONG(save_npz(path, {})),
      WRONG(parse_npy("what")),
      WRONG(with_named_leaves(std::vector<Array>{ones({2})}, {})),
      WRONG(StablehloProgram::parse("what")),
      WRONG(StablehloProgram::load(path)),
  });
}

// The line is that of the innermost call of the user's: inside a traced function it is the operation's.
Array deeper(const Array& a) {
  return a + ones({9});  // line_of_sum
}
TEST_F(CallSites, TheInnermostCallOfTheUsersIsNamed) {
  auto f = jit([](Array a) { return deeper(a); });
  std::string message = test::error_of<ValueError>([&] { f(x); });
  EXPECT_NE(message.find("(at api_test_call_sites.cc:" + std::to_string(__LINE__ - 5)), std::string::npos) << message;
  // After a call its line is in force no longer.
  EXPECT_EQ(CallSite::innermost(), nullptr);
}

// Functions of the standard library that call a function object have no line of their own.
TEST_F(CallSites, AStdFunctionBetween) {
  std::function<Array(Array, Array)> add = [](const Array& a, const Array& b) { return tessera::add(a, b); };
  std::function<Array(Array)> square = jit([](Array a) { return matmul(a, a); });
  std::string message = test::error_of<ValueError>([&] { square(x); });
  EXPECT_NE(message.find("(at api_test_call_sites.cc:" + std::to_string(__LINE__ - 2)), std::string::npos) << message;
}

TEST_F(CallSites, ErrorsOfLaterWorkNameTheCallThatStartedIt) {
  ConfigScope nans(&Config::debug_nans, true);
  std::string message = test::error_of<Error>([&] { log(-1.0 * ones({4})).host(); });
  EXPECT_NE(message.find("api_test_call_sites.cc:" + std::to_string(__LINE__ - 1)), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera
