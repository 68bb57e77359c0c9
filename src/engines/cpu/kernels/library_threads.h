// SPDX-License-Identifier: Apache-2.0
// oneDNN and OpenBLAS bring thread pools of their own; inside ours they must use the calling thread alone.
#pragma once

namespace tessera::kernels {

/// While one lives, OpenMP regions started by this thread (oneDNN's) have one thread.
/// Throws `ResourceExhaustedError` where a limit of address space leaves the libraries no room.
class SingleThreadedLibraries {
 public:
  SingleThreadedLibraries();
  ~SingleThreadedLibraries();
  SingleThreadedLibraries(const SingleThreadedLibraries&) = delete;
  SingleThreadedLibraries& operator=(const SingleThreadedLibraries&) = delete;

 private:
  int before_ = 1;
};

}  // namespace tessera::kernels
