// By what host code orders its threads beside OpenMP: atomic variables, the locks, condition variables, barriers and semaphores of POSIX and C++, and messages.
// The recorder is told what each lets others know, before it, and what its thread comes to know, behind it.
#include "plugin.h"
#include "../slots.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/AtomicOrdering.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <optional>

using namespace llvm;

namespace offload {

// Calls the recorder before an instruction; without an address it is a fence.
static void report(Instruction *before, Value *pointer, unsigned what) {
  IRBuilder<> builder(before);
  auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt32Ty()}, false);
  Value *address = builder.getInt64(0);
  if (pointer)
    address = pointer->getType()->isPointerTy() ? builder.CreatePtrToInt(pointer, builder.getInt64Ty()) : builder.CreateZExtOrTrunc(pointer, builder.getInt64Ty());
  builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), before->getModule()->getNamedGlobal(Flag)), {address, builder.getInt32(what)});
}

static bool acquires(AtomicOrdering order) { return isAcquireOrStronger(order); }
static bool releases(AtomicOrdering order) { return isReleaseOrStronger(order); }

// Reports a release, before the access. One that leaves the value as it is, as in a loop that waits for a lock, lets others know nothing:
// where that is expected the report comes behind the access, and only if the value has changed.
static void reportRelease(Instruction &access, Value *pointer, function_ref<void(Instruction *)> report) {
  auto *exchange = dyn_cast<AtomicCmpXchgInst>(&access);
  auto *update = dyn_cast<AtomicRMWInst>(&access);
  Type *type = exchange ? exchange->getCompareOperand()->getType() : access.getType();
  bool keeps = exchange || (update && (update->getOperation() == AtomicRMWInst::Xchg || update->getOperation() == AtomicRMWInst::Or));
  if (!keeps || !(type->isIntegerTy() || type->isPointerTy()))
    return report(&access);
  auto changes = [&](IRBuilder<> &builder, Value *from) { // whether the access changes this value
    if (exchange)
      return builder.CreateICmpEQ(from, exchange->getCompareOperand());
    Value *operand = update->getValOperand();
    return builder.CreateICmpNE(from, update->getOperation() == AtomicRMWInst::Or ? builder.CreateOr(from, operand) : operand);
  };
  IRBuilder<> builder(&access);
  LoadInst *there = builder.CreateAlignedLoad(type, pointer, exchange ? exchange->getAlign() : update->getAlign());
  there->setAtomic(AtomicOrdering::Monotonic);
  Value *expected = changes(builder, there);
  report(SplitBlockAndInsertIfThen(expected, access.getIterator(), false));
  builder.SetInsertPoint(access.getNextNode());
  Value *changed = exchange ? builder.CreateExtractValue(exchange, 1) : changes(builder, update);
  Value *late = builder.CreateAnd(changed, builder.CreateNot(expected));
  report(SplitBlockAndInsertIfThen(late, builder.GetInsertPoint(), false));
}

// Says what an atomic access lets others know, before it, and what it comes to know, behind it.
static void reportAtomic(Instruction &access) {
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
    reportRelease(access, pointer, [&](Instruction *before) { report(before, pointer, FLAG_RELEASES | (releases(order) ? 0 : FLAG_WEAK)); });
  if (loads && !access.isTerminator())
    report(access.getNextNode(), pointer, FLAG_ACQUIRES | (acquires(order) ? 0 : FLAG_WEAK));
}

namespace {
// What a function does with the argument `place`: lets it go before the call, and has it behind the call.
struct Order {
  unsigned place, what; // of enum flag
};
} // namespace

