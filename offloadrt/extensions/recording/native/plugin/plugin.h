// What the files of the compiler plugin share. Open plugin.cpp first.
#pragma once
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/ValueMapper.h"
#include <array>
#include <string>
#include <vector>

#include "../counts.h"

namespace offload {

using Row = std::array<int64_t, COUNTS>; // what one execution of a basic block adds to each counter

// An access to memory that is not the thread's own stack.
struct Access {
  llvm::Instruction *instruction;
  llvm::Value *pointer;
  unsigned bytes, way; // way: LOADS, STORES, ATOMIC, SYNC of slots.h
};

// counting.cpp
Row countBlock(const llvm::BasicBlock &, const llvm::DataLayout &);
bool accessOf(llvm::Instruction &, const llvm::DataLayout &, Access &);
bool isStack(const llvm::Value *pointer);
bool isUnreachable(const llvm::Value *pointer); // of the stack, and nobody else has its address: it cannot be mapped

// cloning.cpp
bool mayClone(const llvm::Function &);
// Makes a second version of the function, to which calls are led where `decide` (built in front of the body) is true.
llvm::Function *cloneFor(llvm::Function &, llvm::ValueToValueMapTy &, const char *suffix);
void dispatch(llvm::Function &from, llvm::Function &to, llvm::Value *(*decide)(llvm::Instruction *before));

// scopes.cpp
std::string lineOf(const llvm::Instruction &);
// Says where the scopes of a function's variables end. `isWatched` makes the test, before an instruction, of whether an address is watched.
bool hasScopes(llvm::Function &);
void reportScopes(llvm::Function &, llvm::GlobalVariable &leaves, llvm::Value *(*isWatched)(llvm::Instruction *before, llvm::Value *address));

// places.cpp
void completePlaces(llvm::Module &);
// ;FILE;FUNCTION;LINE;COLUMN;; of a call, by its debug information; what the compiler has said of it is kept where it said something.
std::string placeOf(const llvm::CallBase &, llvm::StringRef said = ";unknown;unknown;0;0;;");
std::string nameOf(const llvm::GlobalVariable &); // as the source calls it, in C behind its function; a common block as /name/

// given.cpp
constexpr const char *Range = "__offload_range", *Given = "__offload_given", *Shown = "__offload_shown", *Described = "__offload_described",
                    *Watches = "__offload_watches";
bool frees(const llvm::Function &);
void markFunctions(llvm::Module &);
std::pair<llvm::Constant *, uint64_t> calledByAddress(llvm::Module &); // functions that are instrumented: a list of addresses, and how many
bool readsOrWritesDescribed(const llvm::CallBase &); // a routine of flang's runtime, of which it is known what it does with arrays
// Calls `report` for each array that a routine of flang's runtime reads or writes: before which instruction, its descriptor, and LOADS or STORES.
void eachDescribed(llvm::CallBase &, llvm::function_ref<void(llvm::Instruction *, llvm::Value *, unsigned)> report);
bool givesAnything(const llvm::CallBase &);
void reportGiven(llvm::CallBase &);

// library.cpp
bool isOfLibrary(const llvm::CallBase &); // a function of which it is known what it reads and writes
llvm::SmallVector<llvm::Value *, 4> unknownOfLibrary(const llvm::CallBase &); // arguments that it may store into, nobody knows where
// Calls `report` for each use of memory: where it is told, the address, how many bytes, and LOADS or STORES, perhaps TEXT.
void eachOfLibrary(llvm::CallBase &, llvm::Value *isUnwatched, llvm::function_ref<void(llvm::IRBuilder<> &, llvm::Value *, llvm::Value *, unsigned)> report);

// flags.cpp
constexpr const char *Flag = "__offload_flag";
bool ordersThreads(const llvm::Instruction &); // an atomic access, a fence, a call that takes or gives back a lock of the system's, or what depends on the thread
void reportFlag(llvm::Instruction &);

// elision.cpp
// The instructions before which the barrier of parallel algorithms stays, and the reason, an enum stop.
llvm::MapVector<llvm::Instruction *, unsigned> stopsOf(llvm::Function &);
std::string stopPlace(const llvm::Instruction &);
void inlineCallers(llvm::Module &); // those of algorithms

// teams.cpp
void markLeagues(llvm::Module &);

// lost.cpp
void tellLost(llvm::Module &); // what kernels compute in copies of their own, and nobody uses

// variables.cpp
void refuseVariables(llvm::Module &); // those of the host that a parallel algorithm uses by name

// received.cpp
bool isReference(const llvm::StoreInst &); // whether it only puts an address into a place on the stack, which nobody else writes
llvm::Argument *received(llvm::CallBase &, llvm::Value *address);
std::pair<llvm::CallBase *, llvm::SmallVector<llvm::Value *, 4>> receivedInField(llvm::StoreInst &);
bool isForRuntime(const llvm::StoreInst &);

// loads.cpp
std::string sourceName(llvm::AllocaInst &); // empty for a variable of the compiler's
bool isHandedOn(const llvm::LoadInst &);
bool setsPart(const llvm::LoadInst &);
bool isLastprivate(const llvm::LoadInst &);
bool isCopied(const llvm::Instruction &);
bool isPassed(const llvm::LoadInst &);

// unset.cpp
void tellUnset(llvm::Module &, bool isDevice); // which reads of a thread's own variables come before any write

// device.cpp and host.cpp
bool isKernel(const llvm::Function *);
bool instrumentDevice(llvm::Module &);
bool instrumentHost(llvm::Module &);

} // namespace offload
