// SPDX-License-Identifier: Apache-2.0
// Handlers that other libraries have written against XLA's FFI, called as XLA:CPU calls them.
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>

#include "core/strided_copy.h"
#include "hlo/host/foreign_functions.h"
#include "objects.h"
#include "python_api.h"
#include "xla/ffi/api/c_api.h"

struct XLA_FFI_Error {
  std::string message;
  XLA_FFI_Error_Code code;
};

// Completed by the handler, from any thread.
struct XLA_FFI_Future {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::unique_ptr<XLA_FFI_Error> error;

  void complete(std::unique_ptr<XLA_FFI_Error> with) {
    std::lock_guard lock(mutex);
    done = true;
    error = std::move(with);
    changed.notify_all();
  }
};

namespace tessera::pjrt {

namespace {

using hlo::ForeignAttribute;
using hlo::ForeignCall;

template <class Args, class Last>
bool has(const Args& args, const Last& field) {
  const auto* begin = reinterpret_cast<const char*>(&args);
  return reinterpret_cast<const char*>(&field) + sizeof field <= begin + args.struct_size;
}

XLA_FFI_Error* refuse(const char* what) {
  return new XLA_FFI_Error{str("Tessera has no ", what, " for handlers of XLA's FFI"),
                           XLA_FFI_Error_Code_UNIMPLEMENTED};
}

XLA_FFI_Error* register_type(XLA_FFI_Type_Register_Args* args) {
  static std::atomic<std::int64_t> next = 1;
  if (args->type_id->type_id == 0) args->type_id->type_id = next++;
  return nullptr;
}
XLA_FFI_Error* allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  const std::size_t alignment = std::max<std::size_t>(args->alignment, alignof(std::max_align_t));
  args->data = std::aligned_alloc(alignment, (args->size + alignment) / alignment * alignment);
  if (args->data != nullptr) return nullptr;
  return new XLA_FFI_Error{str("no memory for ", args->size, " bytes"), XLA_FFI_Error_Code_RESOURCE_EXHAUSTED};
}
XLA_FFI_Error* run_id(XLA_FFI_RunId_Get_Args* args) {
  static std::atomic<std::int64_t> next = 1;
  args->run_id = next++;
  return nullptr;
}

const XLA_FFI_Api kFfi = {
    .struct_size = XLA_FFI_Api_STRUCT_SIZE,
    .extension_start = nullptr,
    .api_version = {.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE,
                    .extension_start = nullptr,
                    .major_version = XLA_FFI_API_MAJOR,
                    .minor_version = XLA_FFI_API_MINOR},
    .internal_api = nullptr,
    .XLA_FFI_Error_Create =
        [](XLA_FFI_Error_Create_Args* a) {
          return new XLA_FFI_Error{a->message, a->errc};
        },
    .XLA_FFI_Error_GetDetails =
        [](XLA_FFI_Error_GetDetails_Args* a) {
          a->message = a->error->message.c_str();
          if (has(*a, a->errc)) a->errc = a->error->code;
        },
    .XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* a) { delete a->error; },
    .XLA_FFI_Handler_Register = [](XLA_FFI_Handler_Register_Args*) { return refuse("registry"); },
    .XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args*) { return refuse("stream"); },
    .XLA_FFI_Type_Register = register_type,
    .XLA_FFI_InvokeContext_Get = [](XLA_FFI_InvokeContext_Get_Args*) { return refuse("user data"); },
    .XLA_FFI_State_Set = [](XLA_FFI_State_Set_Args*) { return refuse("state"); },
    .XLA_FFI_State_Get = [](XLA_FFI_State_Get_Args*) { return refuse("state"); },
    .XLA_FFI_DeviceMemory_Allocate = allocate,
    .XLA_FFI_DeviceMemory_Free =
        [](XLA_FFI_DeviceMemory_Free_Args* a) {
          std::free(a->data);
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
    .XLA_FFI_ThreadPool_Schedule =
        [](XLA_FFI_ThreadPool_Schedule_Args* a) {  // a pool of the calling thread alone
          a->task(a->data);
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
    .XLA_FFI_ThreadPool_NumThreads =
        [](XLA_FFI_ThreadPool_NumThreads_Args* a) {
          *a->num_threads = 1;
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
    .XLA_FFI_Future_Create =
        [](XLA_FFI_Future_Create_Args* a) {
          a->future = new XLA_FFI_Future;
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
    .XLA_FFI_Future_SetAvailable =
        [](XLA_FFI_Future_SetAvailable_Args* a) {
          a->future->complete(nullptr);
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
    .XLA_FFI_Future_SetError =
        [](XLA_FFI_Future_SetError_Args* a) {
          a->future->complete(std::unique_ptr<XLA_FFI_Error>(a->error));
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
    .XLA_FFI_RunId_Get = run_id,
    .XLA_FFI_DeviceOrdinal_Get = [](XLA_FFI_DeviceOrdinal_Get_Args*) { return refuse("device ordinal"); },
    .XLA_FFI_InvokeContext_FindExtension =
        [](XLA_FFI_InvokeContext_FindExtension_Args* a) {
          a->extension = nullptr;
          return static_cast<XLA_FFI_Error*>(nullptr);
        },
};

XLA_FFI_DataType type_of(DType t) {
  switch (t) {
    case DType::Bool:
      return XLA_FFI_DataType_PRED;
    case DType::I8:
      return XLA_FFI_DataType_S8;
    case DType::I16:
      return XLA_FFI_DataType_S16;
    case DType::I32:
      return XLA_FFI_DataType_S32;
    case DType::I64:
      return XLA_FFI_DataType_S64;
    case DType::U8:
      return XLA_FFI_DataType_U8;
    case DType::U16:
      return XLA_FFI_DataType_U16;
    case DType::U32:
      return XLA_FFI_DataType_U32;
    case DType::U64:
      return XLA_FFI_DataType_U64;
    case DType::F16:
      return XLA_FFI_DataType_F16;
    case DType::BF16:
      return XLA_FFI_DataType_BF16;
    case DType::F32:
      return XLA_FFI_DataType_F32;
    case DType::F64:
      return XLA_FFI_DataType_F64;
    case DType::C64:
      return XLA_FFI_DataType_C64;
    case DType::C128:
      return XLA_FFI_DataType_C128;
  }
  return XLA_FFI_DataType_INVALID;
}

// A dictionary in the form of the C API, by name. Lives as long as the attributes that it is of.
class Attributes {
 public:
  explicit Attributes(std::vector<ForeignAttribute> list) : list_(std::move(list)) {
    std::ranges::sort(list_, {}, &ForeignAttribute::name);
    for (auto& a : list_) add(a);
    for (auto& n : names_) name_pointers_.push_back(&n);
    attrs = {.struct_size = XLA_FFI_Attrs_STRUCT_SIZE,
             .extension_start = nullptr,
             .size = static_cast<std::int64_t>(list_.size()),
             .types = types_.data(),
             .names = name_pointers_.data(),
             .attrs = values_.data()};
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  XLA_FFI_Attrs attrs{};

 private:
  void add(ForeignAttribute& a) {
    names_.push_back({a.name.data(), a.name.size()});
    switch (a.kind) {
      case ForeignAttribute::Kind::Scalar:
        types_.push_back(XLA_FFI_AttrType_SCALAR);
        values_.push_back(&scalars_.emplace_back(XLA_FFI_Scalar{type_of(a.elements.dtype()), a.elements.data()}));
        break;
      case ForeignAttribute::Kind::Array:
        types_.push_back(XLA_FFI_AttrType_ARRAY);
        values_.push_back(&arrays_.emplace_back(XLA_FFI_Array{
            type_of(a.elements.dtype()), static_cast<std::size_t>(a.elements.size()), a.elements.data()}));
        break;
      case ForeignAttribute::Kind::String:
        types_.push_back(XLA_FFI_AttrType_STRING);
        values_.push_back(&strings_.emplace_back(XLA_FFI_ByteSpan{a.text.data(), a.text.size()}));
        break;
      case ForeignAttribute::Kind::Dictionary:
        types_.push_back(XLA_FFI_AttrType_DICTIONARY);
        values_.push_back(&dictionaries_.emplace_back(std::move(a.fields)).attrs);
        break;
    }
  }

  std::vector<ForeignAttribute> list_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<XLA_FFI_ByteSpan> names_;
  std::vector<XLA_FFI_ByteSpan*> name_pointers_;
  std::vector<void*> values_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_ByteSpan> strings_;
  std::deque<Attributes> dictionaries_;
};

// The elements in another order of dimensions, from minor to major; or from that order back to row-major.
HostArray reordered(const HostArray& a, const Dims& minor_to_major, bool back) {
  HostArray out(a.dtype(), a.shape());
  const std::int64_t item = dtype_size(a.dtype());
  const Dims plain = core::contiguous_strides(a.shape(), item);
  Dims strides(a.shape().size());
  std::int64_t next = item;
  for (auto d : minor_to_major) {
    strides[static_cast<std::size_t>(d)] = next;
    next *= a.shape()[static_cast<std::size_t>(d)];
  }
  if (a.size() == 0) return out;
  core::copy_strided(out.data(), back ? plain : strides, a.data(), back ? strides : plain, a.shape(), item);
  return out;
}

XLA_FFI_Buffer buffer_of(HostArray& a, Shape& dims) {
  return {.struct_size = XLA_FFI_Buffer_STRUCT_SIZE,
          .extension_start = nullptr,
          .dtype = type_of(a.dtype()),
          .data = a.data(),
          .rank = static_cast<std::int64_t>(dims.size()),
          .dims = dims.data()};
}

void check(const std::string& target, std::unique_ptr<XLA_FFI_Error> error) {
  if (error) throw StateError(str("the FFI target ", target, ": ", error->message));
}

class Target {
 public:
  Target(ForeignCall call, XLA_FFI_Handler* execute)
      : call_(std::move(call)), execute_(execute), attributes_(call_.attributes) {
    check_version();
  }

  std::vector<HostArray> operator()(const std::vector<HostArray>& given) const {
    std::vector<HostArray> in, out;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Dims& order = call_.in_layouts[i];
      in.push_back(order.empty() ? given[i] : reordered(given[i], order, false));
    }
    for (const auto& t : call_.results) {
      HostArray& a = out.emplace_back(t.dtype, t.shape);
      if (a.nbytes() > 0) std::memset(a.data(), 0, static_cast<std::size_t>(a.nbytes()));
    }
    for (auto [result, operand] : call_.aliases) {
      if (in[operand].nbytes() != out[result].nbytes()) {
        throw ValueError(str("the FFI target ", call_.target, ": result ", result, " shares the memory of operand ",
                             operand, ", which has ", in[operand].nbytes(), " bytes; expected ", out[result].nbytes()));
      }
      if (out[result].nbytes() > 0) {
        std::memcpy(out[result].data(), in[operand].data(), static_cast<std::size_t>(out[result].nbytes()));
      }
    }
    run(in, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!call_.out_layouts[i].empty()) out[i] = reordered(out[i], call_.out_layouts[i], true);
    }
    return out;
  }

 private:
  XLA_FFI_CallFrame frame() const {
    XLA_FFI_CallFrame f{};
    f.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    f.api = &kFfi;
    f.stage = XLA_FFI_ExecutionStage_EXECUTE;
    f.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
    f.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
    f.attrs = attributes_.attrs;
    return f;
  }

  // Asked for its version, a handler does nothing else.
  void check_version() const {
    XLA_FFI_Metadata metadata{};
    metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
    metadata.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    XLA_FFI_Metadata_Extension extension{};
    extension.extension_base = {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr};
    extension.metadata = &metadata;
    XLA_FFI_CallFrame f = frame();
    f.extension_start = &extension.extension_base;
    check(call_.target, std::unique_ptr<XLA_FFI_Error>(execute_(&f)));
    if (metadata.api_version.major_version != XLA_FFI_API_MAJOR) {
      throw UnimplementedError(str("the FFI target ", call_.target, " was built for version ",
                                   metadata.api_version.major_version, ".", metadata.api_version.minor_version,
                                   " of XLA's FFI; expected ", XLA_FFI_API_MAJOR, ".*"));
    }
  }

  void run(std::vector<HostArray>& in, std::vector<HostArray>& out) const {
    std::vector<XLA_FFI_Buffer> buffers;
    std::vector<Shape> dims;
    buffers.reserve(in.size() + out.size());
    dims.reserve(in.size() + out.size());
    std::vector<void*> args, rets;
    for (auto& a : in) args.push_back(&buffers.emplace_back(buffer_of(a, dims.emplace_back(a.shape()))));
    for (auto& a : out) rets.push_back(&buffers.emplace_back(buffer_of(a, dims.emplace_back(a.shape()))));
    for (auto [result, operand] : call_.aliases) buffers[operand].data = out[result].data();
    std::vector<XLA_FFI_ArgType> arg_types(in.size(), XLA_FFI_ArgType_BUFFER);
    std::vector<XLA_FFI_RetType> ret_types(out.size(), XLA_FFI_RetType_BUFFER);
    XLA_FFI_CallFrame f = frame();
    f.args.size = static_cast<std::int64_t>(in.size());
    f.args.types = arg_types.data();
    f.args.args = args.data();
    f.rets.size = static_cast<std::int64_t>(out.size());
    f.rets.types = ret_types.data();
    f.rets.rets = rets.data();
    check(call_.target, std::unique_ptr<XLA_FFI_Error>(execute_(&f)));
    if (f.future == nullptr) return;
    std::unique_ptr<XLA_FFI_Future> future(f.future);
    std::unique_lock lock(future->mutex);
    future->changed.wait(lock, [&] { return future->done; });
    check(call_.target, std::move(future->error));
  }

  ForeignCall call_;
  XLA_FFI_Handler* execute_;
  Attributes attributes_;
};

ops::HostFunction function_of(TesseraFfiTargets find, const ForeignCall& call) {
  TesseraFfiTarget target{};
  if (find(call.target.c_str(), &target) == 0) return nullptr;
  if (target.execute == nullptr || target.instantiate != nullptr || target.prepare != nullptr ||
      target.initialize != nullptr) {
    throw UnimplementedError(str("the FFI target ", call.target,
                                 " has stages before its execution; expected a handler that keeps no state"));
  }
  auto execute = reinterpret_cast<XLA_FFI_Handler*>(target.execute);
  return [of = std::make_shared<const Target>(call, execute)](const std::vector<HostArray>& in) { return (*of)(in); };
}
}  // namespace

}  // namespace tessera::pjrt

void tessera_set_ffi_targets(TesseraFfiTargets find) {
  if (find == nullptr) return tessera::hlo::set_foreign_functions(nullptr);
  tessera::hlo::set_foreign_functions(
      [find](const tessera::hlo::ForeignCall& call) { return tessera::pjrt::function_of(find, call); });
}
