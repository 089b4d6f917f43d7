// Which function is given an address, where no other one calls it: its code is a part of the caller's. And whether the runtime is given it.
#include "plugin.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace offload {

bool isReference(const StoreInst &store) {
  auto *place = dyn_cast<AllocaInst>(store.getPointerOperand());
  return place && all_of(place->users(), [&](const User *user) {
           auto *load = dyn_cast<LoadInst>(user);
           return user == &store || (load && !load->isVolatile()) || isa<LifetimeIntrinsic>(user);
         });
}

// The only function that an instruction gives the address to, and the parameter that has it there; nobody else calls the function.
Argument *received(CallBase &call, Value *address) {
  Function *called = call.getCalledFunction();
  size_t place = 0;
  bool isDirect = called && !called->isDeclaration(), isFork = called && called->isVarArg();
  if (!isDirect) {
    if (!called || !called->getName().starts_with("__kmpc_"))
      return nullptr;
    while (place < call.arg_size() && !isa<Function>(call.getArgOperand(place)))
      place++;
    if (place == call.arg_size())
      return nullptr;
    called = cast<Function>(call.getArgOperand(place));
  }
  if (called->isDeclaration() || !called->hasLocalLinkage() || !called->hasOneUse() || called->isVarArg())
    return nullptr;
  Argument *found = nullptr;
  for (size_t i = 0; i < call.arg_size(); i++) {
    if (call.getArgOperand(i) != address)
      continue;
    // A fork gives the body two thread numbers and then what follows it; other entries hand one structure on, at the end.
    size_t parameter = isDirect ? i : isFork ? i - place + 1 : called->arg_size() - 1;
    if (found || (!isDirect && i <= place) || parameter >= called->arg_size())
      return nullptr;
    found = called->getArg(parameter);
  }
  return found;
}

// A call that gets a structure with the address in one field, as flang's regions and lambdas do: the addresses that its function loads from that field.
std::pair<CallBase *, SmallVector<Value *, 4>> receivedInField(StoreInst &store) {
  const DataLayout &layout = store.getModule()->getDataLayout();
  APInt offset(64, 0);
  auto *structure = dyn_cast<AllocaInst>(store.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, true));
  if (!structure)
    return {};
  Value *given = structure;
  for (User *user : structure->users()) // the only element of an array, for a parallel region
    if (auto *again = dyn_cast<StoreInst>(user); again && again->getValueOperand() == structure)
      given = getUnderlyingObject(again->getPointerOperand());
  std::pair<CallBase *, SmallVector<Value *, 4>> found;
  for (User *user : given->users()) {
    auto *call = dyn_cast<CallBase>(user);
    if (!call || isa<LifetimeIntrinsic>(call))
      continue;
    Argument *argument = received(*call, given);
    if (!argument || found.first)
      return {};
    found.first = call;
    SmallVector<Value *, 4> bases = {argument};
    for (User *user : argument->users())
      if (auto *kept = dyn_cast<StoreInst>(user); kept && isReference(*kept))
        copy_if(kept->getPointerOperand()->users(), std::back_inserter(bases), [](User *again) { return isa<LoadInst>(again); });
    for (Value *inside : bases)
      for (User *field : inside->users()) {
        if (auto *kept = dyn_cast<StoreInst>(field); kept && inside == argument && isReference(*kept))
          continue;
        APInt other(64, 0);
        Value *base = isa<GetElementPtrInst>(field) ? field->stripAndAccumulateConstantOffsets(layout, other, true) : inside;
        if (isa<StoreInst>(field) || base != inside)
          return {};
        if (other == offset && isa<LoadInst>(field))
          found.second.push_back(field);
        else if (other == offset && isa<GetElementPtrInst>(field))
          for (User *load : field->users()) {
            if (!isa<LoadInst>(load))
              return {};
            found.second.push_back(load);
          }
      }
  }
  return found;
}

// Whether a store puts an address into the list of what a directive maps, which the runtime is given, by itself or in the description of a launch.
bool isForRuntime(const StoreInst &store) {
  auto isGiven = [](const Value *list) {
    return any_of(list->users(), [](const User *user) {
      auto *call = dyn_cast<CallBase>(user);
      return call && call->getCalledFunction() && call->getCalledFunction()->getName().starts_with("__tgt_target");
    });
  };
  auto *list = dyn_cast<AllocaInst>(getUnderlyingObject(store.getPointerOperand()));
  if (!list || !list->getAllocatedType()->isArrayTy())
    return false;
  SmallVector<const Value *, 8> places = {list};
  for (const User *user : list->users())
    if (isa<GetElementPtrInst>(user))
      places.push_back(user);
  return any_of(places, [&](const Value *place) {
    return isGiven(place) || any_of(place->users(), [&](const User *user) {
             auto *kept = dyn_cast<StoreInst>(user);
             return kept && kept->getValueOperand() == place && isGiven(getUnderlyingObject(kept->getPointerOperand()));
           });
  });
}

} // namespace offload
