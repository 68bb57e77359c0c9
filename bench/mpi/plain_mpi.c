/* SPDX-License-Identifier: Apache-2.0
 * What MPI itself takes for the collectives that tests/bench/mpi_bench.cc times, in loops like those of the OSU
 * micro-benchmarks. Prints "op bytes microseconds" of rank 0; sizes are of a rank's larger side. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBatches = 5 };

static long iterations(long bytes) { return bytes <= 16384 ? 200 : bytes <= 1 << 20 ? 20 : bytes <= 1 << 24 ? 4 : 2; }

static void run(const char* op, float* in, float* out, long bytes, int ranks) {
  int count = (int)(bytes / 4);
  int part = count / ranks;
  if (strcmp(op, "all_reduce") == 0) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (strcmp(op, "all_gather") == 0) MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
  if (strcmp(op, "reduce_scatter") == 0) MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (strcmp(op, "all_to_all") == 0) MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const char* ops[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  const long sizes[] = {16, 1024, 16384, 262144, 4194304, 67108864};
  const long largest = 67108864;
  int rank = 0;
  int ranks = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* in = malloc(largest);
  float* out = malloc(largest);
  if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (long i = 0; i < largest / 4; ++i) in[i] = out[i] = (float)(i % 7);
  for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
      double best = 1e30;
      run(ops[o], in, out, sizes[s], ranks);
      for (int batch = 0; batch < kBatches; ++batch) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (long i = 0; i < iterations(sizes[s]); ++i) run(ops[o], in, out, sizes[s], ranks);
        const double took = (MPI_Wtime() - begin) / (double)iterations(sizes[s]);
        if (took < best) best = took;
      }
      if (rank == 0) printf("%s %ld %.2f\n", ops[o], sizes[s], best * 1e6);
    }
  }
  MPI_Finalize();
  return 0;
}
