// Where the life of a function's own variables ends that are mapped by a directive which may leave them mapped.
#include "plugin.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace offload {

// The line of the program: functions of the system's headers may have been inlined there.
std::string lineOf(const Instruction &instruction) {
  const DILocation *location = instruction.getDebugLoc();
  while (location && (!location->getLine() || location->getFilename().starts_with("/usr/")))
    location = location->getInlinedAt();
  if (!location)
    return "";
  return (location->getFilename() + ":" + Twine(location->getLine())).str();
}

static AllocaInst *variableOf(Value *pointer) { return dyn_cast<AllocaInst>(getUnderlyingObject(pointer)); }

// The addresses of what is mapped are stored into arrays of the stack, which the runtime's entry point gets.
SmallPtrSet<AllocaInst *, 4> mappedVariables(Function &function) {
  SmallPtrSet<AllocaInst *, 4> lists, mapped;
  for (BasicBlock &block : function)
    for (Instruction &instruction : block)
      if (auto *call = dyn_cast<CallBase>(&instruction); call && call->getCalledFunction() &&
                                                         call->getCalledFunction()->getName().starts_with("__tgt_target_data_begin"))
        for (Value *argument : call->args())
          if (argument->getType()->isPointerTy() && variableOf(argument))
            lists.insert(variableOf(argument));
  if (lists.empty())
    return mapped;
  for (BasicBlock &block : function)
    for (Instruction &instruction : block)
      if (auto *store = dyn_cast<StoreInst>(&instruction); store && store->getValueOperand()->getType()->isPointerTy() &&
                                                           lists.contains(variableOf(store->getPointerOperand())))
        if (AllocaInst *variable = variableOf(store->getValueOperand()); variable && variable->isStaticAlloca())
          mapped.insert(variable);
  return mapped;
}

// `leaves` holds the address of the recorder's function.
void reportScopes(Function &function, GlobalVariable &leaves) {
  const DataLayout &layout = function.getParent()->getDataLayout();
  SmallPtrSet<AllocaInst *, 4> mapped = mappedVariables(function);
  SmallVector<std::pair<Instruction *, AllocaInst *>, 8> ends;
  for (BasicBlock &block : function)
    for (Instruction &instruction : block) {
      auto *marker = dyn_cast<IntrinsicInst>(&instruction);
      if (marker && marker->getIntrinsicID() == Intrinsic::lifetime_end) {
        AllocaInst *variable = variableOf(marker->getArgOperand(marker->arg_size() - 1));
        if (mapped.contains(variable))
          ends.push_back({marker, variable});
      } else if (isa<ReturnInst>(instruction))
        for (AllocaInst *variable : mapped)
          ends.push_back({&instruction, variable});
    }
  for (auto [end, variable] : ends) {
    IRBuilder<> builder(end);
    auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt64Ty(), builder.getPtrTy()}, false);
    builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), &leaves),
                       {builder.CreatePtrToInt(variable, builder.getInt64Ty()),
                        builder.getInt64(variable->getAllocationSize(layout)->getFixedValue()),
                        builder.CreateGlobalString(lineOf(*end), "__offload_line")});
  }
}

} // namespace offload
