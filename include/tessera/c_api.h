// SPDX-License-Identifier: Apache-2.0
// Tessera for other languages: a C99 interface to clients, meshes, shardings, arrays and StableHLO programs. Optional:
// `tessera/tessera.h` leaves it out. Its functions are in the shared library `libtessera.so` and in the static one.
//
// - A function that can fail gives a `tessera_error*`: null where all went well, else an error that the caller frees.
//   What it would have made is then null. No exception crosses the border, and no argument ends the program: what is
//   null, too short or of the wrong size is an error of the kind TESSERA_ERROR_VALUE that names the argument. Only what
//   no function can see is the caller's to keep: handles that were freed, pointers to memory that is not there.
// - Handles are opaque. Whoever gets one through a `**` argument owns it and frees it by the type's own `_free`, which
//   takes null too; objects that refer to each other (an array to its sharding) keep each other alive. Arguments are
//   never taken over, unless a function is documented to.
// - Handles may be used on several threads concurrently, but for the call that frees one.
// - Structs begin with `struct_size`, which the caller sets to the struct's `sizeof`; later versions append fields, and
//   a library takes the defaults (zero) for those that a program does not know.
// - Lists are given out into the caller's memory: `capacity` is the number of elements that fit, `*count` becomes the
//   number there is. Capacity 0 asks for the number alone; another one that is too small is an error.
// - Text is UTF-8 and ends with a null byte.
//
// `(void)` is how C99 declares that a function takes nothing; the lint of C++ would have it away.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Marks what the shared library exports.
#define TESSERA_C_API __attribute__((visibility("default")))
/// Of this header. A library of an equal or later version runs programs that were compiled with it.
#define TESSERA_C_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tessera_error tessera_error;        ///< what went wrong
typedef struct tessera_string tessera_string;      ///< text that the library has made
typedef struct tessera_client tessera_client;      ///< a set of devices
typedef struct tessera_mesh tessera_mesh;          ///< a grid of devices with named axes
typedef struct tessera_sharding tessera_sharding;  ///< how an array is placed on devices
typedef struct tessera_array tessera_array;        ///< an immutable array on devices
typedef struct tessera_program tessera_program;    ///< a StableHLO module that can be run
typedef struct tessera_plan tessera_plan;          ///< the communication of a program
struct DLManagedTensor;                            // <dlpack/dlpack.h>
struct DLManagedTensorVersioned;                   // the same of DLPack 1.0 and later

/// Text of the library's version: "0.1.0". Lives as long as the library.
TESSERA_C_API const char* tessera_version_text(void);  // NOLINT(modernize-redundant-void-arg)
/// The `TESSERA_C_API_VERSION` that the library was built with.
TESSERA_C_API int32_t tessera_c_api_version(void);  // NOLINT(modernize-redundant-void-arg)

// --- errors and text -------------------------------------------------------------------------------

/// The kinds of errors, as the classes of tessera/error.h. A later version may add some.
typedef int32_t tessera_error_kind;
/// The values of `tessera_error_kind`.
enum {
  TESSERA_ERROR_NONE = 0,
  TESSERA_ERROR_VALUE = 1,
  TESSERA_ERROR_INDEX = 2,
  TESSERA_ERROR_INDIVISIBLE = 3,
  TESSERA_ERROR_DUPLICATE_AXIS = 4,
  TESSERA_ERROR_DEVICE_MISMATCH = 5,
  TESSERA_ERROR_FORMAT = 6,
  TESSERA_ERROR_TYPE = 7,
  TESSERA_ERROR_STATE = 8,
  TESSERA_ERROR_DELETED_ARRAY = 9,
  TESSERA_ERROR_NOT_ADDRESSABLE = 10,
  TESSERA_ERROR_RESOURCE_EXHAUSTED = 11,
  TESSERA_ERROR_UNIMPLEMENTED = 12,
  TESSERA_ERROR_VERIFICATION = 13,
  TESSERA_ERROR_INTERNAL = 14
};

