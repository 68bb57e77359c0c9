/* SPDX-License-Identifier: Apache-2.0
 * The library's questions, asked of the MPI that this file is compiled for. */
#include "mpi_module.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static MPI_Comm channels[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
static int initialized_here = 0;
static void (*call_before_end)(void) = NULL;
static int ending = 0;

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF before all else. */
static int before_end(MPI_Comm self, int key, void* value, void* state) {
  (void)self, (void)key, (void)value, (void)state;
  ending = 1;
  if (call_before_end != NULL) call_before_end();
  return MPI_SUCCESS;
}

static int node_of(MPI_Comm all, int rank, int* node) {
  MPI_Comm here;
  int error = MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  if (error != MPI_SUCCESS) return error;
  *node = rank;
  error = MPI_Bcast(node, 1, MPI_INT, 0, here);
  MPI_Comm_free(&here);
  return error;
}

static int join(int communicator, void (*call)(void), struct tessera_mpi_world* world) {
  int error;
  int initialized = 0;
  int level = MPI_THREAD_SINGLE;
  int found = 0;
  int* tag_max = NULL;
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm all = MPI_COMM_WORLD;
  if ((error = MPI_Initialized(&initialized)) != MPI_SUCCESS) return error;
  if (!initialized) {
    if ((error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)) != MPI_SUCCESS) return error;
    initialized_here = 1;
  } else if ((error = MPI_Query_thread(&level)) != MPI_SUCCESS) {
    return error;
  }
  /* The library has a lock for its own calls, and a program that uses MPI beside it has none. */
  world->initialized_here = initialized_here;
  world->threads = level >= (initialized_here ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE);
  if (!world->threads) return MPI_SUCCESS;
  if (communicator != -1) all = MPI_Comm_f2c((MPI_Fint)communicator);
  for (int i = 0; i < 2; ++i) {
    if ((error = MPI_Comm_dup(all, &channels[i])) != MPI_SUCCESS) return error;
    MPI_Comm_set_errhandler(channels[i], MPI_ERRORS_RETURN);
  }
  if ((error = MPI_Comm_rank(all, &world->rank)) != MPI_SUCCESS) return error;
  if ((error = MPI_Comm_size(all, &world->size)) != MPI_SUCCESS) return error;
  if ((error = MPI_Comm_get_attr(channels[0], MPI_TAG_UB, &tag_max, &found)) != MPI_SUCCESS) return error;
  call_before_end = call;
  if ((error = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_end, &key, NULL)) != MPI_SUCCESS) return error;
  if ((error = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL)) != MPI_SUCCESS) return error;
  world->tag_max = found ? *tag_max : 32767;
  return node_of(channels[0], world->rank, &world->node);
}

static int gather(const void* mine, void* all, int nbytes) {
  return MPI_Allgather(mine, nbytes, MPI_BYTE, all, nbytes, MPI_BYTE, channels[TESSERA_MPI_CONTROL]);
}

static void error_text(int error, char* text, int size) {
  char long_text[MPI_MAX_ERROR_STRING + 1];
  int length = 0;
  if (size < 1) return;
  if (MPI_Error_string(error, long_text, &length) != MPI_SUCCESS) length = 0;
  long_text[length] = '\0';
  strncpy(text, long_text, (size_t)size - 1);
  text[size - 1] = '\0';
}

static int send(int channel, const void* data, int nbytes, int peer, int tag, void** request) {
  MPI_Request* made = malloc(sizeof *made);
  int error;
  if (made == NULL) return MPI_ERR_NO_MEM;
  error = MPI_Isend(data, nbytes, MPI_BYTE, peer, tag, channels[channel], made);
  if (error != MPI_SUCCESS) {
    free(made);
    return error;
  }
  *request = made;
  return 0;
}

static int receive(int channel, void* data, int nbytes, int peer, int tag, void** request) {
  MPI_Request* made = malloc(sizeof *made);
  int error;
  if (made == NULL) return MPI_ERR_NO_MEM;
  error = MPI_Irecv(data, nbytes, MPI_BYTE, peer, tag, channels[channel], made);
  if (error != MPI_SUCCESS) {
    free(made);
    return error;
  }
  *request = made;
  return 0;
}

static void describe(const MPI_Status* status, struct tessera_mpi_message* message) {
  int count = 0;
  if (message == NULL) return;
  message->peer = status->MPI_SOURCE;
  message->tag = status->MPI_TAG;
  message->nbytes = MPI_Get_count(status, MPI_BYTE, &count) == MPI_SUCCESS && count != MPI_UNDEFINED ? count : -1;
}

static int test(void* request, int* done, struct tessera_mpi_message* message) {
  MPI_Status status;
  int error = MPI_Test(request, done, &status);
  if (error != MPI_SUCCESS) *done = 1;
  if (!*done) return 0;
  if (error == MPI_SUCCESS) describe(&status, message);
  free(request);
  return error;
}

static void cancel(void* request) { MPI_Cancel(request); }

static void abandon(void* request) {
  MPI_Request* given = request;
  if (*given != MPI_REQUEST_NULL) MPI_Request_free(given);
  free(given);
}

static int probe(int channel, int tag, int* found, struct tessera_mpi_message* message) {
  MPI_Status status;
  int error = MPI_Iprobe(MPI_ANY_SOURCE, tag < 0 ? MPI_ANY_TAG : tag, channels[channel], found, &status);
  if (error == MPI_SUCCESS && *found) describe(&status, message);
  return error;
}

static int finish(void) {
  int finalized = 0;
  int error = MPI_Finalized(&finalized);
  if (error != MPI_SUCCESS || finalized) return error;
  for (int i = 0; i < 2; ++i) {
    if (channels[i] != MPI_COMM_NULL) MPI_Comm_free(&channels[i]);
  }
  return initialized_here && !ending ? MPI_Finalize() : 0;
}

const struct tessera_mpi_module tessera_mpi_module = {
    TESSERA_MPI_MODULE_VERSION,
#if defined(OPEN_MPI)
    "openmpi",
    "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION),
#elif defined(MPICH_VERSION)
    "mpich",
    "MPICH " MPICH_VERSION,
#else
#error "neither Open MPI nor MPICH: the module does not know whose mpirun starts its programs"
#endif
    join,
    gather,
    error_text,
    send,
    receive,
    test,
    cancel,
    abandon,
    probe,
    finish,
};
