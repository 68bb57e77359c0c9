// SPDX-License-Identifier: Apache-2.0
// Columns of the Arrow C data interface as arrays, by structs made by hand: whose memory it is, how often it is
// released, what is read of it. tests/interop/check_arrow.py has pyarrow at the other end.
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
using Arrow = ArrowTest;
using F = std::vector<float>;

TEST_F(Arrow, SharesAPlainColumnAndReleasesItOnceAtTheEnd) {
  Column c("f", "x", 16, {nullptr, values});
  {
    Array x = from_arrow(&c.array, &c.schema);
    EXPECT_EQ(c.schemas_released, 1);
    EXPECT_EQ(c.schema.release, nullptr);
    EXPECT_EQ(c.array.release, nullptr) << "the array was moved";
    EXPECT_EQ(x.shape(), (Shape{16}));
    EXPECT_EQ(memory_of(x), values);
    HostArray held = x.host();
    x.delete_();
    EXPECT_EQ(c.released, 0) << "the host array still reads the memory";
    EXPECT_EQ(held.span<float>()[7], 7.0F);
  }
  EXPECT_EQ(c.released, 1);
}

TEST_F(Arrow, EveryTypeIsRead) {
  alignas(64) unsigned char bytes[64];
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<unsigned char>(7 * i + 1);
  const struct {
    const char* format;
    DType dtype;
  } types[] = {{"c", int8},   {"s", int16},  {"i", int32},   {"l", int64},   {"C", uint8},  {"S", uint16},
               {"I", uint32}, {"L", uint64}, {"e", float16}, {"f", float32}, {"g", float64}};
  for (const auto& t : types) {
    // At an offset, which makes the address one that cannot be shared.
    Column c(t.format, "x", 3, {nullptr, bytes});
    c.array.offset = 1;
    Array x = from_arrow(&c.array, &c.schema);
    EXPECT_EQ(c.released, 1) << t.format;
    EXPECT_EQ(x.dtype(), t.dtype);
    const auto item = static_cast<std::size_t>(dtype_size(t.dtype));
    EXPECT_EQ(std::memcmp(x.host().data(), bytes + item, 3 * item), 0) << t.format;
  }
}

TEST_F(Arrow, BoolsAreUnpackedFromTheirOffset) {
  const unsigned char bits[] = {0b10110010, 0b00000101, 0b11111111};
  Column c("b", "flags", 9, {nullptr, bits});
  c.array.offset = 3;
  Array x = from_arrow(&c.array, &c.schema);
  EXPECT_EQ(x.dtype(), bool_);
  EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{false, true, true, false, true, true, false, true, false}));
  EXPECT_EQ(c.released, 1);
  Column again("b", "flags", 16, {nullptr, bits});
  EXPECT_EQ(from_arrow(&again.array, &again.schema, rows).addressable_shards()[2].value().to_vector<bool>(),
            (std::vector<bool>{true, true}));
}

