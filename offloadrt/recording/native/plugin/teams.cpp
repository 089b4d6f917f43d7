// Tells the device runtime which leagues run a `distribute` that is not combined with `parallel`.
//
// On a GPU such a loop gets a team for each iteration, a combined one a thread. The host's code for both begins the same league.
#include "plugin.h"
#include "llvm/ADT/SmallPtrSet.h"
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

} // namespace

void markTeamLoops(Module &module) {
  Function *fork = module.getFunction("__kmpc_fork_teams");
  if (!fork)
    return;
  FunctionCallee mark = module.getOrInsertFunction("__offload_team_each", Type::getVoidTy(module.getContext()));
  for (User *user : fork->users())
    if (auto *call = dyn_cast<CallBase>(user); call && call->getCalledFunction() == fork)
      if (auto *league = dyn_cast<Function>(call->getArgOperand(Body)->stripPointerCasts()); league && isTeamLoop(*league))
        IRBuilder<>(call).CreateCall(mark);
}

} // namespace offload
