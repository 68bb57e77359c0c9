// SPDX-License-Identifier: Apache-2.0
// The functions behind the entries of the API; they may throw.
#pragma once

#include "guard.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"
#include "xla/pjrt/c/pjrt_c_api_shardings_extension.h"

namespace xla_cpu {

// events.cc
void error_destroy(PJRT_Error_Destroy_Args* args);
void error_message(PJRT_Error_Message_Args* args);
void error_get_code(PJRT_Error_GetCode_Args& args);
void error_for_each_payload(PJRT_Error_ForEachPayload_Args& args);
void event_destroy(PJRT_Event_Destroy_Args& args);
void event_is_ready(PJRT_Event_IsReady_Args& args);
void event_error(PJRT_Event_Error_Args& args);
void event_await(PJRT_Event_Await_Args& args);
void event_on_ready(PJRT_Event_OnReady_Args& args);
void event_create(PJRT_Event_Create_Args& args);
void event_set(PJRT_Event_Set_Args& args);

// clients.cc
void plugin_initialize(PJRT_Plugin_Initialize_Args& args);
void plugin_attributes(PJRT_Plugin_Attributes_Args& args);
void client_create(PJRT_Client_Create_Args& args);
void client_destroy(PJRT_Client_Destroy_Args& args);
void client_platform_name(PJRT_Client_PlatformName_Args& args);
void client_platform_version(PJRT_Client_PlatformVersion_Args& args);
void client_process_index(PJRT_Client_ProcessIndex_Args& args);
void client_devices(PJRT_Client_Devices_Args& args);
void client_addressable_devices(PJRT_Client_AddressableDevices_Args& args);
void client_lookup_device(PJRT_Client_LookupDevice_Args& args);
void client_lookup_addressable_device(PJRT_Client_LookupAddressableDevice_Args& args);
void client_addressable_memories(PJRT_Client_AddressableMemories_Args& args);
void client_default_device_assignment(PJRT_Client_DefaultDeviceAssignment_Args& args);

// topology.cc
void client_topology(PJRT_Client_TopologyDescription_Args& args);
void topology_destroy(PJRT_TopologyDescription_Destroy_Args& args);
void topology_platform_name(PJRT_TopologyDescription_PlatformName_Args& args);
void topology_platform_version(PJRT_TopologyDescription_PlatformVersion_Args& args);
void topology_descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& args);
void topology_serialize(PJRT_TopologyDescription_Serialize_Args& args);
void topology_attributes(PJRT_TopologyDescription_Attributes_Args& args);

// devices.cc
void description_id(PJRT_DeviceDescription_Id_Args& args);
void description_process_index(PJRT_DeviceDescription_ProcessIndex_Args& args);
void description_attributes(PJRT_DeviceDescription_Attributes_Args& args);
void description_kind(PJRT_DeviceDescription_Kind_Args& args);
void description_debug_string(PJRT_DeviceDescription_DebugString_Args& args);
void description_to_string(PJRT_DeviceDescription_ToString_Args& args);
void device_get_description(PJRT_Device_GetDescription_Args& args);
void device_is_addressable(PJRT_Device_IsAddressable_Args& args);
void device_local_hardware_id(PJRT_Device_LocalHardwareId_Args& args);
void device_addressable_memories(PJRT_Device_AddressableMemories_Args& args);
void device_default_memory(PJRT_Device_DefaultMemory_Args& args);
void device_memory_stats(PJRT_Device_MemoryStats_Args& args);
void device_get_attributes(PJRT_Device_GetAttributes_Args& args);
void memory_id(PJRT_Memory_Id_Args& args);
void memory_kind(PJRT_Memory_Kind_Args& args);
void memory_kind_id(PJRT_Memory_Kind_Id_Args& args);
void memory_debug_string(PJRT_Memory_DebugString_Args& args);
void memory_to_string(PJRT_Memory_ToString_Args& args);
void memory_addressable_by_devices(PJRT_Memory_AddressableByDevices_Args& args);

// compile.cc
void client_compile(PJRT_Client_Compile_Args& args);
void executable_deserialize(PJRT_Executable_DeserializeAndLoad_Args& args);

