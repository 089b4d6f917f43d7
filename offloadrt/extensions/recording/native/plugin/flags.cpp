// By what host code orders its threads beside OpenMP: atomic variables, and the locks, condition variables and semaphores of POSIX and C++.
// The recorder is told what each lets others know, before it, and what its thread comes to know, behind it.
#include "plugin.h"
#include "../slots.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/AtomicOrdering.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace offload {
namespace {

enum { Releases = 1, Acquires = 2, WithMutex = 4 /* it waits, while the mutex that is its second argument is given back */, WithHolder = 8 /* of C++: a std::unique_lock */ };

struct Routine {
  StringRef name;
  unsigned does; // with what its first argument points to
};

constexpr Routine Routines[] = {
    {"pthread_mutex_lock", Acquires}, {"pthread_mutex_trylock", Acquires}, {"pthread_mutex_timedlock", Acquires},
    {"pthread_mutex_clocklock", Acquires}, {"pthread_mutex_unlock", Releases}, {"pthread_rwlock_rdlock", Acquires},
    {"pthread_rwlock_wrlock", Acquires}, {"pthread_rwlock_tryrdlock", Acquires}, {"pthread_rwlock_trywrlock", Acquires},
    {"pthread_rwlock_unlock", Releases}, {"pthread_spin_lock", Acquires}, {"pthread_spin_trylock", Acquires}, {"pthread_spin_unlock", Releases},
    {"pthread_barrier_wait", Releases | Acquires}, {"sem_wait", Acquires}, {"sem_trywait", Acquires}, {"sem_timedwait", Acquires},
    {"sem_clockwait", Acquires}, {"sem_post", Releases}, {"mtx_lock", Acquires}, {"mtx_trylock", Acquires}, {"mtx_unlock", Releases},
    {"cnd_signal", Releases}, {"cnd_broadcast", Releases}, {"cnd_wait", Acquires | WithMutex},
    {"pthread_cond_signal", Releases}, {"pthread_cond_broadcast", Releases}, {"pthread_cond_wait", Acquires | WithMutex},
    {"pthread_cond_timedwait", Acquires | WithMutex}, {"pthread_cond_clockwait", Acquires | WithMutex},
    {"__cxa_guard_acquire", Acquires}, {"__cxa_guard_release", Releases}, // around the beginning of a function's static variable
    {"_ZNSt18condition_variable10notify_oneEv", Releases}, {"_ZNSt18condition_variable10notify_allEv", Releases},
    {"_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", Acquires | WithHolder},
};

const Routine *routineOf(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  const Function *called = call ? call->getCalledFunction() : nullptr;
  if (!called || !called->isDeclaration() || !call->arg_size())
    return nullptr;
  auto *found = find_if(Routines, [&](const Routine &one) { return one.name == called->getName(); });
  return found == std::end(Routines) ? nullptr : found;
}

// `pointer`: null for a fence
void report(Instruction &before, Value *pointer, unsigned what) {
  IRBuilder<> builder(&before);
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt32Ty()}, false);
  Value *address = pointer ? builder.CreatePtrToInt(pointer, builder.getInt64Ty()) : builder.getInt64(0);
  builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), before.getModule()->getNamedGlobal(Flag)), {address, builder.getInt32(what)});
}

// Reports a release, before the access. One that leaves the value as it is, as in a loop that waits for a lock, lets others know nothing:
// where that is expected the report comes behind the access, and only if the value has changed.
void reportRelease(Instruction &access, Value *pointer, function_ref<void(Instruction *)> report) {
  auto *exchange = dyn_cast<AtomicCmpXchgInst>(&access);
  auto *update = dyn_cast<AtomicRMWInst>(&access);
  Value *kept = exchange ? exchange->getCompareOperand() : update && update->getOperation() == AtomicRMWInst::Xchg ? update->getValOperand() : nullptr;
  if (!kept || !(kept->getType()->isIntegerTy() || kept->getType()->isPointerTy()))
    return report(&access);
  IRBuilder<> builder(&access);
  LoadInst *there = builder.CreateAlignedLoad(kept->getType(), pointer, exchange ? exchange->getAlign() : update->getAlign());
  there->setAtomic(AtomicOrdering::Monotonic);
  Value *same = builder.CreateICmpEQ(there, kept), *changes = exchange ? same : builder.CreateNot(same);
  report(SplitBlockAndInsertIfThen(changes, access.getIterator(), false));
  builder.SetInsertPoint(access.getNextNode());
  Value *changed = exchange ? builder.CreateExtractValue(exchange, 1) : builder.CreateICmpNE(update, kept);
  Value *late = builder.CreateAnd(changed, builder.CreateNot(changes));
  report(SplitBlockAndInsertIfThen(late, builder.GetInsertPoint(), false));
}

void reportCall(CallBase &call, unsigned does) {
  auto *invoke = dyn_cast<InvokeInst>(&call);
  Instruction *behind = invoke ? &*invoke->getNormalDest()->getFirstInsertionPt() : call.getNextNode();
  Value *mutex = nullptr;
  if (does & (WithMutex | WithHolder)) {
    mutex = call.getArgOperand(1);
    if (does & WithHolder) // its first member
      mutex = IRBuilder<>(&call).CreateLoad(PointerType::get(call.getContext(), 0), mutex);
    report(call, mutex, FLAG_RELEASES);
  }
  if (does & Releases)
    report(call, call.getArgOperand(0), FLAG_RELEASES);
  if (does & Acquires && (!invoke || invoke->getNormalDest()->getSinglePredecessor())) {
    report(*behind, call.getArgOperand(0), FLAG_ACQUIRES);
    if (mutex)
      report(*behind, mutex, FLAG_ACQUIRES);
  }
}

} // namespace

bool ordersThreads(const Instruction &instruction) { return instruction.isAtomic() || routineOf(instruction); }

void reportFlag(Instruction &access) {
  if (const Routine *routine = routineOf(access))
    return reportCall(cast<CallBase>(access), routine->does);
  bool stores = !isa<LoadInst>(access), loads = !isa<StoreInst>(access) && !isa<FenceInst>(access);
  Value *pointer = nullptr;
  AtomicOrdering order = AtomicOrdering::NotAtomic;
  if (auto *load = dyn_cast<LoadInst>(&access))
    pointer = load->getPointerOperand(), order = load->getOrdering();
  else if (auto *store = dyn_cast<StoreInst>(&access))
    pointer = store->getPointerOperand(), order = store->getOrdering();
  else if (auto *update = dyn_cast<AtomicRMWInst>(&access))
    pointer = update->getPointerOperand(), order = update->getOrdering();
  else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&access))
    pointer = exchange->getPointerOperand(), order = exchange->getSuccessOrdering();
  else if (auto *fence = dyn_cast<FenceInst>(&access))
    order = fence->getOrdering();
  if (order == AtomicOrdering::NotAtomic || (isa<FenceInst>(access) && cast<FenceInst>(access).getSyncScopeID() == SyncScope::SingleThread))
    return;
  if (stores)
    reportRelease(access, pointer, [&](Instruction *before) { report(*before, pointer, FLAG_RELEASES | (isReleaseOrStronger(order) ? 0 : FLAG_WEAK)); });
  if (loads && !access.isTerminator())
    report(*access.getNextNode(), pointer, FLAG_ACQUIRES | (isAcquireOrStronger(order) ? 0 : FLAG_WEAK));
}

} // namespace offload
