// Where AdaptiveCpp's compiler lets the barrier of parallel algorithms stay (its SyncElision.cpp): from each call of an algorithm
// on, before the first instruction that may see what the algorithm did. It looks at one function, after inlining; functions that
// call algorithms are inlined into their callers.
#include "plugin.h"
#include "../slots.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace offload {
namespace {

// An algorithm of algorithms/offload_algorithms.hpp: in std, with the place of its call among its parameters.
bool isAlgorithm(const Function *function) {
  return function && function->getName().starts_with("_ZSt") && function->getName().contains("14offload_stdpar9call_site");
}

bool callsAlgorithm(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  return call && isAlgorithm(call->getCalledFunction());
}

// Any other intrinsic is a call for AdaptiveCpp, even one that computes a maximum.
bool isLifetime(const Instruction &instruction) {
  auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction);
  return intrinsic && (intrinsic->isLifetimeStartOrEnd() || isa<DbgInfoIntrinsic>(intrinsic));
}

// Whether a variable of the stack is only stored to, and given to algorithms: then it holds their arguments. `calls` are these.
bool holdsArguments(const Value &variable, SmallVectorImpl<const Instruction *> &calls) {
  return all_of(variable.users(), [&](const User *user) {
    if (isa<GetElementPtrInst>(user))
      return holdsArguments(*user, calls);
    if (auto *store = dyn_cast<StoreInst>(user))
      return store->getValueOperand() != &variable;
    auto *instruction = dyn_cast<Instruction>(user);
    if (instruction && callsAlgorithm(*instruction))
      calls.push_back(instruction);
    return instruction && (isLifetime(*instruction) || callsAlgorithm(*instruction));
  });
}

using Arguments = DenseMap<const Value *, SmallVector<const Instruction *, 2>>;

// Whether an instruction does no more than to store an argument of algorithms that all come behind it in its block.
bool storesArgument(const Instruction &instruction, const Arguments &arguments) {
  auto *store = dyn_cast<StoreInst>(&instruction);
  auto known = store ? arguments.find(getUnderlyingObject(store->getPointerOperand())) : arguments.end();
  return known != arguments.end() && all_of(known->second, [&](const Instruction *call) {
    return call->getParent() == store->getParent() && store->comesBefore(call);
  });
}

bool isMemory(StringRef name) {
  return name == "free" || name == "malloc" || name == "calloc" || name == "realloc" || name.starts_with("_Zn") || name.starts_with("_Zd");
}

// What of an instruction lets a barrier stay before it; 0: nothing.
unsigned stopOf(const Instruction &instruction, const Arguments &arguments) {
  if (isLifetime(instruction) || callsAlgorithm(instruction) || storesArgument(instruction, arguments))
    return 0;
  if (auto *call = dyn_cast<CallBase>(&instruction))
    return call->getCalledFunction() && isMemory(call->getCalledFunction()->getName()) ? STOP_MEMORY : STOP_CALL;
  if (isa<LoadInst, StoreInst, AtomicRMWInst, AtomicCmpXchgInst, FenceInst>(instruction))
    return STOP_ACCESS;
  return isa<ReturnInst, ResumeInst>(instruction) ? STOP_EXIT : 0;
}

// Goes on from an instruction to the first ones that let the barrier stay.
void follow(Instruction *begin, const Arguments &arguments, SmallPtrSetImpl<BasicBlock *> &visited,
            MapVector<Instruction *, unsigned> &stops) {
  BasicBlock *block = begin->getParent();
  if (begin == &block->front() && !visited.insert(block).second)
    return;
  for (Instruction *at = begin; at; at = at->getNextNode()) {
    if (unsigned stop = stopOf(*at, arguments)) {
      stops.insert({at, stop});
      return;
    }
    if (at != begin && callsAlgorithm(*at))
      return; // its own barrier is looked for
  }
  for (BasicBlock *next : successors(block))
    follow(&*next->getFirstInsertionPt(), arguments, visited, stops);
}

} // namespace

MapVector<Instruction *, unsigned> stopsOf(Function &function) {
  MapVector<Instruction *, unsigned> stops;
  SmallVector<CallBase *, 8> calls;
  Arguments arguments;
  for (Instruction &instruction : instructions(function)) {
    if (callsAlgorithm(instruction))
      calls.push_back(cast<CallBase>(&instruction));
    else if (SmallVector<const Instruction *, 2> users; isa<AllocaInst>(instruction) && holdsArguments(instruction, users))
      arguments[&instruction] = users;
  }
  if (isAlgorithm(&function))
    return stops;
  for (CallBase *call : calls) {
    SmallPtrSet<BasicBlock *, 16> visited;
    if (auto *invoke = dyn_cast<InvokeInst>(call))
      follow(&*invoke->getNormalDest()->getFirstInsertionPt(), arguments, visited, stops);
    else
      follow(call->getNextNode(), arguments, visited, stops);
  }
  return stops;
}

std::string stopPlace(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  std::string what = call && call->getCalledFunction() ? call->getCalledFunction()->getName().str()
                     : call                            ? "call"
                     : isa<LoadInst>(instruction)      ? "load"
                     : instruction.isTerminator()      ? "return"
                                                       : "store";
  std::string place = lineOf(instruction);
  auto [file, line] = StringRef(place).rsplit(':');
  return (";" + file + ";" + what + ";" + line + ";0;;").str();
}

void inlineCallers(Module &module) {
  for (Function &function : module)
    if (isAlgorithm(&function))
      for (User *user : function.users())
        if (auto *call = dyn_cast<CallBase>(user); call && call->getCalledFunction() == &function)
          if (Function *caller = call->getFunction(); !isAlgorithm(caller) && !caller->hasFnAttribute(Attribute::NoInline))
            caller->addFnAttr(Attribute::AlwaysInline);
}

} // namespace offload