/// The kind; TESSERA_ERROR_NONE for null.
TESSERA_C_API tessera_error_kind tessera_error_get_kind(const tessera_error* error);
/// What happened: the function, the argument, its value, what was expected. Lives as long as the error; "" for null.
TESSERA_C_API const char* tessera_error_message(const tessera_error* error);
/// Frees an error.
TESSERA_C_API void tessera_error_free(tessera_error* error);

/// The text; lives as long as the string. "" for null.
TESSERA_C_API const char* tessera_string_data(const tessera_string* string);
/// Bytes of the text, without the null byte at its end; 0 for null.
TESSERA_C_API size_t tessera_string_size(const tessera_string* string);
/// Frees a string.
TESSERA_C_API void tessera_string_free(tessera_string* string);

// --- element types ---------------------------------------------------------------------------------

/// Element types. Two bytes each for float16 and bfloat16; complex values are pairs; a bool is a byte.
typedef int32_t tessera_dtype;
/// The values of `tessera_dtype`.
enum {
  TESSERA_BOOL = 0,
  TESSERA_I8 = 1,
  TESSERA_I16 = 2,
  TESSERA_I32 = 3,
  TESSERA_I64 = 4,
  TESSERA_U8 = 5,
  TESSERA_U16 = 6,
  TESSERA_U32 = 7,
  TESSERA_U64 = 8,
  TESSERA_F16 = 9,
  TESSERA_BF16 = 10,
  TESSERA_F32 = 11,
  TESSERA_F64 = 12,
  TESSERA_C64 = 13,
  TESSERA_C128 = 14
};

/// NumPy's name: "float32"; null where there is no such type. Lives as long as the library.
TESSERA_C_API const char* tessera_dtype_name(tessera_dtype dtype);
/// Bytes of an element; 0 where there is no such type.
TESSERA_C_API size_t tessera_dtype_size(tessera_dtype dtype);

// --- clients and devices ---------------------------------------------------------------------------

/// Virtual CPU devices.
typedef struct tessera_cpu_options {
  size_t struct_size;
  int64_t devices;       ///< how many; 0: 1
  int64_t memory_limit;  ///< bytes that buffers may take; 0: no limit
} tessera_cpu_options;

/// The devices of a PJRT plugin.
typedef struct tessera_pjrt_options {
  size_t struct_size;
  const char* plugin;             ///< path of the shared library, or the name of an installed plugin
  const char* compilation_cache;  ///< folder for compiled programs; null: TESSERA_COMPILATION_CACHE, else none
} tessera_pjrt_options;

/// One device.
typedef struct tessera_device_info {
  size_t struct_size;
  int64_t id;
  int32_t process_index;  ///< of the process that owns it
  int32_t is_local;       ///< 1: this process owns it
} tessera_device_info;

/// Makes virtual CPU devices. `options` null: one device. Errors: VALUE for a negative number.
TESSERA_C_API tessera_error* tessera_client_cpu(const tessera_cpu_options* options, tessera_client** client);
/// Loads a PJRT plugin, for the rest of the process. Errors: VALUE, STATE with the plugin's message where it cannot be
/// loaded or makes no client, UNIMPLEMENTED where the library was built without the engine.
TESSERA_C_API tessera_error* tessera_client_pjrt(const tessera_pjrt_options* options, tessera_client** client);
/// Devices of the engine that TESSERA_ENGINE names; of CPU devices `cpu_devices`, or for 0 as many as
/// TESSERA_CPU_DEVICES sets. Errors: VALUE, and those of making the client.
TESSERA_C_API tessera_error* tessera_client_from_environment(int64_t cpu_devices, tessera_client** client);
/// Frees the handle. The devices themselves live until the process ends.
TESSERA_C_API void tessera_client_free(tessera_client* client);
/// "cpu", or what the plugin calls its devices. The caller frees `platform`.
TESSERA_C_API tessera_error* tessera_client_platform(const tessera_client* client, tessera_string** platform);
/// The ids of the devices of all processes, ascending.
TESSERA_C_API tessera_error* tessera_client_devices(const tessera_client* client, int64_t* ids, size_t capacity,
                                                    size_t* count);
