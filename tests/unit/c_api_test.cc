// SPDX-License-Identifier: Apache-2.0
// The C interface given what it should not get: every call ends with an error that names the argument, and none ends
// the program. What it does with good arguments is in tests/interop/c_api_test.c.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/c_api_fixture.h"

namespace tessera::test {
namespace {

TEST_F(CApi, NullHandlesAreNamed) {
  std::size_t n = 0;
  std::int64_t id = 0;
  std::int32_t yes = 0;
  tessera_dtype dtype = 0;
  tessera_string* text = nullptr;
  tessera_sharding* sharding = nullptr;
  tessera_array* out = nullptr;
  tessera_plan* plan = nullptr;
  tessera_mesh* m = nullptr;
  const char* x[] = {"x"};
  EXPECT_TRUE(names(fault(tessera_client_devices(nullptr, &id, 1, &n)), {"tessera_client_devices", "client is null"}));
  EXPECT_TRUE(names(fault(tessera_client_platform(nullptr, &text)), {"tessera_client_platform", "client is null"}));
  EXPECT_TRUE(names(fault(tessera_mesh_create(nullptr, &id, x, 1, nullptr, &m)), {"tessera_mesh_create", "client"}));
  EXPECT_TRUE(names(fault(tessera_mesh_text(nullptr, &text)), {"tessera_mesh_text", "mesh is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_named(nullptr, x, 1, nullptr, &sharding)), {"mesh is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_single_device(nullptr, 0, &sharding)), {"client is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_shard_shape(nullptr, shape, 1, &id)), {"sharding is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_equal(whole.get(), nullptr, &yes)), {"b is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_text(nullptr, &text)), {"sharding is null"}));
  EXPECT_TRUE(names(fault(tessera_array_from_host(nullptr, whole.get(), &out)), {"buffer is null"}));
  const tessera_host_buffer b = buffer();
  EXPECT_TRUE(names(fault(tessera_array_from_host(&b, nullptr, &out)), {"sharding is null"}));
  EXPECT_TRUE(names(fault(tessera_array_put(nullptr, whole.get(), &out)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_delete(nullptr)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_is_deleted(nullptr, &yes)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_dtype(nullptr, &dtype)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_shape(nullptr, &id, 1, &n)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_nbytes(nullptr, &n)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_sharding(nullptr, &sharding)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_text(nullptr, &text)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_wait(nullptr)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_to_host(nullptr, &id, 8)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_shard_count(nullptr, &n)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_shard(nullptr, 0, &out)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_array_from_dlpack(nullptr, whole.get(), &out)), {"tensor"}));
  EXPECT_TRUE(names(fault(tessera_array_from_dlpack_versioned(nullptr, whole.get(), &out)), {"tensor"}));
  DLManagedTensor* tensor = nullptr;
  EXPECT_TRUE(names(fault(tessera_array_to_dlpack(nullptr, 0, &tensor)), {"array is null"}));
  EXPECT_TRUE(names(fault(tessera_program_counts(nullptr, &n, &n, &id)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_input(nullptr, 0, &dtype, &id, 1, &n)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_output(nullptr, 0, &dtype, &id, 1, &n)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_input_sharding(nullptr, 0, &sharding)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_run(nullptr, nullptr, 0, &out, 1)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_plan(nullptr, nullptr, 0, &plan)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_text(nullptr, &text)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_program_device_text(nullptr, nullptr, 0, &text)), {"program is null"}));
  EXPECT_TRUE(names(fault(tessera_plan_text(nullptr, &text)), {"plan is null"}));
  EXPECT_TRUE(names(fault(tessera_plan_bytes(nullptr, &id)), {"plan is null"}));
  EXPECT_TRUE(names(fault(tessera_plan_step_count(nullptr, &n)), {"plan is null"}));
}

TEST_F(CApi, NullResultsAreNamed) {
  const CArray a = array(whole);
  const CProgram p = program(kDouble);
  EXPECT_TRUE(names(fault(tessera_client_cpu(nullptr, nullptr)), {"tessera_client_cpu", "client is null"}));
  EXPECT_TRUE(names(fault(tessera_client_platform(client.get(), nullptr)), {"platform is null"}));
  EXPECT_TRUE(names(fault(tessera_client_devices(client.get(), nullptr, 0, nullptr)), {"count is null"}));
  EXPECT_TRUE(names(fault(tessera_client_device_info(client.get(), 0, nullptr)), {"info is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_equal(whole.get(), whole.get(), nullptr)), {"equal is null"}));
  EXPECT_TRUE(names(fault(tessera_sharding_shard_shape(whole.get(), shape, 1, nullptr)), {"shard_shape is null"}));
  EXPECT_TRUE(names(fault(tessera_array_dtype(a.get(), nullptr)), {"dtype is null"}));
  EXPECT_TRUE(names(fault(tessera_array_shape(a.get(), nullptr, 1, nullptr)), {"count is null"}));
  EXPECT_TRUE(names(fault(tessera_array_nbytes(a.get(), nullptr)), {"nbytes is null"}));
  EXPECT_TRUE(names(fault(tessera_array_to_host(a.get(), nullptr, 16)), {"data is null"}));
  EXPECT_TRUE(names(fault(tessera_array_shard(a.get(), 0, nullptr)), {"shard is null"}));
  EXPECT_TRUE(names(fault(tessera_array_to_dlpack(a.get(), 0, nullptr)), {"tensor is null"}));
  EXPECT_TRUE(names(fault(tessera_array_text(a.get(), nullptr)), {"text is null"}));
  const tessera_array* args[] = {a.get()};
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), args, 1, nullptr, 1)), {"results is null"}));
  EXPECT_TRUE(names(fault(tessera_program_plan(p.get(), args, 1, nullptr)), {"plan is null"}));
  EXPECT_EQ(tessera_program_counts(p.get(), nullptr, nullptr, nullptr), nullptr);  // may be null
  // What only looks takes null, as what frees does.
  EXPECT_EQ(tessera_error_get_kind(nullptr), TESSERA_ERROR_NONE);
  EXPECT_STREQ(tessera_error_message(nullptr), "");
  EXPECT_STREQ(tessera_string_data(nullptr), "");
  EXPECT_EQ(tessera_string_size(nullptr), 0U);
  tessera_error_free(nullptr);
  tessera_string_free(nullptr);
  tessera_client_free(nullptr);
  tessera_mesh_free(nullptr);
  tessera_sharding_free(nullptr);
  tessera_array_free(nullptr);
  tessera_program_free(nullptr);
  tessera_plan_free(nullptr);
}

TEST_F(CApi, BuffersThatDoNotFitAreRefused) {
  tessera_host_buffer b = buffer();
  b.nbytes = 15;
  EXPECT_TRUE(names(refused(b), {"buffer.nbytes = 15", "(4,)", "expected 16"}));
  b = buffer();
  b.data = nullptr;
  EXPECT_TRUE(names(refused(b), {"buffer.data is null"}));
  b = buffer();
  b.shape = nullptr;
  EXPECT_TRUE(names(refused(b), {"shape is null"}));
  b = buffer();
  b.rank = SIZE_MAX;
  EXPECT_TRUE(names(refused(b), {"shape has", "elements"}));
  for (tessera_dtype wrong : {-1, 15, INT32_MAX, INT32_MIN}) {
    b = buffer();
    b.dtype = wrong;
    EXPECT_TRUE(names(refused(b, TESSERA_ERROR_TYPE), {"dtype = " + std::to_string(wrong)}));
    EXPECT_EQ(tessera_dtype_name(wrong), nullptr);
    EXPECT_EQ(tessera_dtype_size(wrong), 0U);
  }
  const std::int64_t negative[] = {-4};
  b = buffer();
  b.shape = negative;
  EXPECT_TRUE(names(refused(b), {"-4"}));
  const std::int64_t many[] = {INT64_MAX / 2, 1};
  b = buffer();
  b.rank = 2;
  b.shape = many;
  EXPECT_TRUE(names(refused(b), {"64 bits"}));
}

TEST_F(CApi, StridesStayInTheirMemory) {
  tessera_host_buffer b = buffer();
  const std::int64_t far[] = {8};
  b.strides = far;
  EXPECT_TRUE(names(refused(b), {"buffer.nbytes = 16", "strides reach"}));
  const std::int64_t before[] = {-4};
  b.strides = before;
  EXPECT_TRUE(names(refused(b), {"buffer.strides[0] = -4"}));
  const std::int64_t huge[] = {INT64_MAX, INT64_MAX};
  const std::int64_t square[] = {2, 2};
  b.rank = 2;
  b.shape = square;
  b.strides = huge;
  EXPECT_TRUE(names(refused(b), {"strides reach"}));
  const std::int64_t repeated[] = {0, 4};
  b.strides = repeated;
  tessera_array* a = nullptr;
  ASSERT_EQ(tessera_array_from_host(&b, whole.get(), &a), nullptr);
  const CArray kept(a);
  float back[4] = {};
  ASSERT_EQ(tessera_array_to_host(a, back, sizeof back), nullptr);
  EXPECT_EQ(std::vector<float>(back, back + 4), (std::vector<float>{1, 2, 1, 2}));
}

TEST_F(CApi, EmptyAndScalarArraysPass) {
  tessera_host_buffer b = buffer();
  const std::int64_t none[] = {0};
  b.shape = none;
  b.data = nullptr;
  b.nbytes = 0;
  tessera_array* a = nullptr;
  ASSERT_EQ(tessera_array_from_host(&b, whole.get(), &a), nullptr);
  EXPECT_EQ(tessera_array_to_host(a, nullptr, 0), nullptr);
  tessera_array_free(a);
  b = buffer();
  b.rank = 0;
  b.shape = nullptr;
  ASSERT_EQ(tessera_array_from_host(&b, whole.get(), &a), nullptr);
  float v = 0;
  EXPECT_EQ(tessera_array_to_host(a, &v, sizeof v), nullptr);
  EXPECT_EQ(v, 1);
  std::size_t rank = 9;
  std::int64_t* nowhere = nullptr;
  EXPECT_EQ(tessera_array_shard_index(a, 0, nowhere, nowhere, 4, &rank), nullptr);
  EXPECT_EQ(rank, 0U);
  tessera_array_free(a);
}

TEST_F(CApi, BytesOfABoolAreZeroOrOne) {
  const unsigned char odd[] = {0, 1, 2, 255};
  tessera_host_buffer b = buffer();
  b.dtype = TESSERA_BOOL;
  b.data = odd;
  b.nbytes = 4;
  tessera_array* a = nullptr;
  ASSERT_EQ(tessera_array_from_host(&b, whole.get(), &a), nullptr);
  unsigned char back[4] = {};
  EXPECT_EQ(tessera_array_to_host(a, back, 4), nullptr);
  EXPECT_EQ(std::vector<int>(back, back + 4), (std::vector<int>{0, 1, 1, 1}));
  tessera_array_free(a);
}

TEST_F(CApi, StructsTellTheirSize) {
  tessera_client* c = nullptr;
  for (std::size_t size : {std::size_t{0}, sizeof(tessera_cpu_options) - 1, std::size_t{1} << 20}) {
    const tessera_cpu_options options{.struct_size = size, .devices = 2, .memory_limit = 0};
    EXPECT_TRUE(names(fault(tessera_client_cpu(&options, &c)), {"options.struct_size = " + std::to_string(size)}));
  }
  tessera_device_info info{};
  EXPECT_TRUE(names(fault(tessera_client_device_info(client.get(), 0, &info)), {"info.struct_size = 0"}));
  // A struct of a later version: what it has beyond this one must be zero, and is given back so.
  struct {
    tessera_cpu_options known;
    std::int64_t later;
  } longer{{.struct_size = sizeof longer, .devices = 2, .memory_limit = 0}, 0};
  ASSERT_EQ(tessera_client_cpu(&longer.known, &c), nullptr);
  tessera_client_free(c);
  longer.later = 1;
  EXPECT_TRUE(names(fault(tessera_client_cpu(&longer.known, &c)), {"options has fields", "version 1"}));
  struct {
    tessera_device_info known;
    std::int64_t later;
  } filled{{.struct_size = sizeof filled, .id = 0, .process_index = 0, .is_local = 0}, 7};
  ASSERT_EQ(tessera_client_device_info(client.get(), 5, &filled.known), nullptr);
  EXPECT_EQ(filled.known.id, 5);
  EXPECT_EQ(filled.later, 0);
}

TEST_F(CApi, ListsThatAreTooShortAreRefusedAndNotWritten) {
  const CArray a = array(whole);
  std::size_t n = 0;
  std::int64_t ids[7] = {-1};
  EXPECT_TRUE(names(fault(tessera_client_devices(client.get(), ids, 7, &n)), {"capacity = 7", "expected 8"}));
  EXPECT_EQ(n, 8U);
  EXPECT_EQ(ids[0], -1);
  EXPECT_TRUE(names(fault(tessera_array_shape(a.get(), nullptr, 1, &n)), {"shape is null"}));
  std::int64_t start = -1;
  EXPECT_TRUE(names(fault(tessera_array_shard_index(a.get(), 0, &start, nullptr, 1, &n)), {"stop is null"}));
  EXPECT_EQ(start, -1);
  char back[16];
  for (std::size_t size : {std::size_t{0}, std::size_t{15}, std::size_t{17}, SIZE_MAX}) {
    EXPECT_TRUE(
        names(fault(tessera_array_to_host(a.get(), back, size)), {"nbytes = " + std::to_string(size), "expected 16"}));
  }
}

TEST_F(CApi, MeshesAndSpecsThatDoNotFitAreRefused) {
  tessera_mesh* m = nullptr;
  tessera_sharding* s = nullptr;
  const std::int64_t big[] = {3, 3};
  const std::int64_t good[] = {2, 2};
  const std::int64_t negative[] = {-2, 2};
  const char* xy[] = {"x", "y"};
  const char* xx[] = {"x", "x"};
  const char* missing[] = {"x", nullptr};
  EXPECT_TRUE(names(fault(tessera_mesh_create(client.get(), big, xy, 2, nullptr, &m)), {"9", "8"}));
  EXPECT_NE(fault(tessera_mesh_create(client.get(), negative, xy, 2, nullptr, &m)), "");
  EXPECT_TRUE(
      names(fault(tessera_mesh_create(client.get(), good, xx, 2, nullptr, &m), TESSERA_ERROR_DUPLICATE_AXIS), {"x"}));
  EXPECT_TRUE(names(fault(tessera_mesh_create(client.get(), good, missing, 2, nullptr, &m)), {"names[1] is null"}));
  EXPECT_TRUE(names(fault(tessera_mesh_create(client.get(), nullptr, xy, 2, nullptr, &m)), {"sizes is null"}));
  const std::int64_t twice[] = {0, 1, 1, 2};
  tessera_mesh_options options{.struct_size = sizeof options, .device_ids = twice, .device_count = 4};
  EXPECT_NE(fault(tessera_mesh_create(client.get(), good, xy, 2, &options, &m)), "");
  options.device_count = 3;
  EXPECT_NE(fault(tessera_mesh_create(client.get(), good, xy, 2, &options, &m)), "");
  EXPECT_EQ(m, nullptr);

  const char* unknown[] = {"z"};
  EXPECT_TRUE(names(fault(tessera_sharding_named(mesh.get(), unknown, 1, nullptr, &s)), {"z"}));
  EXPECT_TRUE(
      names(fault(tessera_sharding_named(mesh.get(), xx, 2, nullptr, &s), TESSERA_ERROR_DUPLICATE_AXIS), {"x"}));
  const char* empty_part[] = {"x,"};
  EXPECT_NE(fault(tessera_sharding_named(mesh.get(), empty_part, 1, nullptr, &s)), "");
  EXPECT_NE(fault(tessera_sharding_single_device(client.get(), 99, &s)), "");
  std::int64_t out[1];
  const std::int64_t odd[] = {6};
  EXPECT_TRUE(names(fault(tessera_sharding_shard_shape(split.get(), odd, 1, out), TESSERA_ERROR_INDIVISIBLE), {"6"}));
  const std::int64_t below[] = {-8};
  EXPECT_NE(fault(tessera_sharding_shard_shape(split.get(), below, 1, out)), "");
}

TEST_F(CApi, SpecsOfSeveralAxesAndOptionsHold) {
  std::int64_t out[2] = {};
  const std::int64_t global[] = {16, 3};
  const CSharding both = named({"x,y", nullptr});
  ASSERT_EQ(tessera_sharding_shard_shape(both.get(), global, 2, out), nullptr);
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[1], 3);
  std::int32_t equal = -1;
  ASSERT_EQ(tessera_sharding_equal(both.get(), named({"x,y", ""}).get(), &equal), nullptr);
  EXPECT_EQ(equal, 1);
  ASSERT_EQ(tessera_sharding_equal(both.get(), split.get(), &equal), nullptr);
  EXPECT_EQ(equal, 0);
  const char* spec[] = {"y"};
  tessera_sharding_options options{
      .struct_size = sizeof options, .uneven = 1, .unreduced = "x", .memory_kind = nullptr};
  tessera_sharding* s = nullptr;
  ASSERT_EQ(tessera_sharding_named(mesh.get(), spec, 1, &options, &s), nullptr);
  const CSharding kept(s);
  const std::int64_t odd[] = {5};
  ASSERT_EQ(tessera_sharding_shard_shape(s, odd, 1, out), nullptr);
  EXPECT_EQ(out[0], 3);
  tessera_string* text = nullptr;
  ASSERT_EQ(tessera_sharding_text(s, &text), nullptr);
  EXPECT_NE(std::string(tessera_string_data(text)).find("unreduced={'x'}"), std::string::npos)
      << tessera_string_data(text);
  tessera_string_free(text);
}

}  // namespace
}  // namespace tessera::test
