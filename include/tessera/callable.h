// SPDX-License-Identifier: Apache-2.0
// Functions of any number of arguments that know the caller's line. A parameter pack takes every argument, which leaves
// no place for the default argument `const Loc& = Loc::current()`; so there is one overload for each number of
// arguments up to ten, and beyond that one without the line.
#pragma once

#include <utility>

#include "tessera/loc.h"

/// Member functions NAME(args...) const that return IMPL(args...).
#define TESSERA_MEMBER_OF_ARGUMENTS(NAME, IMPL)                                                                    \
  decltype(auto) NAME(const ::tessera::Loc& = ::tessera::Loc::current()) const { return IMPL(); }                  \
  template <class A0>                                                                                              \
  decltype(auto) NAME(const A0& a0, const ::tessera::Loc& = ::tessera::Loc::current()) const {                     \
    return IMPL(a0);                                                                                               \
  }                                                                                                                \
  template <class A0, class A1>                                                                                    \
  decltype(auto) NAME(const A0& a0, const A1& a1, const ::tessera::Loc& = ::tessera::Loc::current()) const {       \
    return IMPL(a0, a1);                                                                                           \
  }                                                                                                                \
  template <class A0, class A1, class A2>                                                                          \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const ::tessera::Loc& = ::tessera::Loc::current()) \
      const {                                                                                                      \
    return IMPL(a0, a1, a2);                                                                                       \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3>                                                                \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3,                                      \
                      const ::tessera::Loc& = ::tessera::Loc::current()) const {                                   \
    return IMPL(a0, a1, a2, a3);                                                                                   \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4>                                                      \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4,                        \
                      const ::tessera::Loc& = ::tessera::Loc::current()) const {                                   \
    return IMPL(a0, a1, a2, a3, a4);                                                                               \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4, class A5>                                            \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,          \
                      const ::tessera::Loc& = ::tessera::Loc::current()) const {                                   \
    return IMPL(a0, a1, a2, a3, a4, a5);                                                                           \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4, class A5, class A6>                                  \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,          \
                      const A6& a6, const ::tessera::Loc& = ::tessera::Loc::current()) const {                     \
    return IMPL(a0, a1, a2, a3, a4, a5, a6);                                                                       \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7>                        \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,          \
                      const A6& a6, const A7& a7, const ::tessera::Loc& = ::tessera::Loc::current()) const {       \
    return IMPL(a0, a1, a2, a3, a4, a5, a6, a7);                                                                   \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7, class A8>              \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,          \
                      const A6& a6, const A7& a7, const A8& a8, const ::tessera::Loc& = ::tessera::Loc::current()) \
      const {                                                                                                      \
    return IMPL(a0, a1, a2, a3, a4, a5, a6, a7, a8);                                                               \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7, class A8, class A9>    \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,          \
                      const A6& a6, const A7& a7, const A8& a8, const A9& a9,                                      \
                      const ::tessera::Loc& = ::tessera::Loc::current()) const {                                   \
    return IMPL(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);                                                           \
  }                                                                                                                \
  template <class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7, class A8, class A9,    \
            class A10, class... Rest>                                                                              \
  decltype(auto) NAME(const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,          \
                      const A6& a6, const A7& a7, const A8& a8, const A9& a9, const A10& a10, const Rest&... rest) \
      const {                                                                                                      \
    return IMPL(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, rest...);                                             \
  }

/// Functions NAME(f, args...) that return IMPL(f, args...).
#define TESSERA_FUNCTION_OF_ARGUMENTS(NAME, IMPL)                                                                    \
  template <class F>                                                                                                 \
  decltype(auto) NAME(F&& f, const ::tessera::Loc& = ::tessera::Loc::current()) {                                    \
    return IMPL(f);                                                                                                  \
  }                                                                                                                  \
  template <class F, class A0>                                                                                       \
  decltype(auto) NAME(F&& f, const A0& a0, const ::tessera::Loc& = ::tessera::Loc::current()) {                      \
    return IMPL(f, a0);                                                                                              \
  }                                                                                                                  \
  template <class F, class A0, class A1>                                                                             \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const ::tessera::Loc& = ::tessera::Loc::current()) {        \
    return IMPL(f, a0, a1);                                                                                          \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2>                                                                   \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2,                                               \
                      const ::tessera::Loc& = ::tessera::Loc::current()) {                                           \
    return IMPL(f, a0, a1, a2);                                                                                      \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3>                                                         \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3,                                 \
                      const ::tessera::Loc& = ::tessera::Loc::current()) {                                           \
    return IMPL(f, a0, a1, a2, a3);                                                                                  \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4>                                               \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4,                   \
                      const ::tessera::Loc& = ::tessera::Loc::current()) {                                           \
    return IMPL(f, a0, a1, a2, a3, a4);                                                                              \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4, class A5>                                     \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,     \
                      const ::tessera::Loc& = ::tessera::Loc::current()) {                                           \
    return IMPL(f, a0, a1, a2, a3, a4, a5);                                                                          \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4, class A5, class A6>                           \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,     \
                      const A6& a6, const ::tessera::Loc& = ::tessera::Loc::current()) {                             \
    return IMPL(f, a0, a1, a2, a3, a4, a5, a6);                                                                      \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7>                 \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,     \
                      const A6& a6, const A7& a7, const ::tessera::Loc& = ::tessera::Loc::current()) {               \
    return IMPL(f, a0, a1, a2, a3, a4, a5, a6, a7);                                                                  \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7, class A8>       \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,     \
                      const A6& a6, const A7& a7, const A8& a8, const ::tessera::Loc& = ::tessera::Loc::current()) { \
    return IMPL(f, a0, a1, a2, a3, a4, a5, a6, a7, a8);                                                              \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7, class A8,       \
            class A9>                                                                                                \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,     \
                      const A6& a6, const A7& a7, const A8& a8, const A9& a9,                                        \
                      const ::tessera::Loc& = ::tessera::Loc::current()) {                                           \
    return IMPL(f, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);                                                          \
  }                                                                                                                  \
  template <class F, class A0, class A1, class A2, class A3, class A4, class A5, class A6, class A7, class A8,       \
            class A9, class A10, class... Rest>                                                                      \
  decltype(auto) NAME(F&& f, const A0& a0, const A1& a1, const A2& a2, const A3& a3, const A4& a4, const A5& a5,     \
                      const A6& a6, const A7& a7, const A8& a8, const A9& a9, const A10& a10, const Rest&... rest) { \
    return IMPL(f, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, rest...);                                            \
  }

namespace tessera {

/// A function object whose calls know the caller's line. What the transformations return is one.
template <class F>
class Callable {
 public:
  explicit Callable(F f) : f_(std::move(f)) {}
  TESSERA_MEMBER_OF_ARGUMENTS(operator(), f_)

 private:
  F f_;
};

}  // namespace tessera