static std::optional<Order> orderOf(const Instruction &instruction) {
  constexpr unsigned Lock = FLAG_ACQUIRES | FLAG_MUTEX, Unlock = FLAG_RELEASES | FLAG_MUTEX, Wait = Lock | Unlock;
  using Known = std::optional<Order>;
  auto *call = dyn_cast<CallBase>(&instruction);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  Known known = !callee || !callee->isDeclaration() ? std::nullopt : StringSwitch<Known>(callee->getName())
    .Cases("pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", Order{0, Lock})
    .Cases("pthread_spin_lock", "pthread_spin_trylock", "mtx_lock", "mtx_trylock", "mtx_timedlock", Order{0, Lock})
    .Cases("pthread_mutex_unlock", "pthread_spin_unlock", "mtx_unlock", Order{0, Unlock})
    .Cases("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait", "cnd_timedwait", Order{1, Wait})
    .Case("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", Order{1, Wait})
    .Cases("pthread_rwlock_rdlock", "pthread_rwlock_tryrdlock", "pthread_rwlock_timedrdlock", "pthread_rwlock_clockrdlock", Order{0, FLAG_ACQUIRES})
    .Cases("pthread_rwlock_wrlock", "pthread_rwlock_trywrlock", "pthread_rwlock_timedwrlock", "pthread_rwlock_clockwrlock", Order{0, FLAG_ACQUIRES | FLAG_WRITER})
    .Case("pthread_rwlock_unlock", Order{0, FLAG_RELEASES | FLAG_WRITER})
    .Cases("sem_wait", "sem_trywait", "sem_timedwait", "sem_clockwait", "__cxa_guard_acquire", Order{0, FLAG_ACQUIRES})
    .Cases("sem_post", "__cxa_guard_release", Order{0, FLAG_RELEASES})
    .Case("pthread_barrier_wait", Order{0, FLAG_RELEASES | FLAG_ACQUIRES})
    .Cases("write", "writev", "send", "sendto", "sendmsg", "eventfd_write", Order{0, FLAG_RELEASES | FLAG_FILE})
    .Cases("read", "readv", "recv", "recvfrom", "recvmsg", "eventfd_read", Order{0, FLAG_ACQUIRES | FLAG_FILE})
    .Default(std::nullopt);
  bool isKnown = known && call->arg_size() > known->place;
  return isKnown && call->getArgOperand(known->place)->getType()->isPointerTy() == !(known->what & FLAG_FILE) ? known : std::nullopt;
}

// Whether the code asks which thread runs it, or uses a variable that each thread has for itself.
static bool asksThread(const Instruction &instruction) {
  if (auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction))
    return intrinsic->getIntrinsicID() == Intrinsic::threadlocal_address;
  auto *call = dyn_cast<CallBase>(&instruction);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  return callee && callee->isDeclaration() && StringSwitch<bool>(callee->getName())
    .Cases("omp_get_thread_num", "omp_get_thread_num_", "omp_get_ancestor_thread_num", "__kmpc_threadprivate_cached", "__emutls_get_address", true)
    .Cases("pthread_self", "pthread_getspecific", "thrd_current", "tss_get", "gettid", true)
    .Default(false);
}

bool ordersThreads(const Instruction &instruction) { return instruction.isAtomic() || orderOf(instruction) || asksThread(instruction); }

static void reportCall(CallBase &call, Order order) {
  Value *pointer = call.getArgOperand(order.place);
  bool locks = !(order.what & (FLAG_RELEASES | FLAG_FILE)) && !call.getCalledFunction()->getName().starts_with("__cxa");
  if (call.getCalledFunction()->getName().starts_with("_ZNSt18condition_variable")) { // a std::unique_lock begins with the address of its mutex
    IRBuilder<> builder(&call);
    pointer = builder.CreateLoad(builder.getPtrTy(), pointer);
  }
  if (StringRef name = call.getCalledFunction()->getName(); name == "pthread_mutex_lock" || name == "mtx_lock")
    report(&call, pointer, FLAG_ASKS);
  if (order.what & FLAG_RELEASES)
    report(&call, pointer, order.what & ~unsigned(FLAG_ACQUIRES));
  auto *invoke = dyn_cast<InvokeInst>(&call);
  if (!(order.what & FLAG_ACQUIRES) || (!invoke && call.isTerminator()) || (invoke && !invoke->getNormalDest()->getSinglePredecessor()))
    return;
  Instruction *behind = invoke ? &*invoke->getNormalDest()->getFirstInsertionPt() : call.getNextNode();
  if (locks && call.getType()->isIntegerTy()) { // it has it if it returns 0
    IRBuilder<> builder(behind);
    behind = SplitBlockAndInsertIfThen(builder.CreateIsNull(&call), behind->getIterator(), false);
  }
  report(behind, pointer, order.what & ~unsigned(FLAG_RELEASES));
}

void reportFlag(Instruction &instruction) {
  if (std::optional<Order> order = orderOf(instruction))
    reportCall(cast<CallBase>(instruction), *order);
  else if (asksThread(instruction))
    report(&instruction, nullptr, FLAG_OWN);
  else
    reportAtomic(instruction);
}

} // namespace offload