/// Writes what is known of a device. Errors: VALUE with the known ids where there is none of this id.
TESSERA_C_API tessera_error* tessera_client_device_info(const tessera_client* client, int64_t id,
                                                        tessera_device_info* info);

// --- meshes and shardings --------------------------------------------------------------------------

/// Which devices a mesh is over.
typedef struct tessera_mesh_options {
  size_t struct_size;
  const int64_t* device_ids;  ///< in row-major order of the mesh; null: the client's first devices
  size_t device_count;        ///< of `device_ids`
} tessera_mesh_options;

/// What a NamedSharding allows.
typedef struct tessera_sharding_options {
  size_t struct_size;
  int32_t uneven;           ///< 1: extents need not divide; the last shards are shorter, or empty
  const char* unreduced;    ///< axes, as "x" or "x,y", along which devices hold addends; null: none
  const char* memory_kind;  ///< null: the devices' default memory
} tessera_sharding_options;

/// A grid of `rank` axes with these sizes and names. `options` may be null. Errors: VALUE where the sizes are not of as
/// many devices, or a device is listed twice; DUPLICATE_AXIS for a name given twice.
TESSERA_C_API tessera_error* tessera_mesh_create(const tessera_client* client, const int64_t* sizes,
                                                 const char* const* names, size_t rank,
                                                 const tessera_mesh_options* options, tessera_mesh** mesh);
/// Frees a mesh.
TESSERA_C_API void tessera_mesh_free(tessera_mesh* mesh);
/// "Mesh('x': 4, 'y': 2)". The caller frees `text`.
TESSERA_C_API tessera_error* tessera_mesh_text(const tessera_mesh* mesh, tessera_string** text);

/// For each of `rank` dimensions the mesh axes that split it: "x"; "x,y" for two, the slow one first; null or "" for
/// none. Dimensions past `rank` are not split. `options` may be null. Errors: VALUE for an axis that the mesh lacks or
/// that has two uses, DUPLICATE_AXIS for one that splits twice.
TESSERA_C_API tessera_error* tessera_sharding_named(const tessera_mesh* mesh, const char* const* spec, size_t rank,
                                                    const tessera_sharding_options* options,
                                                    tessera_sharding** sharding);
/// Everything on one device. Errors: VALUE where there is none of this id.
TESSERA_C_API tessera_error* tessera_sharding_single_device(const tessera_client* client, int64_t device_id,
                                                            tessera_sharding** sharding);
/// Frees a sharding; arrays under it keep what they need.
TESSERA_C_API void tessera_sharding_free(tessera_sharding* sharding);
/// The shape of a device's shard of an array of shape `shape`; with `uneven` of the largest. Both lists have `rank`
/// elements. Errors: INDIVISIBLE for an extent that does not divide, VALUE for a rank that is too small.
TESSERA_C_API tessera_error* tessera_sharding_shard_shape(const tessera_sharding* sharding, const int64_t* shape,
                                                          size_t rank, int64_t* shard_shape);
/// `*equal` becomes 1 where both place every array alike, for all the library can tell, else 0.
TESSERA_C_API tessera_error* tessera_sharding_equal(const tessera_sharding* a, const tessera_sharding* b,
                                                    int32_t* equal);
/// Kind and parts: "NamedSharding(mesh=…, spec=…)". The caller frees `text`.
TESSERA_C_API tessera_error* tessera_sharding_text(const tessera_sharding* sharding, tessera_string** text);

// --- arrays ----------------------------------------------------------------------------------------

/// Elements in the caller's memory.
typedef struct tessera_host_buffer {
  size_t struct_size;
  tessera_dtype dtype;
  size_t rank;
  const int64_t* shape;    ///< `rank` extents
  const int64_t* strides;  ///< `rank` strides in bytes, none that leads before `data`; null: row-major
  const void* data;
  size_t nbytes;  ///< that can be read from `data`; what shape and strides reach must be within them
} tessera_host_buffer;

