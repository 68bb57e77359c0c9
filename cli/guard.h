// SPDX-License-Identifier: Apache-2.0
// How the process meets its surroundings: closed descriptors, signals, a limit of time, errors nobody caught.
#pragma once

namespace tessera::cli {

/// First thing in `main`. Files that are opened later never take the place of a standard stream; a closed pipe and
/// a limit of file sizes are errors of the write and no signals; signals that end the process leave no unfinished file;
/// an exception that nobody can catch is a message and exit status 1.
void guard_process();
/// Ends the process with a message and exit status 1 after so many seconds.
void limit_time(double seconds);
/// True when everything printed has reached standard output.
bool output_complete();

}  // namespace tessera::cli
