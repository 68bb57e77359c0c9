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

# g++ starts to collect garbage at an eighth of the memory, at most 128 MB, which a precompiled header alone reaches. Most
# compilations end before this: an eighth of the sanitizers' compile time.
if(TESSERA_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-heapsize=800000")
endif()

add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers
                       $<$<BOOL:${TESSERA_WERROR}>:-Werror>)

if(TESSERA_SANITIZE)
  # clang would look for a function's type in front of its code, also of code that is written at run time and has none.
  set(flags -fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
            $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  # g++ 12 sees the instrumented moves of std::optional as reads of what was never written; the plain build keeps the
  # warning.
  target_compile_options(tessera_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_compile_options(${flags})
  add_link_options(${flags})
endif()

if(CMAKE_UNITY_BUILD)
  # There the main file of a compilation is not the one that a type is private to.
  target_compile_options(tessera_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

# `tessera_precompile` makes an object library that compiles headers once, `tessera_read_precompiled` lets a target of the
# same compile options read them.
function(tessera_precompile name)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/headers/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  set_property(TARGET ${name} PROPERTY CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/tools/compile_anew.sh
               ${CMAKE_CXX_COMPILER_LAUNCHER})
  target_link_libraries(${name} PRIVATE tessera_warnings)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

function(tessera_read_precompiled target name)
  if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# Where a preset asks for unity builds (CMAKE_UNITY_BUILD), some eight files of one folder are read as one, so that their
# headers are read once. A file's name decides its group: a new file moves no other, until the folder has twice as many.
# Names in unnamed namespaces must differ in a group. With TESSERA_LARGE_GROUPS, for what is always compiled from nothing,
# a group has some twenty files of a folder and those in it.
option(TESSERA_LARGE_GROUPS "Some twenty files of the library are compiled as one" OFF)
function(tessera_unity_groups target)
  set_property(TARGET ${target} PROPERTY UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(TESSERA_LARGE_GROUPS)
      string(REGEX REPLACE "^(src/[^/]+)/.*" "\\1" folder "${folder}")
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND folders ${folder})
    list(APPEND files_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH files_of_${folder} count)
    if(TESSERA_LARGE_GROUPS)
      set(place 0)
      foreach(source IN LISTS files_of_${folder})
        math(EXPR group "${place} * ((${count} + 23) / 24) / ${count}")
        math(EXPR place "${place} + 1")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
      endforeach()
      continue()
    endif()
    set(groups 1)
    while(count GREATER 12)
      math(EXPR groups "2 * ${groups}")
      math(EXPR count "${count} / 2")
    endwhile()
    foreach(source IN LISTS files_of_${folder})
      cmake_path(GET source FILENAME name)
      string(MD5 hash ${name})
      string(SUBSTRING ${hash} 0 6 hash)
      math(EXPR group "0x${hash} % ${groups}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
    endforeach()
  endforeach()
endfunction()
