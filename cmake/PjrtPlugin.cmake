# JAX's way to Tessera: a plugin of the PJRT C API. Its headers come from PyPI (tools/pjrt_headers.py); without them the
# plugin is left out, and nothing else needs them.
set(TESSERA_PJRT_HEADERS ${PROJECT_BINARY_DIR}/pjrt-headers CACHE PATH "Folder with xla/pjrt/c/pjrt_c_api.h")
if(NOT EXISTS ${TESSERA_PJRT_HEADERS}/xla/pjrt/c/pjrt_c_api.h)
  message(STATUS "no headers of the PJRT C API in ${TESSERA_PJRT_HEADERS}: no plugin for JAX (make plugin fetches them)")
  return()
endif()
file(GLOB plugin_sources CONFIGURE_DEPENDS pjrt/*.cc)
add_library(tessera_pjrt MODULE ${plugin_sources})
set_target_properties(tessera_pjrt PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugin
                      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(tessera_pjrt PRIVATE pjrt src)
target_include_directories(tessera_pjrt SYSTEM PRIVATE ${TESSERA_PJRT_HEADERS})
target_link_libraries(tessera_pjrt PRIVATE tessera tessera_warnings nlohmann_json::nlohmann_json)
# Nothing but GetPjrtApi and the functions of pjrt/python_api.h is seen from outside: a process may hold other copies of the libraries that it is made of.
target_link_options(tessera_pjrt PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
install(TARGETS tessera_pjrt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
