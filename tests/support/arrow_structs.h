// SPDX-License-Identifier: Apache-2.0
// Structs of the Arrow C data interface made by hand, which count how often they are released.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "support/meshes.h"
#include "tessera/arrow.h"
#include "tessera/tessera.h"

namespace tessera::test {

// An array with its schema that counts how often each is released. Fields are changed by the tests.
struct Column {
  ArrowArray array{};
  ArrowSchema schema{};
  std::vector<const void*> buffers;
  std::vector<ArrowArray*> arrays;
  std::vector<ArrowSchema*> schemas;
  std::string format, name;
  int released = 0, schemas_released = 0;

  Column(std::string given_format, std::string given_name, std::int64_t length, std::vector<const void*> given_buffers,
         std::vector<Column*> children = {})
      : buffers(std::move(given_buffers)), format(std::move(given_format)), name(std::move(given_name)) {
    for (Column* c : children) {
      arrays.push_back(&c->array);
      schemas.push_back(&c->schema);
    }
    array = {length,
             0,
             0,
             static_cast<std::int64_t>(buffers.size()),
             rank_of(),
             buffers.data(),
             arrays.data(),
             nullptr,
             release_array,
             this};
    schema = {format.c_str(), name.c_str(), nullptr, 0, rank_of(), schemas.data(), nullptr, release_schema, this};
  }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  std::int64_t rank_of() const { return static_cast<std::int64_t>(arrays.size()); }

  static void release_array(ArrowArray* self) {
    ++static_cast<Column*>(self->private_data)->released;
    for (std::int64_t i = 0; i < self->n_children; ++i) {
      if (self->children[i]->release != nullptr) self->children[i]->release(self->children[i]);
    }
    self->release = nullptr;
  }
  static void release_schema(ArrowSchema* self) {
    ++static_cast<Column*>(self->private_data)->schemas_released;
    for (std::int64_t i = 0; i < self->n_children; ++i) {
      if (self->children[i]->release != nullptr) self->children[i]->release(self->children[i]);
    }
    self->release = nullptr;
  }
};

// Batches one after the other, then `error` where there is one.
struct Stream {
  ArrowArrayStream stream{};
  std::vector<Column*> batches;
  Column* schema;
  std::size_t next = 0;
  const char* error = nullptr;
  bool schema_fails = false;
  int released = 0;

  Stream(Column* of, std::vector<Column*> given) : batches(std::move(given)), schema(of) {
    stream.get_schema = [](ArrowArrayStream* s, ArrowSchema* out) {
      auto* self = static_cast<Stream*>(s->private_data);
      if (self->schema_fails) return EIO;
      *out = self->schema->schema;
      self->schema->schema.release = nullptr;
      return 0;
    };
    stream.get_next = [](ArrowArrayStream* s, ArrowArray* out) {
      auto* self = static_cast<Stream*>(s->private_data);
      if (self->next < self->batches.size()) {
        *out = self->batches[self->next]->array;
        self->batches[self->next++]->array.release = nullptr;
        return 0;
      }
      if (self->error != nullptr) return EIO;
      out->release = nullptr;
      return 0;
    };
    stream.get_last_error = [](ArrowArrayStream* s) { return static_cast<Stream*>(s->private_data)->error; };
    stream.release = [](ArrowArrayStream* s) {
      ++static_cast<Stream*>(s->private_data)->released;
      s->release = nullptr;
    };
    stream.private_data = this;
  }
};

struct ArrowTest : ::testing::Test {
  ClientScope eight{Client::cpu({.devices = 8})};
  Mesh mesh = make_mesh({8}, {"x"});
  ShardingPtr rows = NamedSharding(mesh, P("x")).share();
  alignas(64) float values[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

// What an error of the library says.
template <class F>
std::string message_of(const F& f) {
  return error_of<Error>(f);
}

inline void expect_contains(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// The address of an array's elements, by a struct of its own.
inline const void* memory_of(const Array& a) {
  ArrowArray array{};
  ArrowSchema schema{};
  to_arrow(a, &array, &schema);
  const ArrowArray* leaf = &array;
  while (leaf->n_children > 0) leaf = leaf->children[0];
  const void* data = leaf->buffers[1];
  array.release(&array);
  schema.release(&schema);
  return data;
}

}  // namespace tessera::test
