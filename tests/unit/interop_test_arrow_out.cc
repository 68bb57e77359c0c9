// SPDX-License-Identifier: Apache-2.0
// Arrays as columns of the Arrow C data interface, and columns that are refused, with structs made by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/arrow_structs.h"

namespace tessera {
namespace {

using namespace test;
using ArrowOut = ArrowTest;
using F = std::vector<float>;

TEST_F(ArrowOut, TypesThatAreRefusedSayWhatToDo) {
  auto refused = [&](const char* format, const char* want) {
    Column c(format, "x", 4, {nullptr, values});
    try {
      from_arrow(&c.array, &c.schema);
      ADD_FAILURE() << format;
    } catch (const TypeError& e) {
      expect_contains(e.what(), std::string("column \"x\" has format \"") + format + "\" (" + want);
    }
    EXPECT_EQ(c.released + c.schemas_released, 0);
  };
  refused("n", "null); expected");
  refused("u", "string)");
  refused("vu", "string view)");
  refused("d:10,2", "decimal)");
  refused("tdD", "date)");
  refused("ttn", "time)");
  refused("tsu:UTC", "timestamp)");
  refused("tDs", "duration)");
  refused("tiM", "interval)");
  refused("+l", "list)");
  refused("+ud:0,1", "union)");
  refused("w:8", "fixed-size binary)");
  refused("q", "of a type that is unknown here)");
  refused("ff", "of a type that is unknown here)");
  Column c("i", "x", 4, {nullptr, values}), words("u", "", 0, {});
  c.schema.dictionary = &words.schema;
  expect_contains(message_of([&] { from_arrow(&c.array, &c.schema); }), "dictionary-encoded");
  Column struct_of("+s", "", 0, {nullptr});
  expect_contains(message_of([&] { from_arrow(&struct_of.array, &struct_of.schema); }), "\"+s\" (struct)");
  Column plain("f", "x", 4, {nullptr, values});
  expect_contains(message_of([&] { from_arrow_table(&plain.array, &plain.schema); }), "expected \"+s\"");
  expect_contains(message_of([&] { from_arrow(&plain.array, &plain.schema, {.columns = {"x"}}); }), "single column");
}

TEST_F(ArrowOut, MalformedStructsAreRefused) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  auto refused = [&](auto change, const char* want) {
    Column child("f", "item", 16, {nullptr, values});
    Column c("+w:4", "x", 4, {nullptr}, {&child});
    change(c, child);
    expect_contains(message_of([&] { from_arrow(&c.array, &c.schema); }), want);
    EXPECT_EQ(c.released + c.schemas_released + child.released, 0);
  };
  refused([](Column& c, Column&) { c.array.release = nullptr; }, "array was released");
  refused([](Column& c, Column&) { c.schema.release = nullptr; }, "schema was released");
  refused([](Column& c, Column&) { c.schema.format = nullptr; }, "no format string");
  for (const char* format : {"+w:", "+w:-1", "+w:4x", "+w:99999999999999999999"}) {
    refused([&](Column& c, Column&) { c.schema.format = format; }, "expected \"+w:\" and a length");
  }
  refused([](Column& c, Column&) { c.schema.n_children = 0; }, "0 children in its schema");
  refused([](Column& c, Column&) { c.schema.children = nullptr; }, "children in its schema");
  refused([](Column& c, Column&) { c.schemas[0] = nullptr; }, "children in its schema");
  refused([](Column& c, Column&) { c.schemas[0] = &c.schema; }, "levels of lists");
  refused([](Column& c, Column&) { c.array.length = -1; }, "length -1");
  refused([](Column& c, Column&) { c.array.offset = -1; }, "offset -1");
  refused([](Column& c, Column&) { c.array.offset = kMost; }, "below 2^63");
  refused([](Column& c, Column&) { c.array.null_count = 5; }, "5 nulls among 4 values");
  refused([](Column& c, Column&) { c.array.null_count = -2; }, "-2 nulls");
  refused([](Column& c, Column&) { c.array.null_count = 1; }, "no bits");
  refused([](Column& c, Column&) { c.array.n_buffers = 2; }, "2 buffers; expected 1");
  refused([](Column& c, Column&) { c.array.buffers = nullptr; }, "null pointer");
  refused([](Column& c, Column&) { c.array.n_children = 2; }, "2 children; expected 1");
  refused([](Column& c, Column&) { c.array.children = nullptr; }, "null pointer");
  refused([](Column& c, Column&) { c.arrays[0] = nullptr; }, "null pointer for child 0");
  refused([](Column&, Column& child) { child.array.length = 15; }, "over 15 values; expected at least 16");
  refused([](Column& c, Column&) { c.array.offset = 1; }, "expected at least 20");
  refused([](Column& c, Column&) { c.array.length = kMost / 2; }, "2^63 - 1");
  refused([](Column&, Column& child) { child.array.release = nullptr; }, "was released");
  refused([](Column&, Column& child) { child.array.n_buffers = 1; }, "1 buffers; expected 2");
  refused([](Column&, Column& child) { child.buffers[1] = nullptr; }, "no memory");
  refused([](Column&, Column& child) { child.array.offset = kMost - 16; }, "2^63 - 1");
  expect_contains(message_of([] { from_arrow(nullptr, nullptr); }), "schema is null");

