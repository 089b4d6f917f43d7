// Finds what a kernel computes in a copy of its own and nobody uses: a variable that is firstprivate, most often because no clause
// names it, and whose result was meant for the host.
//
// This looks at code before it is optimized, for that removes such work. All uses of the copy are followed, by the functions into which
// clang and flang divide a region. What is said is certain: it is not said of a copy whose value goes into an address, another
// variable, a call or a branch by which more depends on it than the copy itself.
#include "plugin.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include <set>

using namespace llvm;

namespace offload {
namespace {

class Copy {
public:
  const Instruction *write = nullptr; // by the program, of those that are lost
  std::string name;

  bool isLost(Argument &argument) {
    return value(&argument) && write && all_of(branches, [&](BranchInst *branch) { return decidesNothingElse(*branch); });
  }

private:
  // What an address of the copy is used for. initial: what the function begins with; isVariable: it is the program's, not one of the compiler's.
  bool pointer(Value *address, const Value *initial, bool isVariable) {
    if (!addresses.insert(address).second)
      return true;
    for (DbgVariableRecord *record : findDVRDeclares(address))
      name = record->getVariable()->getName().str();
    if (auto *alloca = dyn_cast<AllocaInst>(address)) // with optimization, clang tells of assignments instead
      for (DbgVariableRecord *record : at::getDVRAssignmentMarkers(alloca))
        name = record->getVariable()->getName().str();
    for (User *user : address->users()) {
      if (auto *load = dyn_cast<LoadInst>(user)) {
        if (load->isVolatile() || !value(load))
          return false;
      } else if (auto *store = dyn_cast<StoreInst>(user)) {
        if (store->getValueOperand() == address) {
          if (!stored(store->getPointerOperand()))
            return false;
        } else if (store->getValueOperand() != initial) {
          if (store->isVolatile() || isCounter(store->getValueOperand()))
            return false;
          if (isVariable && (!write || !write->getDebugLoc()))
            write = store;
        }
      } else if (isa<AtomicRMWInst>(user) || isa<AtomicCmpXchgInst>(user)) {
        if (user->getOperand(0) != address || !value(user))
          return false;
        write = cast<Instruction>(user);
      } else if (isa<AddrSpaceCastInst>(user)) {
        if (!pointer(user, initial, isVariable))
          return false;
      } else if (auto *call = dyn_cast<CallBase>(user)) {
        if (!isa<LifetimeIntrinsic>(call) && !passed(*call, address, [&](Value *inside) { return pointer(inside, nullptr, isVariable); }))
          return false;
      } else
        return false;
    }
    return true;
  }

  // The address is stored: in a variable of the compiler's, or in a structure that it passes on.
  bool stored(Value *place) {
    if (isa<AllocaInst>(place))
      return loaded(place);
    auto *field = dyn_cast<GetElementPtrInst>(place);
    APInt offset(64, 0);
    if (!field || !isa<AllocaInst>(field->getPointerOperand()) || !field->accumulateConstantOffset(field->getModule()->getDataLayout(), offset))
      return false;
    return loaded(place) && field_of(field->getPointerOperand(), offset);
  }

  bool loaded(Value *place) {
    for (User *user : place->users())
      if (auto *load = dyn_cast<LoadInst>(user)) {
        if (!pointer(load, nullptr, true))
          return false;
      } else if (!isa<LifetimeIntrinsic>(user) && !(isa<StoreInst>(user) && user->getOperand(1) == place))
        return false;
    return true;
  }

  // Follows one field of a structure to the functions that get it.
  bool field_of(Value *structure, const APInt &offset) {
    if (!structures.insert({structure, offset.getZExtValue()}).second)
      return true;
    for (User *user : structure->users()) {
      if (auto *field = dyn_cast<GetElementPtrInst>(user)) {
        APInt other(64, 0);
        if (!field->accumulateConstantOffset(field->getModule()->getDataLayout(), other))
          return false;
        if (other == offset && !loaded(field))
          return false;
      } else if (auto *call = dyn_cast<CallBase>(user)) {
        if (!isa<LifetimeIntrinsic>(call) && !passed(*call, structure, [&](Value *inside) { return field_of(inside, offset); }))
          return false;
      } else if (auto *store = dyn_cast<StoreInst>(user)) {
        if (store->getValueOperand() != structure || !only_argument(getUnderlyingObject(store->getPointerOperand()), offset))
          return false;
      } else if (isa<LoadInst>(user)) { // its first field
        if (offset.isZero() && !pointer(user, nullptr, true))
          return false;
      } else
        return false;
    }
    return true;
  }

  // flang's parallel regions get the structure as the only element of an array.
  bool only_argument(Value *array, const APInt &offset) {
    if (!isa<AllocaInst>(array))
      return false;
    for (User *user : array->users())
      if (auto *call = dyn_cast<CallBase>(user); call && !isa<LifetimeIntrinsic>(call))
        if (!passed(*call, array, [&](Value *inside) { return cast<Argument>(inside)->getArgNo() == 2 && field_of(inside, offset); }))
          return false;
    return true;
  }

