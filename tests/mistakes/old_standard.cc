// SPDX-License-Identifier: Apache-2.0
// MESSAGE: Tessera needs C++20: compile with -std=c++20
// FLAGS: -std=c++17
#include <tessera/tessera.h>

int main() { return 0; }
