// Which bytes of a variable something is done with: in an array of objects, mostly the same ones of an element that only the run knows.
#pragma once
#include "llvm/ADT/APInt.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include <cstdint>
#include <numeric>
#include <optional>

namespace offload {

// A place in a variable: `at` bytes from its beginning, or that and any multiple of `step`.
struct Step {
  int64_t at, step;
};
using Offset = std::optional<Step>; // nothing: only the run knows

inline Offset operator+(const Offset &first, const Offset &second) {
  return first && second ? Offset(Step{first->at + second->at, std::gcd(first->step, second->step)}) : Offset();
}

// What an address is from another one that it is computed of.
inline Offset distanceOf(const llvm::GetElementPtrInst &element) {
  const llvm::DataLayout &layout = element.getModule()->getDataLayout();
  llvm::SmallMapVector<llvm::Value *, llvm::APInt, 4> variable;
  llvm::APInt constant(64, 0);
  if (!element.collectOffset(layout, 64, variable, constant))
    return {};
  int64_t step = 0;
  for (auto &[index, bytes] : variable)
    step = std::gcd(step, bytes.getSExtValue());
  return Step{constant.getSExtValue(), step};
}

// Some bytes of a variable, counted from its beginning, in each `step` bytes if that is not 0; of a place that only the run knows, all.
struct Bytes {
  int64_t begin = INT64_MIN, end = INT64_MAX, step = 0;
  bool isAll() const { return begin == INT64_MIN; }
  bool meet(const Bytes &other) const {
    int64_t every = std::gcd(step, other.step);
    if (isAll() || other.isAll())
      return true;
    if (!every)
      return begin < other.end && other.begin < end;
    int64_t from = (other.begin - begin) % every; // how far the other one begins behind this one
    from += from < 0 ? every : 0;
    return from < end - begin || from + other.end - other.begin > every;
  }
  Bytes moved(const Offset &offset) const {
    return offset && !isAll() ? Bytes{begin + offset->at, end + offset->at, std::gcd(step, offset->step)} : Bytes();
  }
};

inline Bytes bytesAt(const Offset &offset, uint64_t size) { return Bytes{0, int64_t(size)}.moved(offset); }

} // namespace offload