  // What a value is used for that depends on the copy.
  bool value(Value *used) {
    if (!values.insert(used).second)
      return true;
    for (User *user : used->users()) {
      if (auto *store = dyn_cast<StoreInst>(user)) {
        Value *place = store->getPointerOperand();
        if (place == used || (!addresses.count(place) && !(isa<AllocaInst>(place) && pointer(place, isa<Argument>(used) ? used : nullptr, isa<Argument>(used)))))
          return false;
      } else if (isa<BinaryOperator>(user) || (isa<CastInst>(user) && !isa<IntToPtrInst>(user)) || isa<CmpInst>(user) || isa<SelectInst>(user) ||
                 isa<PHINode>(user) || isa<UnaryOperator>(user) || isa<FreezeInst>(user) || isa<ExtractValueInst>(user)) {
        if (!value(user))
          return false;
      } else if (isa<AtomicRMWInst>(user) || isa<AtomicCmpXchgInst>(user)) {
        if (!addresses.count(user->getOperand(0)))
          return false;
      } else if (auto *branch = dyn_cast<BranchInst>(user))
        branches.push_back(branch);
      else if (auto *call = dyn_cast<CallBase>(user)) {
        if (call->doesNotAccessMemory() && isa<IntrinsicInst>(call) ? !value(call) : !passed(*call, used, [&](Value *inside) { return value(inside); }))
          return false;
      } else
        return false;
    }
    return true;
  }

  // Follows an argument into the function that is called, or that the runtime calls with it.
  template <typename Follow> bool passed(CallBase &call, Value *argument, Follow follow) {
    Function *called = call.getCalledFunction();
    size_t place = 0;
    bool isDirect = called && !called->isDeclaration();
    if (!isDirect) {
      while (place < call.arg_size() && !isa<Function>(call.getArgOperand(place)))
        place++;
      if (place == call.arg_size())
        return false;
      called = cast<Function>(call.getArgOperand(place));
    }
    if (called->isDeclaration())
      return false;
    bool isFork = !isDirect && (call.getCalledFunction() && call.getCalledFunction()->isVarArg());
    for (size_t i = 0; i < call.arg_size(); i++) {
      if (call.getArgOperand(i) != argument)
        continue;
      // A fork gives the body two thread numbers and then what follows it; other entries hand one structure on, at the end.
      size_t parameter = isDirect ? i : isFork ? i - place + 1 : called->arg_size() - 1;
      if ((!isDirect && i < place) || parameter >= called->arg_size() || !follow(called->getArg(parameter)))
        return false;
    }
    return true;
  }

  // Of a loop: flang keeps its variable up to date, whether the program looks at it or not.
  static bool isCounter(const Value *stored) {
    auto *phi = dyn_cast<PHINode>(stored);
    if (!phi)
      return false;
    DominatorTree tree(*const_cast<Function *>(phi->getFunction()));
    return any_of(phi->blocks(), [&](const BasicBlock *from) { return tree.dominates(phi->getParent(), from); });
  }

  // Whether a branch decides only what becomes of the copy.
  bool decidesNothingElse(BranchInst &branch) {
    PostDominatorTree tree(*branch.getFunction());
    auto *node = tree.getNode(branch.getParent())->getIDom();
    const BasicBlock *end = node ? node->getBlock() : nullptr;
    if (!end)
      return false;
    SmallPtrSet<const BasicBlock *, 8> inside;
    SmallVector<const BasicBlock *, 8> left(successors(branch.getParent()));
    while (!left.empty()) {
      const BasicBlock *block = left.pop_back_val();
      if (block == end || !inside.insert(block).second)
        continue;
      for (const Instruction &instruction : *block)
        if (instruction.mayHaveSideEffects() && !isa<LifetimeIntrinsic>(instruction)) {
          const Value *place = getLoadStorePointerOperand(&instruction);
          if (isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction))
            place = instruction.getOperand(0);
          if (!place || !addresses.count(place))
            return false;
        }
      append_range(left, successors(block));
    }
    // What follows may depend on it by a value that is chosen where the ways meet.
    return all_of(end->phis(), [&](const PHINode &phi) { return values.count(&phi) || none_of(phi.blocks(), [&](const BasicBlock *from) { return inside.count(from); }); });
  }

  SmallPtrSet<const Value *, 8> addresses;
  SmallPtrSet<const Value *, 16> values;
  std::set<std::pair<const Value *, uint64_t>> structures;
  SmallVector<BranchInst *, 4> branches;
};

} // namespace

void tellLost(Module &module) {
  LLVMContext &context = module.getContext();
  for (Function &kernel : module) {
    if (kernel.isDeclaration() || !isKernel(&kernel))
      continue;
    for (Argument &argument : kernel.args()) {
      Copy copy;
      if (!copy.isLost(argument) || copy.name.empty() || !copy.write->getDebugLoc())
        continue;
      IRBuilder<> builder(&*kernel.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
      auto text = [&](StringRef string) {
        Constant *letters = ConstantDataArray::getString(context, string);
        return new GlobalVariable(module, letters->getType(), true, GlobalValue::PrivateLinkage, letters, "__offload_file");
      };
      const DILocation *location = copy.write->getDebugLoc();
      FunctionCallee lost = module.getOrInsertFunction("__offload_lost", builder.getVoidTy(), builder.getPtrTy(), builder.getPtrTy(), builder.getInt32Ty());
      builder.CreateCall(lost, {text(copy.name), text(location->getFilename()), builder.getInt32(location->getLine())});
    }
  }
}

} // namespace offload
