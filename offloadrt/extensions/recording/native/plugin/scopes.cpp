// Where the life of a function's own variables ends that may be mapped: by a directive of the function, or by whoever is given their address.
#include "plugin.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

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
static SmallPtrSet<AllocaInst *, 4> mappedVariables(Function &function) {
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

// Variables whose address others have. They may map them, and so may this function.
static SmallPtrSet<AllocaInst *, 8> reachableVariables(Function &function) {
  SmallPtrSet<AllocaInst *, 8> reachable;
  for (BasicBlock &block : function)
    for (Instruction &instruction : block)
      if (auto *variable = dyn_cast<AllocaInst>(&instruction); variable && variable->isStaticAlloca() && !isUnreachable(variable))
        reachable.insert(variable);
  return reachable;
}

// Whether the function has variables of a size that is known at run time only.
static bool hasDynamicVariables(Function &function) {
  return any_of(instructions(function), [](const Instruction &instruction) {
    auto *variable = dyn_cast<AllocaInst>(&instruction);
    return variable && !variable->isStaticAlloca();
  });
}

// Nothing can be done between a call that must be the last and the return.
static bool leavesFunction(const Instruction &instruction) {
  return (isa<ReturnInst>(instruction) && !instruction.getParent()->getTerminatingMustTailCall()) || isa<ResumeInst>(instruction);
}

bool hasScopes(Function &function) {
  if (any_of(function.args(), [](const Argument &argument) { return argument.hasByValAttr(); }))
    return true;
  return !mappedVariables(function).empty() || !reachableVariables(function).empty() || hasDynamicVariables(function);
}

namespace {
struct End { // of the life of `bytes` bytes at an address, just before an instruction
  Instruction *before;
  Value *address;
  Value *bytes;
  bool isMapped;
};
} // namespace

// The ends of variables of a size that is known at run time only: they lie between the stack's end and where that was before.
static void addDynamicEnds(Function &function, SmallVectorImpl<End> &ends) {
  IRBuilder<> first(&*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
  Value *whole = first.CreateStackSave();
  SmallVector<std::pair<Instruction *, Value *>, 8> places;
  for (Instruction &instruction : instructions(function)) {
    auto *marker = dyn_cast<IntrinsicInst>(&instruction);
    if (marker && marker->getIntrinsicID() == Intrinsic::stackrestore)
      places.push_back({&instruction, marker->getArgOperand(0)});
    else if (leavesFunction(instruction))
      places.push_back({&instruction, whole});
  }
  for (auto [place, until] : places) {
    IRBuilder<> builder(place);
    Value *from = builder.CreateStackSave();
    Value *bytes = builder.CreateSub(builder.CreatePtrToInt(until, builder.getInt64Ty()), builder.CreatePtrToInt(from, builder.getInt64Ty()));
    ends.push_back({place, from, bytes, true});
  }
}

// `leaves` holds the address of the recorder's function. Of variables that this function does not map itself it is called only
// where their place is watched.
void reportScopes(Function &function, GlobalVariable &leaves, Value *(*isWatched)(Instruction *, Value *)) {
  const DataLayout &layout = function.getParent()->getDataLayout();
  LLVMContext &context = function.getContext();
  SmallPtrSet<AllocaInst *, 4> mapped = mappedVariables(function);
  SmallPtrSet<AllocaInst *, 8> known = reachableVariables(function);
  known.insert(mapped.begin(), mapped.end());
  SmallVector<End, 8> ends;
  auto add = [&](Instruction &place, Value *variable, uint64_t bytes, bool isMapped) {
    if (bytes)
      ends.push_back({&place, variable, ConstantInt::get(Type::getInt64Ty(context), bytes), isMapped});
  };
  auto addVariable = [&](Instruction &place, AllocaInst *variable) {
    add(place, variable, variable->getAllocationSize(layout)->getFixedValue(), mapped.contains(variable));
  };
  SmallVector<AllocaInst *, 8> inOrder;
  for (Instruction &instruction : instructions(function))
    if (auto *variable = dyn_cast<AllocaInst>(&instruction); variable && known.contains(variable))
      inOrder.push_back(variable);
  for (Instruction &instruction : instructions(function)) {
    auto *marker = dyn_cast<IntrinsicInst>(&instruction);
    if (marker && marker->getIntrinsicID() == Intrinsic::lifetime_end) {
      AllocaInst *variable = variableOf(marker->getArgOperand(marker->arg_size() - 1));
      if (variable && known.contains(variable))
        addVariable(*marker, variable);
    } else if (leavesFunction(instruction)) {
      for (AllocaInst *variable : inOrder)
        addVariable(instruction, variable);
      for (Argument &argument : function.args())
        if (argument.hasByValAttr())
          add(instruction, &argument, layout.getTypeAllocSize(argument.getParamByValType()), false);
    }
  }
  if (hasDynamicVariables(function))
    addDynamicEnds(function, ends);
  for (const End &end : ends) {
    std::string where = lineOf(*end.before);
    Instruction *before = end.before;
    if (!end.isMapped)
      before = SplitBlockAndInsertIfThen(isWatched(end.before, end.address), end.before->getIterator(), false);
    IRBuilder<> builder(before);
    auto *type = FunctionType::get(builder.getVoidTy(), {builder.getInt64Ty(), builder.getInt64Ty(), builder.getPtrTy()}, false);
    builder.CreateCall(type, builder.CreateLoad(builder.getPtrTy(), &leaves),
                       {builder.CreatePtrToInt(end.address, builder.getInt64Ty()), end.bytes,
                        builder.CreateGlobalString(where, "__offload_line")});
  }
}

} // namespace offload