/// One shard that this process holds.
typedef struct tessera_shard_info {
  size_t struct_size;
  int64_t device_id;
  int32_t replica_id;  ///< position among the shards of equal index, from 0
  size_t nbytes;
} tessera_shard_info;

/// Writes a shard, whose index into the global array is `start` to `stop` in each of `rank` dimensions: `nbytes` bytes,
/// row-major, at `data`. Gives 0, or another number where it could not.
typedef int32_t (*tessera_fill_shard)(void* context, const int64_t* start, const int64_t* stop, size_t rank, void* data,
                                      size_t nbytes);

/// Copies elements to devices; the memory is the caller's again when this returns. Errors: VALUE for memory that is too
/// short, TYPE for a dtype that there is not, INDIVISIBLE, RESOURCE_EXHAUSTED.
TESSERA_C_API tessera_error* tessera_array_from_host(const tessera_host_buffer* buffer,
                                                     const tessera_sharding* sharding, tessera_array** array);
/// An array whose shards `fill` writes, on the calling thread: once for each device of this process, or once in all
/// where every device holds the whole. `fill` must not throw or jump out of it. Errors: STATE with the number that
/// `fill` gave, and those of `tessera_array_from_host`.
TESSERA_C_API tessera_error* tessera_array_from_callback(tessera_dtype dtype, const int64_t* shape, size_t rank,
                                                         const tessera_sharding* sharding, tessera_fill_shard fill,
                                                         void* context, tessera_array** array);
/// The same value under another sharding; between equal ones nothing is copied. Errors: INDIVISIBLE, DELETED_ARRAY.
TESSERA_C_API tessera_error* tessera_array_put(const tessera_array* array, const tessera_sharding* sharding,
                                               tessera_array** result);
/// Frees the handle, and the memory where no other array shares it and no program is still to read it.
TESSERA_C_API void tessera_array_free(tessera_array* array);
/// Frees the memory immediately, for all handles: later uses are errors of the kind DELETED_ARRAY.
TESSERA_C_API tessera_error* tessera_array_delete(tessera_array* array);
/// `*deleted` becomes 1 where it was deleted or donated, else 0.
TESSERA_C_API tessera_error* tessera_array_is_deleted(const tessera_array* array, int32_t* deleted);

/// The element type; also of a deleted array, as shape and sharding.
TESSERA_C_API tessera_error* tessera_array_dtype(const tessera_array* array, tessera_dtype* dtype);
/// The global extents.
TESSERA_C_API tessera_error* tessera_array_shape(const tessera_array* array, int64_t* shape, size_t capacity,
                                                 size_t* count);
/// Bytes of the global value.
TESSERA_C_API tessera_error* tessera_array_nbytes(const tessera_array* array, size_t* nbytes);
/// The placement. The caller frees `sharding`.
TESSERA_C_API tessera_error* tessera_array_sharding(const tessera_array* array, tessera_sharding** sharding);
/// Shape, dtype and elements, as Python shows them; waits. The caller frees `text`.
TESSERA_C_API tessera_error* tessera_array_text(const tessera_array* array, tessera_string** text);
/// Waits until the computation has ended. Errors: what the computation failed with.
TESSERA_C_API tessera_error* tessera_array_wait(const tessera_array* array);
/// Waits, and writes the global value, row-major: exactly `nbytes` bytes, those of `tessera_array_nbytes`. Errors:
/// VALUE for another size, NOT_ADDRESSABLE where other processes hold a part, STATE for an unreduced array.
TESSERA_C_API tessera_error* tessera_array_to_host(const tessera_array* array, void* data, size_t nbytes);

/// The number of shards that this process holds: one for each of its devices.
TESSERA_C_API tessera_error* tessera_array_shard_count(const tessera_array* array, size_t* count);
/// Device and size of shard `i`, in mesh order. Errors: INDEX.
TESSERA_C_API tessera_error* tessera_array_shard_info(const tessera_array* array, size_t i, tessera_shard_info* info);
/// Where shard `i` is placed in the global array: from `start` to `stop`, one of each for every dimension.
TESSERA_C_API tessera_error* tessera_array_shard_index(const tessera_array* array, size_t i, int64_t* start,
                                                       int64_t* stop, size_t capacity, size_t* count);
