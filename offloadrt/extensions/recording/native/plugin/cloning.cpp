// Two versions of a function: one that runs at (nearly) full speed, and one that reports each access.
#include "plugin.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace offload {

bool mayClone(const Function &function) {
  if (function.isDeclaration() || function.hasAvailableExternallyLinkage() || function.isVarArg() ||
      function.hasFnAttribute(Attribute::Naked) || function.hasFnAttribute(Attribute::ReturnsTwice) ||
      function.callsFunctionThatReturnsTwice() || function.isPresplitCoroutine() ||
      function.getName().starts_with("__offload_"))
    return false;
  for (const BasicBlock &block : function) // a block's address means that of one version
    if (block.hasAddressTaken() || isa<IndirectBrInst>(block.getTerminator()) || isa<CallBrInst>(block.getTerminator()))
      return false;
  return true;
}

Function *cloneFor(Function &function, ValueToValueMapTy &map, const char *suffix) {
  Function *clone = CloneFunction(&function, map);
  clone->setName(function.getName() + suffix);
  clone->setLinkage(GlobalValue::InternalLinkage);
  clone->setVisibility(GlobalValue::DefaultVisibility);
  clone->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  clone->setComdat(nullptr);
  clone->addFnAttr(Attribute::NoInline);
  for (BasicBlock &block : *clone) // what the program wants of its loops is not for the version that reports
    block.getTerminator()->setMetadata(LLVMContext::MD_loop, nullptr);
  return clone;
}

void dispatch(Function &from, Function &to, Value *(*decide)(Instruction *before)) {
  BasicBlock &entry = from.getEntryBlock();
  Instruction *first = &*entry.getFirstNonPHIOrDbgOrAlloca();
  // Variables of the stack stay in the entry block: elsewhere they would be allocated at run time.
  for (Instruction &instruction : make_early_inc_range(make_range(first->getIterator(), entry.end())))
    if (auto *variable = dyn_cast<AllocaInst>(&instruction); variable && isa<ConstantInt>(variable->getArraySize()))
      variable->moveBefore(first->getIterator());
  first = &*entry.getFirstNonPHIOrDbgOrAlloca();
  Instruction *leave = SplitBlockAndInsertIfThen(decide(first), first->getIterator(), /*Unreachable=*/true);
  IRBuilder<> builder(leave);
  SmallVector<Value *, 8> arguments;
  for (Argument &argument : from.args())
    arguments.push_back(&argument);
  CallInst *call = builder.CreateCall(&to, arguments);
  call->setCallingConv(from.getCallingConv());
  call->setAttributes(from.getAttributes());
  call->removeFnAttr(Attribute::AlwaysInline);
  if (DISubprogram *scope = from.getSubprogram())
    call->setDebugLoc(DILocation::get(from.getContext(), scope->getLine(), 0, scope));
  if (from.getReturnType()->isVoidTy())
    builder.CreateRetVoid();
  else
    builder.CreateRet(call);
  leave->eraseFromParent();
}

} // namespace offload
