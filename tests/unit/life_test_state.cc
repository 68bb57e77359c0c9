// SPDX-License-Identifier: Apache-2.0
// Errors about the state of arrays name the argument, the leaf and the call; donation and recursion are checked.
#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "base/sanitizers.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

struct Layer {
  Array w, b;
};
using Model = std::map<std::string, std::vector<Layer>>;

class StateTest : public ::testing::Test {
 protected:
  StateTest() : scope(Client::cpu({.devices = 8})), x(arange(8) / 2.0) {}
  Model model() const { return {{"layers", {{x, x}, {x, x}}}}; }
  ClientScope scope;
  Array x;
};

template <class E>
std::string said(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no exception";
}
#define EXPECT_SAYS(text, word)                                                     \
  do {                                                                              \
    std::string says = text;                                                        \
    EXPECT_NE(says.find(word), std::string::npos) << says << "\nlacks: " << (word); \
  } while (false)

Array total(Model m) {
  Array sum_of = sum(m.at("layers")[0].w);
  for (auto& l : m.at("layers")) sum_of = sum_of + sum(l.w) + sum(l.b);
  return sum_of;
}

TEST_F(StateTest, UninitialisedOperandsAndLeaves) {
  EXPECT_SAYS(said<StateError>([&] { add(x, Array()); }), "add: operand 1 is an uninitialised Array");
  EXPECT_SAYS(said<StateError>([&] { add(Array(), x); }), "add: operand 0 is an uninitialised Array");
  Model m = model();
  m.at("layers")[1].b = Array();
  auto f = jit([](Array scale, Model p) { return scale * total(p); }, {.name = "loss"});
  for (const char* word : {"loss: leaf ", "layers[1]", " of argument 1 is an uninitialised Array"}) {
    EXPECT_SAYS(said<StateError>([&] { f(x, m); }), word);
  }
  EXPECT_SAYS(said<StateError>([&] { grad(total)(m); }), "of argument 0 is an uninitialised Array");
  EXPECT_SAYS(said<StateError>([&] { vmap(total)(m); }), "vmap: leaf ");
  auto mesh = make_mesh({8}, {"i"});
  EXPECT_SAYS(said<StateError>([&] { shard_map(total, mesh, P("i"), P())(m); }), "shard_map: leaf ");
  EXPECT_SAYS(said<StateError>([&] { pmap(total)(m); }), "pmap: leaf ");
  EXPECT_SAYS(said<StateError>([&] { named_leaves(m); }), "layers[1]");
  EXPECT_SAYS(said<StateError>([&] { device_put(Array(), NamedSharding(mesh, P("i"))); }), "device_put: ");
}

TEST_F(StateTest, DeletedAndDonatedOnesSayWhere) {
  Array gone = x + 0.0;
  gone.delete_();
  EXPECT_SAYS(said<DeletedArrayError>([&] { add(x, gone); }),
              "add: operand 1 of type float32[8] was deleted by delete_()");
  Array half = arange(8) + 1;
  half.delete_();
  EXPECT_SAYS(said<DeletedArrayError>([&] { add(x, half); }), "add: operand 1 of type int32[8] was deleted");
  auto step = jit([](Model p, Array s) { return std::pair(p, s); }, {.name = "train_step", .donate_argnums = {0}});
  Model m{{"layers", {{x + 1.0, x + 2.0}}}};
  step(m, x);
  std::string text = said<DeletedArrayError>([&] { step(m, x); });
  for (const char* word : {"train_step: leaf layers[0]", " of argument 0 of type float32[8] was donated to train_step",
                           "life_test_state.cc:", "donate_argnums"}) {
    EXPECT_SAYS(text, word);
  }
  EXPECT_SAYS(said<DeletedArrayError>([&] { m.at("layers")[0].w.host(); }), "donated to train_step");
  EXPECT_SAYS(said<DeletedArrayError>([&] { grad(total)(m); }), "leaf layers[0]");
  EXPECT_SAYS(said<DeletedArrayError>([&] { jit([&] { return x + gone; })(); }), "add: operand 1");
}

