// Tells the device runtime what it must know of a league before it plays it.
//
// Which leagues run a `distribute` that is not combined with `parallel`: on a GPU such a loop gets a team for each iteration, a combined
// one a thread; the host's code for both begins the same league. And of which combined loops an iteration finds what the one before it
// in the same thread has left: on a GPU, where each is a thread's only one, there is none before it.
#include "plugin.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"

using namespace llvm;

namespace offload {
namespace {

constexpr unsigned Schedule = 2, Lower = 4; // arguments of __kmpc_for_static_init_*
constexpr unsigned Body = 2, FirstGiven = 3; // arguments of __kmpc_fork_teams and __kmpc_fork_call
constexpr int64_t DistributeChunked = 91, Distribute = 92;

bool calls(const CallBase &call, StringRef prefix) {
  const Function *callee = call.getCalledFunction();
  return callee && callee->getName().starts_with(prefix);
}

// Whether a value is computed from what lies at an address.
bool comesFrom(const Value *value, const Value *address, SmallPtrSetImpl<const Value *> &seen) {
  if (!seen.insert(value).second)
    return false;
  if (auto *load = dyn_cast<LoadInst>(value))
    return load->getPointerOperand() == address;
  auto *instruction = dyn_cast<Instruction>(value);
  if (!instruction || !(isa<CastInst>(value) || isa<PHINode>(value) || isa<BinaryOperator>(value)))
    return false;
  return any_of(instruction->operands(), [&](const Use &operand) { return comesFrom(operand, address, seen); });
}

// A league whose teams share out a loop. A combined one passes the team's first iteration on to its parallel region.
bool isTeamLoop(const Function &league) {
  const Value *lower = nullptr;
  std::vector<const CallBase *> forks;
  for (const BasicBlock &block : league)
    for (const Instruction &instruction : block)
      if (auto *call = dyn_cast<CallBase>(&instruction)) {
        if (calls(*call, "__kmpc_fork_call"))
          forks.push_back(call);
        else if (calls(*call, "__kmpc_for_static_init"))
          if (auto *schedule = dyn_cast<ConstantInt>(call->getArgOperand(Schedule)))
            if (schedule->getSExtValue() == Distribute || schedule->getSExtValue() == DistributeChunked)
              lower = call->getArgOperand(Lower);
      }
  return lower && none_of(forks, [&](const CallBase *fork) {
           SmallPtrSet<const Value *, 8> seen;
           return fork->arg_size() > FirstGiven && comesFrom(fork->getArgOperand(FirstGiven), lower, seen);
         });
}

// Whether a loop changes its own copy of an argument, as a pointer that each iteration moves on.
bool changesArguments(Function &body) {
  if (body.isDeclaration())
    return false;
  DominatorTree dominators(body);
  LoopInfo loops(dominators);
  return any_of(loops, [](const Loop *loop) {
    return any_of(loop->getHeader()->phis(), [&](const PHINode &phi) {
      return any_of(phi.blocks(), [&](const BasicBlock *from) {
        return !loop->contains(from) && isa<Argument>(phi.getIncomingValueForBlock(from)->stripPointerCasts());
      });
    });
  });
}

// The body of the region that a league begins, if it is a combined loop's.
Function *bodyOf(const Function &league) {
  for (const BasicBlock &block : league)
    for (const Instruction &instruction : block)
      if (auto *call = dyn_cast<CallBase>(&instruction); call && calls(*call, "__kmpc_fork_call"))
        return dyn_cast<Function>(call->getArgOperand(Body)->stripPointerCasts());
  return nullptr;
}

} // namespace

void markLeagues(Module &module) {
  Function *fork = module.getFunction("__kmpc_fork_teams");
  if (!fork)
    return;
  Type *none = Type::getVoidTy(module.getContext());
  FunctionCallee teamEach = module.getOrInsertFunction("__offload_team_each", none);
  FunctionCallee threadEach = module.getOrInsertFunction("__offload_thread_each", none);
  for (User *user : fork->users())
    if (auto *call = dyn_cast<CallBase>(user); call && call->getCalledFunction() == fork)
      if (auto *league = dyn_cast<Function>(call->getArgOperand(Body)->stripPointerCasts())) {
        if (isTeamLoop(*league))
          IRBuilder<>(call).CreateCall(teamEach);
        if (Function *body = bodyOf(*league); body && changesArguments(*body))
          IRBuilder<>(call).CreateCall(threadEach);
      }
}

} // namespace offload
