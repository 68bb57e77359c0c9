// SPDX-License-Identifier: Apache-2.0
// The C interface in C99: devices, arrays under shardings, their shards, a program with a collective, DLPack. Linked with
// the shared library. Prints what fails; gives 0 where all holds.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tessera/c_api.h"

#include <dlpack/dlpack.h>

static int failures = 0;
static int checks = 0;

static void check(int holds, const char* what, int line) {
  ++checks;
  if (holds) return;
  ++failures;
  fprintf(stderr, "c_api_test.c:%d: not so: %s\n", line, what);
}
static int fine(tessera_error* error, const char* what, int line) {
  const int good = error == NULL;
  ++checks;
  if (!good) {
    ++failures;
    fprintf(stderr, "c_api_test.c:%d: %s: %s\n", line, what, tessera_error_message(error));
    tessera_error_free(error);
  }
  return good;
}
static void fails(tessera_error* error, tessera_error_kind kind, const char* part, const char* what, int line) {
  check(tessera_error_get_kind(error) == kind && strstr(tessera_error_message(error), part) != NULL, what, line);
  if (error != NULL && tessera_error_get_kind(error) != kind) fprintf(stderr, "%s\n", tessera_error_message(error));
  tessera_error_free(error);
}
#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call) fine((call), #call, __LINE__)
#define FAILS(call, kind, part) fails((call), (kind), (part), #call, __LINE__)
#define FREE_TEXT(text)       \
  do {                        \
    tessera_string_free(text); \
    (text) = NULL;            \
  } while (0)

// A product whose sum runs over the mesh axis y.
static const char kProduct[] =
    "module @product attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
    "  sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n"
    "  func.func public @main(\n"
    "      %arg0: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>, jax.buffer_donor = true},\n"
    "      %arg1: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\"}, {}]>})\n"
    "      -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) {\n"
    "    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]\n"
    "        : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>\n"
    "    return %0 : tensor<8x4xf32>\n"
    "  }\n"
    "}\n";

static tessera_host_buffer floats(const float* data, const int64_t* shape, size_t rank, size_t nbytes) {
  tessera_host_buffer buffer;
  memset(&buffer, 0, sizeof buffer);
  buffer.struct_size = sizeof buffer;
  buffer.dtype = TESSERA_F32;
  buffer.rank = rank;
  buffer.shape = shape;
  buffer.data = data;
  buffer.nbytes = nbytes;
  return buffer;
}

static void devices_are_listed(const tessera_client* client) {
  int64_t ids[8];
  size_t count = 0;
  tessera_device_info info;
  tessera_string* platform = NULL;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  OK(tessera_client_devices(client, NULL, 0, &count));
  CHECK(count == 8);
  OK(tessera_client_devices(client, ids, 8, &count));
  OK(tessera_client_device_info(client, ids[7], &info));
  CHECK(info.id == 7 && info.process_index == 0 && info.is_local == 1 && info.struct_size == sizeof info);
  FAILS(tessera_client_device_info(client, 8, &info), TESSERA_ERROR_VALUE, "8");
  OK(tessera_client_platform(client, &platform));
  CHECK(strcmp(tessera_string_data(platform), "cpu") == 0 && tessera_string_size(platform) == 3);
  FREE_TEXT(platform);
}

static void arrays_come_back(const tessera_sharding* split) {
  float values[48];
  float back[48];
  const int64_t shape[2] = {8, 6};
  const int64_t turned[2] = {4, 32};  // a column-major matrix of 8 rows
  int64_t read[2];
  int64_t start[2];
  int64_t stop[2];
  size_t count = 0;
  size_t nbytes = 0;
  tessera_dtype dtype = -1;
  tessera_array* array = NULL;
  tessera_array* shard = NULL;
  tessera_shard_info info;
  tessera_host_buffer buffer = floats(values, shape, 2, sizeof values);
  for (int i = 0; i < 48; ++i) values[i] = (float)i;

  OK(tessera_array_from_host(&buffer, split, &array));
  OK(tessera_array_dtype(array, &dtype));
  OK(tessera_array_shape(array, read, 2, &count));
  OK(tessera_array_nbytes(array, &nbytes));
  CHECK(dtype == TESSERA_F32 && count == 2 && read[0] == 8 && read[1] == 6 && nbytes == sizeof values);
  OK(tessera_array_to_host(array, back, sizeof back));
  CHECK(memcmp(back, values, sizeof values) == 0);

  OK(tessera_array_shard_count(array, &count));
  CHECK(count == 8);
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  OK(tessera_array_shard_info(array, 3, &info));
  CHECK(info.device_id == 3 && info.replica_id == 0 && info.nbytes == 24);
  OK(tessera_array_shard_index(array, 3, start, stop, 2, &count));
  CHECK(count == 2 && start[0] == 2 && stop[0] == 4 && start[1] == 3 && stop[1] == 6);
  OK(tessera_array_shard(array, 3, &shard));
  OK(tessera_array_to_host(shard, back, 24));
  CHECK(back[0] == 15 && back[2] == 17 && back[3] == 21 && back[5] == 23);
  FAILS(tessera_array_shard_info(array, 8, &info), TESSERA_ERROR_INDEX, "8 shards");
  tessera_array_free(shard);
  tessera_array_free(array);

  buffer.strides = turned;
  OK(tessera_array_from_host(&buffer, split, &array));
  OK(tessera_array_to_host(array, back, sizeof back));
  CHECK(back[0] == 0 && back[1] == 8 && back[6] == 1 && back[47] == 47);
  tessera_array_free(array);
}