TEST_F(StateTest, LeakedTracersSaySo) {
  Array leaked;
  auto leak = jit([&](Array a) {
    leaked = a * 2.0;
    return a;
  });
  leak(x);
  for (const char* word : {"add: operand 0", "made by mul at life_test_state.cc:", "after that function ended"}) {
    EXPECT_SAYS(said<UnexpectedTracerError>([&] { add(leaked, 1); }), word);
  }
  EXPECT_SAYS(said<UnexpectedTracerError>([&] { leaked.host(); }), "after that function ended");
  auto f = jit([](Array a, Array b) { return a + b; }, {.name = "g"});
  EXPECT_SAYS(said<UnexpectedTracerError>([&] { f(x, leaked); }), "g: argument 1");
  EXPECT_SAYS(said<UnexpectedTracerError>([&] { jit([&](Array a) { return a + leaked; })(x); }), "add: operand 1");
  EXPECT_SAYS(said<UnexpectedTracerError>([&] { grad([&](Array a) { return sum(a * leaked); })(x); }),
              "mul: operand 1");
  std::string elsewhere;
  jit([&](Array a) {
    std::thread([&] { elsewhere = said<UnexpectedTracerError>([&] { add(a, 1); }); }).join();
    return a;
  })(x);
  EXPECT_SAYS(elsewhere, "on another thread");
}

TEST_F(StateTest, DonationArgumentsAreChecked) {
  auto f = [](Array a, Array b) { return a + b; };
  EXPECT_SAYS(said<ValueError>([&] { jit(f, {.donate_argnums = {2}})(x, x + 1.0); }),
              "donate_argnums has 2 but the call has 2 arguments; expected -2..1");
  EXPECT_SAYS(said<ValueError>([&] { jit(f, {.donate_argnums = {-3}})(x, x + 1.0); }), "donate_argnums has -3");
  EXPECT_SAYS(said<ValueError>([&] { pmap(f, {.donate_argnums = {7}})(x, x); }), "pmap: donate_argnums has 7");
  auto scaled = [](Array a, int n) { return a * static_cast<double>(n); };
  EXPECT_SAYS(said<ValueError>([&] { jit(scaled, {.donate_argnums = {1}})(x, 3); }), "argument 1 is static");
  Array last = x + 1.0;
  EXPECT_EQ(jit(f, {.donate_argnums = {-1, 1}})(x, last).to_vector<float>()[7], 8);
  EXPECT_TRUE(last.is_deleted());
  EXPECT_FALSE(x.is_deleted());
  // One array for two arguments: its memory cannot be given away and read.
  auto g = jit(f, {.donate_argnums = {0}});
  EXPECT_SAYS(said<ValueError>([&] { g(x, x); }),
              "argument 0 (float32[8]) is donated and is the same array as argument 1");
  EXPECT_SAYS(said<ValueError>([&] { jit(f, {.donate_argnums = {0, 1}})(x, x); }), "the same array");
  EXPECT_FALSE(x.is_deleted());
  auto captured = jit([&](Array a) { return a + x; }, {.donate_argnums = {0}});
  EXPECT_SAYS(said<ValueError>([&] { captured(x); }), "captured array 0");
}

// --- functions that call themselves ---------------------------------------------------------------

TEST_F(StateTest, EndlessRecursionIsAnError) {
  std::function<Array(Array)> self;
  auto f = jit([&](Array a) { return self(a) + 1.0; }, {.name = "f"});
  self = [&](Array a) { return f(a); };
  for (int i = 0; i < 2; ++i) {
    std::string text = said<StateError>([&] { f(x); });
    for (const char* word : {"f (jitted at life_test_state.cc:", "calls itself", "f32[8]", "while_loop"}) {
      EXPECT_SAYS(text, word);
    }
  }
  self = [](Array a) { return a; };  // once the recursion ends, so does the error
  EXPECT_EQ(f(x).to_vector<float>()[0], 1);

  std::function<Array(Array)> odd;
  auto even = jit([&](Array a) { return odd(a); });
  auto other = jit([&](Array a) { return even(a); });
  odd = [&](Array a) { return other(a); };
  EXPECT_SAYS(said<StateError>([&] { even(x); }), "calls itself");

  std::function<Array(Array)> g;
  auto through_grad = jit([&](Array a) { return grad([&](Array v) { return sum(g(v)); })(a); });
  g = [&](Array a) { return through_grad(a); };
  EXPECT_SAYS(said<StateError>([&] { through_grad(x); }), "calls itself");
}

