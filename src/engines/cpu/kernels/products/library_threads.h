// SPDX-License-Identifier: Apache-2.0
// oneDNN and OpenBLAS bring thread pools of their own; inside ours they must use the calling thread alone.
#pragma once

#include "base/process.h"

namespace dnnl {
struct engine;
}

namespace tessera::kernels {

/// While one lives, OpenMP regions started by this thread (oneDNN's) have one thread.
class SingleThreadedLibraries {
 public:
  SingleThreadedLibraries();
  ~SingleThreadedLibraries();
  SingleThreadedLibraries(const SingleThreadedLibraries&) = delete;
  SingleThreadedLibraries& operator=(const SingleThreadedLibraries&) = delete;
  /// False when the process ends and oneDNN with it.
  bool has_onednn() const { return call_.allowed(); }
  /// Throws `StateError` unless `has_onednn()`; does not return on threads that outlive the program.
  void need_onednn() const;

 private:
  base::LibraryCall call_;
  int before_ = 1;
};

/// The one engine of oneDNN; never destroyed.
const dnnl::engine& onednn_engine();

}  // namespace tessera::kernels
