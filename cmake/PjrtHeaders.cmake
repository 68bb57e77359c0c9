# The header of the PJRT C API comes from PyPI (tools/pjrt_headers.py). Without it there is neither the engine for PJRT
# plugins nor the plugin for JAX, and nothing else needs it.
set(TESSERA_PJRT_HEADERS ${PROJECT_SOURCE_DIR}/build/pjrt-headers CACHE PATH "Folder with xla/pjrt/c/pjrt_c_api.h")
if(SKBUILD AND NOT EXISTS ${TESSERA_PJRT_HEADERS}/xla/pjrt/c/pjrt_c_api.h)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/pjrt_headers.py ${TESSERA_PJRT_HEADERS}
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
set(TESSERA_HAS_PJRT OFF)
if(EXISTS ${TESSERA_PJRT_HEADERS}/xla/pjrt/c/pjrt_c_api.h)
  set(TESSERA_HAS_PJRT ON)
else()
  message(STATUS "no headers of the PJRT C API in ${TESSERA_PJRT_HEADERS}: no engine for PJRT plugins and no plugin for JAX (make plugin fetches them)")
endif()
