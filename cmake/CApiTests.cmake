# The C interface from C99 and from Python, both through the shared library; and the programs in C and Python that
# docs/interop.md shows. C++ tests of it are in tests/unit/c_api_test.cc.

enable_language(C)

function(tessera_c_program name source)
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_include_directories(${name} SYSTEM PRIVATE ${TESSERA_DLPACK})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror -pedantic-errors)
  target_link_libraries(${name} PRIVATE tessera_shared)
  set_target_properties(${name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF LINKER_LANGUAGE C
                        UNITY_BUILD OFF RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(tests_quick ${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 300)
endfunction()

# Debian's Python, which has cffi as a package; another one may lack it, and then the tests say that they are left out.
find_program(TESSERA_FFI_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT TESSERA_FFI_PYTHON)
  set(TESSERA_FFI_PYTHON ${PYTHON3})
endif()
function(tessera_ffi_test name source)
  add_test(NAME ${name} COMMAND ${TESSERA_FFI_PYTHON} ${source} $<TARGET_FILE:tessera_shared>
                                ${PROJECT_SOURCE_DIR}/include/tessera/c_api.h)
  set_tests_properties(${name} PROPERTIES LABELS quick TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()

function(tessera_guide_block language output)
  set(guide ${PROJECT_SOURCE_DIR}/docs/interop.md)
  add_custom_command(OUTPUT ${output}
                     COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/doc_snippets.py --block ${language} ${guide} ${output}
                     DEPENDS ${guide} ${PROJECT_SOURCE_DIR}/tools/doc_snippets.py)
endfunction()

tessera_c_program(c_api_in_c ${PROJECT_SOURCE_DIR}/tests/interop/c_api_test.c)
tessera_ffi_test(c_api_in_python ${PROJECT_SOURCE_DIR}/tests/interop/check_c_api.py)

set(guide_c ${PROJECT_BINARY_DIR}/guides/c_program.c)
set(guide_python ${PROJECT_BINARY_DIR}/guides/python_program.py)
tessera_guide_block(c ${guide_c})
tessera_guide_block(python ${guide_python})
tessera_c_program(guide_c_program ${guide_c})
add_custom_target(guide_python_program ALL DEPENDS ${guide_python})
add_dependencies(tests_quick guide_python_program tessera_shared)
tessera_ffi_test(guide_python_program ${guide_python})
