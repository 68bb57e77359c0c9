# JAX's way to Tessera: a plugin of the PJRT C API. Its headers come from PyPI (tools/pjrt_headers.py); without them the
# plugin is left out, and nothing else needs them.
set(TESSERA_PJRT_HEADERS ${PROJECT_SOURCE_DIR}/build/pjrt-headers CACHE PATH "Folder with xla/pjrt/c/pjrt_c_api.h")
if(SKBUILD AND NOT EXISTS ${TESSERA_PJRT_HEADERS}/xla/pjrt/c/pjrt_c_api.h)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/pjrt_headers.py ${TESSERA_PJRT_HEADERS}
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
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
# Into the Python package.
if(SKBUILD)
  install(TARGETS tessera_pjrt LIBRARY DESTINATION tessera COMPONENT python)
endif()

# The test loads the plugin as JAX does, and links nothing of Tessera.
if(TESSERA_BUILD_TESTS)
  find_package(GTest REQUIRED)
  add_executable(pjrt_plugin_test tests/pjrt/plugin_test.cc tests/pjrt/plugin_client.cc)
  target_include_directories(pjrt_plugin_test SYSTEM PRIVATE ${TESSERA_PJRT_HEADERS})
  target_compile_definitions(pjrt_plugin_test PRIVATE TESSERA_PJRT_LIBRARY="$<TARGET_FILE:tessera_pjrt>")
  target_link_libraries(pjrt_plugin_test PRIVATE tessera_warnings GTest::gtest_main ${CMAKE_DL_LIBS})
  set_target_properties(pjrt_plugin_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(pjrt_plugin_test tessera_pjrt)
  add_dependencies(tests_quick pjrt_plugin_test)
  add_test(NAME pjrt_plugin_test COMMAND pjrt_plugin_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(pjrt_plugin_test PROPERTIES LABELS quick TIMEOUT 900 ENVIRONMENT
                       "GTEST_OUTPUT=json:${PROJECT_BINARY_DIR}/test-results/pjrt_plugin_test.json")
endif()
