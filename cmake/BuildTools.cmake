# Compiler cache, linker and sanitizers: what changes how the project is built but not what it is.

option(TESSERA_WERROR "Warnings are errors" ON)
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=: address,undefined or thread")

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TESSERA_CCACHE ccache)
  mark_as_advanced(TESSERA_CCACHE)
  if(TESSERA_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${TESSERA_CCACHE})
  endif()
endif()

find_program(TESSERA_MOLD mold)
mark_as_advanced(TESSERA_MOLD)
if(TESSERA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# -O2 throughout: a third less compile time than -O3, and the kernels that gain from -O3 ask for it by folder.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# The sanitizer presets: quick to compile, fast enough for the whole suite, lines in reports. Address and undefined
# behaviour take two and a half times as long to compile at -O1, more than their tests then save.
if(TESSERA_SANITIZE STREQUAL "thread")
  set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_SANITIZE "-O0 -g1")
endif()

add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers
                       $<$<BOOL:${TESSERA_WERROR}>:-Werror>)

if(TESSERA_SANITIZE)
  set(flags -fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # g++ 12 sees the instrumented moves of std::optional as reads of what was never written; the plain build keeps the
  # warning.
  target_compile_options(tessera_warnings INTERFACE -Wno-maybe-uninitialized)
  add_compile_options(${flags})
  add_link_options(${flags})
endif()

if(CMAKE_UNITY_BUILD)
  # There the main file of a compilation is not the one that a type is private to.
  target_compile_options(tessera_warnings INTERFACE -Wno-subobject-linkage)
endif()

# Where a preset asks for unity builds (CMAKE_UNITY_BUILD), up to eight files of one folder are read as one, so that their
# headers are read once; a new file moves none of another folder. Names in unnamed namespaces must differ in a folder.
function(tessera_unity_groups target)
  set_property(TARGET ${target} PROPERTY UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    math(EXPR part "(${count_${folder}} - 1) / 8")
    file(RELATIVE_PATH group ${PROJECT_SOURCE_DIR} ${source}/..)
    string(MAKE_C_IDENTIFIER "${group}${part}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()
