# The libraries that the static library needs at link time. The build and the installed package both read this file, so
# a program that links Tessera finds exactly what Tessera was built with.
#
# Plain find_path/find_library: the package files of Debian's oneDNN ask for OpenCL headers, OpenBLAS's name no target
# and LAPACKE has none.

include(CMakeFindDependencyMacro)

function(tessera_library target header library)
  if(TARGET Tessera::${target})
    return()
  endif()
  string(TOUPPER ${target} upper)
  find_path(TESSERA_${upper}_INCLUDE_DIR ${header} PATH_SUFFIXES openblas-pthread openblas ${ARGN})
  find_library(TESSERA_${upper}_LIBRARY ${library})
  mark_as_advanced(TESSERA_${upper}_INCLUDE_DIR TESSERA_${upper}_LIBRARY)
  if(NOT TESSERA_${upper}_INCLUDE_DIR OR NOT TESSERA_${upper}_LIBRARY)
    message(FATAL_ERROR "Tessera needs ${target}: header ${header} and library ${library} (tools/setup.sh installs them)")
  endif()
  add_library(Tessera::${target} UNKNOWN IMPORTED)
  set_target_properties(Tessera::${target} PROPERTIES
    IMPORTED_LOCATION "${TESSERA_${upper}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${TESSERA_${upper}_INCLUDE_DIR}")
endfunction()

find_dependency(Threads)
find_dependency(ZLIB)
tessera_library(dnnl dnnl.hpp dnnl)
tessera_library(hwy hwy/highway.h hwy)
tessera_library(sleef sleef.h sleef)
tessera_library(openblas cblas.h openblas)
tessera_library(lapacke lapacke.h lapacke)
tessera_library(zip zip.h zip)
set_target_properties(Tessera::hwy PROPERTIES INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE)

set(TESSERA_DEPENDENCIES Tessera::dnnl Tessera::hwy Tessera::sleef Tessera::lapacke Tessera::openblas Tessera::zip
    ZLIB::ZLIB gomp Threads::Threads ${CMAKE_DL_LIBS})