/// Shard `i` as an array on its device, which shares the memory. Errors: INDEX, DELETED_ARRAY.
TESSERA_C_API tessera_error* tessera_array_shard(const tessera_array* array, size_t i, tessera_array** shard);

/// A tensor of DLPack as an array. On success the tensor is the library's: its deleter is called once, on any thread,
/// when nothing reads the memory any more; after an error it is still the caller's. Memory is shared where every device
/// holds the whole and the tensor is compact and aligned to 64 bytes, and must not be written to then. Errors: VALUE
/// for memory of an accelerator, TYPE for elements that there are not.
TESSERA_C_API tessera_error* tessera_array_from_dlpack(struct DLManagedTensor* tensor, const tessera_sharding* sharding,
                                                       tessera_array** array);
/// The same for DLPack 1.x.
TESSERA_C_API tessera_error* tessera_array_from_dlpack_versioned(struct DLManagedTensorVersioned* tensor,
                                                                 const tessera_sharding* sharding,
                                                                 tessera_array** array);
/// The value of an array whose devices all hold the whole (of others: of each shard). Waits. The tensor shares the
/// memory, outlives the array, and is freed by its own deleter; with `copy` 1 its memory is its own and may be written
/// to. Errors: VALUE for an array of several shards, DELETED_ARRAY.
TESSERA_C_API tessera_error* tessera_array_to_dlpack(const tessera_array* array, int32_t copy,
                                                     struct DLManagedTensor** tensor);
/// The same for DLPack 1.x.
TESSERA_C_API tessera_error* tessera_array_to_dlpack_versioned(const tessera_array* array, int32_t copy,
                                                               struct DLManagedTensorVersioned** tensor);

// --- programs --------------------------------------------------------------------------------------

/// How a module is read.
typedef struct tessera_program_options {
  size_t struct_size;
  const char* name;    ///< used in messages; null: "module"
  int64_t max_memory;  ///< bytes that one value of the program may need; 0: no bound
  int32_t donate;      ///< 1: arguments that the module marks as donated are deleted when it runs
} tessera_program_options;

/// One collective of a program. The strings live as long as the plan.
typedef struct tessera_plan_step {
  size_t struct_size;
  const char* op;            ///< "all_reduce", "all_gather", …
  const char* axes;          ///< the mesh axes over which data moves: "x,y"
  const char* value;         ///< the type of what moves: "f32[8,4]"
  const char* reason;        ///< why it is needed, in words
  int64_t bytes_per_device;  ///< that the busiest device receives, once
  int64_t times;             ///< how often it runs a call; -1 where unknown
} tessera_plan_step;

/// Reads a StableHLO module of `size` bytes: text, a portable artifact (bytecode), or what `jax.export` writes. It runs
/// on the first devices of the client. `options` may be null. Errors: FORMAT with the line for what is no module,
/// UNIMPLEMENTED for what cannot run here, RESOURCE_EXHAUSTED for what exceeds `max_memory`.
TESSERA_C_API tessera_error* tessera_program_parse(const tessera_client* client, const char* module, size_t size,
                                                   const tessera_program_options* options, tessera_program** program);
/// Reads a module from a file. Errors: VALUE where the file cannot be read, and those of `tessera_program_parse`.
TESSERA_C_API tessera_error* tessera_program_load(const tessera_client* client, const char* path,
                                                  const tessera_program_options* options, tessera_program** program);
/// Frees a program; calls of it that still run end all the same.
TESSERA_C_API void tessera_program_free(tessera_program* program);
/// How many arguments and results @main has, and how many devices. Each of the three pointers may be null.
TESSERA_C_API tessera_error* tessera_program_counts(const tessera_program* program, size_t* inputs, size_t* outputs,
                                                    int64_t* devices);
