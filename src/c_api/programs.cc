// SPDX-License-Identifier: Apache-2.0
// StableHLO programs and their plans.
#include <memory>

#include "c_api/handles.h"

namespace tessera::c_api {

namespace {

struct ReadAs {
  std::string name;
  StablehloOptions options;
};
ReadAs read_as(const char* function, const tessera_program_options* options) {
  const tessera_program_options o = read_options(function, options);
  if (o.max_memory < 0) {
    throw ValueError(str(function, ": options.max_memory = ", o.max_memory, "; expected 0 or more"));
  }
  return {o.name == nullptr ? "module" : o.name, {.max_memory = o.max_memory, .donate = o.donate != 0}};
}

std::vector<Array> arrays_of(const char* function, const tessera_array* const* args, std::size_t count) {
  std::vector<Array> out;
  const auto given = list(function, "args", args, count, kMostArrays);
  for (std::size_t i = 0; i < count; ++i) out.push_back(need(function, str("args[", i, "]").c_str(), given[i]).array);
  return out;
}

tessera_error* give_port(const char* function, const std::vector<StablehloProgram::Port>& ports, std::size_t i,
                         tessera_dtype* dtype, std::int64_t* shape, std::size_t capacity, std::size_t* count) {
  return guarded([&] {
    if (i >= ports.size()) throw IndexError(str(function, ": i = ", i, "; @main has ", ports.size()));
    need(function, "dtype", dtype) = static_cast<tessera_dtype>(ports[i].dtype);
    give_list(function, "shape", ports[i].shape, shape, capacity, count);
  });
}

}  // namespace

}  // namespace tessera::c_api

using namespace tessera;         // NOLINT(google-build-using-namespace): the functions of the border are global
using namespace tessera::c_api;  // NOLINT(google-build-using-namespace)

tessera_error* tessera_program_parse(const tessera_client* client, const char* module, size_t size,
                                     const tessera_program_options* options, tessera_program** program) {
  return make(__func__, "program", program, [&] {
    const char* function = "tessera_program_parse";
    const Client& on = need(function, "client", client).client;
    const auto [name, to] = read_as(function, options);
    const std::string text(&need(function, "module", module), size);
    return tessera_program{StablehloProgram::parse(text, name, to), on};
  });
}
tessera_error* tessera_program_load(const tessera_client* client, const char* path,
                                    const tessera_program_options* options, tessera_program** program) {
  return make(__func__, "program", program, [&] {
    const char* function = "tessera_program_load";
    const Client& on = need(function, "client", client).client;
    const StablehloOptions to = read_as(function, options).options;
    return tessera_program{StablehloProgram::load(text_of(function, "path", path), to), on};
  });
}
void tessera_program_free(tessera_program* program) { delete program; }

tessera_error* tessera_program_counts(const tessera_program* program, size_t* inputs, size_t* outputs,
                                      int64_t* devices) {
  return guarded([&] {
    const StablehloProgram& p = need("tessera_program_counts", "program", program).program;
    if (inputs != nullptr) *inputs = p.inputs().size();
    if (outputs != nullptr) *outputs = p.outputs().size();
    if (devices != nullptr) *devices = p.num_devices();
  });
}
tessera_error* tessera_program_input(const tessera_program* program, size_t i, tessera_dtype* dtype, int64_t* shape,
                                     size_t capacity, size_t* count) {
  if (program == nullptr) return guarded([&] { need("tessera_program_input", "program", program); });
  return give_port("tessera_program_input", program->program.inputs(), i, dtype, shape, capacity, count);
}
tessera_error* tessera_program_output(const tessera_program* program, size_t i, tessera_dtype* dtype, int64_t* shape,
                                      size_t capacity, size_t* count) {
  if (program == nullptr) return guarded([&] { need("tessera_program_output", "program", program); });
  return give_port("tessera_program_output", program->program.outputs(), i, dtype, shape, capacity, count);
}
tessera_error* tessera_program_input_sharding(const tessera_program* program, size_t i, tessera_sharding** sharding) {
  return make(__func__, "sharding", sharding, [&] {
    const tessera_program& p = need("tessera_program_input_sharding", "program", program);
    const ClientScope scope(p.client);
    return p.program.input_sharding(i);
  });
}

