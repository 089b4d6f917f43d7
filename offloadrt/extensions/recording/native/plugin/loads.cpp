// Loads of a thread's own variable that are no uses of its value, and variables that have no name in the source.
#include "plugin.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace offload {

// The name of a variable in the source; empty for one of the compiler's.
std::string sourceName(AllocaInst &variable) {
  auto of = [](const DbgVariableRecord *record) {
    const DILocalVariable *local = record->getVariable();
    return local->isParameter() || local->getName().starts_with(".") ? "" : local->getName().str();
  };
  for (DbgVariableRecord *record : findDVRDeclares(&variable))
    if (std::string name = of(record); !name.empty())
      return name;
  for (DbgVariableRecord *record : at::getDVRAssignmentMarkers(&variable)) // with optimization
    if (std::string name = of(record); !name.empty())
      return name;
  return "";
}

// A region copies variables of the program into nameless room, and a task into its own, to hand them on by value: nobody may ever use such a
// copy, as of a loop's variable.
bool isHandedOn(const LoadInst &load) {
  return all_of(load.users(), [](const User *user) {
    auto *store = dyn_cast<StoreInst>(user);
    Value *room = store ? getUnderlyingObject(const_cast<Value *>(store->getPointerOperand())) : nullptr;
    if (auto *local = dyn_cast_if_present<AllocaInst>(room))
      return sourceName(*local).empty();
    auto *call = dyn_cast_if_present<CallBase>(room); // flang takes a task's room with malloc(), where no variable has it yet
    StringRef by = call && call->getCalledFunction() ? call->getCalledFunction()->getName() : "";
    return by.ends_with("task_alloc") || by == "malloc";
  });
}

// A part of a variable is set in place by reading all of it: a bit-field, or an element of a vector.
bool setsPart(const LoadInst &load) {
  return all_of(load.users(), [](const User *user) {
    auto *operation = dyn_cast<BinaryOperator>(user);
    return isa<InsertElementInst>(user) || isa<InsertValueInst>(user) ||
           (operation && operation->getOpcode() == Instruction::And && isa<ConstantInt>(operation->getOperand(1)));
  });
}

// At the end of a loop, the compiler gives the value of a lastprivate copy to the variable of the program, both at one place of the source.
bool isLastprivate(const LoadInst &load) {
  auto *store = load.hasOneUse() ? dyn_cast<StoreInst>(*load.user_begin()) : nullptr;
  const BasicBlock *before = load.getParent()->getSinglePredecessor();
  auto *branch = before ? dyn_cast<BranchInst>(before->getTerminator()) : nullptr;
  const DILocation *at = load.getDebugLoc(), *to = store ? store->getDebugLoc().get() : nullptr;
  return branch && branch->isConditional() && at && to && at->getLine() == to->getLine() && at->getColumn() == to->getColumn();
}

// Whether a load is there for nothing but to store the value elsewhere, as in the copy of an object.
bool isCopied(const Instruction &load) {
  return isa<LoadInst>(load) && all_of(load.users(), [](const User *user) { return isa<StoreInst>(user); });
}

// Whether a structure, or a part of it that is no member, is given to a function or returned: nobody may ever use some of it.
bool isPassed(const LoadInst &load) {
  auto *element = dyn_cast<GetElementPtrInst>(load.getPointerOperand());
  auto *local = dyn_cast<AllocaInst>(getUnderlyingObject(load.getPointerOperand()));
  Type *type = local ? local->getAllocatedType() : nullptr;
  while (auto *array = dyn_cast_if_present<ArrayType>(type))
    type = array->getElementType();
  auto *of = element ? dyn_cast<StructType>(element->getSourceElementType()) : nullptr;
  if (!isa_and_present<StructType>(type) || (of && of->hasName())) // one that has a name is the program's, and the part a member
    return false;
  return all_of(load.users(), [](const User *user) { return isa<CallBase>(user) || isa<ReturnInst>(user); });
}

} // namespace offload