#if !defined(TESSERA_THREAD_SANITIZER) && !defined(TESSERA_ADDRESS_SANITIZER)
// Each level keeps its trace until the stack ends: with a sanitizer's shadow memory that is more than a machine has.

// On a thread whose stack ends soon: what a recursion makes on the way grows with its depth.
void on_small_stack(const std::function<void()>& f) {
  constexpr std::size_t kBytes = 2 << 20;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kBytes), 0);
  auto run = [](void* body) -> void* {
    (*static_cast<const std::function<void()>*>(body))();
    return nullptr;
  };
  pthread_t thread{};
  std::function<void()> body = f;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST_F(StateTest, RecursionThatGrowsEndsBeforeTheStack) {
  on_small_stack([this, client = Client::current()] {
    ClientScope here(client);
    std::function<Array(Array)> self;
    auto f = jit([&](Array a) { return self(expand_dims(a, 0)); });
    self = [&](Array a) { return f(a); };
    EXPECT_SAYS(said<StateError>([&] { f(x); }), "call itself without end");
    // Maps and derivatives trace anew each time.
    std::function<Array(Array)> h;
    h = [&](Array a) { return grad([&](Array v) { return sum(h(v)); })(a); };
    EXPECT_SAYS(said<StateError>([&] { h(x); }), "call itself without end");
    auto mesh = make_mesh({8}, {"i"});
    std::function<Array(Array)> m;
    m = [&](Array a) { return vmap([&](Array v) { return m(expand_dims(v, 0)); })(a); };
    EXPECT_SAYS(said<StateError>([&] { m(x); }), "call itself without end");
    std::function<Array(Array)> p;
    p = [&](Array a) { return pmap([&](Array v) { return p(expand_dims(v, 0)); })(a); };
    EXPECT_NE(said<Error>([&] { p(x); }), "no exception");
  });
}
#endif

TEST_F(StateTest, RecursionThatEndsWorks) {
  std::function<Array(Array, int)> self;
  auto f = jit([&](Array a, int n) { return n == 0 ? a : self(a, n - 1) + 1.0; });
  self = [&](Array a, int n) { return f(a, n); };
  EXPECT_EQ(f(x, 20).to_vector<float>()[0], 20);
  std::function<Array(Array)> halves;
  auto tree_sum = jit([&](Array a) {
    if (a.size() == 1) return a;
    std::int64_t half = a.size() / 2;
    return halves(lax::slice(a, {0}, {half})) + halves(lax::slice(a, {half}, {a.size()}));
  });
  halves = [&](Array a) { return tree_sum(a); };
  EXPECT_EQ(tree_sum(arange(8) + 0.0).to_vector<float>()[0], 28);
}

TEST_F(StateTest, RecursionThroughOtherThreadsIsAnError) {
  for (int round = 0; round < 20; ++round) {
    std::function<Array(Array)> first;
    std::function<Array(Array)> second;
    auto f = jit([&](Array a) { return second(a); });
    auto g = jit([&](Array a) { return first(a); });
    first = [&](Array a) { return f(a); };
    second = [&](Array a) { return g(a); };
    std::atomic<int> errors{0};
    Array arg = x;
    std::thread other([&] { errors += said<StateError>([&] { g(arg); }).find("calls itself") != std::string::npos; });
    errors += said<StateError>([&] { f(arg); }).find("calls itself") != std::string::npos;
    other.join();
    EXPECT_EQ(errors, 2);
  }
}

}  // namespace
}  // namespace tessera