static int32_t count_up(void* context, const int64_t* start, const int64_t* stop, size_t rank, void* data,
                        size_t nbytes) {
  float* out = data;
  size_t at = 0;
  ++*(int*)context;
  if (rank != 2) return 1;
  for (int64_t i = start[0]; i < stop[0]; ++i) {
    for (int64_t j = start[1]; j < stop[1]; ++j) out[at++] = (float)(i * 6 + j);
  }
  return at * sizeof(float) == nbytes ? 0 : 2;
}
static int32_t refuse(void* context, const int64_t* start, const int64_t* stop, size_t rank, void* data,
                      size_t nbytes) {
  (void)context, (void)start, (void)stop, (void)rank, (void)data, (void)nbytes;
  return 42;
}
static void shards_are_filled(const tessera_sharding* split) {
  const int64_t shape[2] = {8, 6};
  float back[48];
  int calls = 0;
  tessera_array* array = NULL;
  OK(tessera_array_from_callback(TESSERA_F32, shape, 2, split, count_up, &calls, &array));
  OK(tessera_array_to_host(array, back, sizeof back));
  CHECK(calls == 8 && back[0] == 0 && back[13] == 13 && back[47] == 47);
  tessera_array_free(array);
  FAILS(tessera_array_from_callback(TESSERA_F32, shape, 2, split, refuse, NULL, &array), TESSERA_ERROR_STATE, "42");
  CHECK(array == NULL);
}

static void plan_is_told(const tessera_program* program, const tessera_array* const* args) {
  tessera_plan* plan = NULL;
  tessera_plan_step step;
  tessera_string* text = NULL;
  size_t count = 0;
  int64_t bytes = 0;
  memset(&step, 0, sizeof step);
  step.struct_size = sizeof step;
  OK(tessera_program_plan(program, args, 2, &plan));
  OK(tessera_plan_step_count(plan, &count));
  OK(tessera_plan_bytes(plan, &bytes));
  CHECK(count == 1 && bytes > 0);
  OK(tessera_plan_get_step(plan, 0, &step));
  CHECK(strcmp(step.op, "all_reduce") == 0 && strcmp(step.axes, "y") == 0 && step.times == 1);
  CHECK(step.bytes_per_device == bytes && strcmp(step.value, "f32[8,4]") == 0 && strlen(step.reason) > 0);
  FAILS(tessera_plan_get_step(plan, 1, &step), TESSERA_ERROR_INDEX, "1 steps");
  OK(tessera_plan_text(plan, &text));
  CHECK(strstr(tessera_string_data(text), "all_reduce") != NULL);
  FREE_TEXT(text);
  tessera_plan_free(plan);
  OK(tessera_program_text(program, &text));
  CHECK(strstr(tessera_string_data(text), "stablehlo.dot_general") != NULL);
  FREE_TEXT(text);
  OK(tessera_program_device_text(program, args, 2, &text));
  CHECK(strstr(tessera_string_data(text), "stablehlo.all_reduce") != NULL);
  CHECK(strstr(tessera_string_data(text), "tensor<2x3xf32>") != NULL);
  FREE_TEXT(text);
}

