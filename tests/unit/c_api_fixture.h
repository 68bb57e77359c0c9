// SPDX-License-Identifier: Apache-2.0
// Eight devices, a mesh and arrays for tests of the C interface.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/c_api.h"

namespace tessera::test {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
using CClient = std::unique_ptr<tessera_client, Freed<tessera_client_free>>;
using CMesh = std::unique_ptr<tessera_mesh, Freed<tessera_mesh_free>>;
using CSharding = std::unique_ptr<tessera_sharding, Freed<tessera_sharding_free>>;
using CArray = std::unique_ptr<tessera_array, Freed<tessera_array_free>>;
using CProgram = std::unique_ptr<tessera_program, Freed<tessera_program_free>>;
using CText = std::unique_ptr<tessera_string, Freed<tessera_string_free>>;

inline constexpr const char* kDouble = R"(module @double {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// "" where there is no error.
inline std::string fault(tessera_error* error, tessera_error_kind kind = TESSERA_ERROR_VALUE) {
  std::string out = tessera_error_message(error);
  if (tessera_error_get_kind(error) != kind) out += " [of kind " + std::to_string(tessera_error_get_kind(error)) + "]";
  tessera_error_free(error);
  return out;
}
inline testing::AssertionResult names(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    if (message.find(part) == std::string::npos)
      return testing::AssertionFailure() << "no \"" << part << "\": " << message;
  }
  if (message.find("[of kind") != std::string::npos) return testing::AssertionFailure() << message;
  return testing::AssertionSuccess();
}

class CApi : public ::testing::Test {
 protected:
  CApi() {
    const tessera_cpu_options options{.struct_size = sizeof options, .devices = 8, .memory_limit = 0};
    tessera_client* c = nullptr;
    EXPECT_EQ(tessera_client_cpu(&options, &c), nullptr);
    client.reset(c);
    const std::int64_t sizes[] = {4, 2};
    const char* axes[] = {"x", "y"};
    tessera_mesh* m = nullptr;
    EXPECT_EQ(tessera_mesh_create(c, sizes, axes, 2, nullptr, &m), nullptr);
    mesh.reset(m);
    split = named({"x"});
    whole = named({});
  }
  CSharding named(const std::vector<const char*>& spec) const {
    tessera_sharding* s = nullptr;
    EXPECT_EQ(tessera_sharding_named(mesh.get(), spec.data(), spec.size(), nullptr, &s), nullptr);
    return CSharding(s);
  }
  tessera_host_buffer buffer() const {
    return {.struct_size = sizeof(tessera_host_buffer),
            .dtype = TESSERA_F32,
            .rank = 1,
            .shape = shape,
            .strides = nullptr,
            .data = values,
            .nbytes = sizeof values};
  }
  CArray array(const CSharding& under) const {
    const tessera_host_buffer b = buffer();
    tessera_array* a = nullptr;
    EXPECT_EQ(fault(tessera_array_from_host(&b, under.get(), &a), TESSERA_ERROR_NONE), "");
    return CArray(a);
  }
  std::string refused(const tessera_host_buffer& b, tessera_error_kind kind = TESSERA_ERROR_VALUE) const {
    tessera_array* a = reinterpret_cast<tessera_array*>(8);  // whatever was there
    std::string message = fault(tessera_array_from_host(&b, whole.get(), &a), kind);
    EXPECT_EQ(a, nullptr);
    return message;
  }
  CProgram program(const std::string& text) const {
    tessera_program* p = nullptr;
    EXPECT_EQ(fault(tessera_program_parse(client.get(), text.data(), text.size(), nullptr, &p), TESSERA_ERROR_NONE),
              "");
    return CProgram(p);
  }

  CClient client;
  CMesh mesh;
  CSharding split, whole;
  const float values[4] = {1, 2, 3, 4};
  const std::int64_t shape[1] = {4};
};

}  // namespace tessera::test