  auto table_refused = [&](auto change, const char* want) {
    Column a("f", "a", 4, {nullptr, values}), b("f", "b", 4, {nullptr, values});
    Column t("+s", "", 4, {nullptr}, {&a, &b});
    change(t, a, b);
    expect_contains(message_of([&] { from_arrow_table(&t.array, &t.schema); }), want);
    EXPECT_EQ(t.released + a.released + b.released, 0);
  };
  table_refused([](Column& t, Column&, Column&) { t.array.n_children = 1; }, "the table has 1 children; expected 2");
  table_refused([](Column& t, Column&, Column&) { t.schemas[1] = nullptr; }, "null pointer for child 1");
  table_refused([](Column& t, Column&, Column&) { t.arrays[1] = nullptr; }, "null pointer for child 1");
  table_refused([](Column& t, Column&, Column&) { t.arrays[1] = t.arrays[0]; }, "the same array for two columns");
  table_refused([](Column&, Column&, Column& b) { b.schema.name = "a"; }, "two columns of the name \"a\" (0 and 1)");
  table_refused([](Column& t, Column&, Column&) { t.schema.n_children = -1; }, "-1 children");
  table_refused([](Column&, Column&, Column& b) { b.array.length = 3; }, "\"b\" has 3 rows; expected at least the 4");
  table_refused([](Column& t, Column&, Column&) { t.array.length = 5; }, "\"a\" has 4 rows");
  expect_contains(message_of([&] {
                    Column a("f", "a", 4, {nullptr, values}), t("+s", "", 4, {nullptr}, {&a});
                    from_arrow_table(&t.array, &t.schema, {{"a", rows}}, {.columns = {"a"}});
                  }),
                  "expected one of the two");
}

TEST_F(ArrowOut, CopyIsForcedAndForbidden) {
  Column c("f", "x", 16, {nullptr, values});
  Array x = from_arrow(&c.array, &c.schema, {.copy = true});
  EXPECT_EQ(c.released, 1);
  EXPECT_NE(memory_of(x), values);
  auto refused = [&](Column& column, const ShardingPtr& sharding, const char* want) {
    expect_contains(
        message_of([&] { from_arrow(&column.array, &column.schema, sharding, {.null_value = 0, .copy = false}); }),
        std::string("options.copy is false, but column \"x\" ") + want);
    EXPECT_EQ(column.released, 0);
  };
  const unsigned char valid[] = {0, 0};
  const ShardingPtr everywhere = NamedSharding(mesh, P()).share();
  Column off("f", "x", 4, {nullptr, values}), bits("b", "x", 4, {nullptr, valid}), nulls("f", "x", 16, {valid, values}),
      split("f", "x", 16, {nullptr, values});
  off.array.offset = 1;
  nulls.array.null_count = -1;
  refused(off, everywhere, "begins at an address");
  refused(bits, everywhere, "has bools");
  refused(nulls, everywhere, "has nulls");
  refused(split, rows, "is split by its sharding");
}

TEST_F(ArrowOut, EveryDtypeGoesOutAndIn) {
  for (DType dtype : {bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64}) {
    for (const Shape& shape : {Shape{24}, Shape{6, 4}, Shape{2, 3, 4}, Shape{0, 3}, Shape{3, 0}}) {
      HostArray h(dtype, shape);
      HostArray numbers = arange(24).host().astype(dtype);
      if (h.nbytes() > 0) std::memcpy(h.data(), numbers.data(), static_cast<std::size_t>(h.nbytes()));
      Array x = device_put(h);
      ArrowArray array{};
      ArrowSchema schema{};
      to_arrow(x, &array, &schema, "numbers");
      EXPECT_STREQ(schema.name, "numbers");
      EXPECT_EQ(array.length, shape[0]);
      EXPECT_EQ(array.null_count, 0);
      Array back = from_arrow(&array, &schema);
      EXPECT_TRUE(identical(back.host(), h)) << dtype_name(dtype) << to_string(shape);
      if (dtype != bool_ && h.nbytes() > 0) {
        EXPECT_EQ(memory_of(back), memory_of(x)) << dtype_name(dtype);
      }
    }
  }
}

TEST_F(ArrowOut, WhatIsGivenAwayOutlivesTheArray) {
  Array x = device_put(HostArray::from(F{1, 2, 3, 4, 5, 6}, {3, 2}));
  ArrowArray array{}, copied{};
  ArrowSchema schema{}, copied_schema{};
  to_arrow(x, &array, &schema);
  to_arrow(x, &copied, &copied_schema, "", true);
  EXPECT_STREQ(schema.format, "+w:2");
  EXPECT_STREQ(schema.children[0]->format, "f");
  EXPECT_NE(copied.children[0]->buffers[1], array.children[0]->buffers[1]);
  static_cast<float*>(const_cast<void*>(copied.children[0]->buffers[1]))[0] = 9;
  auto twice = jit([](Array y) { return y * 2.0; }, {.donate_argnums = {0}});
  EXPECT_EQ(twice(x).to_vector<float>()[0], 2.0F);
  // A consumer may move the child out and release its parent.
  ArrowArray child = *array.children[0];
  array.children[0]->release = nullptr;
  array.release(&array);
  EXPECT_EQ(array.release, nullptr);
  EXPECT_EQ(child.length, 6);
  EXPECT_EQ(static_cast<const float*>(child.buffers[1])[5], 6.0F);
  child.release(&child);
  schema.release(&schema);
  copied.release(&copied);
  copied_schema.release(&copied_schema);
}

TEST_F(ArrowOut, TablesGoOutAndIn) {
  ArrowArray array{};
  ArrowSchema schema{};
  Array a = arange(8) * 1.0;
  to_arrow_table({{"a", a}, {"m", reshape(arange(16), {8, 2})}}, &array, &schema);
  EXPECT_STREQ(schema.format, "+s");
  EXPECT_EQ(array.length, 8);
  auto columns = from_arrow_table(&array, &schema);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(memory_of(columns["a"]), memory_of(a));
  EXPECT_EQ(columns["m"].shape(), (Shape{8, 2}));
  EXPECT_EQ(columns["m"].to_vector<std::int32_t>()[15], 15);
  expect_contains(message_of([&] {
                    to_arrow_table({{"a", a}, {"b", arange(7)}}, &array, &schema);
                  }),
                  "columns[\"b\"] has 7 rows; expected 8, as columns[\"a\"] has");
  EXPECT_EQ(array.release, nullptr);
  expect_contains(message_of([&] {
                    to_arrow_table({{"a", astype(a, bfloat16)}}, &array, &schema);
                  }),
                  "columns[\"a\"] has dtype bfloat16");
}

TEST_F(ArrowOut, WhatCannotBeExportedIsNamed) {
  ArrowArray array{};
  ArrowSchema schema{};
  auto refused = [&](const Array& x, const char* want) {
    expect_contains(message_of([&] { to_arrow(x, &array, &schema); }), want);
    EXPECT_EQ(array.release, nullptr);
    EXPECT_EQ(schema.release, nullptr);
  };
  refused(Array(2.5), "x has rank 0");
  refused(astype(arange(3), bfloat16), "astype(x, float32)");
  refused(astype(arange(3), complex64), "real(x) and imag(x)");
  refused(device_put(arange(8), rows), "8 shards");
  refused(Array(), "uninitialised");
  expect_contains(message_of([&] { to_arrow(arange(3), nullptr, &schema); }), "array is null");
  expect_contains(message_of([&] { to_arrow(arange(3), &array, nullptr); }), "schema is null");
  jit([&](Array x) {
    EXPECT_THROW(to_arrow(x, &array, &schema), ConcretizationError);
    return x;
  })(arange(3));
}

}  // namespace
}  // namespace tessera