static void program_runs(const tessera_client* client) {
  const int64_t left_shape[2] = {8, 6};
  const int64_t right_shape[2] = {6, 4};
  float left[48];
  float right[24];
  float product[32];
  int64_t shape[2];
  size_t inputs = 0;
  size_t outputs = 0;
  size_t count = 0;
  int64_t devices = 0;
  int32_t yes = 0;
  tessera_dtype dtype = -1;
  tessera_program* program = NULL;
  tessera_array* args[2] = {NULL, NULL};
  tessera_array* result = NULL;
  tessera_program_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.name = "product.mlir";
  options.donate = 1;
  for (int i = 0; i < 48; ++i) left[i] = (float)(i % 5);
  for (int i = 0; i < 24; ++i) right[i] = (float)(i % 7);

  if (!OK(tessera_program_parse(client, kProduct, sizeof kProduct - 1, &options, &program))) return;
  OK(tessera_program_counts(program, &inputs, &outputs, &devices));
  CHECK(inputs == 2 && outputs == 1 && devices == 8);
  OK(tessera_program_input(program, 1, &dtype, shape, 2, &count));
  CHECK(dtype == TESSERA_F32 && count == 2 && shape[0] == 6 && shape[1] == 4);
  for (size_t i = 0; i < 2; ++i) {
    tessera_sharding* wanted = NULL;
    const tessera_host_buffer buffer = i == 0 ? floats(left, left_shape, 2, sizeof left)
                                              : floats(right, right_shape, 2, sizeof right);
    OK(tessera_program_input_sharding(program, i, &wanted));
    OK(tessera_array_from_host(&buffer, wanted, &args[i]));
    tessera_sharding_free(wanted);
  }
  plan_is_told(program, (const tessera_array* const*)args);
  OK(tessera_program_run(program, (const tessera_array* const*)args, 2, &result, 1));
  OK(tessera_array_wait(result));
  OK(tessera_array_to_host(result, product, sizeof product));
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 4; ++j) {
      float sum = 0;
      for (int k = 0; k < 6; ++k) sum += left[i * 6 + k] * right[k * 4 + j];
      CHECK(product[i * 4 + j] == sum);
    }
  }
  OK(tessera_array_is_deleted(args[0], &yes));
  CHECK(yes == 1);  // donated
  OK(tessera_array_is_deleted(args[1], &yes));
  CHECK(yes == 0);
  FAILS(tessera_array_to_host(args[0], left, sizeof left), TESSERA_ERROR_DELETED_ARRAY, "donated");
  tessera_array_free(result);
  tessera_array_free(args[0]);
  tessera_array_free(args[1]);
  tessera_program_free(program);
}

static int deleted = 0;
static void count_deletions(DLManagedTensor* tensor) {
  (void)tensor;
  ++deleted;
}
static void tensors_are_shared(const tessera_client* client) {
  char room[128];
  float* memory = (float*)(room + (64 - (uintptr_t)room % 64));
  int64_t shape[1] = {16};
  DLManagedTensor given;
  DLManagedTensor* back = NULL;
  tessera_sharding* whole = NULL;
  tessera_array* array = NULL;
  for (int i = 0; i < 16; ++i) memory[i] = (float)(2 * i);
  memset(&given, 0, sizeof given);
  given.dl_tensor.data = memory;
  given.dl_tensor.device.device_type = kDLCPU;
  given.dl_tensor.ndim = 1;
  given.dl_tensor.dtype.code = kDLFloat;
  given.dl_tensor.dtype.bits = 32;
  given.dl_tensor.dtype.lanes = 1;
  given.dl_tensor.shape = shape;
  given.deleter = count_deletions;
  OK(tessera_sharding_single_device(client, 2, &whole));
  OK(tessera_array_from_dlpack(&given, whole, &array));
  OK(tessera_array_to_dlpack(array, 0, &back));
  tessera_array_free(array);
  CHECK(back != NULL && back->dl_tensor.data == memory && back->dl_tensor.shape[0] == 16);
  CHECK(deleted == 0);
  if (back != NULL) back->deleter(back);
  CHECK(deleted == 1);
  tessera_sharding_free(whole);
}

int main(void) {
  const int64_t sizes[2] = {4, 2};
  const char* const names[2] = {"x", "y"};
  const char* const both[2] = {"x", "y"};
  tessera_cpu_options options;
  tessera_client* client = NULL;
  tessera_mesh* mesh = NULL;
  tessera_sharding* split = NULL;
  tessera_string* text = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.devices = 8;
  CHECK(tessera_c_api_version() == TESSERA_C_API_VERSION);
  CHECK(strlen(tessera_version_text()) >= 5);
  CHECK(tessera_dtype_size(TESSERA_BF16) == 2 && strcmp(tessera_dtype_name(TESSERA_C128), "complex128") == 0);
  if (!OK(tessera_client_cpu(&options, &client)) || !OK(tessera_mesh_create(client, sizes, names, 2, NULL, &mesh)) ||
      !OK(tessera_sharding_named(mesh, both, 2, NULL, &split))) {
    return 1;
  }
  OK(tessera_mesh_text(mesh, &text));
  CHECK(strstr(tessera_string_data(text), "'x': 4") != NULL);
  FREE_TEXT(text);
  devices_are_listed(client);
  arrays_come_back(split);
  shards_are_filled(split);
  program_runs(client);
  tensors_are_shared(client);
  tessera_sharding_free(split);
  tessera_mesh_free(mesh);
  tessera_client_free(client);
  printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
