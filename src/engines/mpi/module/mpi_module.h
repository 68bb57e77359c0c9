// SPDX-License-Identifier: Apache-2.0
// What the library asks of MPI. The module that answers is compiled once for each MPI, whose binary interfaces differ;
// the library itself never sees one of their types. Plain C: module and library may come from different compilers.
//
// All functions are called under one lock, and after `join`. Those that return int return 0, or an MPI error code for
// `error_text`.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_MPI_MODULE_VERSION 2
#define TESSERA_MPI_MODULE_SYMBOL "tessera_mpi_module"

/* Messages of programs, and those that processes exchange about themselves, never meet. */
enum tessera_mpi_channel { TESSERA_MPI_DATA = 0, TESSERA_MPI_CONTROL = 1 };

struct tessera_mpi_world {
  int rank, size;
  int tag_max;          /* tags are 0..tag_max */
  int node;             /* the lowest rank on this process's machine */
  int initialized_here; /* else the program had initialised MPI */
  int threads;          /* whether several threads may call MPI as `join` needs it; if not, nothing was joined */
};

struct tessera_mpi_message {
  int peer, tag;
  int64_t nbytes;
};

/* NOLINTBEGIN(modernize-redundant-void-arg): in C an empty list says nothing about the arguments */
struct tessera_mpi_module {
  int version;
  const char* implementation; /* "openmpi" or "mpich" */
  const char* built_for;      /* "Open MPI 4.1.4" */

  /* `communicator`: what MPI_Comm_c2f gives, or -1 for all processes. `before_end` is called when the program ends MPI
   * itself, while it is still there. */
  int (*join)(int communicator, void (*before_end)(void), struct tessera_mpi_world* world);
  /* Every rank's `mine`, in their order. Blocks; for the time of joining. */
  int (*gather)(const void* mine, void* all, int nbytes);
  void (*error_text)(int error, char* text, int size);

  /* Requests are owned by the caller until `test` says done or they are abandoned. `nbytes` is below 2^31. */
  int (*send)(int channel, const void* data, int nbytes, int peer, int tag, void** request);
  int (*receive)(int channel, void* data, int nbytes, int peer, int tag, void** request);
  /* Also frees the request when it is done, with its error; `message` (may be null) is that of a receipt. */
  int (*test)(void* request, int* done, struct tessera_mpi_message* message);
  /* Ends a receipt that no message has met; `test` says when. */
  void (*cancel)(void* request);
  /* Before `finish`: frees a request that is not done. */
  void (*abandon)(void* request);
  /* A message that has come, of any peer and of this tag; of any one where it is negative. */
  int (*probe)(int channel, int tag, int* found, struct tessera_mpi_message* message);

  /* Ends MPI where `join` has initialised it. */
  int (*finish)(void);
};
/* NOLINTEND(modernize-redundant-void-arg) */

#ifdef __cplusplus
}
#endif