// executables.cc
void executable_destroy(PJRT_Executable_Destroy_Args& args);
void executable_name(PJRT_Executable_Name_Args& args);
void executable_num_replicas(PJRT_Executable_NumReplicas_Args& args);
void executable_num_partitions(PJRT_Executable_NumPartitions_Args& args);
void executable_num_outputs(PJRT_Executable_NumOutputs_Args& args);
void executable_code_size(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args);
void executable_cost_analysis(PJRT_Executable_GetCostAnalysis_Args& args);
void executable_output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args& args);
void executable_optimized_program(PJRT_Executable_OptimizedProgram_Args& args);
void executable_serialize(PJRT_Executable_Serialize_Args& args);
void executable_output_types(PJRT_Executable_OutputElementTypes_Args& args);
void executable_output_dimensions(PJRT_Executable_OutputDimensions_Args& args);
void executable_fingerprint(PJRT_Executable_Fingerprint_Args& args);
void executable_memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args& args);
void executable_compile_options(PJRT_Executable_GetCompileOptions_Args& args);
void executable_parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args);
void executable_output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args);
void loaded_destroy(PJRT_LoadedExecutable_Destroy_Args& args);
void loaded_get_executable(PJRT_LoadedExecutable_GetExecutable_Args& args);
void loaded_addressable_devices(PJRT_LoadedExecutable_AddressableDevices_Args& args);
void loaded_logical_ids(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args);
void loaded_device_assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args);
void loaded_delete(PJRT_LoadedExecutable_Delete_Args& args);
void loaded_is_deleted(PJRT_LoadedExecutable_IsDeleted_Args& args);
void loaded_fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args);

// execute.cc
void loaded_execute(PJRT_LoadedExecutable_Execute_Args& args);

// ffi.cc
void context_create(PJRT_ExecuteContext_Create_Args& args);
void context_destroy(PJRT_ExecuteContext_Destroy_Args& args);
void ffi_register_type(PJRT_FFI_Type_Register_Args& args);
void ffi_add_user_data(PJRT_FFI_UserData_Add_Args& args);
void ffi_register_handler(PJRT_FFI_Register_Handler_Args& args);

// make_buffers.cc
void buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args& args);
void create_view(PJRT_Client_CreateViewOfDeviceBuffer_Args& args);
void create_uninitialized(PJRT_Client_CreateUninitializedBuffer_Args& args);
void create_error_buffer(PJRT_Client_CreateErrorBuffer_Args& args);

// buffers.cc
void buffer_destroy(PJRT_Buffer_Destroy_Args& args);
void buffer_element_type(PJRT_Buffer_ElementType_Args& args);
void buffer_dimensions(PJRT_Buffer_Dimensions_Args& args);
void buffer_unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args& args);
void buffer_dynamic_dimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args);
void buffer_memory_layout(PJRT_Buffer_GetMemoryLayout_Args& args);
void buffer_size(PJRT_Buffer_OnDeviceSizeInBytes_Args& args);
void buffer_device(PJRT_Buffer_Device_Args& args);
void buffer_memory(PJRT_Buffer_Memory_Args& args);
void buffer_delete(PJRT_Buffer_Delete_Args& args);
void buffer_is_deleted(PJRT_Buffer_IsDeleted_Args& args);
void buffer_copy_to_device(PJRT_Buffer_CopyToDevice_Args& args);
void buffer_copy_to_memory(PJRT_Buffer_CopyToMemory_Args& args);
void buffer_to_host(PJRT_Buffer_ToHostBuffer_Args& args);
void buffer_copy_raw(PJRT_Buffer_CopyRawToHost_Args& args);
void buffer_is_on_cpu(PJRT_Buffer_IsOnCpu_Args& args);
void buffer_ready_event(PJRT_Buffer_ReadyEvent_Args& args);
void buffer_unsafe_pointer(PJRT_Buffer_UnsafePointer_Args& args);
void buffer_increase_references(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args);
void buffer_decrease_references(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args);
void buffer_opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args);

// layouts.cc
void layout_destroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args);
void layout_serialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args);
void layout_of_client(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args);
void layout_of_buffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args);
void layouts_of_outputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args);
void layouts_of_parameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args);

}  // namespace xla_cpu