tessera_error* tessera_program_run(const tessera_program* program, const tessera_array* const* args, size_t arg_count,
                                   tessera_array** results, size_t result_count) {
  return guarded([&] {
    const char* function = "tessera_program_run";
    const tessera_program& p = need(function, "program", program);
    const std::size_t made = p.program.outputs().size();
    if (result_count != made) {
      throw ValueError(str(function, ": result_count = ", result_count, "; @main has ", made, " results"));
    }
    if (made > 0) need(function, "results", results);
    std::fill_n(results, made, nullptr);
    const std::vector<Array> in = arrays_of(function, args, arg_count);
    const ClientScope scope(p.client);
    std::vector<std::unique_ptr<tessera_array>> out;
    for (Array& a : p.program(in)) out.push_back(std::make_unique<tessera_array>(tessera_array{std::move(a)}));
    for (std::size_t i = 0; i < made; ++i) results[i] = out[i].release();
  });
}
tessera_error* tessera_program_plan(const tessera_program* program, const tessera_array* const* args, size_t arg_count,
                                    tessera_plan** plan) {
  return make(__func__, "plan", plan, [&] {
    const char* function = "tessera_program_plan";
    const tessera_program& p = need(function, "program", program);
    const std::vector<Array> in = arrays_of(function, args, arg_count);
    const ClientScope scope(p.client);
    tessera_plan out{p.program.comm_plan(in), {}};
    for (const CommStep& step : out.plan.steps()) out.axes.push_back(join(step.axes, ","));
    return out;
  });
}
tessera_error* tessera_program_text(const tessera_program* program, tessera_string** text) {
  return make_text(__func__, text, [&] { return need("tessera_program_text", "program", program).program.as_text(); });
}
tessera_error* tessera_program_device_text(const tessera_program* program, const tessera_array* const* args,
                                           size_t arg_count, tessera_string** text) {
  return make_text(__func__, text, [&] {
    const char* function = "tessera_program_device_text";
    const tessera_program& p = need(function, "program", program);
    const std::vector<Array> in = arrays_of(function, args, arg_count);
    const ClientScope scope(p.client);
    return p.program.device_text(in);
  });
}

void tessera_plan_free(tessera_plan* plan) { delete plan; }
tessera_error* tessera_plan_text(const tessera_plan* plan, tessera_string** text) {
  return make_text(__func__, text, [&] { return to_string(need("tessera_plan_text", "plan", plan).plan); });
}
tessera_error* tessera_plan_bytes(const tessera_plan* plan, int64_t* bytes_per_device) {
  return guarded([&] {
    const char* function = "tessera_plan_bytes";
    need(function, "bytes_per_device", bytes_per_device) = need(function, "plan", plan).plan.bytes_per_device();
  });
}
tessera_error* tessera_plan_step_count(const tessera_plan* plan, size_t* count) {
  return guarded([&] {
    const char* function = "tessera_plan_step_count";
    need(function, "count", count) = need(function, "plan", plan).plan.steps().size();
  });
}
tessera_error* tessera_plan_get_step(const tessera_plan* plan, size_t i, tessera_plan_step* step) {
  return guarded([&] {
    const char* function = "tessera_plan_get_step";
    const tessera_plan& p = need(function, "plan", plan);
    const auto& steps = p.plan.steps();
    if (i >= steps.size()) throw IndexError(str(function, ": i = ", i, "; the plan has ", steps.size(), " steps"));
    write_struct(function, "step", step,
                 {.struct_size = 0,
                  .op = steps[i].op.c_str(),
                  .axes = p.axes[i].c_str(),
                  .value = steps[i].value.c_str(),
                  .reason = steps[i].reason.c_str(),
                  .bytes_per_device = steps[i].bytes_per_device,
                  .times = steps[i].times});
  });
}
