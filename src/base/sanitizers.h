// SPDX-License-Identifier: Apache-2.0
// Which sanitizer the file is compiled with: g++ says it by macros of its own, clang by features.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_ADDRESS_SANITIZER
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define TESSERA_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TESSERA_THREAD_SANITIZER
#endif
#endif