TEST_F(Arrow, FixedSizeListsAreFurtherDimensions) {
  // Lists of a slice of a parent: the parent's offset counts lists, the child's values.
  Column child("f", "item", 15, {nullptr, values});
  child.array.offset = 1;
  Column lists("+w:3", "points", 3, {nullptr}, {&child});
  lists.array.offset = 2;
  Array x = from_arrow(&lists.array, &lists.schema);
  EXPECT_EQ(x.shape(), (Shape{3, 3}));
  EXPECT_EQ(x.to_vector<float>(), (F{7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(lists.released + child.released, 2);

  Column leaf("f", "item", 16, {nullptr, values});
  Column pairs("+w:2", "item", 8, {nullptr}, {&leaf});
  Column blocks("+w:4", "blocks", 2, {nullptr}, {&pairs});
  {
    Array y = from_arrow(&blocks.array, &blocks.schema);
    EXPECT_EQ(y.shape(), (Shape{2, 4, 2}));
    EXPECT_EQ(memory_of(y), values) << "compact lists are shared";
    EXPECT_EQ(blocks.released, 0);
  }
  EXPECT_EQ(blocks.released, 1);
  EXPECT_EQ(leaf.released, 1);

  Column none("f", "item", 0, {nullptr, nullptr});
  Column empty("+w:0", "e", 5, {nullptr}, {&none});
  EXPECT_EQ(from_arrow(&empty.array, &empty.schema).shape(), (Shape{5, 0}));
}

TEST_F(Arrow, UnderAShardingEachDeviceHasItsShard) {
  Column c("f", "x", 16, {nullptr, values});
  Array x = from_arrow(&c.array, &c.schema, rows);
  EXPECT_EQ(c.released, 1);
  ASSERT_EQ(x.addressable_shards().size(), 8U);
  EXPECT_EQ(x.addressable_shards()[3].value().to_vector<float>(), (F{6, 7}));

  Column everywhere("f", "x", 16, {nullptr, values});
  Array whole = from_arrow(&everywhere.array, &everywhere.schema, NamedSharding(mesh, P()).share(), {.copy = false});
  EXPECT_EQ(memory_of(whole), values);

  // Split along the lists, too: rows of a part, plain and packed.
  Mesh grid = make_mesh({2, 4}, {"r", "c"});
  ShardingPtr blocks = NamedSharding(grid, P("r", "c")).share();
  Column child("f", "item", 16, {nullptr, values});
  Column lists("+w:4", "m", 4, {nullptr}, {&child});
  Array m = from_arrow(&lists.array, &lists.schema, blocks);
  EXPECT_EQ(m.addressable_shards()[5].value().to_vector<float>(), (F{9, 13}));
  const unsigned char bits[] = {0b00100010, 0b11000010};
  Column packed("b", "item", 16, {nullptr, bits});
  Column flags("+w:4", "m", 4, {nullptr}, {&packed});
  Array f = from_arrow(&flags.array, &flags.schema, blocks);
  EXPECT_EQ(f.addressable_shards()[1].value().to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(f.addressable_shards()[5].value().to_vector<bool>(), (std::vector<bool>{true, false}));

  Column odd("f", "x", 15, {nullptr, values});
  EXPECT_THROW(from_arrow(&odd.array, &odd.schema, rows), IndivisibleError);
  EXPECT_EQ(odd.released + odd.schemas_released, 0) << "where it throws, the caller has both";
  EXPECT_THROW(from_arrow(&odd.array, &odd.schema, ShardingPtr()), ValueError);
}

TEST_F(Arrow, NullsAreRefusedOrReplaced) {
  const unsigned char valid[] = {0b11111110, 0b10111111};
  for (std::int64_t count : {std::int64_t{2}, std::int64_t{-1}}) {
    Column c("f", "price", 16, {valid, values});
    c.array.null_count = count;
    std::string message = message_of([&] { from_arrow(&c.array, &c.schema); });
    expect_contains(message, "column \"price\" has 2 nulls among 16 values");
    expect_contains(message, "options.null_value");
    EXPECT_EQ(c.released, 0);
    Array x = from_arrow(&c.array, &c.schema, rows, {.null_value = -1});
    EXPECT_EQ(x.to_vector<float>(), (F{-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, -1, 15}));
    EXPECT_EQ(c.released, 1);
  }
  // The bits count from the offset too; a slice without nulls has none.
  Column slice("f", "price", 12, {valid, values});
  slice.array = {12, -1, 1, 2, 0, slice.buffers.data(), nullptr, nullptr, Column::release_array, &slice};
  EXPECT_EQ(from_arrow(&slice.array, &slice.schema).to_vector<float>()[11], 12.0F);
  // A count of zero is believed, and NaN is a value of floats.
  Column none("f", "price", 16, {valid, values});
  EXPECT_EQ(from_arrow(&none.array, &none.schema).to_vector<float>()[0], 0.0F);
  Column nan("f", "price", 16, {valid, values});
  nan.array.null_count = -1;
  EXPECT_TRUE(std::isnan(from_arrow(&nan.array, &nan.schema, {.null_value = NAN}).to_vector<float>()[14]));
}

// Whole words and bytes of bits are read at once: at every offset, for lengths around them.
TEST_F(Arrow, BitsAreReadFromAnyOffset) {
  std::vector<unsigned char> bits(64), valid(64, 0xff);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<unsigned char>(37 * i * i + 11 * i + 5);
  for (std::size_t bit : {3U, 64U, 127U, 200U, 263U}) valid[bit / 8] &= static_cast<unsigned char>(~(1U << (bit % 8)));
  auto set = [](const std::vector<unsigned char>& of, std::size_t i) { return ((of[i / 8] >> (i % 8)) & 1) != 0; };
  for (std::size_t offset = 0; offset < 17; ++offset) {
    for (std::size_t length : {1U, 7U, 8U, 9U, 63U, 64U, 65U, 130U, 257U}) {
      Column c("b", "x", static_cast<std::int64_t>(length), {valid.data(), bits.data()});
      c.array.offset = static_cast<std::int64_t>(offset);
      c.array.null_count = -1;
      std::vector<bool> want;
      for (std::size_t i = offset; i < offset + length; ++i) want.push_back(set(valid, i) ? set(bits, i) : true);
      EXPECT_EQ(from_arrow(&c.array, &c.schema, {.null_value = 1}).to_vector<bool>(), want) << offset << " " << length;
      // Lists of two bools, of which a bit of the lists stands for both.
      Column item("b", "item", static_cast<std::int64_t>(bits.size() * 8), {nullptr, bits.data()});
      Column lists("+w:2", "x", static_cast<std::int64_t>(length / 2), {valid.data()}, {&item});
      lists.array.offset = static_cast<std::int64_t>(offset);
      lists.array.null_count = -1;
      want.clear();
      for (std::size_t i = 2 * offset; i < 2 * (offset + length / 2); ++i) {
        want.push_back(set(valid, i / 2) ? set(bits, i) : true);
      }
      EXPECT_EQ(from_arrow(&lists.array, &lists.schema, {.null_value = 1}).to_vector<bool>(), want) << offset << length;
    }
  }
}

TEST_F(Arrow, NullsOfListsAndOfTheirValues) {
  const unsigned char lists_valid[] = {0b0101};
  const unsigned char values_valid[] = {0b11111110, 0b11111111};
  Mesh grid = make_mesh({2, 4}, {"r", "c"});
  for (const ShardingPtr& sharding : {NamedSharding(grid, P("r", "c")).share(), NamedSharding(grid, P()).share(),
                                      NamedSharding(grid, P("c")).share()}) {
    Column child("f", "item", 16, {values_valid, values});
    child.array.null_count = 1;
    Column lists("+w:4", "m", 4, {lists_valid}, {&child});
    lists.array.null_count = 2;
    expect_contains(message_of([&] { from_arrow(&lists.array, &lists.schema); }), "\"m\" has 2 nulls among 4 values");
    lists.array.null_count = 0;
    expect_contains(message_of([&] { from_arrow(&lists.array, &lists.schema); }),
                    "\"m\" has 1 null in its lists among 16 values");
    lists.array.null_count = 2;
    EXPECT_EQ(from_arrow(&lists.array, &lists.schema, sharding, {.null_value = 9}).to_vector<float>(),
              (F{9, 1, 2, 3, 9, 9, 9, 9, 8, 9, 10, 11, 9, 9, 9, 9}));
    EXPECT_EQ(child.released, 1);
  }
}

TEST_F(Arrow, ANullValueHasToBeOneOfTheDtype) {
  const unsigned char valid[] = {0};
  const struct {
    const char* format;
    double value;
    bool fits;
  } cases[] = {{"c", 127, true},  {"c", 128, false},     {"c", 0.5, false}, {"C", -1, false},
               {"i", NAN, false}, {"l", 9.3e18, false},  {"b", 1, true},    {"b", 2, false},
               {"e", 7e4, false}, {"e", INFINITY, true}, {"f", 0.1, true},  {"f", 1e39, false}};
  for (const auto& t : cases) {
    alignas(8) const char zeros[16] = {};
    Column c(t.format, "x", 2, {valid, zeros});
    c.array.null_count = 2;
    auto read = [&] { from_arrow(&c.array, &c.schema, {.null_value = t.value}); };
    if (t.fits) {
      read();
    } else {
      expect_contains(message_of(read), "options.null_value");
      EXPECT_EQ(c.released, 0);
    }
  }
}

TEST_F(Arrow, StreamsAreOneArray) {
  auto chunk = [&](std::int64_t offset, std::int64_t length) {
    auto c = std::make_unique<Column>("f", "x", length, std::vector<const void*>{nullptr, values});
    c->array.offset = offset;
    return c;
  };
  Column schema("f", "x", 0, {});
  auto a = chunk(0, 3), b = chunk(5, 0), c = chunk(6, 5);
  Stream s(&schema, {a.get(), b.get(), c.get()});
  Array x = from_arrow(&s.stream, rows);
  EXPECT_EQ(x.to_vector<float>(), (F{0, 1, 2, 6, 7, 8, 9, 10}));
  EXPECT_EQ(x.addressable_shards()[3].value().to_vector<float>(), (F{6}));
  EXPECT_EQ(s.released, 1);
  EXPECT_EQ(a->released + b->released + c->released, 3);
  EXPECT_EQ(schema.schemas_released, 1);

  // One chunk with rows is shared.
  Column again("f", "x", 0, {});
  auto empty = chunk(0, 0), full = chunk(0, 16);
  Stream one(&again, {empty.get(), full.get()});
  {
    Array y = from_arrow(&one.stream, {.copy = false});
    EXPECT_EQ(memory_of(y), values);
    EXPECT_EQ(one.released, 1);
    EXPECT_EQ(empty->released, 1);
    EXPECT_EQ(full->released, 0);
  }
  EXPECT_EQ(full->released, 1);

  Column nothing("g", "x", 0, {});
  Stream none(&nothing, {});
  Array z = from_arrow(&none.stream);
  EXPECT_EQ(z.shape(), (Shape{0}));
  EXPECT_EQ(z.dtype(), float64);
}

TEST_F(Arrow, StreamsThatFailSayWhy) {
  Column schema("f", "x", 0, {});
  Column first("f", "x", 4, {nullptr, values});
  Stream s(&schema, {&first});
  s.error = "row group 1 is damaged";
  std::string message = message_of([&] { from_arrow(&s.stream); });
  expect_contains(message, "from_arrow: the stream failed: row group 1 is damaged (code 5, Input/output error)");
  EXPECT_EQ(s.released, 1);
  EXPECT_EQ(first.released, 1);
  EXPECT_EQ(schema.schemas_released, 1);

  Stream early(&schema, {});
  early.schema_fails = true;
  expect_contains(message_of([&] { from_arrow_table(&early.stream); }),
                  "from_arrow_table: the stream failed: it gives no message (code 5");
  EXPECT_EQ(early.released, 1);
  expect_contains(message_of([&] { from_arrow(&early.stream); }), "stream was released");
  expect_contains(message_of([&] { from_arrow(static_cast<ArrowArrayStream*>(nullptr)); }), "stream is null");

  // What is refused of a later chunk releases all.
  Column fine("f", "x", 0, {}), good("f", "x", 4, {nullptr, values}), bad("f", "x", -1, {nullptr, values});
  Stream mixed(&fine, {&good, &bad});
  expect_contains(message_of([&] { from_arrow(&mixed.stream); }), "length -1");
  EXPECT_EQ(mixed.released + good.released + bad.released, 3);
}

TEST_F(Arrow, TablesGiveColumnsByName) {
  const std::int32_t ids[] = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90};
  const unsigned char flags[] = {0b01010101, 0b01};
  const unsigned char text[] = {0};
  Column id("i", "id", 10, {nullptr, ids}), flag("b", "flag", 10, {nullptr, flags}), x("f", "x", 10, {nullptr, values}),
      words("u", "words", 10, {nullptr, text, text});
  Column table("+s", "", 8, {nullptr}, {&id, &flag, &x, &words});
  table.array.offset = 1;  // a slice: holds for every column
  expect_contains(message_of([&] { from_arrow_table(&table.array, &table.schema); }),
                  "column \"words\" has format \"u\" (string)");
  EXPECT_EQ(table.released, 0);
  expect_contains(message_of([&] { from_arrow_table(&table.array, &table.schema, {.columns = {"ix"}}); }), "ix");

  auto columns = from_arrow_table(&table.array, &table.schema, rows, {.columns = {"flag", "id"}});
  EXPECT_EQ(table.released, 1);
  EXPECT_EQ(table.schemas_released, 1);
  EXPECT_EQ(id.released + flag.released + x.released + words.released, 4);
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns["id"].to_vector<std::int32_t>(), (std::vector<std::int32_t>{10, 20, 30, 40, 50, 60, 70, 80}));
  EXPECT_EQ(columns["flag"].addressable_shards()[1].value().to_vector<bool>(), (std::vector<bool>{true}));
}

TEST_F(Arrow, ColumnsOfATableShareMemoryEachForItself) {
  alignas(64) double more[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  Column a("f", "a", 8, {nullptr, values}), b("g", "b", 8, {nullptr, more}), unread("z", "c", 8, {nullptr, more, more});
  Column table("+s", "", 8, {nullptr}, {&a, &b, &unread});
  auto columns = from_arrow_table(&table.array, &table.schema,
                                  {{"a", NamedSharding(mesh, P()).share()}, {"b", NamedSharding(mesh, P()).share()}});
  EXPECT_EQ(table.released, 1);
  EXPECT_EQ(unread.released, 1);
  EXPECT_EQ(memory_of(columns["a"]), values);
  EXPECT_EQ(memory_of(columns["b"]), more);
  EXPECT_EQ(a.released + b.released, 0);
  columns.erase("a");
  EXPECT_EQ(a.released, 1);
  EXPECT_EQ(b.released, 0);
  columns.clear();
  EXPECT_EQ(b.released, 1);
}

TEST_F(Arrow, NothingIsTakenWhereALaterColumnFails) {
  Column a("f", "a", 8, {nullptr, values}), b("f", "b", 8, {nullptr, values});
  Column table("+s", "", 8, {nullptr}, {&a, &b});
  Mesh three = make_mesh({3}, {"x"});
  EXPECT_THROW(from_arrow_table(&table.array, &table.schema,
                                {{"a", NamedSharding(mesh, P()).share()}, {"b", NamedSharding(three, P("x")).share()}}),
               IndivisibleError);
  EXPECT_EQ(a.released + b.released + table.released + table.schemas_released, 0);
  EXPECT_EQ(from_arrow_table(&table.array, &table.schema).size(), 2U) << "the caller still has it";
}

TEST_F(Arrow, RecordBatchesFollowEachOther) {
  const unsigned char all_but_one[] = {0b101};
  Column schema_x("f", "x", 0, {}), schema("+s", "", 0, {}, {&schema_x});
  Column x0("f", "x", 3, {nullptr, values}), batch0("+s", "", 3, {nullptr}, {&x0});
  Column x1("f", "x", 5, {nullptr, values + 3}), batch1("+s", "", 3, {all_but_one}, {&x1});
  batch1.array.null_count = 1;
  {
    Stream s(&schema, {&batch0, &batch1});
    expect_contains(message_of([&] { from_arrow_table(&s.stream); }),
                    "\"x\" has 1 null in rows of its table that are null");
    EXPECT_EQ(s.released + batch0.released + batch1.released + x0.released + x1.released, 5);
  }
  Column schema_y("f", "x", 0, {}), again("+s", "", 0, {}, {&schema_y});
  Column y0("f", "x", 3, {nullptr, values}), next0("+s", "", 3, {nullptr}, {&y0});
  Column y1("f", "x", 5, {nullptr, values + 3}), next1("+s", "", 5, {all_but_one}, {&y1});
  Stream s(&again, {&next0, &next1});
  auto columns = from_arrow_table(&s.stream, rows);
  EXPECT_EQ(columns["x"].to_vector<float>(), (F{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(s.released + next0.released + next1.released + y0.released + y1.released, 5);
}

}  // namespace
}  // namespace tessera