/// Element type and shape of argument `i`. Errors: INDEX.
TESSERA_C_API tessera_error* tessera_program_input(const tessera_program* program, size_t i, tessera_dtype* dtype,
                                                   int64_t* shape, size_t capacity, size_t* count);
/// Element type and shape of result `i`. Errors: INDEX.
TESSERA_C_API tessera_error* tessera_program_output(const tessera_program* program, size_t i, tessera_dtype* dtype,
                                                    int64_t* shape, size_t capacity, size_t* count);
/// Where the module wants argument `i`. The caller frees `sharding`. Errors: INDEX, DEVICE_MISMATCH where the client
/// has too few devices.
TESSERA_C_API tessera_error* tessera_program_input_sharding(const tessera_program* program, size_t i,
                                                            tessera_sharding** sharding);
/// Runs the program: moves the arguments to where the module wants them, and gives the results, which may not be ready
/// yet (`tessera_array_wait`). `results` has room for `result_count` handles, one for each result; the caller frees
/// them. The first call compiles. Errors: VALUE for a wrong number or shape, TYPE for a wrong dtype, DEVICE_MISMATCH,
/// DELETED_ARRAY.
TESSERA_C_API tessera_error* tessera_program_run(const tessera_program* program, const tessera_array* const* args,
                                                 size_t arg_count, tessera_array** results, size_t result_count);
/// Every collective of the program for arguments under these shardings. The caller frees `plan`.
TESSERA_C_API tessera_error* tessera_program_plan(const tessera_program* program, const tessera_array* const* args,
                                                  size_t arg_count, tessera_plan** plan);
/// The program as StableHLO text: global values with Shardy's shardings. The caller frees `text`.
TESSERA_C_API tessera_error* tessera_program_text(const tessera_program* program, tessera_string** text);
/// What each device runs for these arguments, as StableHLO text with collectives. The caller frees `text`. Errors:
/// UNIMPLEMENTED where the shards of a value differ in shape.
TESSERA_C_API tessera_error* tessera_program_device_text(const tessera_program* program,
                                                         const tessera_array* const* args, size_t arg_count,
                                                         tessera_string** text);

/// Frees a plan.
TESSERA_C_API void tessera_plan_free(tessera_plan* plan);
/// A table with one line for each collective, and the total. The caller frees `text`.
TESSERA_C_API tessera_error* tessera_plan_text(const tessera_plan* plan, tessera_string** text);
/// Bytes that the busiest device receives in one call, all collectives together.
TESSERA_C_API tessera_error* tessera_plan_bytes(const tessera_plan* plan, int64_t* bytes_per_device);
/// The number of collectives.
TESSERA_C_API tessera_error* tessera_plan_step_count(const tessera_plan* plan, size_t* count);
/// Collective `i`, in program order. Errors: INDEX.
TESSERA_C_API tessera_error* tessera_plan_get_step(const tessera_plan* plan, size_t i, tessera_plan_step* step);

// --- logging ---------------------------------------------------------------------------------------

/// How much a line of the log matters, as `tessera::LogLevel`.
typedef int32_t tessera_log_level;
/// The values of `tessera_log_level`.
enum {
  TESSERA_LOG_DEBUG = 0,
  TESSERA_LOG_INFO = 1,
  TESSERA_LOG_WARNING = 2,
  TESSERA_LOG_ERROR = 3,
  TESSERA_LOG_OFF = 4
};

/// Takes one line, on any thread, one call at a time; must not call Tessera, throw, or jump out. `line` lasts as long
/// as the call.
typedef void (*tessera_log_sink)(void* context, tessera_log_level level, const char* line);

/// Gives lines of `from` and above to `sink`, in place of TESSERA_LOG in the environment; null: to nobody. When it
/// returns, the sink before is not running any more. Errors: VALUE for a level that there is not, STATE within a sink.
TESSERA_C_API tessera_error* tessera_set_log_sink(tessera_log_sink sink, void* context, tessera_log_level from);

#ifdef __cplusplus
}
#endif
